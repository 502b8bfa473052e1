package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/storetest"
)

// suite is a server of its own for each place of the conformance suite.
func suite(testing.TB) storetest.Place {
	s := newServer()
	var now *memPlace
	spoil := func(fn func(e stored, entries map[syncd.Key]stored, k syncd.Key)) func(testing.TB, syncd.Table, syncd.Key) {
		return func(t testing.TB, table syncd.Table, k syncd.Key) {
			s.do(func() {
				e, ok := s.held.tables[table][k]
				if !ok {
					t.Fatalf("there is no %s/%s to be spoilt", table, k)
				}
				fn(e, s.held.tables[table], k)
			})
		}
	}
	return storetest.Place{
		Keeps: true,
		Open: func(t testing.TB) sink.Store {
			s.do(func() {
				if now != nil && now.dead {
					s.owner = nil // its lease has run out
				}
			})
			now = s.place("the suite")
			st, err := New(t.Context(), now, nil)
			if err != nil {
				t.Fatal(err)
			}
			return st
		},
		Crash: func(_ testing.TB, _ sink.Store, step int) { s.do(func() { now.armed, now.left = true, step }) },
		Spoils: []storetest.Spoil{
			{Name: "another row", Do: spoil(func(e stored, entries map[syncd.Key]stored, k syncd.Key) {
				entries[k] = stored{e.head, []byte(`{"id":1,"name":"Mallory"}`)}
			})},
			{Name: "no row", Do: spoil(func(e stored, entries map[syncd.Key]stored, k syncd.Key) { entries[k] = stored{e.head, nil} })},
			{Name: "no entry", Do: spoil(func(_ stored, entries map[syncd.Key]stored, k syncd.Key) { delete(entries, k) })},
			{Name: "a garbled entry", Do: spoil(func(e stored, entries map[syncd.Key]stored, k syncd.Key) {
				entries[k] = stored{[]byte{0xff, 0xff}, e.row}
			})},
		},
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, suite)
	storetest.Lacks(t, suite, "IndexKeeper", "Indexer", "Promoter", "Tidier", "Warmer")
}

var people = syncd.Table{Schema: "public", Name: "people"}

func key(i int) syncd.Key { return syncd.MakeKey(fmt.Sprint(i)) }

