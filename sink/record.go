package sink

import (
	"maps"
	"unsafe"

	"github.com/syncd-io/syncd"
)

// This file writes a cache's History. Its caller holds the cache's mu.

// before is what a write replaces.
type before struct {
	row  []byte
	kind Kind // what the write repairs
	same bool // it changes nothing for readers
}

// commitBytes is what a commit takes beside its changes.
const commitBytes = int(unsafe.Sizeof(Commit{})+unsafe.Sizeof(kept{})) + 3*int(unsafe.Sizeof(uintptr(0)))

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
	c.copy(all)
	for name, t := range all {
		l := h.log(name)
		commit := &Commit{Mark: h.head, Through: c.state.Tables[name].Complete(), changes: t.changes, moved: moved}
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

// changed counts the changes of one table in a commit, and then holds them.
type changed struct {
	n, bytes int
	changes  changes
}

// changes counts what a commit changed for readers, by table: nothing of tables that are not served. It marks the writes that
// change nothing.
func (c *change) changes() map[syncd.Table]*changed {
	var all map[syncd.Table]*changed
	var t *changed
	for i := range c.batch.Writes {
		w, b := &c.batch.Writes[i], &c.before[i]
		row := w.row()
		if i == 0 || w.Table != c.batch.Writes[i-1].Table {
			t = all[w.Table]
			if s := c.state.Tables[w.Table]; t == nil && s != nil && s.Listed {
				if all == nil {
					all = map[syncd.Table]*changed{}
				}
				t = &changed{bytes: commitBytes}
				all[w.Table] = t
			}
		}
		if b.same = t == nil || same(row, b.row); !b.same {
			t.n++
			t.bytes += changeSize + len(w.Key) + len(row) + len(b.row)
		}
	}
	maps.DeleteFunc(all, func(_ syncd.Table, t *changed) bool { return t.n == 0 })
	return all
}

// row is what readers see of a write.
func (w *Write) row() []byte {
	if w.Remove {
		return nil
	}
	return w.Entry.Row
}

// copy makes the changes of the tables that are in all, with keys and rows of their own.
func (c *change) copy(all map[syncd.Table]*changed) {
	var t *changed
	for i := range c.batch.Writes {
		w, b := &c.batch.Writes[i], &c.before[i]
		if i == 0 || w.Table != c.batch.Writes[i-1].Table {
			if t = all[w.Table]; t != nil && t.changes == nil {
				t.changes = make(changes, 0, t.bytes-commitBytes)
			}
		}
		if t != nil && !b.same {
			t.changes = t.changes.append(w.Key, w.row(), b.row, b.kind)
		}
	}
}
