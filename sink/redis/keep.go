package redis

import (
	"context"
	"time"
)

// keep begins to keep the lease, until Close. It is called by Take's goroutine.
func (p *place) keep() {
	if p.end != nil {
		return
	}
	ctx, end := context.WithCancel(context.Background())
	p.end = end
	p.keeping.Go(func() {
		k := keeper{place: p}
		t := time.NewTicker(p.lease / 3)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				k.step(ctx)
			}
		}
	})
}

// keeper renews the lease and has an eye on evictions.
type keeper struct {
	*place
	away    bool
	evicted string
}

// step renews the lease once. Whether the server is there is said when that changes.
func (k *keeper) step(ctx context.Context) {
	_, err := k.do(ctx, "renew")
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && !k.away:
		k.away = true
		k.log.Warn("the sink's server does not answer, or is another process's: commits wait", "error", err)
	case err == nil && k.away:
		k.away = false
		k.log.Info("the sink's server answers", "place", k.String())
	}
	if err != nil {
		return
	}
	info, err := k.rdb.Info(ctx, "stats").Result()
	if err != nil {
		return // the next step says so
	}
	n := facts(info)["evicted_keys"]
	if k.evicted != "" && n != k.evicted && n != "0" {
		k.log.Warn("the server evicts keys, perhaps rows of the sink: what is missing comes back with the next resync; give it more memory or a policy of noeviction",
			"place", k.String(), "evicted_keys", n)
	}
	k.evicted = n
}