// batch is a commit that puts rows under keys, which say its number.
func batch(at int, keys ...int) *sink.Batch {
	b := &sink.Batch{State: &sink.State{
		Cursor: syncd.Cursor{Seq: uint64(at), Position: syncd.Position{Epoch: 1, LSN: syncd.LSN(at)}},
		Tables: map[syncd.Table]*sink.TableState{people: {Listed: true, Info: syncd.TableInfo{Table: people, Key: []string{"id"}}}},
	}}
	for _, k := range keys {
		b.Writes = append(b.Writes, sink.Write{Table: people, Key: key(k), Entry: sink.Entry{
			Row: fmt.Appendf(nil, `{"id":%d,"at":%d}`, k, at), Version: syncd.Version{Epoch: 1, LSN: syncd.LSN(at), Ordinal: 1}, XID: syncd.XID(at)}})
	}
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantAt fails the test where a store is at another commit, or its view does not show the rows that are said.
func wantAt(t testing.TB, s *Store, at int, rows map[int]int) {
	t.Helper()
	if got := s.State().Cursor.Position.LSN; got != syncd.LSN(at) {
		t.Errorf("the store is at %d, want %d", got, at)
	}
	v := s.View()
	defer v.Close()
	wantRows(t, v, rows)
}

func wantRows(t testing.TB, v sink.View, rows map[int]int) {
	t.Helper()
	want, got := map[syncd.Key]string{}, map[syncd.Key]string{}
	for k, at := range rows {
		want[key(k)] = fmt.Sprintf(`{"id":%d,"at":%d}`, k, at)
	}
	v.Rows(people, 0, func(k syncd.Key, e sink.Entry) bool { got[k] = string(e.Row); return true })
	if err := v.Err(); err != nil || !maps.Equal(got, want) {
		t.Errorf("the view shows %v (%v), want %v", got, err, want)
	}
	for k, row := range want {
		if e, ok := v.Get(people, k); !ok || string(e.Row) != row {
			t.Errorf("a get of %s gives %s, %v, want %s", k, e.Row, v.Err(), row)
		}
	}
}

// once has the next call of a name go wrong, and counts down.
func (s *server) once(call string, f fault) { s.times(1, f, call) }

func (s *server) times(n int, f fault, calls ...string) {
	s.do(func() {
		s.fails = func(_ *memPlace, call string) fault {
			if n == 0 || !slices.Contains(calls, call) {
				return none
			}
			n--
			return f
		}
	})
}

// TestAnswerIsLost: whatever call of a commit is lost, before it is done or with its answer alone, the commit is there in whole or
// not at all, Commit says which, and the store goes on.
func TestAnswerIsLost(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"fetch", "apply", "finish"} {
		for _, f := range []fault{before, after} {
			for _, then := range []int{0, 1, 3} { // so many times the server is away afterwards
				t.Run(fmt.Sprintf("%s, %d, then %d", call, f, then), func(t *testing.T) {
					t.Parallel()
					server := newServer()
					s := open(t, server.place("it"))
					must(t, s.Commit(batch(1, 1, 2, 3, 4)))
					first, left := true, then
					server.do(func() {
						server.fails = func(_ *memPlace, name string) fault {
							switch {
							case first && name == call:
								first = false
								return f
							case first || left == 0 || name != "take":
								return none
							}
							left--
							return before
						}
					})
					at := 1
					for tries := 0; at < 2; tries++ {
						if tries > 10 {
							t.Fatal("the commit never goes through")
						}
						b := batch(2, 1, 2, 3, 4)
						switch err := s.Commit(b); {
						case err == nil:
							at = 2
						case errors.Is(err, sink.ErrReset):
							if at = int(s.State().Cursor.Position.LSN); at != 2 {
								t.Fatalf("%v, and the store is at %d", err, at)
							}
						case int(s.State().Cursor.Position.LSN) != 1:
							t.Fatalf("%v, and the store has gone on", err)
						}
					}
					if first {
						t.Fatal("nothing went wrong")
					}
					wantAt(t, s, 2, map[int]int{1: 2, 2: 2, 3: 2, 4: 2})
					must(t, s.Commit(batch(3, 1)))
					wantAt(t, s, 3, map[int]int{1: 3, 2: 2, 3: 2, 4: 2})
				})
			}
		}
	}
}

// TestLateCommit: a commit that was given up for lost arrives after all, between the look that found it missing and the next
// try. What is there is not known to be whose, so everything is listed anew.
func TestLateCommit(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := open(t, server.place("it"))
	must(t, s.Commit(batch(1, 1)))
	server.once("apply", before)
	if err := s.Commit(batch(2, 1)); !errors.Is(err, errAway) || errors.Is(err, sink.ErrReset) {
		t.Fatalf("a commit that the server did not get: %v", err)
	}
	must(t, s.Prefetch(people, []syncd.Key{key(1)}))
	late := batch(2, 1)
	server.do(func() {
		c := &Change{From: server.held.mark, To: Mark{server.held.mark.Gen, server.held.mark.Seq + 1, "late"}, Writes: late.Writes, State: late.State}
		server.owner.carry(c.Writes, c)
		server.owner.finish(c)
	})
	if err := s.Commit(batch(2, 1)); !errors.Is(err, sink.ErrReset) {
		t.Fatalf("a commit on top of one that is not known: %v", err)
	}
	wantAt(t, s, 2, map[int]int{1: 2})
	must(t, s.Commit(batch(3, 1)))
}

