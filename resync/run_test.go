package resync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"pgregory.net/rapid"

	"github.com/syncd-io/syncd"
)

// TestRunFindsEverything: whatever differs, and wherever the pages end, a run finds exactly that, a dry run changes
// nothing, and a real one leaves cache and table equal.
func TestRunFindsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, c := pair(0)
		s.pageRows = rapid.IntRange(1, 7).Draw(t, "rows a page")
		want := Report{}
		for i := range rapid.IntRange(0, 40).Draw(t, "keys") {
			row := fmt.Sprintf(`{"id":%d}`, i)
			d := s.commit(key(i), row)
			switch rapid.SampledFrom([]string{"equal", "equal", Missing, Stale, Ghost, Corrupt, "deleted", "gone"}).Draw(t, "kind") {
			case "equal":
				c.apply(s.position(), d)
				want.Rows++
			case Missing:
				want.Missing++
				want.Rows++
			case Stale:
				c.apply(s.position(), d)
				s.commit(key(i), row+" ")
				want.Stale++
				want.Rows++
			case Ghost:
				c.apply(s.position(), d)
				s.commit(key(i), "")
				want.Ghost++
			case Corrupt:
				d.Row = []byte("corrupt")
				c.apply(s.position(), d)
				want.Corrupt++
				want.Rows++
			case "deleted":
				c.apply(s.position(), d)
				c.apply(s.position(), s.commit(key(i), ""))
			case "gone":
				s.commit(key(i), "")
			}
		}
		c.apply(s.position())
		before := c.content()
		r := runner(s, c)
		mode := rapid.SampledFrom([]Mode{Full, Digest}).Draw(t, "mode")
		for _, o := range []Options{{Dry: true, Mode: mode}, {ApprovePrune: true, Mode: mode}, {Dry: true, Mode: mode}} {
			got, err := once(t.Context(), r, o)
			if err != nil {
				t.Fatal(err)
			}
			if got.Rows != want.Rows || got.Missing != want.Missing || got.Stale != want.Stale || got.Ghost != want.Ghost || got.Corrupt != want.Corrupt {
				t.Fatalf("%+v\nreports %+v\nwant    %+v", o, *got, want)
			}
			if o.Dry && got.Repaired != 0 || !o.Dry && got.Repaired != got.Differences() {
				t.Fatalf("%+v repaired %d of %d", o, got.Repaired, got.Differences())
			}
			if !got.Complete || len(got.Samples) != min(got.Differences(), MaxSamples) {
				t.Fatalf("report %+v", *got)
			}
			if o.Dry {
				if !maps.Equal(c.content(), before) {
					t.Fatalf("a dry run changed the cache")
				}
				continue
			}
			if !maps.Equal(c.content(), s.rows) {
				t.Fatalf("cache %v\nwant  %v", c.content(), s.rows)
			}
			before, want = c.content(), Report{Rows: want.Rows}
		}
	})
}

