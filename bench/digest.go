package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"github.com/jackc/pgx/v5"
)

// digest compares a resync by digest of a cache in sync with the server's own digests of the same rows.
func digest(ctx context.Context, r *rig, o options) error {
	if err := r.fill(ctx, o.rows); err != nil {
		return err
	}
	source, sidecar, err := r.fleet(ctx, "digest")
	if err != nil {
		return err
	}
	lsn, err := r.lsn(ctx)
	if err != nil {
		return err
	}
	if err := sidecar.reached(ctx, lsn); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, r.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var floor, ours []time.Duration
	var bytes int64
	for range o.rounds {
		begin := time.Now()
		if err := conn.PgConn().Exec(ctx, "SELECT md5(t::text) FROM item t").Close(); err != nil {
			return err
		}
		floor = append(floor, time.Since(begin))
		begin = time.Now()
		out, err := exec.CommandContext(ctx, r.binary, "resync", "public.item", "--mode", "digest", "--json", "--addr", "http://"+sidecar.addr).Output()
		if err != nil {
			return fmt.Errorf("syncd resync: %w: %s", err, out)
		}
		ours = append(ours, time.Since(begin))
		var report struct {
			Mode  string
			Bytes int64
			Rows  int
		}
		if err := json.Unmarshal(out, &report); err != nil {
			return fmt.Errorf("read the report %s: %w", out, err)
		}
		if report.Mode != "digest" || report.Rows != o.rows {
			return fmt.Errorf("this is not the report of a resync by digest of %d rows: %s", o.rows, out)
		}
		bytes = report.Bytes
	}
	text := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }
	fmt.Printf("digest of %d rows: md5 of each row %s s (%s), resync by digest %s s (%s): ratio %.2f (want 1.50 or less); %.1f KiB on the bus (want under 256)\n",
		o.rows, text(median(floor)), each(floor, text), text(median(ours)), each(ours, text), median(ours).Seconds()/median(floor).Seconds(), float64(bytes)/1024)
	if err := sidecar.stop(); err != nil {
		return err
	}
	return source.stop()
}
