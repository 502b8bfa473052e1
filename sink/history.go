package sink

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"

	"github.com/syncd-io/syncd"
)

// HistoryLimits bound what a History keeps: what is more is forgotten, the oldest first. Zero fields are set to the defaults.
type HistoryLimits struct {
	Bytes   int // of keys and rows, those replaced too, and of what it takes to keep them; default 32 MiB
	Commits int // default 65536
}

func (l HistoryLimits) withDefaults() HistoryLimits {
	if l.Bytes <= 0 {
		l.Bytes = 32 << 20
	}
	if l.Commits <= 0 {
		l.Commits = 1 << 16
	}
	return l
}

// Mark is a place in a History: behind one of its commits. Another process's marks mean nothing to it.
type Mark struct {
	// Position is how far the cache had come by then.
	Position syncd.Position
	// Commit numbers the commit. It goes up by one with each that changed a row, from a number that is another in each process.
	Commit uint64
}

// Version gives the mark as a version: its position, and the lower half of its number.
func (m Mark) Version() syncd.Version {
	return syncd.Version{Epoch: m.Position.Epoch, LSN: m.Position.LSN, Ordinal: uint32(m.Commit)}
}

// Change is what a commit did to one key.
type Change struct {
	Key syncd.Key
	// Row and Was are the rows after and before; nil where there is none. They differ, and are not changed any more.
	Row, Was []byte
	// Kind says what a list or a get has repaired; NoRepair: the stream brought it.
	Kind Kind
}

// Commit is what one commit of a cache changed in one table.
type Commit struct {
	Mark
	// Through is how far the table is complete with it.
	Through syncd.Position
	changes changes
	// moved says that Position was not reached before this commit.
	moved bool
}

// ResetError says that a table's rows were replaced, and not one by one: what was read of it is void, and it is to be read anew.
type ResetError struct{ Why string }

func (e *ResetError) Error() string { return e.Why }

// History keeps the last commits of the cache that is read, so that readers can follow it, each at its own pace. A reader
// holds a Mark and no more; it holds up no commit and no other reader, and one that is too slow finds its place forgotten.
// It knows the commits of this process, and of each table only what could be read.
type History struct {
	limits HistoryLimits
	cache  *Cache

	mu    sync.RWMutex
	head  Mark
	state *State // of the cache at head
	start edge   // of every table that has no log
	why   string // what reset all tables last, if anything did
	logs  map[syncd.Table]*tableLog
	kept  []kept // all commits in logs, oldest first
	bytes int
}

// kept is one commit, by the tables that it changed.
type kept struct {
	tables []keptTable
	bytes  int
}

type keptTable struct {
	log    *tableLog
	commit *Commit
}

// edge is where what is known of a table begins: behind a commit, which is forgotten, and at a position.
type edge struct {
	Mark
	// whole says that who is complete through the position has all that the commit changed.
	whole bool
}

// tableLog are the commits that changed one table.
type tableLog struct {
	edge    edge
	why     string // a reset is why the edge is where it is
	commits []*Commit
	wake    broadcast
}

func newHistory(l HistoryLimits, s *State) *History {
	h := &History{limits: l.withDefaults(), logs: map[syncd.Table]*tableLog{}, state: s}
	h.head = Mark{Position: furthest(s), Commit: 1<<32 + uint64(rand.Uint32())}
	h.start = edge{h.head, true}
	return h
}

// furthest is how far a cache has come, where its cursor was put back too.
func furthest(s *State) syncd.Position {
	at := s.Cursor.Position
	for _, t := range s.Tables {
		if t.Through.Epoch == at.Epoch && t.Through.LSN > at.LSN {
			at = t.Through
		}
	}
	return at
}

// Head gives the last commit's mark, and the state of the cache then, which the caller must not change.
func (h *History) Head() (Mark, *State) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.head, h.state
}

// Changed gives a channel that is closed at the next commit after the call that changes a table.
func (h *History) Changed(t syncd.Table) <-chan struct{} {
	h.mu.RLock()
	l := h.logs[t]
	h.mu.RUnlock()
	if l == nil {
		h.mu.Lock()
		l = h.log(t)
		h.mu.Unlock()
	}
	return l.wake.next()
}

