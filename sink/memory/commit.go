package memory

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// FullError says that a commit, or a snapshot file, would make the store grow beyond Options.MaxMemory.
type FullError struct {
	Need int64 // bytes that the store would take
	Max  int64
}

func (e *FullError) Error() string {
	return fmt.Sprintf("the cache would take %.1f MiB of memory, more than max_memory allows (%.1f MiB): "+
		"raise sidecar.max_memory, or sync fewer tables, columns or rows", mib(e.Need), mib(e.Max))
}

// Intact says that what could not be stored is good: whoever read it from a file keeps the file.
func (e *FullError) Intact() bool { return true }

func mib(n int64) float64 { return float64(n) / (1 << 20) }

var errClosed = errors.New("the store is closed")

// Commit implements sink.Store. Drop comes before Writes; of several writes of one key the last counts. It takes b.State
// over and sets Rows in it. Entries are copied.
func (s *Store) Commit(b *sink.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.root.Load()
	if old.closed {
		return fmt.Errorf("commit: %w", errClosed)
	}
	if err := s.admit(b); err != nil {
		return fmt.Errorf("commit %d writes: %w", len(b.Writes), err)
	}
	next := *old
	next.commits++
	next.writes += uint64(len(b.Writes) + len(b.Drop))
	dropped := s.drop(b.Drop)
	touched := s.plan(next.commits, b.Writes)
	for _, w := range s.declare(next.commits, cmp.Or(b.State, old.state)) {
		if w.begin(next.commits) {
			touched = append(touched, w)
		}
	}
	for _, w := range touched {
		w.apply(b.Writes)
		s.settle(w)
	}
	s.publish(&next, touched, dropped, b.State)
	return nil
}

// drop forgets tables and says whether there were any.
func (s *Store) drop(tables []syncd.Table) bool {
	any := false
	for _, t := range tables {
		if w, ok := s.writers[t]; ok {
			s.total.add(w.counted, -1)
			delete(s.writers, t)
			any = true
		}
	}
	return any
}

// plan hands the writes to the writers of their tables, made where there are none, and gives those.
func (s *Store) plan(commit uint64, writes []sink.Write) (touched []*writer) {
	var w *writer
	for i := range writes {
		c := &writes[i]
		if i == 0 || c.Table != writes[i-1].Table {
			if w = s.writer(c.Table); w.begin(commit) {
				touched = append(touched, w)
			}
		}
		w.items.add(s.hash(c.Key), uint64(i))
	}
	return touched
}

func (s *Store) writer(t syncd.Table) *writer {
	w, ok := s.writers[t]
	if !ok {
		w = newWriter(s.hash)
		s.writers[t] = w
	}
	return w
}

// settle makes what a writer did ready to be published, and counts its memory.
func (s *Store) settle(w *writer) {
	if w.entries == 0 {
		fresh := newWriter(s.hash)
		fresh.number, fresh.published, fresh.counted = w.number, w.published, w.counted
		fresh.keepIndexes(w)
		*w = *fresh
	}
	w.seal()
	s.total.add(w.counted, -1)
	w.counted = w.account()
	s.total.add(w.counted, 1)
}

func (a *account) add(b account, sign int) {
	a.used += sign * b.used
	a.blocks += sign * b.blocks
	a.live += sign * b.live
	a.count += sign * b.count
}

// publish makes a commit visible.
func (s *Store) publish(next *root, touched []*writer, renumber bool, state *sink.State) {
	old := s.root.Load()
	if renumber || len(next.numbers) != len(s.writers) {
		next.numbers, next.tables = make(map[syncd.Table]int, len(s.writers)), make([]*table, 0, len(s.writers))
		for t, w := range s.writers {
			w.number = len(next.tables)
			next.numbers[t] = w.number
			next.tables = append(next.tables, w.published)
		}
	} else if len(touched) > 0 {
		next.tables = slices.Clone(old.tables)
		for _, w := range touched {
			next.tables[w.number] = w.published
		}
	}
	if state == nil {
		state = old.state
	}
	next.state = countRows(state, old.state, next)
	next.used = s.total.used
	s.root.Store(next)
}

// countRows gives state with the Rows of each table right. What a batch brings is fresh and is set; of the state before,
// which readers hold, what changes is copied.
func countRows(state, old *sink.State, r *root) *sink.State {
	kept := state == old
	for t, ts := range state.Tables {
		rows := 0
		if tab := r.table(t); tab != nil {
			rows = tab.rows
		}
		switch {
		case ts.Rows == rows:
			continue
		case !kept:
			ts.Rows = rows
			continue
		case state == old:
			c := *old
			c.Tables = maps.Clone(old.Tables)
			state = &c
		}
		c := *ts
		c.Rows = rows
		state.Tables[t] = &c
	}
	return state
}

// admit refuses a batch that the store has no room for, before anything is changed.
func (s *Store) admit(b *sink.Batch) error {
	if err := s.admitBlocks(len(b.Writes)); err != nil {
		return err
	}
	limit := s.options.MaxMemory
	if limit == 0 {
		return nil
	}
	grow := 0
	for i := range b.Writes {
		if c := &b.Writes[i]; !c.Remove {
			grow += entrySize(c.Key, &c.Entry) + s.rowShare(c.Table)
		}
	}
	if s.need(grow) <= limit {
		return nil
	}
	if grow -= s.replaced(b); grow <= 0 || s.need(grow) <= limit {
		return nil
	}
	return &FullError{Need: s.need(grow), Max: limit}
}

// admitBlocks refuses writes that could need more blocks than a table can have: one each.
func (s *Store) admitBlocks(writes int) error {
	if s.total.count+writes < maxBlocks {
		return nil
	}
	for t, w := range s.writers {
		if w.slab.count()+writes >= maxBlocks {
			return fmt.Errorf("table %s: the memory store holds at most %d blocks (%d GiB) of a table", t, maxBlocks, maxBlocks/1024)
		}
	}
	return nil
}

// need is how much memory the store takes when its entries have grown by some bytes: compaction leaves a fifth of the
// records dead, which is a quarter of the live ones; of two blocks more, one is being filled and one being emptied.
func (s *Store) need(grow int) int64 {
	live := s.total.live + grow
	return int64(live + live/4 + min(live/2, 2*maxBlock) + s.total.used - s.total.blocks)
}

// replaced is the size of the entries that a batch replaces or removes.
func (s *Store) replaced(b *sink.Batch) int {
	r, n := s.root.Load(), 0
	dropped := make(map[syncd.Table]bool)
	for _, t := range b.Drop {
		if w, ok := s.writers[t]; ok && !dropped[t] {
			n += w.slab.live + w.counted.used - w.counted.blocks
		}
		dropped[t] = true
	}
	for i := range b.Writes {
		c := &b.Writes[i]
		if e, ok := r.Get(c.Table, c.Key); ok && !dropped[c.Table] {
			n += entrySize(c.Key, &e) + s.rowShare(c.Table)
		}
	}
	return n
}

// rowShare is what a row of a table takes in its indexes.
func (s *Store) rowShare(t syncd.Table) int {
	if len(s.indexes[t]) == 0 {
		return 0
	}
	if w, ok := s.writers[t]; ok {
		return w.rowShare()
	}
	return 0
}

// entrySize is what an entry takes in a block and in the index.
func entrySize(key syncd.Key, e *sink.Entry) int {
	const slotSize = 9 // with its share of leaf and directory
	return recordSize(key, e, 1<<7) + slotSize
}
