package sink

import (
	"bytes"
	"unsafe"

	"github.com/syncd-io/syncd"
)

// This file writes a cache's History. Its caller holds the cache's mu.

// before is what a write replaces.
type before struct {
	row  []byte
	kind Kind // what the write repairs
}

// The bytes that a change and a commit take beside keys and rows.
const (
	changeBytes = int(unsafe.Sizeof(Change{}))
	commitBytes = int(unsafe.Sizeof(Commit{})+unsafe.Sizeof(kept{})) + 3*int(unsafe.Sizeof(uintptr(0)))
)

// add takes a commit of the cache that is read into the history. What it keeps are copies.
func (h *History) add(c *change) {
	all := c.changes()
	h.mu.Lock()
	defer h.mu.Unlock()
	at := furthest(c.state)
	moved := at.Compare(h.head.Position) > 0
	if !moved && at.Epoch == h.head.Position.Epoch {
		at = h.head.Position // the cursor was put back
	}
	h.head.Position = at
	h.listed(c.state)
	h.state = c.state
	if len(all) == 0 && len(c.resets) == 0 {
		return
	}
	h.head.Commit++
	size := 0
	for _, t := range all {
		size += t.bytes
	}
	if size > h.limits.Bytes {
		for name := range all {
			h.reset(name, "one commit has changed more rows than are kept of what changed")
		}
		all = nil
	}
	for name, why := range c.resets {
		h.reset(name, why)
		delete(all, name)
	}
	h.keep(c, all, moved)
}

// keep adds the changes of a commit to the logs of their tables, and forgets the oldest commits.
func (h *History) keep(c *change, all map[syncd.Table]*changed, moved bool) {
	k := kept{}
	for name, t := range all {
		l := h.log(name)
		commit := &Commit{Mark: h.head, Through: c.state.Tables[name].Complete(), Changes: t.copy(), moved: moved}
		l.commits = append(l.commits, commit)
		k.tables, k.bytes = append(k.tables, keptTable{l, commit}), k.bytes+t.bytes
		l.wake.wake()
	}
	if k.tables != nil {
		h.kept = append(h.kept, k)
		h.bytes += k.bytes
	}
	for h.bytes > h.limits.Bytes || len(h.kept) > h.limits.Commits {
		h.forget()
	}
}

// forget drops the oldest commit. Of a log that was reset since, it is gone already.
func (h *History) forget() {
	k := h.kept[0]
	h.kept[0] = kept{}
	h.kept, h.bytes = h.kept[1:], h.bytes-k.bytes
	for _, t := range k.tables {
		if l := t.log; len(l.commits) > 0 && l.commits[0] == t.commit {
			l.commits[0] = nil
			l.commits = l.commits[1:]
			l.edge, l.why = edge{t.commit.Mark, t.commit.moved}, ""
		}
	}
}

// reset forgets a table's commits because its rows were replaced.
func (h *History) reset(name syncd.Table, why string) {
	l := h.log(name)
	l.edge, l.why, l.commits = edge{h.head, false}, why, nil
	l.wake.wake()
}

// listed has the logs of tables that can be read from now on begin here.
func (h *History) listed(s *State) {
	for name, t := range s.Tables {
		if old := h.state.Tables[name]; t.Listed && (old == nil || !old.Listed) {
			l := h.log(name)
			l.edge, l.commits = edge{h.head, true}, nil
		}
	}
}

// resetAll forgets everything: another generation is read from now on, whose state is s.
func (h *History) resetAll(s *State, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.head, h.state = Mark{furthest(s), h.head.Commit + 1}, s
	h.start, h.why, h.kept, h.bytes = edge{h.head, true}, why, nil, 0
	for _, l := range h.logs {
		l.edge, l.why, l.commits = h.start, why, nil
		l.wake.wake()
	}
}

// changed are the changes of one table in a commit, whose rows are not the history's own yet.
type changed struct {
	changes []Change
	bytes   int
}

// changes gives what a commit changed for readers, by table: nothing of tables that are not served.
func (c *change) changes() map[syncd.Table]*changed {
	var all map[syncd.Table]*changed
	var t *changed
	var name syncd.Table
	for i := range c.batch.Writes {
		w, b := &c.batch.Writes[i], &c.before[i]
		row := w.Entry.Row
		if w.Remove {
			row = nil
		}
		if (row == nil) == (b.row == nil) && bytes.Equal(row, b.row) {
			continue
		}
		if t == nil || w.Table != name {
			if s := c.state.Tables[w.Table]; s == nil || !s.Listed {
				continue
			}
			if all == nil {
				all = map[syncd.Table]*changed{}
			}
			if name, t = w.Table, all[w.Table]; t == nil {
				t = &changed{bytes: commitBytes, changes: make([]Change, 0, len(c.batch.Writes)-i)}
				all[name] = t
			}
		}
		t.changes = append(t.changes, Change{Key: w.Key, Row: row, Was: b.row, Kind: b.kind})
		t.bytes += changeBytes + len(w.Key) + len(row) + len(b.row)
	}
	return all
}

// copy gives the changes with keys and rows of their own, in one piece of memory.
func (c *changed) copy() []Change {
	own := make([]byte, 0, c.bytes-commitBytes-len(c.changes)*changeBytes)
	take := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		n := len(own)
		own = append(own, b...)
		return own[n:len(own):len(own)]
	}
	all := make([]Change, len(c.changes))
	for i, x := range c.changes {
		n := len(own)
		own = append(own, x.Key...)
		key := syncd.Key("")
		if k := own[n:]; len(k) > 0 {
			key = syncd.Key(unsafe.String(&k[0], len(k))) // it is not written to any more
		}
		all[i] = Change{Key: key, Row: take(x.Row), Was: take(x.Was), Kind: x.Kind}
	}
	return all
}
