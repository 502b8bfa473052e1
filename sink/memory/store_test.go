package memory

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model is what a store should hold: a plain map, copied whole for each commit.
type model struct {
	tables map[syncd.Table]map[syncd.Key]sink.Entry
	state  *sink.State
}

func (m model) clone() model {
	c := model{tables: make(map[syncd.Table]map[syncd.Key]sink.Entry), state: m.state}
	for t, entries := range m.tables {
		c.tables[t] = maps.Clone(entries)
	}
	return c
}

func (m model) rows(t syncd.Table) (n int) {
	for _, e := range m.tables[t] {
		if e.Row != nil {
			n++
		}
	}
	return n
}

// machine drives a store and its model side by side.
type machine struct {
	store *Store
	hash  func(syncd.Key) uint64
	now   model
	snaps []*syncd.Snapshot
	views []held
}

type held struct {
	view sink.View
	was  model
}

var tables = []syncd.Table{{Schema: "public", Name: "a"}, {Schema: "public", Name: "b"}, {Schema: "Odd", Name: `"x".y`}}

func newMachine(hash func(syncd.Key) uint64) *machine {
	return &machine{
		store: newStore(Options{}, hash), hash: hash,
		now: model{tables: make(map[syncd.Table]map[syncd.Key]sink.Entry), state: &sink.State{}},
	}
}

// entry makes any entry. Batches are drawn by size and seed, since drawing every field takes most of the time.
func (m *machine) entry(r *rand.Rand) sink.Entry {
	e := sink.Entry{Version: syncd.Version{Epoch: syncd.Epoch(r.IntN(3))}}
	if r.IntN(4) > 0 {
		sizes := []int{0, 1, 30, 200, 200, 200, 3000}
		size := sizes[r.IntN(len(sizes))]
		if r.IntN(100) == 0 {
			size = ownBlock - 40 + r.IntN(80)
		}
		e.Row = bytes.Repeat([]byte{byte('a' + r.IntN(26))}, size)
	}
	if r.IntN(2) == 0 {
		e.Version.LSN, e.Version.Ordinal = syncd.LSN(r.Uint64()>>r.IntN(64)), r.Uint32()>>r.IntN(32)
		e.XID = syncd.XID(r.Uint64() >> r.IntN(64))
		e.Pending = r.IntN(2) == 0
		return e
	}
	if len(m.snaps) == 0 || r.IntN(5) == 0 {
		xmin := syncd.XID(r.IntN(20))
		m.snaps = append(m.snaps, &syncd.Snapshot{Epoch: e.Version.Epoch, Xmin: xmin, Xmax: xmin + 5, Xip: []syncd.XID{xmin}})
	}
	e.Snap = m.snaps[r.IntN(len(m.snaps))]
	return e
}

func same(a, b sink.Entry) bool {
	return (a.Row == nil) == (b.Row == nil) && bytes.Equal(a.Row, b.Row) && a.Version == b.Version && a.XID == b.XID &&
		a.Pending == b.Pending && (a.Snap == b.Snap || reflect.DeepEqual(a.Snap, b.Snap))
}

func anyTable(r *rand.Rand) syncd.Table { return tables[r.IntN(len(tables))] }

func anyKey(r *rand.Rand) syncd.Key {
	n := r.IntN(300)
	return syncd.MakeKey(fmt.Sprint(n), fmt.Sprint(n%7))
}

func drawRand(t *rapid.T) *rand.Rand { return rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)) }

// Commit makes a batch of any size, now and then with a state, and with a table dropped.
func (m *machine) Commit(t *rapid.T) {
	writes := rapid.SampledFrom([]int{0, 1, 2, 10, 200}).Draw(t, "writes")
	r := drawRand(t)
	next, b := m.now.clone(), &sink.Batch{}
	if r.IntN(20) == 0 {
		b.Drop = append(b.Drop, anyTable(r))
		delete(next.tables, b.Drop[0])
	}
	for range writes {
		c := sink.Write{Table: anyTable(r), Key: anyKey(r)}
		if next.tables[c.Table] == nil {
			next.tables[c.Table] = make(map[syncd.Key]sink.Entry)
		}
		if c.Remove = r.IntN(4) == 0; c.Remove {
			delete(next.tables[c.Table], c.Key)
		} else {
			c.Entry = m.entry(r)
			next.tables[c.Table][c.Key] = c.Entry
		}
		b.Writes = append(b.Writes, c)
	}
	if r.IntN(2) == 0 {
		b.State = anyState(r)
		next.state = b.State
	}
	if err := m.store.Commit(b); err != nil {
		t.Fatal(err)
	}
	m.now = next
}