// TestRunAsksOnlyForWhatIsMissing: keys that the list returned are not asked for again, nor those that no page could see.
func TestRunAsksOnlyForWhatIsMissing(t *testing.T) {
	s, c := pair(10)
	s.commit(key(3), "")
	c.apply(s.position())
	// A row that comes while the last page is judged: no page has it, and none could.
	c.onJudge = func(p *syncd.Page, _ How) error {
		if p.Last {
			d := s.commit(key(50), `{"id":50}`)
			c.apply(s.position(), d)
		}
		return nil
	}
	got, err := once(t.Context(), runner(s, c), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []syncd.Key{key(3)}; !slices.Equal(s.gets, want) || got.Ghost != 1 {
		t.Errorf("asked for %v, want %v; report %+v", s.gets, want, got)
	}
}

// TestBadPagesFailTheRun: nothing is deleted and nothing is handed over as complete.
func TestBadPagesFailTheRun(t *testing.T) {
	for name, spoil := range map[string]func(*server){
		"a page is missing": func(s *server) {
			s.after = func(p *syncd.Page) *syncd.Page {
				if s.lists == 2 {
					p.Rows = nil
				}
				return p
			}
		},
		"a page is doubled": func(s *server) {
			var first *syncd.Page
			s.after = func(p *syncd.Page) *syncd.Page {
				if s.lists == 2 {
					return first
				}
				first = p
				return p
			}
		},
		"two pages changed places": func(s *server) {
			pages := []*syncd.Page{nil, nil, nil}
			q := syncd.ListRequest{Table: users}
			for i := range pages {
				pages[i], _ = s.List(context.Background(), q)
				q.Started, q.After, q.Sent = true, pages[i].After, pages[i].Sent
			}
			s.lists = 0
			s.after = func(*syncd.Page) *syncd.Page { return pages[[]int{0, 2, 1}[s.lists-1]] }
		},
		"a row is missing":   func(s *server) { s.after = func(p *syncd.Page) *syncd.Page { p.Rows = p.Rows[1:]; return p } },
		"a row is altered":   func(s *server) { s.after = func(p *syncd.Page) *syncd.Page { p.Rows[0].JSON = []byte("x"); return p } },
		"the totals are off": func(s *server) { s.after = func(p *syncd.Page) *syncd.Page { p.Sent.Rows++; return p } },
		"the digest is off":  func(s *server) { s.after = func(p *syncd.Page) *syncd.Page { p.Sent.Digest++; return p } },
		"of another table":   func(s *server) { s.after = func(p *syncd.Page) *syncd.Page { p.Table.Name = "x"; return p } },
		"an answer to a get": func(s *server) { s.after = func(p *syncd.Page) *syncd.Page { p.Asked = []syncd.Key{}; return p } },
		"without a snapshot": func(s *server) { s.after = func(p *syncd.Page) *syncd.Page { p.Snapshot = nil; return p } },
		"the epoch changes":  inTheMiddle(func(o *origin) { o.epoch++ }),
		"the server changes": inTheMiddle(func(o *origin) { o.system++ }),
		"the timeline":       inTheMiddle(func(o *origin) { o.timeline++ }),
		"the shape":          inTheMiddle(func(o *origin) { o.schema++ }),
		"the second fails":   failAt(1, errors.New("connection reset")),
		"the last fails":     failAt(2, errors.New("connection reset")),
		"the get fails":      failGet(errors.New("connection reset")),
		"too many lists":     failAt(0, fmt.Errorf("list: %w", syncd.ErrBusy)),
		"a page goes in circles": func(s *server) {
			s.after = func(p *syncd.Page) *syncd.Page {
				if s.lists > 1 && !p.Last {
					p.Rows, p.After = nil, key(2)
					p.Sent = syncd.Totals{}
					for i := range 3 {
						p.Sent.Add(key(i), []byte(fmt.Sprintf(`{"id":%d}`, i)))
					}
				}
				return p
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := pair(9)
			s.pageRows = 3
			s.commit(key(8), "") // a ghost
			s.commit(key(90), `{"id":90}`)
			c.apply(s.position())
			spoil(s)
			got, err := once(t.Context(), runner(s, c), Options{})
			if err == nil || got.Complete || got.Error != err.Error() {
				t.Fatalf("error %v, report %+v", err, got)
			}
			if len(c.done) > 0 {
				t.Errorf("the list was handed over as complete")
			}
			if _, ok := c.content()[key(8)]; !ok || got.Ghost != 0 {
				t.Errorf("a row was deleted")
			}
			t.Log(err)
		})
	}
}

func inTheMiddle(f func(*origin)) func(*server) {
	return func(s *server) {
		s.after = func(p *syncd.Page) *syncd.Page {
			if s.lists == 1 {
				f(&s.origin)
			}
			return p
		}
	}
}

func failAt(n int, err error) func(*server) {
	return func(s *server) {
		s.before = func(_ context.Context, q any) error {
			if _, ok := q.(syncd.ListRequest); ok && s.lists == n {
				return err
			}
			return nil
		}
	}
}

func failGet(err error) func(*server) {
	return func(s *server) {
		s.before = func(_ context.Context, q any) error {
			if _, ok := q.(syncd.GetRequest); ok {
				return err
			}
			return nil
		}
	}
}

// TestBadAnswersFailTheRun: an answer to a get that does not fit the question deletes nothing.
func TestBadAnswersFailTheRun(t *testing.T) {
	for name, spoil := range map[string]func(*syncd.Page){
		"of another table":     func(p *syncd.Page) { p.Table.Name = "x" },
		"to another question":  func(p *syncd.Page) { p.Asked = append(slices.Clone(p.Asked), key(1)) },
		"to a list":            func(p *syncd.Page) { p.Asked = nil },
		"a row nobody asked":   func(p *syncd.Page) { p.Rows = append(p.Rows, syncd.Row{Key: key(1)}) },
		"a row twice":          func(p *syncd.Page) { p.Rows = append(p.Rows, syncd.Row{Key: key(4)}, syncd.Row{Key: key(4)}) },
		"without its snapshot": func(p *syncd.Page) { p.Snapshot = nil },
		"of another epoch":     func(p *syncd.Page) { p.Snapshot.Epoch++ },
		"of another shape":     func(p *syncd.Page) { p.Schema++ },
	} {
		t.Run(name, func(t *testing.T) {
			s, c := pair(9)
			s.commit(key(4), "")
			c.apply(s.position())
			s.after = func(p *syncd.Page) *syncd.Page {
				if s.gets != nil {
					spoil(p)
				}
				return p
			}
			got, err := once(t.Context(), runner(s, c), Options{})
			if err == nil || len(c.done) > 0 || got.Ghost != 0 {
				t.Fatalf("error %v, report %+v", err, got)
			}
			if _, ok := c.content()[key(4)]; !ok {
				t.Error("a row was deleted")
			}
		})
	}
}

// TestPageWaitsForTheStream: no page is judged before the stream has passed its H, and the source is asked to move it.
func TestPageWaitsForTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := pair(9)
		var late []syncd.Delta
		for i := range 9 {
			late = append(late, s.commit(key(i), fmt.Sprintf(`{"id":%d,"v":2}`, i)))
		}
		s.onMark = func(at syncd.LSN) { c.apply(syncd.Position{Epoch: 7, LSN: at}, late...) }
		got, err := once(t.Context(), runner(s, c), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Differences() != 0 || got.Note != "" || got.Verified != s.position() {
			t.Errorf("what was on its way counts as lost: %+v", got)
		}
		if s.marks != 1 {
			t.Errorf("%d markers asked for, want 1: the others pages lie before it", s.marks)
		}
		for _, j := range c.judged {
			if j.Early || j.through.LSN < j.h {
				t.Errorf("judged before its time: %+v", j)
			}
		}
	})
}

