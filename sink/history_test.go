package sink_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/memory"
)

// TestFollowersMeetAll: the simulations' follower has met what it is there for.
func TestFollowersMeetAll(t *testing.T) {
	t.Parallel()
	var follows, resets, forgotten int
	for _, name := range []string{"no faults", "losses", "epochs", "tables", "spoilt rows"} {
		for seed := range uint64(10) {
			s := run(seed, mixes[name], nil, bend{}, 300, false)
			if s.err != nil {
				t.Fatal(s.err)
			}
			follows, resets, forgotten = follows+s.follower.follows, resets+s.follower.resets, forgotten+s.follower.forgotten
		}
	}
	if follows < 100 || resets+forgotten == 0 {
		t.Errorf("%d commits followed, %d resets, %d times too slow", follows, resets, forgotten)
	}
}

func changesOf(t *testing.T, c *sink.Cache, from sink.Mark) string {
	t.Helper()
	commits, err := c.History().Next(people.Table, from, 100)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, x := range commits {
		var one []string
		for ch := range x.Changes() {
			one = append(one, fmt.Sprintf("%s:%s<%s%s", ch.Key, ch.Row, ch.Was, ch.Kind))
		}
		all = append(all, x.Through.LSN.String()+" "+strings.Join(one, " "))
	}
	return strings.Join(all, "\n")
}

func TestHistoryOfATable(t *testing.T) {
	t.Parallel()
	r := served(t, `{"id":1,"n":0}`, `{"id":2,"n":0}`)
	h := r.cache.History()
	start, _ := h.Head()
	woken := h.Changed(people.Table)
	r.at(1, 105) // a marker alone is no commit that anybody has to be told of
	select {
	case <-woken:
		t.Error("woken by a marker")
	default:
	}
	r.at(1, 110, upsert(110, 1, 1, `{"id":1,"n":1}`), remove(110, 2, 2), upsert(110, 3, 3, `{"id":3}`))
	<-woken
	r.at(1, 120, upsert(120, 1, 3, `{"id":3}`)) // as it was
	r.judge(page(1, 120, `{"id":3,"n":9}`))
	want := `0/6E 1:{"id":1,"n":1}<{"id":1,"n":0} 2:<{"id":2,"n":0} 3:{"id":3}<
0/78 3:{"id":3,"n":9}<{"id":3}corrupt`
	if got := changesOf(t, r.cache, start); got != want {
		t.Errorf("the history is\n%s\nwant\n%s", got, want)
	}
	// Who has read the table at 0/6E has the first commit; who has read it at 0/78 may have read it before the repair.
	for at, n := range map[syncd.LSN]int{100: 2, 109: 2, 110: 1, 111: 1, 120: 1, 121: 0} {
		from, err := h.After(people.Table, syncd.Position{Epoch: 1, LSN: at})
		if err != nil {
			t.Fatal(err)
		}
		if commits, err := h.Next(people.Table, from, 100); err != nil || len(commits) != n {
			t.Errorf("after %s: %d commits, %v, want %d", at, len(commits), err, n)
		}
	}
	for _, p := range []syncd.Position{{Epoch: 1, LSN: 99}, {Epoch: 0, LSN: 1 << 40}} {
		if _, err := h.After(people.Table, p); !errors.Is(err, syncd.ErrTooOld) {
			t.Errorf("after %s: %v", p, err)
		}
	}
}