// TestFencing: a process that has stalled for longer than its lease can't write any more, says who has the place, and takes what
// that one left once it has gone.
func TestFencing(t *testing.T) {
	t.Parallel()
	server := newServer()
	first := open(t, server.place("the first"))
	must(t, first.Commit(batch(1, 1, 2)))
	stale, unread := first.View(), first.View()
	defer stale.Close()
	defer unread.Close()
	server.do(func() { server.owner = nil }) // its lease has run out
	second := open(t, server.place("the second"))
	wantAt(t, second, 1, map[int]int{1: 1, 2: 1})
	must(t, second.Commit(batch(5, 1, 3)))
	for range 2 {
		err := first.Commit(batch(2, 1))
		inUse, ok := errors.AsType[*InUseError](err)
		if !ok || inUse.By != "the second" || errors.Is(err, sink.ErrReset) {
			t.Fatalf("a commit by who was replaced: %v", err)
		}
		if err := first.Walk(people, 0, func(syncd.Key, sink.Entry) bool { return true }); !errors.As(err, &inUse) {
			t.Fatalf("a walk by who was replaced: %v", err)
		}
	}
	if _, ok := stale.Get(people, key(2)); ok || stale.Err() == nil || !strings.Contains(stale.Err().Error(), "ask again") {
		t.Errorf("a view of before another process went on gives %v, %v", ok, stale.Err())
	}
	wantAt(t, second, 5, map[int]int{1: 5, 2: 1, 3: 5})
	must(t, second.Close())
	if err := first.Commit(batch(2, 1)); !errors.Is(err, sink.ErrReset) {
		t.Fatalf("the first does not take up what the second left: %v", err)
	}
	wantAt(t, first, 5, map[int]int{1: 5, 2: 1, 3: 5})
	if e, ok := unread.Get(people, key(1)); ok || unread.Err() == nil {
		t.Errorf("a view of before gives %s of what another process left: %v", e.Row, unread.Err())
	}
	must(t, first.Commit(batch(6, 2)))
	wantAt(t, first, 6, map[int]int{1: 5, 2: 6, 3: 5})
}

// uses are the ways to use a store that notice a server which is not as it was left.
var uses = map[string]func(*Store) error{
	"commit":   func(s *Store) error { return s.Commit(batch(9, 1)) },
	"load":     func(s *Store) error { _, _, err := s.Load(people, key(7)); return err },
	"prefetch": func(s *Store) error { return s.Prefetch(people, []syncd.Key{key(1)}) },
	"walk":     func(s *Store) error { return s.Walk(people, 0, func(syncd.Key, sink.Entry) bool { return true }) },
	"digest":   func(s *Store) error { _, _, err := s.Digest(people, 3); return err },
}

// TestReset: a server that lost what it held, or went back to what it was, is noticed at the next use, whichever that is. Then it
// holds nothing of before, and the tables are known still.
func TestReset(t *testing.T) {
	t.Parallel()
	for name, use := range uses {
		for _, how := range []string{"lost", "back", "replaced"} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				server := newServer()
				s := open(t, server.place("it"))
				must(t, s.Commit(batch(1, 1, 2)))
				var old content
				server.do(func() { old = server.copied() })
				must(t, s.Commit(batch(2, 1)))
				gen := s.now.mark.Gen
				server.do(func() {
					switch how {
					case "lost":
						server.lose()
					case "back":
						server.held = old
					case "replaced": // a copy of a life before this one
						old.mark.Gen = "0"
						server.held = old
					}
				})
				view := s.View()
				defer view.Close()
				if _, ok := view.Get(people, key(1)); ok || view.Err() == nil {
					t.Errorf("a view gives %v, %v", ok, view.Err())
				}
				server.times(2, before, "begin", "take") // it is still coming up
				err := use(s)
				for tries := 0; errors.Is(err, errAway) && tries < 5; tries++ {
					if errors.Is(err, sink.ErrReset) {
						t.Fatalf("it says that it began anew, and could not: %v", err)
					}
					err = use(s)
				}
				if !errors.Is(err, sink.ErrReset) {
					t.Fatalf("it was not noticed: %v", err)
				}
				st := s.State()
				if ts := st.Tables[people]; !st.Cursor.Position.IsZero() || ts == nil || ts.Listed || ts.Info.Table != people {
					t.Errorf("the state is %+v", st)
				}
				if s.now.mark.Gen <= gen {
					t.Errorf("generation %q is not later than %q", s.now.mark.Gen, gen)
				}
				wantAt(t, s, 0, nil)
				must(t, s.Commit(batch(3, 5)))
				wantAt(t, s, 3, map[int]int{5: 3})
			})
		}
	}
}