// TestStreamStandsStill: pages are judged as they are after one bounded wait; the report says so and nothing is claimed.
func TestStreamStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := pair(9)
		for i := range 9 {
			s.commit(key(i), fmt.Sprintf(`{"id":%d,"v":2}`, i))
		}
		start := time.Now()
		got, err := once(t.Context(), runner(s, c), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < time.Second || took > 1100*time.Millisecond {
			t.Errorf("waited %v, want the patience of 1 s once", took)
		}
		if got.Stale != 9 || !strings.Contains(got.Note, "stands still") || !got.Verified.IsZero() {
			t.Errorf("report %+v", got)
		}
		if len(c.done) != 1 || !c.done[0].Early || !c.judged[0].Early {
			t.Errorf("handed over %+v", c.done)
		}
	})
}

// TestSlowStreamIsWaitedFor: as long as the stream moves, it is waited for.
func TestSlowStreamIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := pair(9)
		from := s.position()
		for i := range 9 {
			s.commit(key(i), "{}")
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			for p := from; p.LSN < s.position().LSN && ctx.Err() == nil; p.LSN++ {
				c.apply(p)
				if sleep(ctx, time.Now().Add(900*time.Millisecond)) != nil {
					return
				}
			}
			c.apply(s.position())
		}()
		start := time.Now()
		got, err := once(ctx, runner(s, c), Options{})
		if err != nil || got.Note != "" {
			t.Fatalf("%v, %+v", err, got)
		}
		if time.Since(start) < 72*900*time.Millisecond {
			t.Errorf("judged after %v, before the stream had come", time.Since(start))
		}
	})
}

