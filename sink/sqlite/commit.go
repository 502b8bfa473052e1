package sqlite

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/codec"
)

// next is the next step of a commit.
func (f *file) next() error {
	if f.step == nil {
		return nil
	}
	return f.step()
}

// commit makes what fn writes visible at once, in the file and, by visible, to readers that begin from now on.
func (f *file) commit(fn func() error, visible func()) error {
	err := f.w.exec("BEGIN IMMEDIATE")
	if err != nil {
		return err
	}
	if err = fn(); err == nil {
		err = f.next()
	}
	if err == nil {
		f.mu.Lock()
		if err = f.w.exec("COMMIT"); err == nil {
			visible()
		}
		f.mu.Unlock()
		if err == nil {
			f.heed()
			return f.next()
		}
	}
	_ = f.w.exec("ROLLBACK") // some errors have done that already
	return err
}

// commit is one commit in the making: what becomes of the tables that it changes.
type commit struct {
	*Store
	tables map[syncd.Table]*table // copies of those that change, and new ones
	gone   []syncd.Table
	sums   []sumChange
}

// sumChange is what one write does to its table's digests and counts.
type sumChange struct {
	t        *table
	k        syncd.Key
	old, now *sink.Entry // nil: none
}

// Commit writes a batch in one transaction.
func (s *Store) Commit(b *sink.Batch) error {
	s.f.wmu.Lock()
	defer s.f.wmu.Unlock()
	if s.closed {
		return fmt.Errorf("commit to %s: it is closed", s.f.path)
	}
	if err := s.f.looked(); err != nil {
		return fmt.Errorf("commit to %s: %w", s.f.path, err)
	}
	c := &commit{Store: s, tables: map[syncd.Table]*table{}}
	var state *sink.State
	err := s.f.commit(func() (err error) {
		if err := s.f.next(); err != nil {
			return err
		}
		state, err = c.write(b)
		return err
	}, func() { c.visible(state) })
	if err != nil {
		return fmt.Errorf("commit to %s: %w", s.f.path, err)
	}
	return nil
}

func (c *commit) write(b *sink.Batch) (*sink.State, error) {
	if err := c.drop(b); err != nil {
		return nil, err
	}
	if b.State != nil {
		for _, name := range slices.SortedFunc(maps.Keys(b.State.Tables), codec.CompareTables) {
			if err := c.shape(name, b.State.Tables[name].Info); err != nil {
				return nil, fmt.Errorf("make table %s: %w", name, err)
			}
		}
	}
	if err := c.writes(b.Writes); err != nil {
		return nil, err
	}
	state := c.count(b.State)
	if err := c.f.next(); err != nil {
		return nil, err
	}
	return state, c.f.w.exec("INSERT OR REPLACE INTO _syncd_state VALUES (?, ?, ?)", c.generation, c.commits+1, codec.AppendState(nil, state))
}

// table gives a copy of a table to be changed; a new one where there is none.
func (c *commit) table(name syncd.Table) (*table, error) {
	if t := c.tables[name]; t != nil {
		return t, nil
	}
	if old := c.Store.tables[name]; old != nil && !slices.Contains(c.gone, name) {
		t := *old
		c.tables[name] = &t
		return &t, nil
	}
	t, err := c.add(name)
	if err != nil {
		return nil, fmt.Errorf("make table %s: %w", name, err)
	}
	c.tables[name] = t
	return t, c.f.next()
}

// drop empties tables; those that the state no longer has go altogether.
func (c *commit) drop(b *sink.Batch) error {
	for _, name := range b.Drop {
		if c.Store.tables[name] == nil {
			continue
		}
		t, err := c.table(name)
		if err != nil {
			return err
		}
		if b.State == nil || b.State.Tables[name] != nil {
			err = c.empty(t)
		} else {
			err = c.remove(t)
			delete(c.tables, name)
			c.gone = append(c.gone, name)
		}
		if err = cmp.Or(err, c.f.next()); err != nil {
			return fmt.Errorf("empty table %s: %w", name, err)
		}
	}
	return nil
}