// log gives a table's log. The caller holds mu for writing.
func (h *History) log(t syncd.Table) *tableLog {
	l := h.logs[t]
	if l == nil {
		l = &tableLog{edge: h.start, why: h.why}
		h.logs[t] = l
	}
	return l
}

// look gives what is known of a table. The caller holds mu.
func (h *History) look(t syncd.Table) (edge, string, []*Commit) {
	if l := h.logs[t]; l != nil {
		return l.edge, l.why, l.commits
	}
	return h.start, h.why, nil
}

// Next gives the commits behind a mark that changed a table, oldest first, at most n. The error wraps syncd.ErrTooOld where
// some were forgotten, and is a *ResetError where the table was reset since.
func (h *History) Next(t syncd.Table, m Mark, n int) ([]*Commit, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	edge, why, commits := h.look(t)
	if m.Commit < edge.Commit {
		if why != "" {
			return nil, &ResetError{why}
		}
		return nil, fmt.Errorf("changes of %s behind commit %s are forgotten: %w", t, m.Version(), syncd.ErrTooOld)
	}
	i := behind(commits, m.Commit)
	return slices.Clone(commits[i:min(i+n, len(commits))]), nil
}

// behind finds the first commit behind one.
func behind(commits []*Commit, commit uint64) int {
	return sort.Search(len(commits), func(i int) bool { return commits[i].Commit > commit })
}

// maxAway is how many commits ago a version may have been given out: more than any limit keeps, and so few that another
// process's version is hardly taken for one of this.
const maxAway = 1 << 20

// Find gives the mark that a version was made of. The error wraps syncd.ErrTooOld where it is none of this history, or changes
// of the table behind it are forgotten, or it was reset since.
func (h *History) Find(t syncd.Table, v syncd.Version) (Mark, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	edge, _, commits := h.look(t)
	away := uint64(uint32(h.head.Commit) - v.Ordinal)
	m := Mark{v.Position(), h.head.Commit - away}
	low, high := edge.Position, h.head.Position
	i := behind(commits, m.Commit)
	if i > 0 {
		low = commits[i-1].Position
	}
	if i < len(commits) {
		high = commits[i].Position
	}
	if away > maxAway || m.Commit < edge.Commit || m.Position.Compare(low) < 0 || m.Position.Compare(high) > 0 {
		return Mark{}, fmt.Errorf("what came behind version %s in %s is not known here: %w", v, t, syncd.ErrTooOld)
	}
	return m, nil
}

// After gives a mark behind which is all that a reader may lack who has read a table that was complete through a position. It
// may come before what was read then, so that some of it comes again. The error wraps syncd.ErrTooOld where changes since are
// forgotten, or the table was reset.
func (h *History) After(t syncd.Table, p syncd.Position) (Mark, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	edge, _, commits := h.look(t)
	if c := p.Compare(edge.Position); c < 0 || c == 0 && !edge.whole {
		return Mark{}, fmt.Errorf("what came behind %s in %s is not known here: %w", p, t, syncd.ErrTooOld)
	}
	i := sort.Search(len(commits), func(i int) bool { return commits[i].Position.Compare(p) >= 0 })
	if i < len(commits) && commits[i].Position == p && commits[i].moved {
		i++
	}
	if i == 0 {
		return edge.Mark, nil
	}
	return commits[i-1].Mark, nil
}

// lookTries is how often a view and its mark are taken without waiting for who changes the cache.
const lookTries = 4

// Look gives a view of the cache as Cache.View does, and its commit's mark. Where commits follow closely on each other it waits
// for one of them.
func (h *History) Look() (View, Mark) {
	c := h.cache
	for range lookTries {
		turn := c.turn.Load()
		m, _ := h.Head()
		v := c.View()
		if turn%2 == 0 && c.turn.Load() == turn || v == nil {
			return v, m
		}
		v.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m, _ := h.Head()
	return c.View(), m
}
