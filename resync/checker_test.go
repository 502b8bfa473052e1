package resync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/syncd-io/syncd"
)

func (c *cache) IsOpen(_ syncd.Table, k syncd.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, open := c.open[k]
	return open
}

// counted is a CheckObserver and an Asker that remembers.
type counted struct {
	mu      sync.Mutex
	yes, no map[string]int // by window
	asked   []syncd.Table
}

func (o *counted) Checked(_ syncd.Table, window string, consistent bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if consistent {
		o.yes[window]++
	} else {
		o.no[window]++
	}
}

func (o *counted) Ask(t syncd.Table) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, t)
}

// String gives "consistent/inconsistent" for each window.
func (o *counted) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var b strings.Builder
	for _, w := range windows {
		fmt.Fprintf(&b, "%s %d/%d ", w.name, o.yes[w.name], o.no[w.name])
	}
	return strings.TrimSpace(b.String())
}

func (o *counted) asks() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.asked)
}

// checking runs a Checker of one key a second beside f in a bubble.
func checking(t *testing.T, s *server, c *cache, f func(ctx context.Context, o *counted)) {
	synctest.Test(t, func(t *testing.T) {
		o := &counted{yes: map[string]int{}, no: map[string]int{}}
		checker := &Checker{Lister: s, Cache: c, Asker: o, Rate: 1, Seed: 1, Observer: o}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		c.update(func() { c.changed = make(chan struct{}) }) // the fake's channel must be of the bubble
		go func() { done <- checker.Run(ctx) }()
		f(ctx, o)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		if len(c.judgements()) > 0 && slices.ContainsFunc(c.judgements(), func(j judgement) bool { return !j.Dry || j.Early }) {
			t.Error("a page was judged otherwise than dry, or before the stream had passed it")
		}
	})
}

// TestWeigh: what an answer counts in.
func TestWeigh(t *testing.T) {
	const all = len(windows)
	for _, tt := range []struct {
		what       string
		elapsed    time.Duration
		window     int
		first      bool
		consistent bool
		want       outcomeOf
	}{
		{"true at once", 0, 0, true, true, outcomeOf{0, all, all, false}},
		{"false at once", 0, 0, true, false, outcomeOf{0, 0, 0, false}},
		{"false at once, asked late", 2 * time.Second, 0, true, false, outcomeOf{0, 0, 0, false}},
		{"true after a second", time.Second, 0, false, true, outcomeOf{0, all, all, false}},
		{"false after a second", time.Second, 0, false, false, outcomeOf{0, 1, 1, false}},
		{"true after 10 s", 10 * time.Second, 1, false, true, outcomeOf{1, all, all, false}},
		{"true after 30 s, the source was away: within 10 s nobody knows", 30 * time.Second, 1, false, true, outcomeOf{2, all, all, false}},
		{"false after 30 s, the source was away", 30 * time.Second, 1, false, false, outcomeOf{1, 2, 2, false}},
		{"false after an hour, the source was away", time.Hour, 0, false, false, outcomeOf{0, all, all, true}},
		{"true after an hour, the source was away", time.Hour, 0, false, true, outcomeOf{all, all, all, false}},
		{"false after 5 min", 5 * time.Minute, 3, false, false, outcomeOf{3, all, all, true}},
	} {
		if got := weigh(tt.elapsed, tt.window, tt.first, tt.consistent); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.what, got, tt.want)
		}
	}
}

// TestCheckerCountsTrueReads: in a cache that is true each sample counts once in each window.
func TestCheckerCountsTrueReads(t *testing.T) {
	s, c := pair(200)
	checking(t, s, c, func(ctx context.Context, o *counted) {
		pass(ctx, 100*time.Second+time.Millisecond)
		if got, want := o.String(), "1s 100/0 10s 100/0 1m 100/0 5m 100/0"; got != want {
			t.Errorf("counted %s, want %s", got, want)
		}
		if n := distinct(s.got()); n < 60 {
			t.Errorf("%d different keys in 100 samples of 200 rows", n)
		}
	})
}

func distinct(keys []syncd.Key) int {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	return len(slices.Compact(keys))
}

// TestCheckerSamplesEvenly: no row is taken much more often than another.
func TestCheckerSamplesEvenly(t *testing.T) {
	const rows, samples = 100, 4000
	_, c := pair(rows)
	checker := &Checker{Cache: c, Rate: 1, Seed: 3}
	checker.init()
	n := map[syncd.Key]int{}
	for range samples {
		k, ok := checker.key(users)
		if !ok {
			t.Fatal("no sample")
		}
		n[k]++
	}
	for i := range rows {
		if got := n[key(i)]; got < samples/rows/2 || got > samples/rows*2 {
			t.Errorf("row %d was taken %d times of %d, want about %d", i, got, samples, samples/rows)
		}
	}
}

// TestCheckerHoldsAnswers: what is still on its way is no fault.
func TestCheckerHoldsAnswers(t *testing.T) {
	s, c := pair(1)
	checking(t, s, c, func(ctx context.Context, o *counted) {
		late := s.commit(key(0), `{"v":2}`)
		pass(ctx, 5500*time.Millisecond)
		if got := o.String(); got != "1s 0/0 10s 0/0 1m 0/0 5m 0/0" {
			t.Errorf("counted %s before the stream had passed the answer", got)
		}
		c.apply(s.position(), late)
		pass(ctx, time.Millisecond)
		if got, want := o.String(), "1s 5/0 10s 5/0 1m 5/0 5m 5/0"; got != want {
			t.Errorf("counted %s, want %s", got, want)
		}
	})
}