func TestHistoryFindsItsOwnVersions(t *testing.T) {
	t.Parallel()
	r := served(t)
	h := r.cache.History()
	r.at(1, 110, upsert(110, 1, 1, `{"id":1}`))
	r.at(1, 115)
	m, _ := h.Head()
	if got, err := h.Find(people.Table, m.Version()); err != nil || got != m {
		t.Errorf("%+v, %v; want %+v", got, err, m)
	}
	r.at(1, 120, upsert(120, 1, 1, `{"id":1,"n":2}`))
	if got, err := h.Find(people.Table, m.Version()); err != nil || got != m {
		t.Errorf("after another commit: %+v, %v; want %+v", got, err, m)
	}
	for name, change := range map[string]func(v *syncd.Version){
		"another epoch":              func(v *syncd.Version) { v.Epoch = 0 },
		"a later epoch":              func(v *syncd.Version) { v.Epoch = 2 },
		"another number":             func(v *syncd.Version) { v.Ordinal += 1 << 21 },
		"a number to come":           func(v *syncd.Version) { v.Ordinal += 2 },
		"a position of another time": func(v *syncd.Version) { v.LSN = 121 },
		"one before its commit":      func(v *syncd.Version) { v.LSN = 109 },
	} {
		v := m.Version()
		change(&v)
		if got, err := h.Find(people.Table, v); !errors.Is(err, syncd.ErrTooOld) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	r := &rig{t: t}
	for name, c := range map[string]struct {
		limits sink.HistoryLimits
		left   int
	}{"commits": {sink.HistoryLimits{Commits: 3}, 3}, "bytes": {sink.HistoryLimits{Bytes: 1750}, 4}} {
		r.cache = sink.New(sink.Options{Store: memory.New(memory.Options{}), History: c.limits})
		r.at(1, 1)
		r.tables(people)
		r.at(1, 100)
		r.list(page(1, 100))
		start, _ := r.cache.History().Head()
		for i := range 10 {
			at := syncd.LSN(110 + 10*i)
			r.at(1, at, upsert(at, 1, i, fmt.Sprintf(`{"id":%d,"x":%q}`, i, strings.Repeat("x", 200))))
		}
		if _, err := r.cache.History().Next(people.Table, start, 1); !errors.Is(err, syncd.ErrTooOld) {
			t.Errorf("%s: what is forgotten is said to be %v", name, err)
		}
		from, err := r.cache.History().After(people.Table, syncd.Position{Epoch: 1, LSN: syncd.LSN(200 - 10*c.left)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := strings.Count(changesOf(t, r.cache, from), "\n") + 1; got != c.left {
			t.Errorf("%s: %d commits are kept", name, got)
		}
		if _, err := r.cache.History().After(people.Table, syncd.Position{Epoch: 1, LSN: syncd.LSN(199 - 10*c.left)}); !errors.Is(err, syncd.ErrTooOld) {
			t.Errorf("%s: more is kept: %v", name, err)
		}
		if err := r.cache.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHistoryResets(t *testing.T) {
	t.Parallel()
	wider := people
	wider.Columns, wider.Types, wider.Schema = append([]string{"new"}, people.Columns...), append([]string{"text"}, people.Types...), 99
	rekeyed := people
	rekeyed.Key = []string{"n"}
	for name, c := range map[string]struct {
		do  func(r *rig, m sink.Mark)
		why string
	}{
		"other columns": {func(r *rig, m sink.Mark) { r.tables(wider) }, "columns"},
		"another key":   {func(r *rig, m sink.Mark) { r.tables(rekeyed) }, "begins anew"},
		"dropped":       {func(r *rig, m sink.Mark) { r.tables(pets) }, "not kept"},
		"a new epoch": {func(r *rig, m sink.Mark) {
			r.at(2, 1000)
			if _, err := r.cache.History().Next(people.Table, m, 1); err != nil {
				r.t.Error("it is reset before the new epoch's cache is read")
			}
			r.list(page(2, 1000, person(1, 1, "a")))
		}, "epoch"},
		"too many rows at once": {func(r *rig, m sink.Mark) {
			var all []syncd.Delta
			for i := range 200 {
				all = append(all, upsert(110, uint32(i+1), i, person(i, 1, strings.Repeat("x", 200<<10))))
			}
			r.at(1, 110, all...)
		}, "more rows"},
	} {
		r := served(t, person(1, 1, "a"))
		m, _ := r.cache.History().Head()
		woken := r.cache.History().Changed(people.Table)
		c.do(r, m)
		<-woken
		var reset *sink.ResetError
		if _, err := r.cache.History().Next(people.Table, m, 1); !errors.As(err, &reset) || !strings.Contains(reset.Why, c.why) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := r.cache.History().Find(people.Table, m.Version()); !errors.Is(err, syncd.ErrTooOld) {
			t.Errorf("%s: the version before is found: %v", name, err)
		}
		now, _ := r.cache.History().Head()
		if commits, err := r.cache.History().Next(people.Table, now, 1); err != nil || len(commits) > 0 {
			t.Errorf("%s: %d commits, %v", name, len(commits), err)
		}
	}
}

// TestLookIsOfOneCommit: a view and its mark belong together while commits go on: what comes behind the mark is not in the view.
func TestLookIsOfOneCommit(t *testing.T) {
	t.Parallel()
	r := served(t)
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			for ctx.Err() == nil {
				v, m := r.cache.History().Look()
				e, _ := v.Get(people.Table, key(1))
				v.Close()
				commits, _ := r.cache.History().Next(people.Table, m, 1)
				for _, c := range commits {
					for x := range c.Changes() {
						if string(x.Was) != string(e.Row) {
							t.Errorf("the view shows %s, and the next commit replaces %s", e.Row, x.Was)
						}
					}
				}
			}
		})
	}
	for i := range 2000 {
		at := syncd.LSN(200 + i)
		r.at(1, at, upsert(at, 1, 1, fmt.Sprintf(`{"id":1,"n":%d}`, i)))
	}
	stop()
	wait.Wait()
}

// TestForgottenRepair: who was complete through a position before a repair of there, which is forgotten, lacks it.
func TestForgottenRepair(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, cache: sink.New(sink.Options{Store: memory.New(memory.Options{}), History: sink.HistoryLimits{Commits: 1}})}
	r.at(1, 1)
	r.tables(people)
	r.at(1, 100)
	r.list(page(1, 100))
	at := syncd.Position{Epoch: 1, LSN: 110}
	r.at(1, at.LSN, upsert(110, 1, 1, person(1, 1, "a")))
	for i, want := range []error{nil, syncd.ErrTooOld} {
		r.judge(page(1, 110, person(1, 2+i, "a")))
		if _, err := r.cache.History().After(people.Table, at); !errors.Is(err, want) {
			t.Errorf("after %d repairs: %v, want %v", i+1, err, want)
		}
	}
}
