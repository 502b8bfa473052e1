package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

// drain compares how fast the same WAL is read: by pg_recvlogical, thrown away, and by syncd run, into the cache.
func drain(ctx context.Context, r *rig, o options) error {
	const rows = 200_000
	if err := r.fill(ctx, rows); err != nil {
		return err
	}
	bus := fmt.Sprintf("{embedded: {dir: %q}}", filepath.Join(r.dir, "nats"))
	config, addr, err := r.config("drain", bus)
	if err != nil {
		return err
	}
	if err := r.once(ctx, config, addr); err != nil { // makes publication and slot, lists the table
		return err
	}
	if err := r.exec(ctx, "SELECT pg_create_logical_replication_slot('floor', 'pgoutput')"); err != nil {
		return err
	}
	writers := []struct{ name, sql string }{
		{"1,000-row transactions", `DO $$ BEGIN FOR i IN 0 .. %[1]d / 1000 - 1 LOOP
			UPDATE item SET amount = amount + 1 WHERE id BETWEEN i * 1000 %% %[2]d + 1 AND i * 1000 %% %[2]d + 1000; COMMIT; END LOOP; END $$`},
		{"single-row transactions", `DO $$ BEGIN FOR i IN 1 .. %[1]d LOOP
			UPDATE item SET amount = amount + 1 WHERE id = i %% %[2]d + 1; COMMIT; END LOOP; END $$`},
	}
	for _, w := range writers {
		var floor, ours []float64
		for range o.rounds {
			if err := r.exec(ctx, fmt.Sprintf(w.sql, o.changes, rows)); err != nil {
				return err
			}
			end, err := r.lsn(ctx)
			if err != nil {
				return err
			}
			if err := r.exec(ctx, "SELECT pg_logical_emit_message(true, 'bench', 'end')"); err != nil {
				return err
			}
			f, err := r.recvlogical(ctx, end)
			if err != nil {
				return err
			}
			u, err := r.drainOnce(ctx, config, addr, end)
			if err != nil {
				return err
			}
			n := float64(o.changes) / 1000
			floor, ours = append(floor, n/f.Seconds()), append(ours, n/u.Seconds())
		}
		rate := func(x float64) string { return fmt.Sprintf("%.0f", x) }
		fmt.Printf("drain, %s: pg_recvlogical %.0f (%s), syncd %.0f (%s) thousand changes a second: ratio %.2f (want 0.50 or more)\n",
			w.name, median(floor), each(floor, rate), median(ours), each(ours, rate), median(ours)/median(floor))
	}
	return nil
}

// once runs syncd until it has caught up, and ends it.
func (r *rig) once(ctx context.Context, config, addr string) error {
	d, err := r.start(ctx, "run", config, addr)
	if err != nil {
		return err
	}
	lsn, err := r.lsn(ctx)
	if err != nil {
		return err
	}
	if err := d.reached(ctx, lsn); err != nil {
		return err
	}
	return d.stop()
}

func (r *rig) drainOnce(ctx context.Context, config, addr, end string) (time.Duration, error) {
	begin := time.Now()
	d, err := r.start(ctx, "run", config, addr)
	if err != nil {
		return 0, err
	}
	if err := d.reached(ctx, end); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	return took, d.stop()
}

func (r *rig) recvlogical(ctx context.Context, end string) (time.Duration, error) {
	begin := time.Now()
	cmd := exec.CommandContext(ctx, filepath.Join(r.pg.Bin(), "pg_recvlogical"), "-d", r.url, "-S", "floor", "--start", "-f", "/dev/null",
		"-o", "proto_version=1", "-o", "publication_names=syncd_drain", "--endpos="+end, "--no-loop")
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("pg_recvlogical: %w: %s", err, out)
	}
	return time.Since(begin), nil
}
