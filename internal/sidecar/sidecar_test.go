package sidecar

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/resync"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newStore() (sink.Store, error) { return memory.New(memory.Options{}), nil }

// keep runs a sidecar over a world while f does, and closes it.
func keep(t *testing.T, w *world, c Config, f func(ctx context.Context, s *Sidecar)) {
	t.Helper()
	keepOver(t, w, w, c, f)
}

// keepOver is keep with a list service of its own.
func keepOver(t testing.TB, w *world, source Source, c Config, f func(ctx context.Context, s *Sidecar)) {
	t.Helper()
	run(t, open(t, w, source, c), f)
}

// open opens a sidecar with a store in memory.
func open(t testing.TB, w *world, source Source, c Config) *Sidecar {
	t.Helper()
	c.NewStore = newStore
	s, err := Open(c, w, source)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a sidecar while f does, and closes it.
func run(t testing.TB, s *Sidecar, f func(ctx context.Context, s *Sidecar)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	f(ctx, s)
	cancel()
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// content gives what readers see.
func content(c *sink.Cache) map[syncd.Key]string {
	v := c.View()
	defer v.Close()
	m := map[syncd.Key]string{}
	v.Rows(things, 0, func(k syncd.Key, e sink.Entry) bool {
		m[k] = string(e.Row)
		return true
	})
	return m
}

func pass(d time.Duration) {
	<-time.After(d) // fake time
	synctest.Wait()
}

// TestFirstListAndPush: a sidecar fills an empty cache, follows the stream, becomes ready, and proves it.
func TestFirstListAndPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		for i := range 50 {
			w.write(key(i), true)
		}
		for _, x := range w.unseen() {
			w.show(x)
		}
		w.publish()
		s := open(t, w, w, Config{MaxPrune: 0.5})
		if s.Ready() == nil {
			t.Error("ready before anything was listed")
		}
		run(t, s, func(ctx context.Context, s *Sidecar) {
			pass(time.Second)
			if err := s.Ready(); err != nil {
				t.Errorf("not ready: %v", err)
			}
			if !maps.Equal(content(s.Cache()), w.rows()) {
				t.Errorf("after the first list: %d rows, want 50", len(content(s.Cache())))
			}
			w.write(key(3), true)
			w.write(key(4), false)
			w.publish()
			pass(time.Millisecond)
			if !maps.Equal(content(s.Cache()), w.rows()) {
				t.Error("a commit that was published is not in the cache")
			}
			for _, x := range w.unseen() {
				w.show(x)
			}
			w.publish()
			rep, err := s.Request(ctx, things, resync.Options{Mode: resync.Full})
			if err != nil || !rep.Equal() || rep.Rows != 49 || rep.Verified.LSN != w.through {
				t.Errorf("resync: %+v, %v", rep, err)
			}
			if got := s.Reports(); len(got) != 1 || got[0] != rep {
				t.Errorf("last reports: %v", got)
			}
		})
	})
}

// TestHiddenCommitIsNotTakenBack: a commit whose delta arrived and that no snapshot sees yet stays, however often the table
// is listed; and nothing is verified through it.
func TestHiddenCommitIsNotTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		w.write(key(1), true)
		w.show(w.unseen()[0])
		w.publish()
		keep(t, w, Config{MaxPrune: 0.5}, func(ctx context.Context, s *Sidecar) {
			pass(time.Second)
			w.write(key(1), true) // waits for a synchronous standby that is down
			w.write(key(2), true)
			w.publish()
			for range 3 {
				rep, err := s.Request(ctx, things, resync.Options{})
				if err != nil || rep.Differences() != 0 || rep.Rows != 1 {
					t.Errorf("%+v, %v", rep, err)
				}
				if rep.Verified.LSN >= w.lsn-8 {
					t.Errorf("verified through %s, which no list has seen", rep.Verified)
				}
				if !maps.Equal(content(s.Cache()), w.rows()) {
					t.Errorf("the cache shows %v, want %v", content(s.Cache()), w.rows())
				}
			}
		})
	})
}

