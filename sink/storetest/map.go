package storetest

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// Map is the plainest sink.Store: Go maps, copied by every commit that touches them. It is for tests of what uses a store.
type Map struct {
	mu  sync.Mutex
	now *commit
}

// commit is one commit. It is never changed.
type commit struct {
	state  *sink.State
	tables map[syncd.Table]map[syncd.Key]sink.Entry
}

var (
	_ sink.Store    = (*Map)(nil)
	_ sink.Digester = (*Map)(nil)
)

// NewMap gives an empty store.
func NewMap() *Map { return &Map{now: &commit{state: &sink.State{}}} }

func (m *Map) latest() *commit {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Load implements sink.Store.
func (m *Map) Load(t syncd.Table, k syncd.Key) (sink.Entry, bool, error) {
	e, ok := m.latest().tables[t][k]
	return e, ok, nil
}

// Commit implements sink.Store.
func (m *Map) Commit(b *sink.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := &commit{state: m.now.state, tables: maps.Clone(m.now.tables)}
	if next.tables == nil {
		next.tables = map[syncd.Table]map[syncd.Key]sink.Entry{}
	}
	for _, t := range b.Drop {
		delete(next.tables, t)
	}
	copied := map[syncd.Table]bool{}
	for i := range b.Writes {
		w := &b.Writes[i]
		if !copied[w.Table] {
			copied[w.Table] = true
			if next.tables[w.Table] = maps.Clone(next.tables[w.Table]); next.tables[w.Table] == nil {
				next.tables[w.Table] = map[syncd.Key]sink.Entry{}
			}
		}
		if w.Remove {
			delete(next.tables[w.Table], w.Key)
			continue
		}
		e := w.Entry
		e.Row = slices.Clone(e.Row)
		next.tables[w.Table][w.Key] = e
	}
	next.state = stateOf(b, next)
	m.now = next
	return nil
}

// stateOf gives the state of a commit with the rows of each table counted.
func stateOf(b *sink.Batch, c *commit) *sink.State {
	s := b.State
	if s == nil {
		kept := *c.state
		kept.Tables = make(map[syncd.Table]*sink.TableState, len(c.state.Tables))
		for name, t := range c.state.Tables {
			copied := *t
			kept.Tables[name] = &copied
		}
		s = &kept
	}
	for name, t := range s.Tables {
		t.Rows = 0
		for _, e := range c.tables[name] {
			if e.Row != nil {
				t.Rows++
			}
		}
	}
	return s
}

// Walk implements sink.Store.
func (m *Map) Walk(t syncd.Table, from uint64, fn func(syncd.Key, sink.Entry) bool) error {
	m.latest().walk(t, from, fn)
	return nil
}

func (c *commit) walk(t syncd.Table, from uint64, fn func(syncd.Key, sink.Entry) bool) {
	keys := slices.SortedFunc(maps.Keys(c.tables[t]), func(a, b syncd.Key) int {
		return cmp.Or(cmp.Compare(a.Hash(), b.Hash()), cmp.Compare(a, b))
	})
	for _, k := range keys {
		if k.Hash() >= from && !fn(k, c.tables[t][k]) {
			return
		}
	}
}

// Digest implements sink.Digester.
func (m *Map) Digest(t syncd.Table, bits int) ([]syncd.Totals, syncd.Epoch, error) {
	all, oldest := make([]syncd.Totals, 1<<bits), syncd.Epoch(0)
	first := true
	for k, e := range m.latest().tables[t] {
		if first || e.Version.Epoch < oldest {
			oldest, first = e.Version.Epoch, false
		}
		if e.Row != nil {
			all[syncd.BucketOf(k.Hash(), bits)].Add(k, e.Row)
		}
	}
	return all, oldest, nil
}

// State implements sink.Store.
func (m *Map) State() *sink.State { return m.latest().state }

// View implements sink.Store.
func (m *Map) View() sink.View { return view{m.latest()} }

// Close implements sink.Store.
func (m *Map) Close() error { return nil }

type view struct{ *commit }

func (v view) State() *sink.State { return v.state }

func (v view) Get(t syncd.Table, k syncd.Key) (sink.Entry, bool) {
	e, ok := v.tables[t][k]
	return e, ok
}

func (v view) Rows(t syncd.Table, from uint64, fn func(syncd.Key, sink.Entry) bool) {
	v.walk(t, from, func(k syncd.Key, e sink.Entry) bool { return e.Row == nil || fn(k, e) })
}

func (v view) Err() error { return nil }

func (v view) Close() {}