// shape has the table that others see be as the source's is.
func (c *commit) shape(name syncd.Table, info syncd.TableInfo) error {
	if old := c.Store.tables[name]; old != nil && c.tables[name] == nil && sameShape(&old.info, &info) {
		return nil
	}
	t, err := c.table(name)
	if err != nil || t.shape != nil && sameShape(&t.info, &info) {
		return err
	}
	if err := c.reshape(t, info); err != nil {
		return err
	}
	return c.f.next()
}

func sameShape(a, b *syncd.TableInfo) bool {
	return (a.Error == "") == (b.Error == "") && slices.Equal(a.Columns, b.Columns) && slices.Equal(a.Types, b.Types) && slices.Equal(a.Key, b.Key)
}

// writes writes the entries, table by table, each table's in the order of its hashes.
func (c *commit) writes(all []sink.Write) error {
	byTable := map[syncd.Table][]*sink.Write{}
	for i := range all {
		byTable[all[i].Table] = append(byTable[all[i].Table], &all[i])
	}
	for _, name := range slices.SortedFunc(maps.Keys(byTable), codec.CompareTables) {
		t, err := c.table(name)
		if err == nil {
			err = c.writeTable(t, byTable[name])
		}
		if err != nil {
			return fmt.Errorf("write %d entries of %s: %w", len(byTable[name]), name, err)
		}
	}
	return nil
}

// entryWrite is one write of a commit, with what it replaces.
type entryWrite struct {
	*sink.Write
	hash uint64
	old  loaded
}

// gone says whether the write takes a row away.
func (w *entryWrite) gone() bool { return w.old.entry.Row != nil && (w.Remove || w.Entry.Row == nil) }

func (c *commit) writeTable(t *table, some []*sink.Write) error {
	keys := make([]syncd.Key, len(some))
	for i, w := range some {
		keys[i] = w.Key
	}
	if err := t.load(c.f, keys); err != nil {
		return err
	}
	writes := make([]entryWrite, len(some))
	for i, w := range some {
		writes[i] = entryWrite{w, c.f.hash(w.Key), t.loaded[w.Key]}
	}
	taken, err := c.takeAway(t, writes)
	if err == nil {
		err = c.f.next()
	}
	if err != nil {
		return err
	}
	if err := c.rows(t, writes, taken == 0); err != nil { // in the order they came in: a list's is the key's, which fills pages best
		return err
	}
	if err := c.f.next(); err != nil {
		return err
	}
	byHash := make([]*entryWrite, len(writes))
	for i := range writes {
		byHash[i] = &writes[i]
	}
	slices.SortFunc(byHash, func(a, b *entryWrite) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.Key, b.Key)) })
	return c.entries(t, byHash)
}

// takeAway takes all rows away that are gone: before others come, that may have an equal key. It says how many.
func (c *commit) takeAway(t *table, writes []entryWrite) (n int, err error) {
	if t.shape == nil {
		return 0, nil
	}
	where := "DELETE FROM " + quote(t.physical) + " WHERE " + t.shape.where()
	var values, key []any
	for i := range writes {
		if w := &writes[i]; w.gone() {
			if values = t.shape.values(w.old.entry.Row, values); values != nil {
				key = t.shape.keyOf(values, key[:0])
				if err := c.f.w.exec(where, key...); err != nil {
					return n, err
				}
				n++
			}
		}
	}
	return n, nil
}

// entries writes the entries, in the order of their hashes.
func (c *commit) entries(t *table, writes []*entryWrite) error {
	into := newBatch(c.f.w, entriesOf(t.id), 2, "")
	remove := "DELETE FROM " + entriesOf(t.id) + " WHERE hash = ?"
	var arena []byte
	for len(writes) > 0 {
		n := 1
		for n < len(writes) && writes[n].hash == writes[0].hash {
			n++
		}
		start := len(arena)
		arena = c.ofOneHash(t, writes[:n], arena)
		var err error
		if len(arena) > start {
			into.args = append(into.args, signed(writes[0].hash), arena[start:len(arena):len(arena)])
			err = into.wrote()
		} else {
			err = c.f.w.exec(remove, signed(writes[0].hash))
		}
		if err != nil {
			return err
		}
		if len(into.args) == 0 {
			arena = arena[:0]
		}
		writes = writes[n:]
	}
	return into.end()
}

