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

// seen is an Observer that remembers.
type seen struct {
	mu      sync.Mutex
	results []string
	at      []time.Duration // since start
	away    int
	fetched []string
	start   time.Time
}

func (s *seen) Resynced(_ syncd.Table, _, result string, _ time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results = append(s.results, result)
	s.at = append(s.at, time.Since(s.start).Round(time.Second))
}

func (s *seen) Fetched(_ syncd.Table, n, settled int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetched = append(s.fetched, fmt.Sprintf("%d/%d", settled, n))
}

func (s *seen) Away(syncd.Table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away++
}

func (s *seen) missed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away
}

func (s *seen) runs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.results)
}

// during runs r while f does, in a bubble.
func during(t *testing.T, r *Runner, f func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	f(ctx)
	cancel()
	wg.Wait()
}

// pass lets time pass, and all that happens in it.
func pass(ctx context.Context, d time.Duration) {
	_ = sleep(ctx, time.Now().Add(d))
	synctest.Wait()
}

// stage gives a Runner whose runs are remembered.
func stage(s *server, c *cache) (*Runner, *seen) {
	r, o := runner(s, c), &seen{start: time.Now()}
	r.Observer = o
	return r, o
}

func TestRunnerKeepsTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := pair(9)
		r, o := stage(s, c)
		r.Schedule = Schedule{Interval: 10 * time.Minute}
		during(t, r, func(ctx context.Context) {
			pass(ctx, 35*time.Minute)
			if want := []time.Duration{10 * time.Minute, 20 * time.Minute, 30 * time.Minute}; !slices.Equal(o.at, want) {
				t.Errorf("runs at %v, want %v", o.at, want)
			}
		})
	})
}

func TestRunnerListsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := pair(9)
		c := newCache(s)
		c.state.Listed, c.state.Resynced = false, time.Time{}
		r, o := stage(s, c)
		during(t, r, func(ctx context.Context) {
			synctest.Wait()
			if len(o.runs()) != 1 || len(c.content()) != 9 {
				t.Errorf("runs %v, %d rows: a first list must not wait", o.runs(), len(c.content()))
			}
			pass(ctx, time.Hour)
			if len(o.runs()) != 1 {
				t.Errorf("listed %d times", len(o.runs()))
			}
		})
	})
}

func TestBurstOfCausesMakesOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := pair(9)
		r, o := stage(s, c)
		during(t, r, func(ctx context.Context) {
			pass(ctx, time.Minute)
			for i := range 5 {
				c.cause(fmt.Sprintf("cause %d", i))
			}
			pass(ctx, time.Minute)
			if len(o.runs()) != 1 || c.States()[0].Cause != "" {
				t.Errorf("runs %v, cause %q", o.runs(), c.States()[0].Cause)
			}
		})
	})
}

// TestCauseDuringARunMakesAnother: what came after the first page was read is not healed by that list.
func TestCauseDuringARunMakesAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := pair(9)
		r, o := stage(s, c)
		once := sync.OnceFunc(func() {
			c.apply(s.position(), s.commit(key(0), "{}"))
			c.apply(s.position())
			c.cause("a new shape")
			c.cause("a loss")
		})
		c.onJudge = func(*syncd.Page, How) error { once(); return nil }
		during(t, r, func(ctx context.Context) {
			c.cause("an old one")
			pass(ctx, time.Minute)
			if len(o.runs()) != 2 || c.States()[0].Cause != "" {
				t.Errorf("runs %v, cause %q", o.runs(), c.States()[0].Cause)
			}
		})
	})
}

// TestLossIsListedUntilSafe: lists repeat, with pauses, until one whose pages are all late enough.
func TestLossIsListedUntilSafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := pair(9)
		r, o := stage(s, c)
		safe := c.through.LSN - 1
		s.after = func(p *syncd.Page) *syncd.Page { p.Safe = safe; return p }
		during(t, r, func(ctx context.Context) {
			c.update(func() { c.state.Loss, c.state.Cause, c.relistAt = c.through.LSN, "deltas are missing", c.through.LSN })
			pass(ctx, 10*time.Second)
			n := len(o.runs())
			if n < 3 || n > 10 || c.States()[0].Loss == 0 {
				t.Errorf("%d lists in 10 s, loss %v", n, c.States()[0].Loss)
			}
			s.mu.Lock()
			safe++
			s.mu.Unlock()
			pass(ctx, time.Minute)
			if c.States()[0].Loss != 0 || len(o.runs()) != n+1 {
				t.Errorf("loss %v after %d more lists", c.States()[0].Loss, len(o.runs())-n)
			}
		})
	})
}

