package memory

import (
	"bytes"
	"maps"
	"math"
	"slices"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

var (
	_ sink.IndexKeeper = (*Store)(nil)
	_ sink.Indexer     = (*root)(nil)
)

// index is a secondary index of one table of one commit, for readers: nothing in it changes. An item is a row's key in the
// index and the hash of its own key. Rows whose hashes are equal, and whose index keys are, share one.
type index struct {
	of *syncd.Index
	tree
}

// indexOp is what a write does to an index: the item of a row that came or went.
type indexOp struct {
	index int
	add   bool
	item  []byte
}

// reindex notes what the change of one row, from old to row, nil where there is none, does to the indexes.
func (w *writer) reindex(hash uint64, old, row []byte) {
	for i := range w.indexes {
		x := &w.indexes[i]
		var was, is []byte
		if old != nil {
			was = appendHash(x.of.AppendKey(nil, old), hash)
		}
		if row != nil {
			is = appendHash(x.of.AppendKey(nil, row), hash)
		}
		if bytes.Equal(was, is) {
			continue
		}
		if was != nil {
			w.indexOps = append(w.indexOps, indexOp{index: i, item: was})
		}
		if is != nil {
			w.indexOps = append(w.indexOps, indexOp{index: i, add: true, item: is})
		}
	}
}

// applyIndexes brings the indexes to where the table is.
func (w *writer) applyIndexes() {
	if len(w.indexOps) == 0 {
		return
	}
	w.indexes = slices.Clone(w.indexes) // readers have the one before
	commit := w.dirOwner.commit
	for _, op := range w.indexOps {
		x := &w.indexes[op.index]
		switch {
		case op.add:
			x.add(op.item, commit)
		case !w.holds(x.of, op.item):
			x.remove(op.item, commit)
		}
	}
	clear(w.indexOps)
	if w.indexOps = w.indexOps[:0]; cap(w.indexOps) > keepItems {
		w.indexOps = nil
	}
}

// holds says whether any row of the table, the other of two keys with one hash say, has this item.
func (t *table) holds(x *syncd.Index, item []byte) bool {
	hash, found := itemHash(item), false
	t.atHash(hash, func(r *record) bool {
		found = r.row != nil && bytes.Equal(x.AppendKey(nil, r.row), item[:len(item)-8])
		return !found
	})
	return found
}

// atHash calls fn for the records of the keys that have a hash, until fn gives false, and says whether it came to the end.
func (t *table) atHash(hash uint64, fn func(*record) bool) bool {
	more := true
	t.walk(hash, func(r *record) bool {
		if t.hash(keyOf(r.key)) != hash {
			return false
		}
		more = fn(r)
		return more
	})
	return more
}

// setIndexes makes the indexes of a table anew where they are others than these, or the columns have other types. It says
// whether anything changed.
func (w *writer) setIndexes(declared [][]string, info *syncd.TableInfo, commit uint64) bool {
	if w.shape == info.Schema && slices.EqualFunc(w.declared, declared, slices.Equal[[]string]) {
		return false
	}
	w.shape, w.declared = info.Schema, declared
	w.indexes, w.indexOps = nil, nil
	for _, columns := range declared {
		of, err := syncd.NewIndex(*info, columns)
		if err != nil {
			continue // whoever declared it checks that and says so
		}
		w.indexes = append(w.indexes, index{of, w.buildTree(of, commit)})
	}
	return true
}

func (w *writer) buildTree(of *syncd.Index, commit uint64) tree {
	items := make([][]byte, 0, w.rows)
	w.walk(0, func(r *record) bool {
		if r.row != nil {
			items = append(items, slices.Clip(appendHash(of.AppendKey(nil, r.row), w.hash(keyOf(r.key)))))
		}
		return true
	})
	slices.SortFunc(items, bytes.Compare)
	return build(slices.CompactFunc(items, bytes.Equal), commit)
}

// keepIndexes takes the declaration of another writer's indexes over, with nothing in them.
func (w *writer) keepIndexes(old *writer) {
	w.declared, w.shape = old.declared, old.shape
	for i := range old.indexes {
		w.indexes = append(w.indexes, index{of: old.indexes[i].of})
	}
}

// rowShare is what a row takes in the indexes, more or less.
func (w *writer) rowShare() (n int) {
	const guess = 64 // while there are few rows to learn from
	for i := range w.indexes {
		if x := &w.indexes[i]; x.items > 100 {
			n += x.bytes / x.items
		} else {
			n += guess
		}
	}
	return n
}

func (w *writer) indexBytes() (n int) {
	for i := range w.indexes {
		n += w.indexes[i].bytes
	}
	return n
}

// SetIndexes implements sink.IndexKeeper.
func (s *Store) SetIndexes(indexes map[syncd.Table][][]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.indexes = maps.Clone(indexes)
	next := *s.root.Load()
	if next.closed {
		return errClosed
	}
	next.commits++
	s.redeclare(&next)
	return nil
}

// redeclare publishes a commit in which nothing but the indexes has changed.
func (s *Store) redeclare(next *root) {
	changed := s.declare(next.commits, next.state)
	for _, w := range changed {
		s.settle(w)
	}
	s.publish(next, changed, false, next.state)
}

// declare makes the indexes of all tables what they are declared to be for the tables' shapes, and gives the writers of those
// that changed: they are still to be settled. A table without entries has no writer, and so no indexes yet.
func (s *Store) declare(commit uint64, state *sink.State) (changed []*writer) {
	for t, w := range s.writers {
		ts := state.Tables[t]
		if ts == nil || len(s.indexes[t]) == 0 && len(w.declared) == 0 {
			continue
		}
		if w.setIndexes(s.indexes[t], &ts.Info, commit) {
			changed = append(changed, w)
		}
	}
	return changed
}

// Find implements sink.Indexer.
func (r *root) Find(t syncd.Table, f syncd.Filter, from uint64, fn func(syncd.Key, sink.Entry) bool) bool {
	tab := r.table(t)
	if tab == nil || f.IsZero() {
		return false
	}
	var best syncd.Plan
	var x *index
	for i := range tab.indexes {
		if p := tab.indexes[i].of.Plan(f); p.Rank > best.Rank {
			best, x = p, &tab.indexes[i]
		}
	}
	if best.Rank == 0 {
		return false
	}
	visit := func(hash uint64) bool {
		return tab.atHash(hash, func(rec *record) bool { return rec.row == nil || fn(keyOf(rec.key), tab.entry(rec)) })
	}
	if best.Exact {
		x.merge(best.Ranges, from, visit)
		return true
	}
	hashes, ok := x.gather(best.Ranges, from)
	if !ok {
		return false
	}
	for _, hash := range hashes {
		if !visit(hash) {
			break
		}
	}
	return true
}

// maxGather is how many rows of a range are put in order for one read. Where there are more, looking at all rows in their
// own order comes to enough of them soon.
const maxGather = 10_000

// gather gives the hashes from one on of the rows in the ranges, ascending; false where there are too many.
func (x *index) gather(ranges []syncd.KeyRange, from uint64) (hashes []uint64, ok bool) {
	for _, r := range ranges {
		ok := x.root.walk(r.From, func(item []byte) bool {
			if bytes.Compare(item[:len(item)-8], r.To) >= 0 {
				return false
			}
			if h := itemHash(item); h >= from {
				hashes = append(hashes, h)
			}
			return len(hashes) <= maxGather
		})
		if !ok && len(hashes) > maxGather {
			return nil, false
		}
	}
	slices.Sort(hashes)
	return slices.Compact(hashes), true
}

// batchLen is how many items of a range are taken from the tree at a time.
const batchLen = 32

// cursorAt goes through the items of one index key in the order of their hashes.
type cursorAt struct {
	key    []byte
	hashes []uint64 // the next ones
	more   bool     // there may be further ones behind them
}

func (c *cursorAt) fill(x *index, from uint64) {
	start := appendHash(slices.Clone(c.key), from)
	c.hashes, c.more = c.hashes[:0], false
	x.root.walk(start, func(item []byte) bool {
		if len(item) != len(start) || !bytes.HasPrefix(item, c.key) {
			return false
		}
		if len(c.hashes) == batchLen {
			c.more = true
			return false
		}
		c.hashes = append(c.hashes, itemHash(item))
		return true
	})
}

// merge calls visit with the hashes from one on of the rows in ranges of one index key each, ascending, until it gives false.
func (x *index) merge(ranges []syncd.KeyRange, from uint64, visit func(uint64) bool) {
	heads := make([]cursorAt, 0, len(ranges))
	for _, r := range ranges {
		c := cursorAt{key: r.From}
		if c.fill(x, from); len(c.hashes) > 0 {
			heads = append(heads, c)
		}
	}
	for len(heads) > 0 {
		least := heads[0].hashes[0]
		for i := range heads {
			least = min(least, heads[i].hashes[0])
		}
		if !visit(least) {
			return
		}
		for i := 0; i < len(heads); i++ {
			c := &heads[i]
			if c.hashes[0] != least {
				continue
			}
			if c.hashes = c.hashes[1:]; len(c.hashes) == 0 && c.more && least < math.MaxUint64 {
				c.fill(x, least+1)
			}
			if len(c.hashes) == 0 {
				heads = slices.Delete(heads, i, i+1)
				i--
			}
		}
	}
}