func TestBrake(t *testing.T) {
	for _, tc := range []struct {
		name         string
		rows, gone   int
		maxPrune     float64
		o            Options
		unlisted     bool
		served       int
		changed      bool
		stops        bool
		ghosts, gets int
	}{
		{name: "half may go", rows: 10, gone: 5, maxPrune: 0.5, ghosts: 5, gets: 5},
		{name: "more may not", rows: 10, gone: 6, maxPrune: 0.5, stops: true},
		{name: "unless approved", rows: 10, gone: 6, maxPrune: 0.5, o: Options{ApprovePrune: true}, ghosts: 6, gets: 6},
		{name: "an empty list", rows: 10, gone: 10, maxPrune: 1, stops: true},
		{name: "an empty list, approved", rows: 10, gone: 10, maxPrune: 1, o: Options{ApprovePrune: true}, ghosts: 10, gets: 10},
		{name: "an empty list and an empty cache", maxPrune: 0.5},
		{name: "the table was made anew", rows: 10, gone: 10, changed: true, ghosts: 10, gets: 10},
		{name: "diff tells all", rows: 10, gone: 10, maxPrune: 0.5, o: Options{Dry: true}, ghosts: 10, gets: 10},
		{name: "none may go", rows: 10, gone: 1, stops: true},
		{name: "a first list", rows: 10, gone: 10, maxPrune: 0.5, unlisted: true, gets: 10},
		{name: "a first list beside a cache that is read", rows: 10, gone: 4, maxPrune: 0.5, unlisted: true, served: 13, stops: true},
		{name: "and one that is small enough", rows: 10, gone: 4, maxPrune: 0.5, unlisted: true, served: 12, gets: 4},
		{name: "and empty", rows: 0, maxPrune: 1, unlisted: true, served: 1, stops: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, c := pair(tc.rows)
			for i := range tc.gone {
				s.commit(key(i), "")
			}
			c.apply(s.position())
			c.state.Listed, c.state.Served, c.state.Changed = !tc.unlisted, tc.served, tc.changed
			r := runner(s, c)
			r.MaxPrune = tc.maxPrune
			got, err := once(t.Context(), r, tc.o)
			if stopped := errors.Is(err, ErrStopped); stopped != tc.stops || got.Complete == tc.stops {
				t.Fatalf("error %v, report %+v", err, got)
			}
			if tc.stops {
				if len(s.gets) > 0 || len(c.done) > 0 || len(c.content()) != tc.rows {
					t.Errorf("stopped late: %d gets, %d lists handed over, %d rows", len(s.gets), len(c.done), len(c.content()))
				}
				if !strings.Contains(c.state.Stopped, "--approve-prune") || !strings.Contains(got.Error, "--approve-prune") {
					t.Errorf("marked %q, report %q", c.state.Stopped, got.Error)
				}
				return
			}
			if err != nil || got.Ghost != tc.ghosts || len(s.gets) != tc.gets {
				t.Errorf("error %v, ghosts %d, gets %d, want %d and %d", err, got.Ghost, len(s.gets), tc.ghosts, tc.gets)
			}
		})
	}
}