func TestRunnerTriesAgain(t *testing.T) {
	for result, fault := range map[string]error{
		"failed": errors.New("no responders"),
		"busy":   fmt.Errorf("list: %w", syncd.ErrBusy),
	} {
		t.Run(result, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := pair(9)
				r, o := stage(s, c)
				var away atomic.Bool
				away.Store(true)
				s.before = func(context.Context, any) error {
					if away.Load() {
						return fault
					}
					return nil
				}
				during(t, r, func(ctx context.Context) {
					c.cause("a loss")
					pass(ctx, 10*time.Minute)
					n := len(o.runs())
					if n < 10 || n > 30 || slices.Contains(o.runs(), "complete") || o.runs()[0] != result || o.away != n {
						t.Errorf("%d tries in 10 minutes: %v; %d times away", n, o.runs(), o.away)
					}
					away.Store(false)
					pass(ctx, time.Minute)
					if got := o.runs(); len(got) != n+1 || got[n] != "complete" {
						t.Errorf("after the source came back: %v", got[n:])
					}
				})
			})
		})
	}
}

func TestStoppedTableDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := pair(9)
		for i := range 9 {
			s.commit(key(i), "")
		}
		c.apply(s.position())
		r, o := stage(s, c)
		r.Schedule = Schedule{Interval: time.Hour}
		during(t, r, func(ctx context.Context) {
			c.cause("a loss")
			pass(ctx, 30*time.Minute)
			if got := o.runs(); !slices.Equal(got, []string{"stopped"}) || len(c.content()) != 9 {
				t.Errorf("runs %v, %d rows", got, len(c.content()))
			}
			if rep, err := r.Request(ctx, users, Options{}); rep == nil || err == nil || rep.Complete {
				t.Errorf("asked for without approval: %+v, %v", rep, err)
			}
			rep, err := r.Request(ctx, users, Options{ApprovePrune: true})
			if err != nil || rep.Ghost != 9 || len(c.content()) != 0 || c.States()[0].Stopped != "" {
				t.Errorf("approved: %+v, %v", rep, err)
			}
		})
	})
}

// TestStoppedTableThatChangedIsListed: what stopped is explained afterwards, when the source has seen that the table was made
// anew.
func TestStoppedTableThatChangedIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := pair(9)
		for i := range 9 {
			s.commit(key(i), "")
		}
		c.apply(s.position())
		r, o := stage(s, c)
		r.Schedule = Schedule{Interval: time.Hour}
		during(t, r, func(ctx context.Context) {
			c.cause("a loss")
			pass(ctx, time.Minute)
			c.update(func() { c.state.Changed = true })
			c.cause("it was made anew")
			pass(ctx, time.Second)
			if got := o.runs(); !slices.Equal(got, []string{"stopped", "complete"}) || len(c.content()) != 0 {
				t.Errorf("runs %v, %d rows", got, len(c.content()))
			}
		})
	})
}

// TestRequestsShareARun: a request waits for the run that is under way, and those that want the same share the next.
func TestRequestsShareARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := pair(9)
		r, o := stage(s, c)
		gate := make(chan struct{})
		c.onJudge = func(*syncd.Page, How) error { <-gate; return nil }
		during(t, r, func(ctx context.Context) {
			c.cause("a loss")
			synctest.Wait() // the run for the cause stands at its first page
			var wg sync.WaitGroup
			ask := func(ctx context.Context, o Options, check func(*Report, error)) {
				wg.Go(func() { check(r.Request(ctx, users, o)) })
			}
			good := func(rep *Report, err error) {
				if err != nil || !rep.Complete || rep.Rows != 9 {
					t.Errorf("%+v %v", rep, err)
				}
			}
			for range 3 {
				ask(ctx, Options{Mode: Full}, good)
			}
			ask(ctx, Options{Mode: Full, Dry: true}, good)
			gone, leave := context.WithCancel(ctx)
			ask(gone, Options{Mode: Digest}, func(_ *Report, err error) {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("who went away got %v", err)
				}
			})
			synctest.Wait()
			if got := r.Running(); len(got) != 1 || got[0].Rows != 3 || got[0].Expected != 9 {
				t.Errorf("under way: %+v", got)
			}
			leave()
			synctest.Wait()
			close(gate)
			wg.Wait()
			synctest.Wait()
			if got := o.runs(); !slices.Equal(got, []string{"complete", "complete"}) { // the dry one is not a resync
				t.Errorf("runs %v", got)
			}
			if len(r.Running()) != 0 || r.Last(users) == nil {
				t.Errorf("under way: %+v, last %v", r.Running(), r.Last(users))
			}
		})
	})
}