// TestMovedForAMoment: what was read at another commit than the store's is no answer, and no reason to begin anew where the place
// is then found as it was left.
func TestMovedForAMoment(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := open(t, server.place("it"))
	must(t, s.Commit(batch(1, 1)))
	var now content
	server.do(func() {
		now = server.copied()
		server.held.mark.Nonce = "of a copy" // as a connection that is led elsewhere sees it
		server.fails = func(_ *memPlace, call string) fault {
			if call == "take" {
				server.held = now
			}
			return none
		}
	})
	if _, _, err := s.Load(people, key(1)); !errors.Is(err, ErrMoved) || errors.Is(err, sink.ErrReset) {
		t.Fatalf("a load from elsewhere: %v", err)
	}
	e, ok, err := s.Load(people, key(1))
	if err != nil || !ok || string(e.Row) != `{"id":1,"at":1}` {
		t.Fatalf("the load after it: %s %v %v", e.Row, ok, err)
	}
	wantAt(t, s, 1, map[int]int{1: 1})
}

// TestView: a view shows its commit whatever comes behind it, also while the outcome of a commit is unknown, and says so where it
// can't any more.
func TestView(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := open(t, server.place("it"))
	many := make([]int, 3*stretch)
	rows := map[int]int{}
	for i := range many {
		many[i], rows[i] = i, 1
	}
	must(t, s.Commit(batch(1, many...)))
	one := s.View()
	wantRows(t, one, rows)
	must(t, s.Commit(batch(2, 1, 2, 100)))
	server.times(1, after, "apply")
	server.do(func() { // and nobody can ask what became of it
		fails := server.fails
		server.fails = func(p *memPlace, call string) fault {
			if call == "take" {
				return before
			}
			return fails(p, call)
		}
	})
	if err := s.Commit(batch(3, 2, 3, 101)); err == nil {
		t.Fatal("a commit whose answer was lost went through")
	}
	wantRows(t, one, rows)
	now := maps.Clone(rows)
	now[1], now[2], now[100] = 2, 2, 2
	wantAt(t, s, 2, now)
	if err := one.Err(); err != nil {
		t.Fatal(err)
	}

	// What can't be read is said, and the first error stays.
	server.times(1, before, "scan")
	n := 0
	two := s.View()
	defer two.Close()
	two.Rows(people, 0, func(syncd.Key, sink.Entry) bool { n++; return true })
	err := two.Err()
	if n != 0 || !errors.Is(err, errAway) {
		t.Errorf("%d rows of a server that is away: %v", n, err)
	}
	server.times(1, before, "fetch")
	if _, ok := two.Get(people, key(1)); ok || two.Err() != err {
		t.Errorf("a get without a server: %v, %v", ok, two.Err())
	}
	three := s.View()
	defer three.Close()
	n = 0
	three.Rows(people, 0, func(syncd.Key, sink.Entry) bool {
		if n++; n == 1 {
			server.once("scan", before) // it goes away in the middle
		}
		return true
	})
	if n == 0 || n >= len(now) || !errors.Is(three.Err(), errAway) {
		t.Errorf("%d rows of a server that went away in the middle: %v", n, three.Err())
	}
	if _, ok := two.Get(syncd.Table{Schema: "no", Name: "table"}, key(1)); ok {
		t.Error("a row of a table that is not there")
	}

	// A table that is dropped can't be read in a view of before.
	server.do(func() { server.fails = nil })
	drop := &sink.Batch{State: batch(4).State, Drop: []syncd.Table{people}}
	if err := s.Commit(drop); err != nil && !errors.Is(err, sink.ErrReset) {
		t.Fatal(err)
	}
	must(t, s.Commit(&sink.Batch{State: batch(5).State, Drop: []syncd.Table{people}}))
	if _, ok := one.Get(people, key(1)); ok || one.Err() == nil || !strings.Contains(one.Err().Error(), "dropped") {
		t.Errorf("a row of a table that was dropped: %v, %v", ok, one.Err())
	}
	one.Close()
	two.Close()
	three.Close()
	if len(s.undo) != 0 {
		t.Errorf("with no view open %d commits are kept", len(s.undo))
	}
}

