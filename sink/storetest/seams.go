package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// seam is an interface of package sink that a store, its views or the store of a new epoch may have beside what they must.
// What a store has, Run holds it to.
type seam struct {
	name string
	has  func(t *testing.T, p Place, s sink.Store) bool
	test func(t *testing.T, place func(testing.TB) Place)
}

var seams = []seam{
	{"Digester", offers[sink.Digester], over(digests)},
	{"Prefetcher", offers[sink.Prefetcher], over(prefetching)},
	{"Warmer", offers[sink.Warmer], over(warming)},
	{"Tidier", offers[sink.Tidier], over(tidying)},
	{"IndexKeeper", offers[sink.IndexKeeper], over(keeping)},
	{"Indexer", func(t *testing.T, _ Place, s sink.Store) bool {
		v := s.View()
		defer v.Close()
		_, ok := v.(sink.Indexer)
		return ok
	}, over(finding)},
	{"Promoter", func(t *testing.T, p Place, s sink.Store) bool {
		if p.Next == nil {
			return false
		}
		next := p.Next(t, s)
		defer closed(t, next)
		_, ok := next.(sink.Promoter)
		return ok
	}, promoting},
}

func offers[S any](_ *testing.T, _ Place, s sink.Store) bool {
	_, ok := s.(S)
	return ok
}

// over has a test run on a store of its own.
func over(test func(t *testing.T, s sink.Store)) func(*testing.T, func(testing.TB) Place) {
	return func(t *testing.T, place func(testing.TB) Place) {
		s := place(t).Open(t)
		t.Cleanup(func() { closed(t, s) })
		test(t, s)
	}
}