func anyState(r *rand.Rand) *sink.State {
	s := &sink.State{Cursor: syncd.Cursor{Seq: r.Uint64()}, Tables: make(map[syncd.Table]*sink.TableState)}
	for _, name := range tables {
		if r.IntN(2) == 0 {
			s.Tables[name] = &sink.TableState{Listed: true, Rows: r.IntN(10)}
		}
	}
	return s
}

// Empty removes what a table holds, in one commit.
func (m *machine) Empty(t *rapid.T) {
	name := anyTable(drawRand(t))
	next, b := m.now.clone(), &sink.Batch{}
	for _, k := range slices.Sorted(maps.Keys(next.tables[name])) {
		b.Writes = append(b.Writes, sink.Write{Table: name, Key: k, Remove: true})
	}
	delete(next.tables, name)
	if err := m.store.Commit(b); err != nil {
		t.Fatal(err)
	}
	m.now = next
}

// Hold takes a view, to be compared later with what the model is now.
func (m *machine) Hold(*rapid.T) {
	m.views = append(m.views, held{m.store.View(), m.now})
}

// Drop compares the oldest view held with what the model was, and closes it.
func (m *machine) Drop(t *rapid.T) {
	if len(m.views) == 0 {
		t.Skip("no view is held")
	}
	h := m.views[0]
	m.compare(t, h.view, h.was)
	h.view.Close()
	m.views = m.views[1:]
}

// Restart writes the store to bytes and goes on with one read from them.
func (m *machine) Restart(t *rapid.T) {
	var b bytes.Buffer
	n, err := m.store.WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("wrote %d of %d bytes: %v", n, b.Len(), err)
	}
	want := b.Len()
	m.store = newStore(Options{}, m.hash)
	if n, err := m.store.ReadFrom(&b); err != nil || n != int64(want) {
		t.Fatalf("read %d of %d bytes: %v", n, want, err)
	}
}

// Digest compares the digests of a table, and has them kept from now on as those of a large table are.
func (m *machine) Digest(t *rapid.T) {
	name := anyTable(drawRand(t))
	m.compareDigest(t, name, rapid.IntRange(0, syncd.MaxDigestBits).Draw(t, "bits"))
	if w := m.store.writers[name]; w != nil && w.digest == nil {
		m.store.total.add(w.counted, -1)
		w.digest = w.makeDigest(syncd.MaxDigestBits)
		w.counted = w.account()
		m.store.total.add(w.counted, 1)
	}
	m.compareDigest(t, name, rapid.IntRange(0, syncd.MaxDigestBits).Draw(t, "bits"))
}

func (m *machine) compareDigest(t *rapid.T, name syncd.Table, bits int) {
	want, oldest := make([]syncd.Totals, 1<<bits), syncd.Epoch(0)
	first := true
	for k, e := range m.now.tables[name] {
		if first || e.Version.Epoch < oldest {
			oldest, first = e.Version.Epoch, false
		}
		if e.Row != nil {
			b := &want[syncd.BucketOf(m.hash(k), bits)]
			b.Rows++
			b.Digest += syncd.RowDigestOf(m.hash(k), e.Row)
		}
	}
	got, epoch, err := m.store.Digest(name, bits)
	if err != nil || epoch != oldest || !slices.Equal(got, want) {
		t.Fatalf("digest of %s in %d bits: oldest %d, want %d; as it should be: %v; error %v", name, bits, epoch, oldest, slices.Equal(got, want), err)
	}
}

// Check runs after every step.
func (m *machine) Check(t *rapid.T) {
	check(t, m.store)
	v := m.store.View()
	m.compare(t, v, m.now)
	r := drawRand(t)
	name, from := anyTable(r), r.Uint64()
	if r.IntN(2) == 0 {
		from = m.hash(anyKey(r))
	}
	m.compareWalk(t, v, m.now, name, from, 1+r.IntN(400))
	m.compareDigest(t, name, 3)
	k := anyKey(r)
	got, ok, err := m.store.Load(name, k)
	want, wantOK := m.now.tables[name][k]
	if err != nil || ok != wantOK || !same(got, want) {
		t.Fatalf("load %s/%s: %+v, %v, %v; want %+v, %v", name, k, got, ok, err, want, wantOK)
	}
}