// TestCheckerFollowsAFault: a key that differs is asked for again after each window; one that differs after the last has its
// table resynced, once.
func TestCheckerFollowsAFault(t *testing.T) {
	for _, fault := range []struct {
		name string
		make func(s *server, c *cache)
	}{
		{"stale", func(s *server, c *cache) { s.commit(key(0), `{"v":2}`); c.apply(s.position()) }},
		{"ghost", func(s *server, c *cache) { s.commit(key(0), ""); c.apply(s.position()) }},
		{"open", func(s *server, c *cache) { c.mark(s.xid+1000, key(0)) }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			s, c := pair(1)
			checking(t, s, c, func(ctx context.Context, o *counted) {
				fault.make(s, c)
				pass(ctx, 1500*time.Millisecond) // one sample was taken, at 1 s
				if got := o.String(); got != "1s 0/0 10s 0/0 1m 0/0 5m 0/0" {
					t.Errorf("counted %s before a window has passed", got)
				}
				pass(ctx, time.Second) // sampled at 1 s and 2 s, the first asked for again at 2 s
				if got := o.String(); got != "1s 0/1 10s 0/0 1m 0/0 5m 0/0" {
					t.Errorf("counted %s after 2.5 s", got)
				}
				pass(ctx, 5*time.Minute-time.Second) // at 5:01.5
				if got, want := o.String(), "1s 0/300 10s 0/291 1m 0/241 5m 0/1"; got != want {
					t.Errorf("counted %s after 5:01.5, want %s", got, want)
				}
				pass(ctx, time.Minute)
				if o.asks() != 1 {
					t.Errorf("%d resyncs asked for, want one", o.asks())
				}
			})
		})
	}
}

// TestCheckerCountsARepair: a fault that is repaired after 5 s was inconsistent within 1 s and consistent within 10.
func TestCheckerCountsARepair(t *testing.T) {
	s, c := pair(1)
	checking(t, s, c, func(ctx context.Context, o *counted) {
		lost := s.commit(key(0), `{"v":2}`)
		c.apply(s.position())
		pass(ctx, 5500*time.Millisecond) // samples at 1 to 5 s
		c.apply(s.position(), lost)
		pass(ctx, time.Minute)
		// Samples of 1 to 4 s had been asked for again at 2 to 5 s; that of 5 s was true at 6 s. Then 56 more, all true, and
		// those of the last 0 s.
		o.mu.Lock()
		defer o.mu.Unlock()
		total := o.yes["1s"] + o.no["1s"]
		if o.no["1s"] != 4 || o.no["10s"] != 0 || o.yes["10s"] != total || o.yes["5m"] != total || total < 60 {
			t.Errorf("consistent %v, inconsistent %v, want 4 samples inconsistent within 1s only", o.yes, o.no)
		}
		if len(o.asked) != 0 {
			t.Error("a resync was asked for")
		}
	})
}

// TestCheckerWaitsForTheSource: while the source is away, or the stream stands still, nothing is counted, and the source is
// asked less and less.
func TestCheckerWaitsForTheSource(t *testing.T) {
	for _, fault := range []struct {
		name string
		make func(s *server, away *atomic.Bool) // called once; what it does lasts while away is set
	}{
		{"the source is away", func(s *server, away *atomic.Bool) {
			s.before = func(context.Context, any) error {
				if away.Load() {
					return errors.New("no responders")
				}
				return nil
			}
		}},
		{"the stream stands still", func(s *server, away *atomic.Bool) {
			s.after = func(p *syncd.Page) *syncd.Page {
				if away.Load() {
					p.Snapshot.H += 1 << 30
				}
				return p
			}
		}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			s, c := pair(9)
			away := &atomic.Bool{}
			away.Store(true)
			fault.make(s, away)
			checking(t, s, c, func(ctx context.Context, o *counted) {
				pass(ctx, time.Hour)
				if got := o.String(); got != "1s 0/0 10s 0/0 1m 0/0 5m 0/0" {
					t.Errorf("counted %s", got)
				}
				away.Store(false)
				pass(ctx, 2*time.Minute)
				if o.yes["1s"] < 30 || o.no["1s"] != 0 {
					t.Errorf("after the source was back: %s", o)
				}
			})
		})
	}
}

// TestCheckerLeavesUnlistedTablesAlone: and those of another shape count for nothing.
func TestCheckerLeavesUnlistedTablesAlone(t *testing.T) {
	s, c := pair(9)
	c.state.Listed = false
	c.onJudge = func(*syncd.Page, How) error { return errors.New("it has another shape") }
	checking(t, s, c, func(ctx context.Context, o *counted) {
		pass(ctx, time.Minute)
		if len(s.got()) != 0 {
			t.Errorf("asked for %v of a table that was never listed", s.got())
		}
		c.update(func() { c.state.Listed = true })
		pass(ctx, time.Minute)
		if len(s.got()) == 0 || o.String() != "1s 0/0 10s 0/0 1m 0/0 5m 0/0" {
			t.Errorf("asked for %d keys, counted %s", len(s.got()), o)
		}
	})
}

// TestAskRunsInFull: what the Checker asks for is run, and several asks are one run.
func TestAskRunsInFull(t *testing.T) {
	s, c := pair(9)
	r := runner(s, c)
	r.Observer = &seen{}
	r.Ask(users)
	r.Ask(users)
	if ran, _ := r.Step(t.Context()); !ran {
		t.Error("nothing ran")
	}
	if ran, _ := r.Step(t.Context()); ran {
		t.Error("two asks made two runs")
	}
	if rep := r.Last(users); rep == nil || rep.Mode != Full || !rep.Complete {
		t.Errorf("report %+v", rep)
	}
}