// TestBrakeCountsOnlyWhatWasThere: rows that came while the list ran are no sign that the list is wrong.
func TestBrakeCountsOnlyWhatWasThere(t *testing.T) {
	s, c := pair(4)
	s.pageRows = 2
	s.before = func(_ context.Context, q any) error {
		if q, ok := q.(syncd.ListRequest); ok && q.Started {
			for i := range 10 { // behind the page that was read, before the one that comes
				k := syncd.MakeKey(fmt.Sprintf("0%d", i))
				c.apply(s.position(), s.commit(k, `{}`))
			}
			c.apply(s.position())
		}
		return nil
	}
	got, err := once(t.Context(), runner(s, c), Options{})
	if err != nil || got.Ghost != 0 || len(c.content()) != 14 {
		t.Fatalf("%v %+v, %d rows", err, got, len(c.content()))
	}
	if len(s.gets) != 10 {
		t.Errorf("asked for %d keys, want the 10 that the list may have missed", len(s.gets))
	}
}

func TestRefusals(t *testing.T) {
	s, c := pair(1)
	c.state.Refused = "public.users has no primary key"
	if _, err := once(t.Context(), runner(s, c), Options{}); err == nil || !strings.Contains(err.Error(), "no primary key") {
		t.Errorf("a refused table: %v", err)
	}
	c.state.Refused, c.state.Listed = "", false
	if _, err := once(t.Context(), runner(s, c), Options{Dry: true}); err == nil || !strings.Contains(err.Error(), "first list") {
		t.Errorf("diff of a table without its first list: %v", err)
	}
	c.state.Table.Name = "other"
	if _, err := once(t.Context(), runner(s, c), Options{}); !errors.Is(err, syncd.ErrNoTable) {
		t.Errorf("a table that is not there: %v", err)
	}
}

// TestFirstListFindsNothing: what fills the cache was not missing from it, and no page waits.
func TestFirstListFindsNothing(t *testing.T) {
	s, _ := pair(9)
	c := newCache(s)
	c.state.Listed, c.through = false, syncd.Position{Epoch: 7, LSN: 1}
	s.onMark = func(syncd.LSN) { c.apply(s.position()) } // asked for once all pages are there
	got, err := once(t.Context(), runner(s, c), Options{})
	if err != nil || got.Differences() != 0 || got.Rows != 9 || len(got.Samples) != 0 || !maps.Equal(c.content(), s.rows) {
		t.Fatalf("%v %+v", err, got)
	}
	for _, j := range c.judged {
		if j.through.LSN >= j.h {
			t.Errorf("a page of a first list has waited: %+v", j)
		}
	}
	if c.done[0].Early {
		t.Error("a first list can be claimed once the stream has passed it")
	}
}

