package resync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/syncd-io/syncd"
)

// fetching runs f beside a Fetcher in a bubble.
func fetching(t *testing.T, s *server, c *cache, f func(ctx context.Context, o *seen)) {
	synctest.Test(t, func(t *testing.T) {
		o := &seen{start: time.Now()}
		fetcher := &Fetcher{Lister: s, Cache: c, Marks: s, Observer: o}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		// The fakes are made outside the bubble; their channel must be of it.
		c.update(func() { c.changed = make(chan struct{}) })
		go func() { done <- fetcher.Run(ctx) }()
		f(ctx, o)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
}

// mark opens keys until an answer sees a transaction.
func (c *cache) mark(x syncd.XID, keys ...syncd.Key) {
	c.update(func() {
		for _, k := range keys {
			c.open[k] = x
		}
	})
}

func (c *cache) openKeys() (keys []syncd.Key) {
	c.Open(users, func(k syncd.Key) bool { keys = append(keys, k); return true })
	slices.Sort(keys)
	return keys
}

func TestFetcherSettlesOpenKeys(t *testing.T) {
	s, c := pair(9)
	fetching(t, s, c, func(ctx context.Context, o *seen) {
		c.mark(s.xid, key(1), key(2))
		pass(ctx, 10*time.Millisecond)
		if got := c.openKeys(); got != nil {
			t.Errorf("open: %v", got)
		}
		if !slices.Equal(o.fetched, []string{"2/2"}) {
			t.Errorf("fetched %v, want both keys in one get", o.fetched)
		}
	})
}

// TestFetchedRowIsHeld: an answer is judged only once the stream has passed its H, and thrown away where it never does.
func TestFetchedRowIsHeld(t *testing.T) {
	s, c := pair(9)
	fetching(t, s, c, func(ctx context.Context, o *seen) {
		late := s.commit(key(1), `{"v":2}`)
		c.mark(s.xid, key(1))
		pass(ctx, 5*time.Second)
		if len(c.judgements()) != 0 || s.asked() == 0 {
			t.Fatalf("judged %+v before the stream had passed it; %d markers asked for", c.judgements(), s.asked())
		}
		pass(ctx, 20*time.Second)
		if len(c.judgements()) != 0 || o.missed() != 0 || len(s.got()) < 2 {
			t.Fatalf("judged %+v though the stream stands still", c.judgements())
		}
		c.apply(s.position(), late)
		pass(ctx, 30*time.Second)
		if got := c.openKeys(); got != nil || len(c.judgements()) == 0 || c.judgements()[0].Early {
			t.Errorf("open %v, judged %+v", got, c.judgements())
		}
	})
}

// TestFetcherRepeats: a key that an answer leaves open is asked for again, later each time, and others don't wait for it.
func TestFetcherRepeats(t *testing.T) {
	s, c := pair(9)
	fetching(t, s, c, func(ctx context.Context, o *seen) {
		unseen := s.xid + 5 // no answer sees it yet
		c.mark(unseen, key(1))
		pass(ctx, time.Minute)
		n := len(s.got())
		if n < 8 || n > 14 {
			t.Errorf("asked %d times in a minute, want it to double from 50 ms to 30 s", n)
		}
		c.mark(s.xid, key(2))
		pass(ctx, 10*time.Millisecond)
		if got := c.openKeys(); !slices.Equal(got, []syncd.Key{key(1)}) {
			t.Errorf("open %v: the new key had to wait for the old", got)
		}
		for range 5 {
			c.apply(s.position(), s.commit(key(3), `{}`))
			c.apply(s.position())
		}
		pass(ctx, 30*time.Second)
		if got := c.openKeys(); got != nil {
			t.Errorf("open %v", got)
		}
	})
}

// TestFetcherOutlastsTheSource: while the source is away it is tried less and less, and afterwards all is settled.
func TestFetcherOutlastsTheSource(t *testing.T) {
	s, c := pair(9)
	fetching(t, s, c, func(ctx context.Context, o *seen) {
		back := time.Now().Add(time.Hour)
		s.before = func(context.Context, any) error {
			if time.Now().Before(back) {
				return errors.New("no responders")
			}
			return nil
		}
		c.mark(s.xid, key(1))
		pass(ctx, time.Hour-time.Second)
		if n := o.missed(); n < 100 || n > 140 || len(c.judgements()) != 0 {
			t.Errorf("tried %d times in an hour, judged %+v", n, c.judgements())
		}
		pass(ctx, 31*time.Second)
		if got := c.openKeys(); got != nil {
			t.Errorf("open %v", got)
		}
	})
}

// TestFetcherStep drives the stage by hand: many keys go in batches, each once.
func TestFetcherStep(t *testing.T) {
	s, c := pair(2500)
	f := &Fetcher{Lister: s, Cache: c}
	if did, wake := f.Step(t.Context()); did || !wake.IsZero() {
		t.Errorf("with no open key: did %v, wake %v", did, wake)
	}
	for i := range 2500 {
		c.mark(s.xid, key(i))
	}
	steps := 0
	for did := true; did; steps++ {
		did, _ = f.Step(t.Context())
	}
	if got := c.openKeys(); got != nil || len(s.gets) != 2500 || steps != 4 {
		t.Errorf("%d open, %d asked for, in %d steps", len(got), len(s.gets), steps-1)
	}
	if len(f.tables) != 0 {
		t.Errorf("%d tables are remembered for nothing", len(f.tables))
	}
}

// TestFetcherLeavesRefusedTablesAlone: the source would only refuse again.
func TestFetcherLeavesRefusedTablesAlone(t *testing.T) {
	s, c := pair(1)
	c.mark(1, key(0))
	c.state.Refused = "gone"
	if did, _ := (&Fetcher{Lister: s, Cache: c}).Step(t.Context()); did || s.gets != nil {
		t.Error("asked for keys of a refused table")
	}
}

func ExampleFetcher() {
	s, c := pair(4)
	c.mark(s.xid, key(3)) // the delta lacked a value that the cache could not supply

	f := &Fetcher{Lister: s, Cache: c}
	did, _ := f.Step(context.Background())
	fmt.Println(did, len(c.openKeys()), "open")
	// Output: true 0 open
}
