package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/sidecar"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/memory"
	"github.com/syncd-io/syncd/source"
)

var (
	oneSeed = flag.Uint64("sim.seed", 0, "run this history alone, and print its log")
	seeds   = flag.Uint64("sim.seeds", 1000, "how many histories to run")
)

// TestMain has goroutines run one at a time: then a seed decides all of a history, also what happens in one instant.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	goleak.VerifyTestMain(m)
}

// history is one history: a server, a stream, the lives of sources and sidecars.
type history struct {
	seed    uint64
	mix     mix
	pg      *postgres
	js      *jetstream
	lists   *lists
	fates   *fates
	dice    *rand.Rand // of what goes wrong
	writer  *rand.Rand
	keys    int
	data    string // where the sidecar keeps its cache; empty: nowhere
	witness *witness
	bad     []string
	bug     bug
	log     *slog.Logger
}

// mix says what may go wrong in a history.
type mix struct {
	name                                                   string
	loss, standby, epochs, ddl, tail, trim, crashes, hides bool
}

// mixes are taken in turn. A history with all faults at once says little about any of them.
var mixes = []mix{
	{name: "calm", hides: true},
	{name: "loss", loss: true, hides: true},
	{name: "crashes", crashes: true, hides: true},
	{name: "standby", standby: true, hides: true, loss: true},
	{name: "epochs", epochs: true, crashes: true},
	{name: "tail", tail: true, crashes: true, hides: true},
	{name: "trim", trim: true, crashes: true, loss: true},
	{name: "ddl", ddl: true, hides: true, loss: true},
	{name: "everything", loss: true, standby: true, epochs: true, ddl: true, tail: true, trim: true, crashes: true, hides: true},
}

// bug puts a rule out of force.
type bug struct {
	name   string
	page   func(*syncd.Page)
	marker func(*syncd.Marker)
}

