// Package storetest holds what every implementation of sink.Store has to pass, and a plain one of its own for tests.
package storetest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/codec"
)

var (
	users = syncd.Table{Schema: "public", Name: "users"}
	items = syncd.Table{Schema: "shop.eu", Name: "Odd \"items\""}
)

// Run runs the suite against a kind of store. place gives a place where nothing is kept yet.
func Run(t *testing.T, place func(t testing.TB) Place) {
	tests := []struct {
		name string
		test func(t *testing.T, s sink.Store)
	}{
		{"an empty store has an empty state", empty},
		{"an entry comes back as it was put", roundTrip},
		{"what the caller does to its bytes later changes nothing", copies},
		{"a commit shows at once and in whole", isolation},
		{"what was given out stays as it was", immutability},
		{"a walk goes by hash and key", order},
		{"rows are counted", counting},
		{"a drop comes before the writes", dropping},
		{"a commit without a state keeps it", keepState},
		{"random commits leave what a plain map holds", random},
		{"filters find what they find in a plain map", filtering},
		{"readers read while commits go on", concurrent},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			s := place(t).Open(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			c.test(t, s)
		})
	}
	t.Run("a cache over it does what one over a plain map does", func(t *testing.T) { histories(t, place) })
	has, _ := offered(t, place)
	for _, one := range has {
		t.Run("it has the seam "+one.name, func(t *testing.T) { one.test(t, place) })
	}
	p := place(t)
	if p.Keeps {
		t.Run("it is opened again as it was closed", func(t *testing.T) { reopening(t, place(t)) })
	}
	if p.Crash != nil {
		t.Run("a crash leaves a commit in whole or nothing of it", func(t *testing.T) { crashes(t, place) })
	}
	if len(p.Spoils) > 0 {
		t.Run("a resync finds what was spoilt", func(t *testing.T) { spoiled(t, place) })
	}
}

func key(i int) syncd.Key { return syncd.MakeKey(fmt.Sprint(i)) }

func row(v int) sink.Entry {
	return sink.Entry{Row: fmt.Appendf(nil, `{"v":%d}`, v), Version: syncd.Version{Epoch: 1, LSN: syncd.LSN(v), Ordinal: 1}, XID: syncd.XID(v)}
}

func tombstone(v int) sink.Entry {
	e := row(v)
	e.Row = nil
	return e
}

func put(t syncd.Table, k syncd.Key, e sink.Entry) sink.Write {
	return sink.Write{Table: t, Key: k, Entry: e}
}

// state makes a state of the tables of the suite.
func state(at syncd.LSN) *sink.State {
	return &sink.State{
		Cursor: syncd.Cursor{Seq: uint64(at), Position: syncd.Position{Epoch: 1, LSN: at}},
		Tables: map[syncd.Table]*sink.TableState{
			users: {Info: syncd.TableInfo{Table: users, Key: []string{"id"}}},
			items: {Info: syncd.TableInfo{Table: items, Key: []string{"id"}}},
		},
	}
}

