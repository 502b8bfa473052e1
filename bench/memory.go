package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/syncd-io/syncd/internal/natsserver"
)

// fleet is a source whose process carries NATS, and a sidecar beside it, so that the sidecar's process is the sidecar alone.
func (r *rig) fleet(ctx context.Context, name string) (source, sidecar *daemon, err error) {
	source, url, err := r.source(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	cc, caddr, err := r.config(name+"_sidecar", fmt.Sprintf("{url: %q}", url))
	if err != nil {
		return nil, nil, err
	}
	if err := replaceName(cc, name+"_sidecar", name); err != nil {
		return nil, nil, err
	}
	sidecar, err = r.start(ctx, "sidecar", cc, caddr)
	return source, sidecar, err
}

// apart is a source and a sidecar beside a NATS that is in neither's process.
func (r *rig) apart(ctx context.Context, name, nats string) (source, sidecar *daemon, err error) {
	config, addr, err := r.config(name, fmt.Sprintf("{url: %q}", nats))
	if err != nil {
		return nil, nil, err
	}
	if source, err = r.start(ctx, "source", config, addr); err != nil {
		return nil, nil, err
	}
	sidecar, err = r.start(ctx, "sidecar", config, addr)
	return source, sidecar, err
}

// resident measures a sidecar that holds the whole table, and its source, before and after an update of every row.
func resident(ctx context.Context, r *rig, o options) error {
	if err := r.fill(ctx, o.rows); err != nil {
		return err
	}
	var size float64
	if err := r.conn.QueryRow(ctx, "SELECT avg(length(row_to_json(t)::text))::float8 FROM item t").Scan(&size); err != nil {
		return err
	}
	nats, err := natsserver.Start(natsserver.Config{Dir: filepath.Join(r.dir, "nats"), Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer nats.Close()
	source, sidecar, err := r.apart(ctx, "memory", nats.URL())
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
	listed, peak, err := sidecar.resident()
	if err != nil {
		return err
	}
	fmt.Printf("memory: %d rows of %.0f bytes of JSON: %d MiB resident after the first list (want under 350), peak %d MiB\n", o.rows, size, listed>>20, peak>>20)
	if err := r.exec(ctx, "UPDATE item SET amount = amount + 1"); err != nil {
		return err
	}
	if lsn, err = r.lsn(ctx); err != nil {
		return err
	}
	if err := sidecar.reached(ctx, lsn); err != nil {
		return err
	}
	now, peak, err := sidecar.resident()
	if err != nil {
		return err
	}
	fmt.Printf("memory: after an update of every row in one transaction: %d MiB resident, peak %d MiB\n", now>>20, peak>>20)
	if now, peak, err = source.resident(); err != nil {
		return err
	}
	fmt.Printf("memory: the source: %d MiB resident, peak %d MiB (want under 250)\n", now>>20, peak>>20)
	if err := sidecar.stop(); err != nil {
		return err
	}
	return source.stop()
}

// list compares a full resync of a cache in sync with COPY … TO STDOUT of the same table.
func list(ctx context.Context, r *rig, o options) error {
	if err := r.fill(ctx, o.rows); err != nil {
		return err
	}
	source, sidecar, err := r.fleet(ctx, "list")
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
	for range o.rounds {
		begin := time.Now()
		if _, err := conn.PgConn().CopyTo(ctx, io.Discard, "COPY item TO STDOUT"); err != nil {
			return err
		}
		floor = append(floor, time.Since(begin))
		begin = time.Now()
		sourceCPU, sidecarCPU := source.cpu(), sidecar.cpu()
		out, err := exec.CommandContext(ctx, r.binary, "resync", "public.item", "--mode", "full", "--json", "--addr", "http://"+sidecar.addr).CombinedOutput()
		if err != nil {
			return fmt.Errorf("syncd resync: %w: %s", err, out)
		}
		ours = append(ours, time.Since(begin))
		fmt.Printf("list: processor seconds: source and NATS %.2f, sidecar %.2f\n", (source.cpu() - sourceCPU).Seconds(), (sidecar.cpu() - sidecarCPU).Seconds())
	}
	text := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }
	fmt.Printf("list of %d rows: COPY %s s (%s), full resync %s s (%s): ratio %.2f (want 3.00 or less)\n", o.rows, text(median(floor)), each(floor, text),
		text(median(ours)), each(ours, text), median(ours).Seconds()/median(floor).Seconds())
	if err := sidecar.stop(); err != nil {
		return err
	}
	return source.stop()
}