// TestLossIsRepaired: what was lost in the stream is noticed at the marker, listed at once, and counted by kind.
func TestLossIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		for i := range 20 {
			w.write(key(i), true)
		}
		show(w)
		w.publish()
		keep(t, w, Config{MaxPrune: 0.5}, func(ctx context.Context, s *Sidecar) {
			pass(time.Second)
			w.lose = 1
			w.write(key(3), true)
			w.write(key(4), false)
			w.write(key(30), true)
			show(w)
			w.publish()
			w.lose = 0
			pass(10 * time.Second) // no interval: the loss alone makes it run
			if !maps.Equal(content(s.Cache()), w.rows()) {
				t.Errorf("the cache shows %v\nwant %v", content(s.Cache()), w.rows())
			}
			rep := s.Reports()[0]
			if rep.Missing != 1 || rep.Stale != 1 || rep.Ghost != 1 || rep.Corrupt != 0 || rep.Repaired != 3 || rep.Verified.LSN < w.lsn {
				t.Errorf("%+v", rep)
			}
		})
	})
}

// TestDiffWhileWritersRun: a comparison finds nothing where nothing was lost, however busy the table is.
func TestDiffWhileWritersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(2)
		for i := range 100 {
			w.write(key(i), true)
		}
		show(w)
		w.publish()
		keep(t, w, Config{MaxPrune: 0.5}, func(ctx context.Context, s *Sidecar) {
			pass(time.Second)
			busy, rest := context.WithCancel(ctx)
			var wg sync.WaitGroup
			wg.Go(func() { w.work(busy, rand.New(rand.NewPCG(2, 2)), 120) })
			for range 20 {
				pass(50 * time.Millisecond)
				for _, o := range []resync.Options{{Mode: resync.Full, Dry: true}, {Mode: resync.Full}} {
					rep, err := s.Request(ctx, things, o)
					if err != nil || !rep.Equal() || rep.Note != "" {
						t.Errorf("%+v, %v", rep, err)
					}
				}
			}
			rest()
			wg.Wait()
		})
	})
}

// work writes at random until ctx ends: commits are published first and become visible later, or the other way round.
func (w *world) work(ctx context.Context, dice *rand.Rand, keys int) {
	for ctx.Err() == nil {
		switch dice.IntN(4) {
		case 0, 1:
			w.write(key(dice.IntN(keys)), dice.IntN(3) > 0)
		case 2:
			if x := w.unseen(); len(x) > 0 {
				w.show(x[dice.IntN(len(x))])
			}
		case 3:
			w.publish()
		}
		<-time.After(time.Duration(dice.IntN(5)) * time.Millisecond) // fake time
	}
}

func show(w *world) {
	for _, x := range w.unseen() {
		w.show(x)
	}
}

func key(i int) syncd.Key { return syncd.MakeKey(fmt.Sprintf("k%03d", i)) }

// TestAnyHistory: with deltas lost and sent as pointers, commits that hide, a service that refuses and goes away, epochs that
// begin and a sidecar that restarts or is killed, no key that a reader sees goes back, nothing is called verified that is
// not, and after the last fault cache and table are equal and proved so. SYNCD_SEED=n runs one history.
func TestAnyHistory(t *testing.T) {
	first, n := uint64(1), uint64(30)
	if s := os.Getenv("SYNCD_SEED"); s != "" {
		one, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		first, n = one, 1
	}
	claims := 0
	for seed := first; seed < first+n; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { claims += anyHistory(t, seed) })
		})
	}
	t.Logf("%d claims in %d histories", claims, n)
	if n > 1 && claims < int(n) {
		t.Errorf("only %d claims in %d histories: they prove nothing", claims, n)
	}
}

// history is one generated history: a world, and the lives of a sidecar in it, on one directory.
type history struct {
	*testing.T
	world   *world
	witness *witness
	seed    uint64
	dice    *rand.Rand // of the writer
	trouble *rand.Rand
	keys    int
	config  Config
}

