package remote

import (
	"bytes"
	"strings"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// recallBytes bounds what is remembered of the entries that were written last, rows and keys and about what it takes to keep them.
const recallBytes = 64 << 20

// recallOverhead is about what an entry takes beside its row and key.
const recallOverhead = 250

// memory is what this process has written or read of entries, as the place holds them unless somebody spoilt it. It is of the
// goroutine that loads and commits. The zero memory remembers nothing yet.
type memory struct {
	tables map[syncd.Table]map[syncd.Key]Found
	bytes  int
	limit  int // 0: recallBytes
}

func (m *memory) get(t syncd.Table, k syncd.Key) (Found, bool) {
	f, ok := m.tables[t][k]
	return f, ok
}

// cost is what an entry counts.
func cost(k syncd.Key, f *Found) int { return len(k) + len(f.Row) + recallOverhead }

// put remembers an entry, whose key and row are not changed any more, and forgets others where it gets too much: whichever.
func (m *memory) put(t syncd.Table, k syncd.Key, f Found) {
	if m.tables == nil {
		m.tables = map[syncd.Table]map[syncd.Key]Found{}
	}
	if m.tables[t] == nil {
		m.tables[t] = map[syncd.Key]Found{}
	}
	if was, ok := m.tables[t][k]; ok {
		m.bytes -= cost(k, &was)
	}
	m.tables[t][k] = f
	m.bytes += cost(k, &f)
	limit := m.limit
	if limit == 0 {
		limit = recallBytes
	}
	if m.bytes <= limit {
		return
	}
	for t, held := range m.tables {
		for k, f := range held {
			if m.bytes <= limit-limit/16 {
				return
			}
			delete(held, k)
			m.bytes -= cost(k, &f)
		}
		delete(m.tables, t)
	}
}

func (m *memory) remove(t syncd.Table, k syncd.Key) {
	if was, ok := m.tables[t][k]; ok {
		m.bytes -= cost(k, &was)
		delete(m.tables[t], k)
	}
}

func (m *memory) drop(t syncd.Table) {
	for k, f := range m.tables[t] {
		m.bytes -= cost(k, &f)
	}
	delete(m.tables, t)
}

// clear forgets everything: the place is not known to hold it.
func (m *memory) clear() { m.tables, m.bytes = nil, 0 }

// commit remembers what a commit has written.
func (m *memory) commit(c *Change) {
	for _, t := range c.Drop {
		m.drop(t)
	}
	for _, t := range c.New {
		m.drop(t)
	}
	for i := range c.Writes {
		w := &c.Writes[i]
		if w.Remove {
			m.remove(w.Table, w.Key)
			continue
		}
		f := Found{Entry: w.Entry, Held: true, Counted: w.Entry.Row != nil}
		f.Row = bytes.Clone(w.Entry.Row)
		m.put(w.Table, syncd.Key(strings.Clone(string(w.Key))), f)
	}
}

// Recall implements sink.Recaller: what is remembered is not asked for.
func (s *Store) Recall(t syncd.Table, keys []syncd.Key) error {
	if err := s.attach(s.ctx); err != nil {
		return err
	}
	have := make(map[syncd.Key]Found, len(keys))
	var missing []syncd.Key
	for _, k := range keys {
		if f, ok := s.memory.get(t, k); ok {
			have[k] = f
		} else {
			missing = append(missing, k)
		}
	}
	s.loaded[t] = have
	return s.fetchAll(t, missing)
}

var _ sink.Recaller = (*Store)(nil)
