package resync_test

import (
	"context"
	"fmt"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/resync"
)

// one is a cache of one row, which Postgres has otherwise. What the Checker does not call is left to the nil interface.
type one struct{ resync.CheckCache }

var (
	table    = syncd.Table{Schema: "public", Name: "users"}
	key      = syncd.MakeKey("42")
	snapshot = &syncd.Snapshot{Epoch: 1, Xmin: 5, Xmax: 5, H: 100}
)

func (one) States() []resync.State {
	return []resync.State{{Table: table, Listed: true, Rows: 1}}
}

func (one) Walk(_ syncd.Table, from uint64, fn func(syncd.Key, resync.Held) bool) error {
	if key.Hash() >= from {
		fn(key, resync.Held{Row: true})
	}
	return nil
}

func (one) Changed() <-chan struct{}           { return nil }
func (one) Through() syncd.Position            { return syncd.Position{Epoch: 1, LSN: 100} }
func (one) IsOpen(syncd.Table, syncd.Key) bool { return false }

func (one) Judge(*syncd.Page, resync.How) ([]resync.Finding, error) {
	return []resync.Finding{{Key: key, Kind: resync.Stale}}, nil
}

// postgres answers gets.
type postgres struct{ resync.Lister }

func (postgres) Get(_ context.Context, q syncd.GetRequest) (*syncd.Page, error) {
	return &syncd.Page{Table: q.Table, Asked: q.Keys, Snapshot: snapshot}, nil
}

// printed prints the first thing that a Checker counts, and ends it.
type printed struct {
	ctx context.Context
	end context.CancelFunc
}

func (p printed) Checked(t syncd.Table, window string, consistent bool) {
	if p.ctx.Err() == nil {
		fmt.Printf("%s: consistent within %s: %v\n", t, window, consistent)
	}
	p.end()
}

// A Checker samples the cache, and asks for what differs again.
func ExampleChecker() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := &resync.Checker{Lister: postgres{}, Cache: one{}, Rate: 2, Observer: printed{ctx, cancel}}
	err := c.Run(ctx)
	fmt.Println(err)
	// Output:
	// public.users: consistent within 1s: false
	// context canceled
}