func TestRequestThatCannotBe(t *testing.T) {
	s, c := pair(1)
	r := runner(s, c)
	if _, err := r.Request(t.Context(), syncd.Table{Schema: "public", Name: "x"}, Options{}); !errors.Is(err, syncd.ErrNoTable) {
		t.Errorf("a table that is not there: %v", err)
	}
	c.state.Refused = "no key: ALTER TABLE …"
	if _, err := r.Request(t.Context(), users, Options{}); err == nil || !strings.Contains(err.Error(), "ALTER TABLE") {
		t.Errorf("a refused table: %v", err)
	}
}

// TestRequestForATableThatGoes: who waits for a run is told when there won't be one.
func TestRequestForATableThatGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := pair(9)
		r, _ := stage(s, c)
		gate := make(chan struct{})
		c.onJudge = func(*syncd.Page, How) error { <-gate; return nil }
		during(t, r, func(ctx context.Context) {
			c.cause("a loss")
			synctest.Wait() // a run stands at its first page
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := r.Request(ctx, users, Options{}); err == nil || !strings.Contains(err.Error(), "no key any more") {
					t.Errorf("a table that is refused now: %v", err)
				}
			})
			synctest.Wait()
			c.update(func() { c.state.Refused = "no key any more" })
			pass(ctx, time.Second)
			c.update(func() { c.state.Refused = "" })
			wg.Go(func() {
				if _, err := r.Request(ctx, users, Options{}); !errors.Is(err, syncd.ErrNoTable) {
					t.Errorf("a table that is gone: %v", err)
				}
			})
			synctest.Wait()
			c.update(func() { c.state.Table.Name = "other" })
			pass(ctx, time.Second)
			close(gate)
			wg.Wait()
		})
	})
}

// TestRequestWhenRunEnds: nobody waits for a run that won't be made.
func TestRequestWhenRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := pair(9)
		r, _ := stage(s, c)
		s.before = func(ctx context.Context, _ any) error { <-ctx.Done(); return ctx.Err() }
		var wg sync.WaitGroup
		during(t, r, func(ctx context.Context) {
			for _, o := range []Options{{}, {Dry: true}} {
				wg.Go(func() {
					if _, err := r.Request(t.Context(), users, o); !errors.Is(err, context.Canceled) {
						t.Errorf("%+v: %v", o, err)
					}
				})
			}
			synctest.Wait()
		})
		wg.Wait()
		if _, err := r.Request(t.Context(), users, Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// TestRunnerIsBounded: no more tables at a time than Parallel, and none twice.
func TestRunnerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := pair(1)
		for i := range 5 {
			c.others = append(c.others, State{Table: syncd.Table{Schema: "public", Name: fmt.Sprint(i)}})
		}
		r, _ := stage(s, c)
		r.Parallel = 3
		var mu sync.Mutex
		now, most := map[syncd.Table]int{}, 0
		s.before = func(ctx context.Context, q any) error {
			table := q.(syncd.ListRequest).Table
			mu.Lock()
			now[table]++
			most = max(most, len(now))
			if now[table] > 1 {
				t.Errorf("two runs of %s at a time", table)
			}
			mu.Unlock()
			_ = sleep(ctx, time.Now().Add(10*time.Second))
			mu.Lock()
			defer mu.Unlock()
			delete(now, table)
			return errors.New("not now")
		}
		during(t, r, func(ctx context.Context) { pass(ctx, 5*time.Minute) })
		if most != 3 {
			t.Errorf("%d tables at a time, want 3", most)
		}
	})
}

func ExampleRunner() {
	s, c := pair(4)      // a source of four rows and a cache that holds them
	s.commit(key(2), "") // one is deleted, and the cache does not hear of it
	c.apply(s.position())

	r := &Runner{Lister: s, Cache: c, MaxPrune: 0.5, Schedule: Schedule{Interval: 10 * time.Minute}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	report, err := r.Request(ctx, users, Options{Mode: Full})
	fmt.Println(report.Table, report.Rows, "rows,", report.Ghost, "ghost, complete:", report.Complete, err)
	cancel()
	<-done
	// Output: public.users 3 rows, 1 ghost, complete: true <nil>
}