// ofOneHash appends what is stored under a hash, nothing where that is to go, and takes note of what changes.
func (c *commit) ofOneHash(t *table, writes []*entryWrite, b []byte) []byte {
	var others []keyed
	for _, w := range writes {
		if w.old.others != nil {
			others = w.old.others
		}
		change := sumChange{t: t, k: w.Key}
		if w.old.ok {
			change.old = &w.old.entry
			if w.old.entry.Row != nil {
				t.rows--
			}
		}
		if !w.Remove {
			change.now = &w.Entry
			if w.Entry.Row != nil {
				t.rows++
			}
		}
		c.sums = append(c.sums, change)
	}
	for _, w := range writes {
		for len(others) > 0 && others[0].key <= w.Key {
			if others[0].key < w.Key {
				b = appendEntry(b, others[0].key, &others[0].entry)
			}
			others = others[1:]
		}
		if !w.Remove {
			b = appendEntry(b, w.Key, &w.Entry)
		}
	}
	for i := range others {
		b = appendEntry(b, others[i].key, &others[i].entry)
	}
	return b
}

// rows writes the rows that others see. Where they are known to be those of their entries, what stays the same is left alone:
// rows (none was taken away whose key may be equal), and of those that differ the indexes that don't change.
func (c *commit) rows(t *table, writes []entryWrite, alone bool) error {
	if t.shape == nil {
		return nil
	}
	trusted := t.checked == c.f.touched
	whole := newBatch(c.f.w, quote(t.physical), len(t.shape.columns), "")
	beside := newBatch(c.f.w, quote(t.physical), len(t.shape.columns), t.beside)
	var values []any
	var olds, news [][]byte
	for i := range writes {
		w := &writes[i]
		if w.Remove || w.Entry.Row == nil {
			continue
		}
		if news = t.shape.raw(w.Entry.Row, news); news == nil {
			continue
		}
		into := whole
		if w.old.entry.Row != nil && trusted && !t.spoilt[w.Key] {
			if olds = t.shape.raw(w.old.entry.Row, olds); olds != nil && sameRaw(olds, news, t.shape.key) {
				if alone && bytes.Equal(w.old.entry.Row, w.Entry.Row) {
					continue
				}
				if t.beside != "" && sameRaw(olds, news, t.indexed) {
					into = beside
				}
			}
		}
		if values = t.shape.ofRaw(news, values); values == nil {
			continue
		}
		into.args = append(into.args, values...)
		if err := into.wrote(); err != nil {
			return err
		}
	}
	if err := whole.end(); err != nil {
		return err
	}
	return beside.end()
}

// count gives the state with the rows of each table counted.
func (c *commit) count(state *sink.State) *sink.State {
	if state == nil {
		kept := *c.State()
		kept.Tables = make(map[syncd.Table]*sink.TableState, len(kept.Tables))
		for name, t := range c.State().Tables {
			copied := *t
			kept.Tables[name] = &copied
		}
		state = &kept
	}
	for name, st := range state.Tables {
		st.Rows = 0
		if t := c.tables[name]; t != nil {
			st.Rows = t.rows
		} else if t := c.Store.tables[name]; t != nil {
			st.Rows = t.rows
		}
	}
	return state
}

// visible takes over what was committed.
func (c *commit) visible(state *sink.State) {
	s := c.Store
	for i := range c.sums {
		c.sums[i].apply()
	}
	for _, name := range c.gone {
		delete(s.tables, name)
	}
	maps.Copy(s.tables, c.tables)
	for _, t := range s.tables {
		t.loaded = nil
	}
	s.commits++
	s.publish(state)
}

// apply brings a table's digests and counts up to date.
func (c *sumChange) apply() {
	t := c.t
	delete(t.spoilt, c.k)
	if t.sums == nil {
		return
	}
	hash := c.k.Hash()
	b := &t.sums[syncd.BucketOf(hash, syncd.MaxDigestBits)]
	if c.old != nil {
		t.epochs[c.old.Version.Epoch]--
		if c.old.Row != nil {
			b.Rows--
			b.Digest -= syncd.RowDigestOf(hash, c.old.Row)
		}
	}
	if c.now != nil {
		t.epochs[c.now.Version.Epoch]++
		if c.now.Row != nil {
			b.Rows++
			b.Digest += syncd.RowDigestOf(hash, c.now.Row)
		}
	}
}