func (m *machine) compare(t *rapid.T, v sink.View, want model) {
	if v.State().Cursor != want.state.Cursor {
		t.Fatalf("cursor %v, want %v", v.State().Cursor, want.state.Cursor)
	}
	for name, ts := range v.State().Tables {
		if ts.Rows != want.rows(name) {
			t.Fatalf("table %s: state says %d rows, want %d", name, ts.Rows, want.rows(name))
		}
	}
	for _, name := range tables {
		m.compareWalk(t, v, want, name, 0, 1<<30)
		for k, e := range want.tables[name] {
			if got, ok := v.Get(name, k); !ok || !same(got, e) {
				t.Fatalf("get %s/%s: %+v, %v; want %+v", name, k, got, ok, e)
			}
		}
	}
}

// compareWalk compares Walk, or for older views Rows, from a hash on, with the model's keys sorted.
func (m *machine) compareWalk(t *rapid.T, v sink.View, want model, name syncd.Table, from uint64, stop int) {
	var all, rows []syncd.Key
	keys := slices.SortedFunc(maps.Keys(want.tables[name]), func(a, b syncd.Key) int {
		return cmp.Or(cmp.Compare(m.hash(a), m.hash(b)), cmp.Compare(a, b))
	})
	for _, k := range keys {
		if m.hash(k) < from {
			continue
		}
		all = append(all, k)
		if want.tables[name][k].Row != nil {
			rows = append(rows, k)
		}
	}
	all, rows = all[:min(stop, len(all))], rows[:min(stop, len(rows))]
	var got []syncd.Key
	visit := func(k syncd.Key, e sink.Entry) bool {
		if !same(e, want.tables[name][k]) {
			t.Fatalf("walk %s/%s: %+v, want %+v", name, k, e, want.tables[name][k])
		}
		got = append(got, k)
		return len(got) < stop
	}
	v.Rows(name, from, visit)
	if !slices.Equal(got, rows) {
		t.Fatalf("rows of %s from %x: %q, want %q", name, from, got, rows)
	}
	if v != m.store.View() {
		return
	}
	got = nil
	if err := m.store.Walk(name, from, visit); err != nil || !slices.Equal(got, all) {
		t.Fatalf("walk of %s from %x: %q, %v, want %q", name, from, got, err, all)
	}
}

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.InMemory(func() sink.Store { return New(Options{}) }))
}

func TestStoreAgainstMap(t *testing.T) {
	for name, hash := range map[string]func(syncd.Key) uint64{"real hash": syncd.Key.Hash, "colliding hash": weakHash} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				m := newMachine(hash)
				t.Repeat(map[string]func(*rapid.T){
					"commit": m.Commit, "more": m.Commit, "empty": m.Empty,
					"hold": m.Hold, "drop": m.Drop, "restart": m.Restart, "digest": m.Digest, "": m.Check,
				})
				for _, h := range m.views {
					m.compare(t, h.view, h.was)
				}
			})
		})
	}
}

// TestDigestsOfALargeTable: they begin to be kept when the table is large enough, also when it was read from a file.
func TestDigestsOfALargeTable(t *testing.T) {
	s, name := New(Options{}), tables[0]
	for i := 0; i < 3*digestFrom; i += 500 {
		b := &sink.Batch{}
		for j := i; j < i+500; j++ {
			b.Writes = append(b.Writes, sink.Write{Table: name, Key: benchKey(j), Entry: sink.Entry{Row: fmt.Appendf(nil, "%d", j)}})
		}
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
		check(t, s)
		if kept := s.writers[name].digest != nil; kept != (i+500 >= digestFrom) {
			t.Fatalf("of %d rows digests are kept: %v", i+500, kept)
		}
	}
	var file bytes.Buffer
	if _, err := s.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	again := New(Options{})
	if _, err := again.ReadFrom(&file); err != nil {
		t.Fatal(err)
	}
	check(t, again)
	if again.writers[name].digest == nil {
		t.Error("digests of a loaded table are not kept")
	}
	want, _, _ := s.Digest(name, 9)
	if got, _, _ := again.Digest(name, 9); !slices.Equal(got, want) {
		t.Error("a loaded table has other digests")
	}
}