// TestCounted: rows that somebody took away behind the store's back count until their entries go.
func TestCounted(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := open(t, server.place("it"))
	must(t, s.Commit(batch(1, 1, 2, 3)))
	server.do(func() {
		entries := server.held.tables[people]
		entries[key(1)] = stored{entries[key(1)].head, nil}
		entries[key(2)] = stored{entries[key(2)].head, nil}
	})
	gone := batch(2, 1)
	gone.Writes[0].Entry.Row = nil
	for _, c := range []struct {
		batch *sink.Batch
		rows  int
	}{{gone, 2}, {batch(3, 2), 2}, {batch(4, 1), 3}} {
		must(t, s.Commit(c.batch))
		if n := s.State().Tables[people].Rows; n != c.rows {
			t.Errorf("at %s %d rows are counted, want %d", s.State().Cursor.Position, n, c.rows)
		}
	}
}

// clusterError is an error that does not pass.
type clusterError struct{ error }

func (clusterError) Unusable() bool { return true }

// brokenPlace can't be used.
type brokenPlace struct{ *memPlace }

func (p brokenPlace) Take(context.Context) (Mark, *sink.State, error) {
	return Mark{}, nil, clusterError{errors.New("it is a cluster")}
}

// TestNew: a server that is away and a place that another process has are waited for; what can't be used is refused.
func TestNew(t *testing.T) {
	t.Parallel()
	p := brokenPlace{newServer().place("it")}
	if _, err := New(t.Context(), p, nil); err == nil || !strings.Contains(err.Error(), "cluster") || !p.closed {
		t.Errorf("a place that can't be used: %v, closed %v", err, p.closed)
	}

	for _, away := range []bool{false, true} {
		server := newServer()
		first := open(t, server.place("the first"))
		must(t, first.Commit(batch(1, 1)))
		if away {
			must(t, first.Close())
			server.times(2, before, "take")
		}
		s := open(t, server.place("the second"))
		if st := s.State(); !st.Cursor.Position.IsZero() || len(st.Tables) != 0 {
			t.Errorf("away %v: the state is %+v", away, st)
		}
		v := s.View()
		if _, ok := v.Get(people, key(1)); ok || v.Err() != nil {
			t.Errorf("away %v: a view gives %v, %v", away, ok, v.Err())
		}
		v.Close()
		if err := s.Commit(batch(2, 1)); err == nil || errors.Is(err, sink.ErrReset) {
			t.Errorf("away %v: a commit: %v", away, err)
		}
		must(t, first.Close())
		if err := s.Commit(batch(2, 1)); !errors.Is(err, sink.ErrReset) {
			t.Errorf("away %v: the place is not taken up as it is found: %v", away, err)
		}
		wantAt(t, s, 1, map[int]int{1: 1})
	}
}

// TestClose gives the place up, where it has it, and ends where the server does not answer.
func TestClose(t *testing.T) {
	t.Parallel()
	server := newServer()
	p := server.place("it")
	s := open(t, p)
	must(t, s.Close())
	if !p.released || !p.closed || server.owner != nil {
		t.Errorf("released %v, closed %v", p.released, p.closed)
	}
	p = server.place("it")
	s = open(t, p)
	server.once("release", before)
	must(t, s.Close())
	if p.released || !p.closed {
		t.Errorf("released %v, closed %v", p.released, p.closed)
	}
	server.do(func() { server.owner = nil })
	server.once("take", before)
	p = server.place("it")
	s = open(t, p)
	must(t, s.Close())
	if p.released {
		t.Error("a place that it never had is given up")
	}
}