// TestNextPageIsAskedForAhead: while one page is judged the next is on its way, and no more than that one.
func TestNextPageIsAskedForAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := pair(12)
		n := 0
		c.onJudge = func(*syncd.Page, How) error {
			n++
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			if want := min(n+1, 4); s.lists != want {
				t.Errorf("while page %d is judged %d were asked for, want %d", n, s.lists, want)
			}
			return nil
		}
		if _, err := once(t.Context(), runner(s, c), Options{}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestNoPageIsHeld: once a page was judged, nothing holds on to it.
func TestNoPageIsHeld(t *testing.T) {
	s, c := pair(30)
	var judged []weak.Pointer[syncd.Page]
	c.onJudge = func(p *syncd.Page, _ How) error {
		runtime.GC()
		for i, w := range judged {
			if w.Value() != nil {
				t.Errorf("page %d is held while page %d is judged", i, len(judged))
			}
		}
		judged = append(judged, weak.Make(p))
		return nil
	}
	if _, err := once(t.Context(), runner(s, c), Options{}); err != nil {
		t.Fatal(err)
	}
	if len(judged) != 10 {
		t.Fatalf("%d pages", len(judged))
	}
}

// TestLossAsksForAMarker: a list of a table with a loss begins with a marker, so that its pages are safe enough.
func TestLossAsksForAMarker(t *testing.T) {
	s, c := pair(3)
	for _, tc := range []struct {
		loss  syncd.LSN
		cause string
		marks int
	}{{0, "", 0}, {5, "", 1}, {0, "a new shape", 2}} {
		c.state.Loss, c.state.Cause = tc.loss, tc.cause
		if _, err := once(t.Context(), runner(s, c), Options{}); err != nil || s.asked() != tc.marks {
			t.Errorf("%+v: %v, %d markers asked for so far", tc, err, s.asked())
		}
	}
}

// TestDoneKnowsItsLeast: what a list claims is the least safe of its pages and answers, and all snapshots.
func TestDoneKnowsItsLeast(t *testing.T) {
	s, c := pair(9)
	s.commit(key(8), "")
	c.apply(s.position())
	safe := []syncd.LSN{500, 400, 600}
	s.after = func(p *syncd.Page) *syncd.Page {
		p.Safe = 450
		if p.Asked == nil {
			p.Safe = safe[s.lists-1]
		} else {
			p.Safe = 300
		}
		return p
	}
	if _, err := once(t.Context(), runner(s, c), Options{}); err != nil {
		t.Fatal(err)
	}
	got := c.done[0]
	if got.Safe != 300 || len(got.Snapshots) != 3 || got.Schema != 5 || got.Early {
		t.Errorf("%+v", got)
	}
}

// TestRunWaitsForOpenKeys: a key that is being fetched when a list ends stands in the way of the claim, so it is waited for,
// but not for ever, and not where it is parked.
func TestRunWaitsForOpenKeys(t *testing.T) {
	for name, tc := range map[string]struct {
		settles  time.Duration // 0: never
		parked   int
		took     time.Duration
		verified bool
	}{
		"settled meanwhile": {settles: 300 * time.Millisecond, took: 300 * time.Millisecond, verified: true},
		"not settled":       {took: time.Second},
		"parked":            {parked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := pair(9)
				c.mark(s.xid+1, key(3))
				c.state.Parked = tc.parked
				if tc.settles > 0 {
					time.AfterFunc(tc.settles, func() { c.update(func() { clear(c.open) }) })
				}
				start := time.Now()
				got, err := once(t.Context(), runner(s, c), Options{})
				if err != nil || got.Verified.IsZero() == tc.verified {
					t.Errorf("%v, verified %v, want %v", err, got.Verified, tc.verified)
				}
				if took := time.Since(start); took < tc.took || took > tc.took+quick {
					t.Errorf("took %v, want %v", took, tc.took)
				}
			})
		})
	}
}

// TestRunEndsWithItsContext: a run that is given up in the middle waits for what it started and says why.
func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := pair(9)
		ctx, cancel := context.WithCancel(t.Context())
		s.before = func(ctx context.Context, q any) error {
			if q, ok := q.(syncd.ListRequest); ok && q.Started {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		c.onJudge = func(*syncd.Page, How) error { cancel(); return nil }
		got, err := once(ctx, runner(s, c), Options{})
		if !errors.Is(err, context.Canceled) || got.Complete || len(c.done) > 0 {
			t.Errorf("%v %+v", err, got)
		}
	})
}

// TestReportForm holds the JSON that users rely on.
func TestReportForm(t *testing.T) {
	s, c := pair(2)
	s.commit(key(1), "")
	c.apply(s.position())
	got, err := once(t.Context(), runner(s, c), Options{})
	if err != nil {
		t.Fatal(err)
	}
	got.Seconds = 0.25
	b, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"table":"public.users","mode":"full","version":"7-0/400","rows":1,"missing":0,"stale":0,"ghost":1,"corrupt":0,` +
		`"repaired":1,"undecided":0,"seconds":0.25,"bytes":200,"complete":true,"samples":[{"key":"1","kind":"ghost"}]}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}