func newHistory(seed uint64, data string, b bug) *history {
	h := &history{seed: seed, mix: mixes[seed%uint64(len(mixes))], data: data, bug: b, fates: newFates(seed)}
	h.log = slog.New(slog.DiscardHandler)
	if *oneSeed != 0 {
		h.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	h.dice, h.writer = rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	h.pg = newPostgres(rand.New(rand.NewPCG(seed, 3)))
	h.js = newJetstream(h.fates, h.pg)
	h.keys = 4 + h.dice.IntN(16)
	h.lists = &lists{pg: h.pg, fates: h.fates, rows: 1 + h.dice.IntN(8), spoil: b.page}
	h.witness = &witness{pg: h.pg, reached: map[syncd.Key]int{}}
	return h
}

// --- the source

// sources runs sources, one after the other, until ctx ends: each lives until it is killed, or can't go on.
func (h *history) sources(ctx context.Context, kill <-chan struct{}) {
	for ctx.Err() == nil {
		life, end := context.WithCancel(ctx)
		h.source(life, kill)
		end()
		h.lists.watch.Store(nil)
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (h *history) source(ctx context.Context, kill <-chan struct{}) {
	ctx, die := context.WithCancel(ctx)
	defer die()
	pub := h.js.connect(ctx)
	pub.spoil = h.bug.marker
	w := source.NewWatch(source.Config{Name: syncName, Postgres: "stand-in", TrailInterval: 700 * time.Millisecond, Logger: h.log}, pub)
	h.lists.watch.Store(w)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			err := w.Rehearse(ctx, h.pg)
			h.log.Debug("the source's term ended", "error", err)
			var stop *source.StopError
			var protocol *source.ProtocolError
			if errors.As(err, &stop) || errors.As(err, &protocol) {
				h.bad = append(h.bad, "the source gave up: "+err.Error())
				die()
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for alive := true; alive; {
		select {
		case <-look.C:
			w.LookAt(h.pg)
		case <-kill:
			die()
		case <-ctx.Done():
			alive = false
		}
	}
	wg.Wait()
}

// --- the application

// write lets applications work until ctx ends.
func (h *history) write(ctx context.Context) {
	for ctx.Err() == nil {
		switch n := h.writer.IntN(20); {
		case n < 7:
			h.pg.begin(h.keys)
		case n < 13:
			late := 0
			if h.mix.hides && h.writer.IntN(3) == 0 {
				late = h.writer.IntN(40)
			}
			h.pg.commit(late)
			if late == 0 {
				h.pg.show()
			}
		case n < 15:
			h.pg.show()
		case n < 16:
			h.pg.idle()
		case n < 18:
			h.pg.replay(h.writer.IntN(3) == 0)
		case n == 18 && h.writer.IntN(6) == 0:
			h.pg.truncate()
		case n == 19 && h.mix.ddl && h.writer.IntN(4) == 0:
			h.pg.addColumn()
		}
		pause := time.Duration(h.writer.IntN(12)) * time.Millisecond
		if h.writer.IntN(12) == 0 {
			pause *= 30
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause + 137*time.Microsecond):
		}
	}
}

// --- the faults

// faults lets things go wrong for a while.
func (h *history) faults(kill chan<- struct{}) {
	for range 6 {
		rates := map[string]float64{"slow": 0.3 * h.dice.Float64(), "late": 0.05 * h.dice.Float64(), "answers late": 0.1 * h.dice.Float64()}
		if h.mix.loss {
			for _, what := range []string{"lost", "not delivered", "delivered twice", "twice", "swapped", "busy", "fails"} {
				rates[what] = 0.15 * h.dice.Float64()
			}
		}
		if h.mix.standby {
			rates["standby"] = h.dice.Float64()
		}
		h.fates.set(rates)
		pass(time.Duration(h.dice.IntN(900)) * time.Millisecond)
		h.strike(kill)
	}
}

// strike makes one of the faults that come at a moment.
func (h *history) strike(kill chan<- struct{}) {
	switch n := h.dice.IntN(8); {
	case n == 0 && h.mix.epochs:
		h.log.Debug("a backup is restored")
		h.pg.restore()
	case n == 1 && h.mix.epochs:
		h.log.Debug("the slot is dropped")
		h.pg.dropSlotByHand()
	case n <= 2 && h.mix.tail:
		h.log.Debug("the stream loses its tail")
		h.js.loseTail(1 + h.dice.IntN(12))
		h.witness.forget()
	case n == 3 && h.mix.trim:
		h.log.Debug("the stream is trimmed")
		h.js.trim(h.dice.IntN(6))
	case n == 4 && h.mix.crashes:
		h.log.Debug("the stream is away")
		h.js.setAway(true)
		pass(time.Duration(h.dice.IntN(1500)) * time.Millisecond)
		h.js.setAway(false)
	case n == 5 && h.mix.crashes:
		h.log.Debug("the replication connection breaks")
		h.pg.breakConnection()
	case n >= 4 && h.mix.crashes:
		h.log.Debug("the source is killed")
		kill <- struct{}{}
	}
}

// --- the sidecar

// live runs a sidecar while f does.
func (h *history) live(f func(s *sidecar.Sidecar)) {
	c := sidecar.Config{
		Name: syncName, Data: h.data, MaxPrune: 1, Interval: 3 * time.Second, Jitter: 0.5, Logger: h.log, Seed: h.seed,
		NewStore: func() (sink.Store, error) { return memory.New(memory.Options{}), nil },
	}
	h.witness.mine = map[syncd.Key]int{}
	s, err := sidecar.Open(c, h.js, h.lists)
	if err != nil {
		h.bad = append(h.bad, err.Error())
		return
	}
	ctx, die := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
			h.bad = append(h.bad, fmt.Sprintf("the sidecar ended with %v", err))
		}
	})
	wg.Go(func() {
		for {
			changed := s.Cache().Changed()
			if s.Ready() == nil {
				h.witness.look(s.Cache())
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	})
	f(s)
	die()
	wg.Wait()
	if err := s.Close(); err != nil {
		h.bad = append(h.bad, err.Error())
	}
}

func pass(d time.Duration) { <-time.After(d) } // fake time

// run runs the history, and gives what was wrong in it.
func (h *history) run() []string {
	all, end := context.WithCancel(context.Background())
	kill := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { h.sources(all, kill) })
	work, rest := context.WithCancel(all)
	wg.Go(func() { h.write(work) })
	pass(time.Duration(h.dice.IntN(500)) * time.Millisecond)
	h.live(func(*sidecar.Sidecar) { h.faults(kill) })
	early := h.kept()
	h.live(func(*sidecar.Sidecar) { h.faults(kill) })
	if early != nil && h.seed%2 == 0 { // it was killed before it could save
		if err := os.WriteFile(h.file(), early, 0o600); err != nil {
			h.bad = append(h.bad, err.Error())
		}
	}
	h.live(func(s *sidecar.Sidecar) {
		h.faults(kill)
		rest()
		h.heal(s)
	})
	end()
	wg.Wait()
	return append(h.bad, h.witness.bad...)
}

func (h *history) file() string { return filepath.Join(h.data, syncName+".checkpoint") }

func (h *history) kept() []byte {
	if h.data == "" {
		return nil
	}
	b, err := os.ReadFile(h.file())
	if err != nil {
		h.bad = append(h.bad, err.Error())
	}
	return b
}

// heal ends the faults, and holds the cache against the table some time later.
func (h *history) heal(s *sidecar.Sidecar) {
	h.log.Debug("the faults are over")
	h.fates.set(nil)
	pass(time.Second)
	h.pg.rest()
	for range 20 {
		h.pg.replay(true)
		pass(2 * time.Second)
		if h.healed(s) == "" {
			break
		}
	}
	if why := h.healed(s); why != "" {
		h.bad = append(h.bad, why)
	}
}

// healed says what the cache still lacks: it has to be equal, proved so, and to have nothing left over.
func (h *history) healed(s *sidecar.Sidecar) string {
	v := s.Cache().View()
	if v == nil {
		return "there is no cache"
	}
	defer v.Close()
	t := v.State().Tables[things]
	if t == nil {
		return "the table is not there"
	}
	got := map[syncd.Key]string{}
	snaps := map[*syncd.Snapshot]bool{}
	v.Rows(things, 0, func(k syncd.Key, e sink.Entry) bool {
		got[k] = string(e.Row)
		snaps[e.Snap] = true
		return true
	})
	want := h.pg.rows()
	entries := 0
	if err := s.Cache().Walk(things, 0, func(syncd.Key, sink.Entry) bool { entries++; return true }); err != nil {
		return err.Error()
	}
	h.pg.mu.Lock()
	last := syncd.LSN(0)
	if n := len(h.pg.era.txs); n > 0 {
		last = h.pg.era.txs[n-1].end
	}
	timeline := h.pg.timeline
	h.pg.mu.Unlock()
	switch {
	case s.Ready() != nil:
		return fmt.Sprintf("the sidecar is not ready: %v", s.Ready())
	case v.State().Timeline != timeline:
		return fmt.Sprintf("the cache is of timeline %d, the server of %d", v.State().Timeline, timeline)
	case !maps.Equal(got, want):
		return fmt.Sprintf("the cache shows %v\nwant %v", got, want)
	case len(t.Open) > 0 || t.Loss != 0 || t.Relist != "" || t.Stopped != "":
		return fmt.Sprintf("%d keys are open, loss %s, relist %q, stopped %q", len(t.Open), t.Loss, t.Relist, t.Stopped)
	case t.Verified.Position.Epoch != v.State().Cursor.Position.Epoch || t.Verified.Position.LSN < last:
		return fmt.Sprintf("verified through %s, the last commit ends at %s", t.Verified.Position, last)
	case entries != len(got):
		return fmt.Sprintf("%d tombstones are left over", entries-len(got))
	case len(snaps) > len(got)+1:
		return fmt.Sprintf("%d snapshots are held for %d rows", len(snaps), len(got))
	}
	return ""
}

// outcome is what came of a history.
type outcome struct {
	bad    []string
	claims int
	looks  int
	torn   int
}

func runSeed(t *testing.T, seed uint64, b bug) (o outcome) {
	t.Helper()
	data := ""
	if seed%7 == 3 { // the disk takes longer than all the rest
		data = t.TempDir()
	}
	t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
		synctest.Test(t, func(*testing.T) {
			h := newHistory(seed, data, b)
			o = outcome{bad: h.run(), claims: h.witness.claims, looks: h.witness.looks, torn: h.witness.torn}
		})
	})
	return o
}

