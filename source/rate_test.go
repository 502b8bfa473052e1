package source

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
)

func TestPacer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pacer{perSecond: 1000}
		begin := time.Now()
		for range 10 {
			if err := p.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.took(500)
		}
		if d := time.Since(begin); d != 4500*time.Millisecond {
			t.Errorf("10 pages of 500 rows at 1,000 a second: the last began after %v, want 4.5 s", d)
		}
		time.Sleep(time.Minute)
		begin = time.Now()
		for range 2 {
			if err := p.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.took(500)
		}
		if d := time.Since(begin); d != 500*time.Millisecond {
			t.Errorf("after a pause the second page began after %v: a pause saves nothing up", d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a wait that is given up: %v", err)
		}
	})
}

// TestListRateHoldsListsAndDigests: both use the budget up, and neither reads while it is used up.
func TestListRateHoldsListsAndDigests(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text); INSERT INTO public.t SELECT i, 'x' FROM generate_series(1, 100) i`)
	cfg := configFor(t, db, "public.t")
	cfg.ListRate = 1
	l := run(t, NewWatch(cfg, new(Memory))).lister()
	list := func(ctx context.Context) error {
		_, err := l.List(ctx, syncd.ListRequest{Table: tableT, Limit: 50})
		return err
	}
	digest := func(ctx context.Context) error {
		_, err := l.Digest(ctx, syncd.DigestRequest{Table: tableT, Bits: 2})
		return err
	}
	budget := func(next time.Time) (was time.Time) {
		l.rate.mu.Lock()
		defer l.rate.mu.Unlock()
		was, l.rate.next = l.rate.next, next
		return was
	}
	for name, ask := range map[string]func(context.Context) error{"list": list, "digest": digest} {
		budget(time.Time{})
		if err := ask(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if free := budget(time.Time{}); time.Until(free) < 10*time.Second {
			t.Errorf("%s: the budget of 1 row a second is free again at %v", name, free)
		}
	}
	l.flights.drop()
	budget(time.Now().Add(time.Hour))
	for name, ask := range map[string]func(context.Context) error{"list": list, "digest": digest} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if err := ask(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: with the budget used up: %v", name, err)
		}
		cancel()
	}
}