// TestFaults has calls of all kinds fail at random, before they are done or with their answers lost, the server lose what it
// holds, and processes take turns: at each moment the store holds what its state says it does.
func TestFaults(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 9))
		server := newServer()
		faulty := func(*memPlace, string) fault {
			if r.IntN(6) > 0 {
				return none
			}
			return []fault{before, after}[r.IntN(2)]
		}
		server.fails = faulty
		s := open(t, server.place("it"))
		plain := storetest.NewMap() // what the store's last commit holds
		made := map[syncd.LSN]*storetest.Map{0: plain}
		for at := 1; at < 60; at++ {
			if r.IntN(25) == 0 {
				server.do(server.lose)
			}
			b := func() *sink.Batch {
				b := batch(at, at%7, 10+at%5, 20+at%3)
				b.Writes[2].Remove, b.Writes[1].Entry.Row = true, nil
				return b
			}
			var err error
			if r.IntN(4) > 0 {
				err = s.Commit(b())
			} else {
				err = s.Walk(people, 0, func(syncd.Key, sink.Entry) bool { return true })
				if err == nil {
					continue
				}
			}
			next := plus(plain, b())
			made[syncd.LSN(at)] = next
			switch got := s.State().Cursor.Position.LSN; {
			case err == nil && got == syncd.LSN(at):
				plain = next
			case errors.Is(err, sink.ErrReset) && got == 0:
				plain = storetest.NewMap()
			case errors.Is(err, sink.ErrReset):
				if made[got] == nil {
					t.Fatalf("seed %d: the store is at %d, which nobody committed", seed, got)
				}
				plain = made[got]
			case err == nil || got != plain.State().Cursor.Position.LSN:
				t.Fatalf("seed %d: commit %d gave %v, and the store is at %d", seed, at, err, got)
			}
			server.do(func() { server.fails = nil })
			v := s.View()
			got, want := shown(v), shown(plain.View())
			lost := v.Err() // it was lost just now, and nobody has noticed
			v.Close()
			server.do(func() { server.fails = faulty })
			if lost == nil && !maps.Equal(got, want) {
				t.Fatalf("seed %d: after commit %d (%v) the store shows %v, want %v", seed, at, err, got, want)
			}
		}
		server.do(func() { server.fails = nil })
		must(t, s.Close())
	}
}

func shown(v sink.View) map[syncd.Key]string {
	rows := map[syncd.Key]string{}
	v.Rows(people, 0, func(k syncd.Key, e sink.Entry) bool { rows[k] = string(e.Row); return true })
	return rows
}

// plus is what a plain map holds after a commit.
func plus(m *storetest.Map, b *sink.Batch) *storetest.Map {
	next := storetest.NewMap()
	st := batch(0).State
	copied := &sink.Batch{State: st}
	_ = m.Walk(people, 0, func(k syncd.Key, e sink.Entry) bool {
		copied.Writes = append(copied.Writes, sink.Write{Table: people, Key: k, Entry: e})
		return true
	})
	_ = next.Commit(copied)
	_ = next.Commit(b)
	return next
}

// TestWatchersAreReset: who follows a cache is told to begin anew where its sink lost what it held.
func TestWatchersAreReset(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := open(t, server.place("it"))
	must(t, s.Commit(batch(1, 1, 2)))
	c := sink.New(sink.Options{Store: s})
	m, _ := c.History().Head()
	server.do(server.lose)
	if err := c.Walk(people, 0, func(syncd.Key, sink.Entry) bool { return true }); !errors.Is(err, sink.ErrReset) {
		t.Fatal(err)
	}
	if _, err := c.History().Next(people, m, 10); !errors.As(err, new(*sink.ResetError)) {
		t.Errorf("who follows is told %v", err)
	}
}