func commitAll(t *testing.T, s sink.Store, b *sink.Batch) {
	t.Helper()
	if err := s.Commit(b); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func load(t *testing.T, s sink.Store, name syncd.Table, k syncd.Key) (sink.Entry, bool) {
	t.Helper()
	e, ok, err := s.Load(name, k)
	if err != nil {
		t.Fatalf("load %s/%s: %v", name, k, err)
	}
	return e, ok
}

func equal(a, b sink.Entry) bool {
	return (a.Row == nil) == (b.Row == nil) && bytes.Equal(a.Row, b.Row) && a.Version == b.Version && a.XID == b.XID &&
		a.Pending == b.Pending && reflect.DeepEqual(a.Snap, b.Snap)
}

func empty(t *testing.T, s sink.Store) {
	if s.State() == nil || !s.State().Cursor.Position.IsZero() || len(s.State().Tables) != 0 {
		t.Errorf("state %+v, want an empty one", s.State())
	}
	if _, ok := load(t, s, users, key(1)); ok {
		t.Error("an empty store holds an entry")
	}
	v := s.View()
	defer v.Close()
	if v.State() == nil {
		t.Error("the view of an empty store has no state")
	}
	if _, ok := v.Get(users, key(1)); ok {
		t.Error("the view of an empty store holds an entry")
	}
	v.Rows(users, 0, func(k syncd.Key, _ sink.Entry) bool { t.Errorf("row %s in an empty store", k); return true })
	if err := s.Walk(users, 0, func(k syncd.Key, _ sink.Entry) bool { t.Errorf("entry %s in an empty store", k); return true }); err != nil {
		t.Error(err)
	}
}

func roundTrip(t *testing.T, s sink.Store) {
	snap := &syncd.Snapshot{Epoch: 2, Xmin: 5, Xmax: 9, Xip: []syncd.XID{6, 8}, H: 70}
	standby := &syncd.Snapshot{Epoch: 2, Xmin: 5, Xmax: 9, Standby: true, R: 60, R2: 66, H: 66}
	big := bytes.Repeat([]byte("x"), 3<<20)
	entries := map[syncd.Key]sink.Entry{
		syncd.MakeKey("1"):                       row(1),
		syncd.MakeKey(""):                        row(2),
		syncd.MakeKey("a", "b\n"):                tombstone(3),
		syncd.MakeKey("ab", "\n"):                {Row: []byte(`{}`), Version: syncd.Version{Epoch: 2}, Snap: snap},
		syncd.MakeKey("gone"):                    {Version: syncd.Version{Epoch: 2}, Snap: standby},
		syncd.MakeKey("pending"):                 {Row: []byte(`{"v":1}`), Version: syncd.Version{Epoch: 3, LSN: 1 << 63, Ordinal: 1<<32 - 1}, XID: 1<<64 - 1, Pending: true},
		syncd.MakeKey("pending, no row"):         {Version: syncd.Version{Epoch: 1<<64 - 1, LSN: 1}, Pending: true},
		syncd.MakeKey("large"):                   {Row: big, Version: syncd.Version{Epoch: 1}},
		syncd.MakeKey(string(big[:100_000])):     row(9),
		syncd.MakeKey("\xff\xfe not UTF-8 \x01"): row(10),
	}
	b := &sink.Batch{State: state(1)}
	for k, e := range entries {
		b.Writes = append(b.Writes, put(items, k, e))
	}
	commitAll(t, s, b)
	v := s.View()
	defer v.Close()
	for k, want := range entries {
		if got, ok := load(t, s, items, k); !ok || !equal(got, want) {
			t.Errorf("load %.40s: %+v %v, want %+v", k, got, ok, want)
		}
		if got, ok := v.Get(items, k); !ok || !equal(got, want) {
			t.Errorf("view: %.40s: %+v %v, want %+v", k, got, ok, want)
		}
		if _, ok := load(t, s, users, k); ok {
			t.Errorf("%.40s is in another table too", k)
		}
	}
}

func copies(t *testing.T, s sink.Store) {
	e := row(1)
	k := []byte("a key")
	b := &sink.Batch{Writes: []sink.Write{put(users, syncd.Key(k), e)}, State: state(1)}
	commitAll(t, s, b)
	clear(e.Row)
	b.Writes[0] = sink.Write{}
	if got, _ := load(t, s, users, "a key"); !equal(got, row(1)) {
		t.Errorf("the store kept the caller's bytes: %+v", got)
	}
}

func isolation(t *testing.T, s sink.Store) {
	before := s.View()
	commitAll(t, s, &sink.Batch{Writes: []sink.Write{put(users, key(1), row(1)), put(items, key(1), row(1))}, State: state(10)})
	if _, ok := before.Get(users, key(1)); ok || before.State().Cursor.Seq != 0 {
		t.Error("a view saw a later commit")
	}
	before.Close()
	middle := s.View()
	commitAll(t, s, &sink.Batch{
		Writes: []sink.Write{put(users, key(1), row(2)), {Table: items, Key: key(1), Remove: true}, put(items, key(2), row(2))},
		State:  state(20),
	})
	after := s.View()
	defer after.Close()
	defer middle.Close()
	for _, c := range []struct {
		view  sink.View
		at    syncd.LSN
		users sink.Entry
		items map[syncd.Key]bool
	}{{middle, 10, row(1), map[syncd.Key]bool{key(1): true}}, {after, 20, row(2), map[syncd.Key]bool{key(2): true}}} {
		if got := c.view.State().Cursor.Position.LSN; got != c.at {
			t.Errorf("the view is at %s, want %s", got, c.at)
		}
		if got, _ := c.view.Get(users, key(1)); !equal(got, c.users) {
			t.Errorf("at %s: users/1 is %+v", c.at, got)
		}
		rows := map[syncd.Key]bool{}
		c.view.Rows(items, 0, func(k syncd.Key, _ sink.Entry) bool { rows[k] = true; return true })
		if !maps.Equal(rows, c.items) {
			t.Errorf("at %s: items are %v, want %v", c.at, rows, c.items)
		}
	}
}

func immutability(t *testing.T, s sink.Store) {
	var given, want []sink.Entry
	for round := range 50 {
		b := &sink.Batch{State: state(syncd.LSN(round + 1))}
		for i := range 200 {
			e := row(round*1000 + i)
			if i%7 == round%7 {
				e = tombstone(round*1000 + i)
			}
			b.Writes = append(b.Writes, put(users, key(i), e))
		}
		commitAll(t, s, b)
		for i := round; i < 200; i += 37 {
			e, _ := load(t, s, users, key(i))
			given = append(given, e)
			e.Row = bytes.Clone(e.Row)
			want = append(want, e)
		}
	}
	commitAll(t, s, &sink.Batch{State: state(1000), Drop: []syncd.Table{users}})
	for i := range given {
		if !equal(given[i], want[i]) {
			t.Fatalf("an entry that was given out became %+v, was %+v", given[i], want[i])
		}
	}
}

func byHash(a, b syncd.Key) int { return cmp.Or(cmp.Compare(a.Hash(), b.Hash()), cmp.Compare(a, b)) }

func order(t *testing.T, s sink.Store) {
	b := &sink.Batch{State: state(1)}
	var keys, rows []syncd.Key
	for i := range 1000 {
		e := row(i)
		if i%5 == 0 {
			e = tombstone(i)
		} else {
			rows = append(rows, key(i))
		}
		keys = append(keys, key(i))
		b.Writes = append(b.Writes, put(users, key(i), e))
	}
	commitAll(t, s, b)
	slices.SortFunc(keys, byHash)
	slices.SortFunc(rows, byHash)
	v := s.View()
	defer v.Close()
	for _, start := range []int{0, 1, 500, 999} {
		from := keys[start].Hash()
		if got := walked(t, s, from, 0); !slices.Equal(got, keys[start:]) {
			t.Errorf("walk from entry %d gives %d entries, want %d, in the order of their hash", start, len(got), 1000-start)
		}
		if got := walked(t, s, from+1, 0); start < 999 && !slices.Equal(got, keys[start+1:]) {
			t.Errorf("walk from behind entry %d gives %d entries, want %d", start, len(got), 999-start)
		}
		if got := walked(t, s, from, 3); len(got) != min(3, 1000-start) {
			t.Errorf("a walk that stops at 3 gives %d", len(got))
		}
		i, _ := slices.BinarySearchFunc(rows, keys[start], byHash)
		var got []syncd.Key
		v.Rows(users, from, func(k syncd.Key, e sink.Entry) bool { got = append(got, k); return true })
		if !slices.Equal(got, rows[i:]) {
			t.Errorf("rows from entry %d: %d, want %d, in the order of their hash", start, len(got), len(rows)-i)
		}
	}
	n := 0
	v.Rows(users, 0, func(syncd.Key, sink.Entry) bool { n++; return n < 4 })
	if n != 4 {
		t.Errorf("rows that stop at 4 give %d", n)
	}
}

// walked gives the keys of a walk that stops after n, or at the end where n is 0.
func walked(t *testing.T, s sink.Store, from uint64, n int) []syncd.Key {
	t.Helper()
	var got []syncd.Key
	err := s.Walk(users, from, func(k syncd.Key, e sink.Entry) bool {
		got = append(got, k)
		return len(got) != n
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func wantRows(t *testing.T, s sink.Store, inUsers, inItems int) {
	t.Helper()
	st := s.State()
	if got := st.Tables[users].Rows; got != inUsers {
		t.Errorf("users: %d rows counted, want %d", got, inUsers)
	}
	if got := st.Tables[items].Rows; got != inItems {
		t.Errorf("items: %d rows counted, want %d", got, inItems)
	}
}

func counting(t *testing.T, s sink.Store) {
	steps := []struct {
		writes       []sink.Write
		users, items int
	}{
		{[]sink.Write{put(users, key(1), row(1)), put(users, key(2), tombstone(1)), put(items, key(1), row(1))}, 1, 1},
		{[]sink.Write{put(users, key(1), row(2)), put(users, key(2), row(2))}, 2, 1},
		{[]sink.Write{put(users, key(1), tombstone(3)), {Table: items, Key: key(1), Remove: true}}, 1, 0},
		{[]sink.Write{put(users, key(1), tombstone(4)), {Table: items, Key: key(9), Remove: true}}, 1, 0},
		{[]sink.Write{{Table: users, Key: key(1), Remove: true}, put(items, key(1), sink.Entry{Row: []byte("{}"), Pending: true, Version: syncd.Version{Epoch: 1}})}, 1, 1},
		{[]sink.Write{put(items, key(2), sink.Entry{Pending: true, Version: syncd.Version{Epoch: 1}})}, 1, 1},
	}
	for i, c := range steps {
		commitAll(t, s, &sink.Batch{Writes: c.writes, State: state(syncd.LSN(i + 1))})
		wantRows(t, s, c.users, c.items)
	}
}

func dropping(t *testing.T, s sink.Store) {
	commitAll(t, s, &sink.Batch{Writes: []sink.Write{put(users, key(1), row(1)), put(users, key(2), row(1)), put(items, key(1), row(1))}, State: state(1)})
	commitAll(t, s, &sink.Batch{Drop: []syncd.Table{users}, Writes: []sink.Write{put(users, key(3), row(2))}, State: state(2)})
	wantRows(t, s, 1, 1)
	if got := walked(t, s, 0, 0); !slices.Equal(got, []syncd.Key{key(3)}) {
		t.Errorf("after a drop and a write the table holds %v", got)
	}
	without := state(3)
	delete(without.Tables, users)
	commitAll(t, s, &sink.Batch{Drop: []syncd.Table{users}, State: without})
	if _, ok := load(t, s, users, key(3)); ok {
		t.Error("an entry outlived the drop of its table")
	}
	if _, ok := load(t, s, items, key(1)); !ok {
		t.Error("the drop of a table took another one's entry")
	}
	commitAll(t, s, &sink.Batch{State: state(4)})
	wantRows(t, s, 0, 1)
}

func keepState(t *testing.T, s sink.Store) {
	commitAll(t, s, &sink.Batch{Writes: []sink.Write{put(users, key(1), row(1))}, State: state(7)})
	old := s.State()
	commitAll(t, s, &sink.Batch{Writes: []sink.Write{put(users, key(2), row(1))}})
	if got := s.State().Cursor.Seq; got != 7 {
		t.Errorf("the cursor is at %d, want 7", got)
	}
	wantRows(t, s, 2, 0)
	if old.Tables[users].Rows != 1 {
		t.Errorf("the state of an earlier commit changed: %d rows", old.Tables[users].Rows)
	}
}

// random compares the store with a Map over some hundred commits of every kind.
func random(t *testing.T, s sink.Store) {
	r := rand.New(rand.NewPCG(1, 2))
	plain := NewMap()
	snaps := []*syncd.Snapshot{nil, nil, {Epoch: 1, Xmin: 1, Xmax: 2}, {Epoch: 1, Xmin: 3, Xmax: 9, Xip: []syncd.XID{4}}}
	for step := range 40 * rounds(10) {
		writes := map[syncd.Key]sink.Write{}
		for range r.IntN(60) {
			k := key(r.IntN(500))
			e := row(int(step))
			e.Row = append(e.Row, bytes.Repeat([]byte(" "), r.IntN(2000))...)
			e.Snap, e.Pending = snaps[r.IntN(len(snaps))], r.IntN(9) == 0
			if r.IntN(3) == 0 {
				e.Row = nil
			}
			writes[k] = sink.Write{Table: users, Key: k, Entry: e, Remove: r.IntN(5) == 0}
		}
		list := slices.Collect(maps.Values(writes))
		var dropped []syncd.Table
		if r.IntN(80) == 0 {
			dropped = []syncd.Table{users}
		}
		commitAll(t, s, &sink.Batch{Writes: list, Drop: dropped, State: state(syncd.LSN(step))})
		commitAll(t, plain, &sink.Batch{Writes: list, Drop: dropped, State: state(syncd.LSN(step))})
		if step%20 == 0 {
			same(t, s, plain)
		}
	}
	same(t, s, plain)
}

// held is one entry of a walk.
type held struct {
	key   syncd.Key
	entry sink.Entry
}

// at describes an entry of a walk.
func at(h []held, i int) string {
	if i >= len(h) {
		return "not there"
	}
	e := h[i].entry
	return fmt.Sprintf("%s %s of %s %d, snapshot %+v, pending %v", h[i].key, e.Row, e.Version, e.XID, e.Snap, e.Pending)
}

func all(t *testing.T, s sink.Store, name syncd.Table) (h []held) {
	t.Helper()
	if err := s.Walk(name, 0, func(k syncd.Key, e sink.Entry) bool { h = append(h, held{k, e}); return true }); err != nil {
		t.Fatal(err)
	}
	return h
}

// same fails the test where two stores hold other entries of users, or count other rows.
func same(t *testing.T, s, want sink.Store) {
	t.Helper()
	sameStores(t, s, want, users)
}

// sameStores fails the test where two stores hold other entries of tables, count other rows, or digest them otherwise.
func sameStores(t *testing.T, s, want sink.Store, tables ...syncd.Table) {
	t.Helper()
	for _, name := range tables {
		a, b := all(t, s, name), all(t, want, name)
		for i := range max(len(a), len(b)) {
			if i >= len(a) || i >= len(b) || a[i].key != b[i].key || !equal(a[i].entry, b[i].entry) {
				t.Fatalf("%s: entry %d of %d is %s, in a plain map of %d %s", name, i, len(a), at(a, i), len(b), at(b, i))
			}
		}
		got, has := s.State().Tables[name]
		plain, hasPlain := want.State().Tables[name]
		if has != hasPlain || has && got.Rows != plain.Rows {
			t.Fatalf("%s: %+v in the state, want %+v", name, got, plain)
		}
		if d, ok := s.(sink.Digester); ok {
			sameDigest(t, d, want.(sink.Digester), name)
		}
	}
}

// sameAs says whether two stores hold the same entries and say the same state.
func sameAs(s, want sink.Store) bool {
	for _, name := range []syncd.Table{users, items} {
		var a, b []held
		err := errors.Join(
			s.Walk(name, 0, func(k syncd.Key, e sink.Entry) bool { a = append(a, held{k, e}); return true }),
			want.Walk(name, 0, func(k syncd.Key, e sink.Entry) bool { b = append(b, held{k, e}); return true }))
		if err != nil || !slices.EqualFunc(a, b, func(a, b held) bool { return a.key == b.key && equal(a.entry, b.entry) }) {
			return false
		}
	}
	return bytes.Equal(codec.AppendState(nil, s.State()), codec.AppendState(nil, want.State()))
}

// sameDigest fails the test where two stores digest a table otherwise.
func sameDigest(t *testing.T, s, want sink.Digester, name syncd.Table) {
	t.Helper()
	for _, bits := range []int{0, 5, syncd.MaxDigestBits} {
		buckets, oldest, err := s.Digest(name, bits)
		wantBuckets, wantOldest, wantErr := want.Digest(name, bits)
		if err != nil || wantErr != nil {
			t.Fatal(err, wantErr)
		}
		if !slices.Equal(buckets, wantBuckets) || oldest != wantOldest {
			t.Fatalf("in 2^%d buckets the digest is not that of the rows, or epoch %d is not %d", bits, oldest, wantOldest)
		}
	}
}

// prefetching loads keys that were named before, and some that were not, between commits that change them.
func prefetching(t *testing.T, s sink.Store) {
	p := s.(sink.Prefetcher)
	for at := 1; at < 5; at++ {
		b := &sink.Batch{State: state(syncd.LSN(at))}
		keys := []syncd.Key{key(1), "none", key(1)}
		for i := range 300 {
			b.Writes = append(b.Writes, put(users, key(i), row(at)), put(items, key(i), tombstone(at)))
			keys = append(keys, key(2*i))
		}
		commitAll(t, s, b)
		if err := p.Prefetch(users, keys); err != nil {
			t.Fatal(err)
		}
		clear(keys) // they are the caller's again
		for i := range 300 {
			if e, ok := load(t, s, users, key(i)); !ok || !equal(e, row(at)) {
				t.Fatalf("%s is %+v, want that of commit %d", key(i), e, at)
			}
			if e, ok := load(t, s, items, key(i)); !ok || !equal(e, tombstone(at)) {
				t.Fatalf("%s of another table is %+v, want that of commit %d", key(i), e, at)
			}
		}
		if _, ok := load(t, s, users, "none"); ok {
			t.Fatal("a key that was named is there now")
		}
	}
}

// reopening closes and opens a place, and wants to find everything.
func reopening(t *testing.T, p Place) {
	s := p.Open(t)
	plain := NewMap()
	snap := &syncd.Snapshot{Epoch: 1, Xmin: 1, Xmax: 5, Xip: []syncd.XID{3}, H: 9}
	for at := 1; at < 4; at++ {
		for _, s := range []sink.Store{s, plain} {
			b := &sink.Batch{State: full(syncd.LSN(at), snap)}
			for i := range 50 * at {
				listed := sink.Entry{Row: fmt.Appendf(nil, `{"v":%d}`, i), Version: syncd.Version{Epoch: 1}, Snap: snap}
				b.Writes = append(b.Writes, put(users, key(i), row(at)), put(items, key(i), tombstone(at)), put(items, key(i+1000), listed))
			}
			commitAll(t, s, b)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = p.Open(t)
		sameStores(t, s, plain, users, items)
		if !sameAs(s, plain) {
			t.Fatalf("the state is %+v, was %+v", s.State(), plain.State())
		}
		v := s.View()
		if got := v.State().Cursor.Position.LSN; got != syncd.LSN(at) {
			t.Errorf("a view is at %s, want %d", got, at)
		}
		v.Close()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// full is a state with something of everything.
func full(at syncd.LSN, snap *syncd.Snapshot) *sink.State {
	s := state(at)
	s.System, s.Timeline, s.Start, s.Safe, s.Sent, s.Applied = 1<<63, 3, 1, at, clock, clock
	t := s.Tables[users]
	t.Listed, t.Floor, t.Loss, t.LastLoss, t.Ahead, t.Relist, t.RelistAt = true, snap, 4, 5, 6, "why", 7
	t.Truncated = sink.Seen{Version: syncd.Version{Epoch: 1, LSN: 2, Ordinal: 3}, XID: 4}
	t.Open = map[syncd.Key]sink.Open{"\xff\x00": {Snaps: []*syncd.Snapshot{snap}, Deltas: []sink.Seen{t.Truncated}, Reason: "undecided", Parked: true, Since: clock}}
	t.Verified, t.Resynced = sink.Verified{Position: syncd.Position{Epoch: 1, LSN: 1}, At: clock}, clock
	return s
}

// concurrent has readers check that each view is of one commit: all rows of both tables say the view's LSN.
func concurrent(t *testing.T, s sink.Store) {
	const keys = 50
	commits := 20 * int(rounds(10))
	write := func(at int) {
		b := &sink.Batch{State: state(syncd.LSN(at))}
		for i := range keys {
			b.Writes = append(b.Writes, put(users, key(i), row(at)), put(items, key(i), row(at)))
		}
		if err := s.Commit(b); err != nil {
			t.Errorf("commit: %v", err)
		}
	}
	write(1)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					readOne(t, s)
				}
			}
		})
	}
	for at := 2; at <= commits; at++ {
		write(at)
	}
	close(done)
	readers.Wait()
}

func readOne(t *testing.T, s sink.Store) {
	v := s.View()
	defer v.Close()
	at := v.State().Cursor.Position.LSN
	for _, name := range []syncd.Table{users, items} {
		n := 0
		v.Rows(name, 0, func(k syncd.Key, e sink.Entry) bool {
			n++
			if e.Version.LSN != at {
				t.Errorf("the view is at %s and shows %s/%s of %s", at, name, k, e.Version.LSN)
			}
			return true
		})
		if err := v.Err(); err != nil {
			t.Errorf("read %s: %v", name, err)
		}
		if n != v.State().Tables[name].Rows {
			t.Errorf("the view shows %d rows and counts %d", n, v.State().Tables[name].Rows)
		}
	}
}
