package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/syncd-io/syncd/internal/natsserver"
)

// wave is how many transactions change a fifth of all rows.
const wave = 20

// big takes a large table through the whole path, each part in a process of its own: the first list, a wave of updates all over
// the table, a resync by digest, and a start from the checkpoint.
func big(ctx context.Context, r *rig, o options) error {
	begin := time.Now()
	if err := r.fill(ctx, o.rows); err != nil {
		return err
	}
	fmt.Printf("big: Postgres has %d rows after %s\n", o.rows, seconds(begin))
	nats, err := natsserver.Start(natsserver.Config{Dir: filepath.Join(r.dir, "nats"), Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer nats.Close()
	begin = time.Now()
	source, sidecar, err := r.apart(ctx, "big", nats.URL())
	if err != nil {
		return err
	}
	if err := r.caughtUp(ctx, sidecar); err != nil {
		return err
	}
	sidecar.say("big: first list", begin)
	begin = time.Now()
	for i := range wave {
		if err := r.exec(ctx, fmt.Sprintf("UPDATE item SET amount = amount + 1 WHERE id %% %d = %d", 5*wave, i)); err != nil {
			return err
		}
	}
	fmt.Printf("big: Postgres has changed %d rows in %d transactions after %s\n", o.rows/5, wave, seconds(begin))
	if err := r.caughtUp(ctx, sidecar); err != nil {
		return err
	}
	sidecar.say("big: these rows are in the cache", begin)
	if err := r.resyncBig(ctx, sidecar, o); err != nil {
		return err
	}
	if sidecar, err = r.restart(ctx, sidecar); err != nil {
		return err
	}
	source.say("big: the source in the end", time.Now())
	if err := sidecar.stop(); err != nil {
		return err
	}
	return source.stop()
}

// caughtUp waits until a sidecar has all that Postgres has now.
func (r *rig) caughtUp(ctx context.Context, sidecar *daemon) error {
	lsn, err := r.lsn(ctx)
	if err != nil {
		return err
	}
	return sidecar.reached(ctx, lsn)
}

// say prints how long something took, and what the process has taken for all so far.
func (d *daemon) say(what string, begin time.Time) {
	now, peak, err := d.resident()
	if err != nil {
		fmt.Printf("%s: %s\n", what, err)
		return
	}
	fmt.Printf("%s: %s; %d MiB resident, peak %d MiB, processor %.1f s so far\n", what, seconds(begin), now>>20, peak>>20, d.cpu().Seconds())
}

func seconds(begin time.Time) string { return fmt.Sprintf("%.1f s", time.Since(begin).Seconds()) }

// resyncBig compares the cache by digest; nothing may have to be repaired.
func (r *rig) resyncBig(ctx context.Context, sidecar *daemon, o options) error {
	begin := time.Now()
	out, err := exec.CommandContext(ctx, r.binary, "resync", "public.item", "--mode", "digest", "--json", "--addr", "http://"+sidecar.addr).Output()
	if err != nil {
		return fmt.Errorf("syncd resync: %w: %s", err, out)
	}
	var report struct {
		Rows                           int
		Bytes                          int64
		Missing, Stale, Ghost, Corrupt int
		Complete                       bool
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return fmt.Errorf("read the report %s: %w", out, err)
	}
	if n := report.Missing + report.Stale + report.Ghost + report.Corrupt; report.Rows != o.rows || n > 0 || !report.Complete {
		return fmt.Errorf("the cache was to have %d rows and need no repairs: %s", o.rows, out)
	}
	sidecar.say(fmt.Sprintf("big: resync by digest, %.1f KiB on the bus", float64(report.Bytes)/1024), begin)
	return nil
}

// restart stops a sidecar, which keeps its checkpoint, and starts it again from that.
func (r *rig) restart(ctx context.Context, old *daemon) (*daemon, error) {
	begin := time.Now()
	if err := old.stop(); err != nil {
		return nil, err
	}
	fmt.Printf("big: the sidecar has stopped after %s\n", seconds(begin))
	begin = time.Now()
	sidecar, err := r.start(ctx, "sidecar", filepath.Join(r.dir, "big.yaml"), old.addr)
	if err != nil {
		return nil, err
	}
	if err := r.caughtUp(ctx, sidecar); err != nil {
		return nil, err
	}
	sidecar.say("big: started from the checkpoint and in step", begin)
	return sidecar, nil
}