func closed(t testing.TB, s sink.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// offered gives the seams that a kind of store has, and the names of those it lacks.
func offered(t *testing.T, place func(testing.TB) Place) (has []seam, lacks []string) {
	p := place(t)
	s := p.Open(t)
	defer closed(t, s)
	for _, one := range seams {
		if one.has(t, p, s) {
			has = append(has, one)
		} else {
			lacks = append(lacks, one.name)
		}
	}
	return has, lacks
}

// Lacks fails the test where the seams that a kind of store does without are others than those named, so that one is neither
// lost nor left unsaid. docs/sinks.md says what each lack means to who reads the sink.
func Lacks(t *testing.T, place func(testing.TB) Place, names ...string) {
	t.Helper()
	_, lacks := offered(t, place)
	slices.Sort(names)
	if slices.Sort(lacks); !slices.Equal(lacks, names) {
		t.Errorf("the store does without %q, and is said to do without %q", lacks, names)
	}
}

// digests compares the digests of tables that are empty, not there, or were just changed.
func digests(t *testing.T, s sink.Store) {
	d := s.(sink.Digester)
	plain := NewMap()
	sameDigest(t, d, plain, users)
	for at := range 4 {
		b := func() *sink.Batch {
			b := &sink.Batch{State: state(syncd.LSN(at + 1))}
			for i := range 30 * at {
				e := row(at)
				if (i+at)%5 == 0 {
					e = tombstone(at)
				}
				b.Writes = append(b.Writes, put(users, key(i), e))
			}
			return b
		}
		commitAll(t, s, b())
		commitAll(t, plain, b())
		sameDigest(t, d, plain, users)
		sameDigest(t, d, plain, items)
		got, _, err := d.Digest(users, 5)
		if err != nil {
			t.Fatal(err)
		}
		clear(got) // it is the caller's
		sameDigest(t, d, plain, users)
	}
}

// warming names keys to the store before they are loaded: that changes nothing.
func warming(t *testing.T, s sink.Store) {
	w, plain := s.(sink.Warmer), NewMap()
	w.Warm(users, []syncd.Key{key(1)}) // there is no such table yet
	for at := 1; at < 5; at++ {
		var keys []syncd.Key
		for _, s := range []sink.Store{s, plain} {
			b := &sink.Batch{State: state(syncd.LSN(at))}
			for i := range 300 {
				b.Writes = append(b.Writes, put(users, key(i*at), row(at)), put(items, key(i), tombstone(at)))
			}
			commitAll(t, s, b)
		}
		for i := range 400 {
			keys = append(keys, key(i), key(i), syncd.MakeKey("none", fmt.Sprint(i)))
		}
		for part := range slices.Chunk(keys, 64) {
			w.Warm(users, part)
			w.Warm(items, part)
			w.Warm(syncd.Table{Schema: "no", Name: "table"}, part)
		}
		w.Warm(users, nil)
		sameStores(t, s, plain, users, items)
	}
}

// tidying compares what the store counts with what there is.
func tidying(t *testing.T, s sink.Store) {
	pending := row(3)
	pending.Pending = true
	for i, w := range []sink.Write{
		put(users, key(1), row(1)), put(users, key(2), row(1)), put(users, key(3), tombstone(2)), put(users, key(3), row(3)),
		put(users, key(1), pending), put(users, key(2), tombstone(4)), put(users, key(1), row(5)), {Table: users, Key: key(2), Remove: true},
		put(items, key(1), tombstone(6)), put(users, key(1), tombstone(7)), {Table: users, Key: key(1), Remove: true},
	} {
		commitAll(t, s, &sink.Batch{Writes: []sink.Write{w}, State: state(syncd.LSN(i + 1))})
		for _, name := range []syncd.Table{users, items} {
			want := true
			for _, h := range all(t, s, name) {
				want = want && h.entry.Row != nil && !h.entry.Pending
			}
			if got := s.(sink.Tidier).Tidy(name); got != want {
				t.Errorf("after write %d: %s is said to be tidy: %v, want %v", i, name, got, want)
			}
		}
	}
}

// promoting has new epochs' stores take the place of the one that is read, one after the other, and some given up before.
func promoting(t *testing.T, place func(testing.TB) Place) {
	p := place(t)
	current := p.Open(t)
	fill := func(s sink.Store, at int) {
		t.Helper()
		b := &sink.Batch{State: state(syncd.LSN(at)), Drop: []syncd.Table{users}}
		b.State.Cursor.Position.Epoch = syncd.Epoch(at)
		for i := range 20 {
			b.Writes = append(b.Writes, put(users, key(i*at), row(at)))
		}
		commitAll(t, s, b)
	}
	shows := func(v sink.View, at int, what string) {
		t.Helper()
		n := 0
		v.Rows(users, 0, func(k syncd.Key, e sink.Entry) bool {
			if n++; !equal(e, row(at)) {
				t.Errorf("%s: %s is %s, want that of %d", what, k, e.Row, at)
			}
			return true
		})
		if err := v.Err(); err != nil || n != 20 || v.State().Cursor.Position.LSN != syncd.LSN(at) {
			t.Fatalf("%s: %d rows at %s, want 20 at %d: %v", what, n, v.State().Cursor.Position, at, err)
		}
	}
	look := func(s sink.Store, at int, what string) {
		t.Helper()
		v := s.View()
		defer v.Close()
		shows(v, at, what)
		if p.Check != nil {
			p.Check(t, s)
		}
	}
	fill(current, 1)
	for at := 2; at < 8; at++ {
		next := p.Next(t, current)
		look(current, at-1, "beside an empty store")
		fill(next, at)
		look(current, at-1, "beside a store that is being built")
		if at%3 == 0 { // it is given up: another epoch has begun
			closed(t, next)
			look(current, at-1, "after another was given up")
			fill(current, at)
			continue
		}
		before := current.View()
		if err := next.(sink.Promoter).Promote(); err != nil {
			t.Fatal(err)
		}
		shows(before, at-1, "a view of before")
		before.Close()
		closed(t, current)
		current = next
		look(current, at, "the new epoch")
		if p.Keeps {
			closed(t, current)
			current = p.Open(t)
			look(current, at, "opened again")
		}
	}
	closed(t, current)
}
