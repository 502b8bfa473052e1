package sink

import (
	"maps"
	"slices"

	"github.com/syncd-io/syncd"
)

// change is one commit in the making: fresh copies of the state and of all tables' states, and the writes so far.
type change struct {
	store Store
	state *State
	batch Batch
	// before is what each of the batch's writes replaces, and resets why tables are to be read anew: for the history.
	before []before
	resets map[syncd.Table]string
}

// newChange begins a change of a store. writes and olds are space for its writes, empty.
func newChange(s Store, writes []Write, olds []before) *change {
	old := s.State()
	st := *old
	st.Tables = make(map[syncd.Table]*TableState, len(old.Tables))
	states := make([]TableState, 0, len(old.Tables))
	for name, t := range old.Tables {
		states = append(states, *t)
		st.Tables[name] = &states[len(states)-1]
	}
	return &change{store: s, state: &st, batch: Batch{Writes: writes}, before: olds}
}

// commit makes the change visible.
func (c *change) commit() error {
	c.batch.State = c.state
	return c.store.Commit(&c.batch)
}

// openLoss takes note that deltas of a table up to an LSN are missing, and asks for a list. It says whether the loss is news.
func (c *change) openLoss(t *TableState, at syncd.LSN, why string) bool {
	news := at > t.LastLoss
	if t.Loss == 0 {
		c.advance(t)
	}
	t.Loss, t.LastLoss = max(t.Loss, at), max(t.LastLoss, at)
	t.Relist, t.RelistAt = why, max(t.RelistAt, at)
	return news
}

// altered takes note that a table changed, up to an LSN, in a way that the stream can't carry. That is as good as lost: rows
// that no delta names may have changed, so until the table was listed it is not complete beyond where it was.
func (c *change) altered(t *TableState, at syncd.LSN, why string) {
	c.openLoss(t, at, why)
	t.Changed = true
}

// advance has a table be complete as far as the cache is, unless a loss is open. It never goes back, not even where a stream
// that lost its end has the cache take up an earlier marker.
func (c *change) advance(t *TableState) {
	if at := c.state.Cursor.Position; t.Loss == 0 && t.Through.Compare(at) <= 0 {
		t.Through, t.Sent, t.Applied = at, c.state.Sent, c.state.Applied
	}
}

// tableChange is the part of a change that concerns one table.
type tableChange struct {
	*change
	name syncd.Table
	*TableState
	// pending finds the batch's write of a key: a key that changes twice in a batch meets its own first change.
	pending map[syncd.Key]int
	// opened says that Open is a copy already.
	opened bool
}

// table begins to change a table; nil where the cache does not know it. pending is scratch space, empty.
func (c *change) table(name syncd.Table, pending map[syncd.Key]int) *tableChange {
	t := c.state.Tables[name]
	if t == nil {
		return nil
	}
	return &tableChange{change: c, name: name, TableState: t, pending: pending}
}

// load gives what is held under a key, the batch's own writes included.
func (c *tableChange) load(k syncd.Key) (Entry, bool, error) {
	if i, ok := c.pending[k]; ok {
		w := &c.batch.Writes[i]
		return w.Entry, !w.Remove, nil
	}
	return c.store.Load(c.name, k)
}

// put sets an entry in the place of old.
func (c *tableChange) put(k syncd.Key, e, old Entry) {
	c.write(Write{Table: c.name, Key: k, Entry: e}, before{row: old.Row})
}

// remove takes the entry old away.
func (c *tableChange) remove(k syncd.Key, old Entry) {
	c.write(Write{Table: c.name, Key: k, Remove: true}, before{row: old.Row})
}

func (c *tableChange) write(w Write, b before) {
	if i, ok := c.pending[w.Key]; ok {
		c.batch.Writes[i] = w // what was there before the first write stays what is replaced
		return
	}
	c.pending[w.Key] = len(c.batch.Writes)
	c.batch.Writes, c.before = append(c.batch.Writes, w), append(c.before, b)
}

// reset says that a table's rows are replaced, and not one by one.
func (c *change) reset(name syncd.Table, why string) {
	if c.resets == nil {
		c.resets = map[syncd.Table]string{}
	}
	c.resets[name] = why
}

// own makes sure that Open is this change's own.
func (c *tableChange) own() {
	if !c.opened {
		c.Open, c.opened = maps.Clone(c.Open), true
		if c.Open == nil {
			c.Open = map[syncd.Key]Open{}
		}
	}
}

// open marks a key, or adds to its mark.
func (c *tableChange) open(k syncd.Key, more Open) {
	c.own()
	o, ok := c.Open[k]
	if !ok {
		c.Open[k] = more
		return
	}
	o.Reason, o.Parked = more.Reason, o.Parked || more.Parked
	for _, d := range more.Deltas {
		o.Deltas = addSeen(o.Deltas, d)
	}
	for _, s := range more.Snaps {
		o.Snaps = addSnap(o.Snaps, s)
	}
	c.Open[k] = o
}

// shut takes a key's mark away.
func (c *tableChange) shut(k syncd.Key) {
	c.own()
	delete(c.Open, k)
}

// addSeen adds a delta to the oldest and the newest in question.
func addSeen(all []Seen, d Seen) []Seen {
	oldest, newest := d, d
	for _, o := range all {
		if o.Version.Compare(oldest.Version) < 0 {
			oldest = o
		}
		if o.Version.Compare(newest.Version) > 0 {
			newest = o
		}
	}
	if oldest == newest {
		return []Seen{oldest}
	}
	return []Seen{oldest, newest}
}

// addSnap adds a snapshot to those that an answer must be later than, less those that s or another contains.
func addSnap(all []*syncd.Snapshot, s *syncd.Snapshot) []*syncd.Snapshot {
	for _, o := range all {
		if o.Later(s) {
			return all
		}
	}
	kept := slices.DeleteFunc(slices.Clone(all), func(o *syncd.Snapshot) bool { return s.Later(o) })
	return append(kept, s)
}