// TestHistories runs many histories, each with a mix of faults, and checks every commit of the cache. A failure names its seed:
//
//	go test ./internal/sim -run TestHistories -sim.seed N
func TestHistories(t *testing.T) {
	first, last := uint64(1), *seeds
	if *oneSeed != 0 {
		first, last = *oneSeed, *oneSeed
	} else if race {
		last = min(last, 100)
	}
	var sum outcome
	for seed := first; seed <= last; seed++ {
		o := runSeed(t, seed, bug{})
		for _, bad := range o.bad {
			t.Errorf("seed %d (%s): %s", seed, mixes[seed%uint64(len(mixes))].name, bad)
		}
		sum.claims, sum.looks, sum.torn = sum.claims+o.claims, sum.looks+o.looks, sum.torn+o.torn
	}
	n := int(last - first + 1)
	t.Logf("seeds %d to %d: %d commits of caches looked at, %d claims, %d transactions checked for being whole", first, last, sum.looks, sum.claims, sum.torn)
	if n > 1 && (sum.claims < 2*n || sum.looks < 30*n || sum.torn < 50*n) {
		t.Error("that is too little to prove anything")
	}
}

// TestPlantedBugsAreFound puts one rule after the other out of force: some history has to show it.
func TestPlantedBugsAreFound(t *testing.T) {
	for _, b := range []bug{
		{name: "a page's snapshot sees every transaction that it knows of", page: func(p *syncd.Page) {
			p.Snapshot.Xip, p.Snapshot.Xmin = nil, p.Snapshot.Xmax
		}},
		{name: "markers count nothing", marker: func(m *syncd.Marker) { m.Counts = nil }},
		{name: "every commit is safe at once", marker: func(m *syncd.Marker) { m.Safe = m.Through }},
		{name: "a page knows no H", page: func(p *syncd.Page) { p.Snapshot.H = 0 }},
	} {
		t.Run(b.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 300; seed++ {
				if o := runSeed(t, seed, b); len(o.bad) > 0 {
					t.Logf("seed %d shows it: %s", seed, strings.Join(o.bad, "\n"))
					return
				}
			}
			t.Error("no history shows it")
		})
	}
}