func anyHistory(t *testing.T, seed uint64) int {
	h := &history{
		T: t, world: newWorld(seed), seed: seed, dice: rand.New(rand.NewPCG(seed, 2)), trouble: rand.New(rand.NewPCG(seed, 3)),
		config: Config{Name: "shop", Data: t.TempDir(), MaxPrune: 1, Interval: 5 * time.Second, Jitter: 0.5},
	}
	h.keys = 5 + h.dice.IntN(60)
	h.world.pageRows = 1 + h.dice.IntN(12)
	for i := range h.keys / 2 {
		h.world.write(key(i), true)
	}
	show(h.world)
	h.world.publish()
	h.witness = &witness{w: h.world}
	h.live(h.faults)
	file := filepath.Join(h.config.Data, "shop.checkpoint")
	early, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	h.live(h.faults)
	if seed%2 == 0 { // killed before it could save: the next life begins with what the first one left
		if err := os.WriteFile(file, early, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.live(func(ctx context.Context, s *Sidecar) {
		h.faults(ctx, s)
		h.heal(s)
	})
	for _, bad := range h.witness.bad {
		t.Error(bad)
	}
	return h.witness.claims
}

// live runs a sidecar while f does, and the witness looks at each commit that a read behind a readiness probe can see.
func (h *history) live(f func(ctx context.Context, s *Sidecar)) {
	run(h, open(h, h.world, h.world, h.config), func(ctx context.Context, s *Sidecar) {
		watching, stop := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				changed := s.Cache().Changed()
				if s.Ready() == nil {
					h.witness.look(s.Cache())
				}
				select {
				case <-watching.Done():
					return
				case <-changed:
				}
			}
		})
		f(ctx, s)
		stop()
		wg.Wait()
	})
}

// faults lets a writer work while things go wrong.
func (h *history) faults(ctx context.Context, _ *Sidecar) {
	w := h.world
	busy, rest := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { w.work(busy, h.dice, h.keys) })
	for range 8 {
		w.set(func() {
			w.lose, w.point, w.refuse = 0.2*h.trouble.Float64(), 0.2*h.trouble.Float64(), 0.3*h.trouble.Float64()
			w.away = h.trouble.IntN(4) == 0
		})
		if h.seed%3 == 0 && h.trouble.IntN(8) == 0 {
			w.restore()
		}
		pass(time.Duration(h.trouble.IntN(2000)) * time.Millisecond)
	}
	rest()
	wg.Wait()
}

// heal ends the faults, and holds the cache against the table some time later.
func (h *history) heal(s *Sidecar) {
	w := h.world
	w.set(func() { w.lose, w.refuse, w.away = 0, 0, false })
	show(w)
	w.publish()
	pass(70 * time.Second)
	w.publish()
	pass(10 * time.Second)
	if got, want := content(s.Cache()), w.rows(); !maps.Equal(got, want) {
		h.Errorf("the cache shows %v\nwant %v", got, want)
	}
	st := s.Cache().State().Tables[things]
	if st.Verified.Position.Compare(syncd.Position{Epoch: w.epoch, LSN: w.lsn}) < 0 || len(st.Open) > 0 || st.Loss != 0 || st.Relist != "" || st.Stopped != "" {
		h.Errorf("verified through %s of %d-%s, %d keys open, loss %s, relist %q, stopped %q",
			st.Verified.Position, w.epoch, w.lsn, len(st.Open), st.Loss, st.Relist, st.Stopped)
	}
}

// TestEmptiedTableOfANewEpochWaitsForApproval: where a new epoch begins with a table that lost its rows, the old rows are
// read on, the table is marked, and an approved resync has the new ones take their place.
func TestEmptiedTableOfANewEpochWaitsForApproval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		for i := range 20 {
			w.write(key(i), true)
		}
		show(w)
		w.publish()
		keep(t, w, Config{MaxPrune: 0.5, Interval: time.Minute}, func(ctx context.Context, s *Sidecar) {
			pass(3 * time.Second)
			before := w.rows()
			w.restore()
			for i := range 15 {
				w.write(key(i), false)
			}
			show(w)
			w.publish()
			pass(10 * time.Minute)
			if got := content(s.Cache()); !maps.Equal(got, before) {
				t.Errorf("%d rows are read, want the 20 of the old epoch", len(got))
			}
			if st := s.state(); !st.Tables[0].Stopped {
				t.Errorf("not marked: %+v", st.Tables[0])
			}
			if n := w.asked(); n > 60 {
				t.Errorf("%d lists in 10 minutes: it spins", n)
			}
			if _, err := s.Request(ctx, things, resync.Options{}); !errors.Is(err, resync.ErrStopped) {
				t.Errorf("without approval: %v", err)
			}
			rep, err := s.Request(ctx, things, resync.Options{ApprovePrune: true})
			if err != nil || !rep.Complete {
				t.Fatalf("%+v, %v", rep, err)
			}
			pass(time.Second)
			if got := content(s.Cache()); !maps.Equal(got, w.rows()) || s.state().Tables[0].Stopped {
				t.Errorf("after approval: %v, want %v", got, w.rows())
			}
		})
	})
}
