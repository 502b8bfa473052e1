package sqlite

import (
	"fmt"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// view is one commit: a transaction that reads.
type view struct {
	f    *file
	c    *conn // nil: closed, or it never came about
	root *root
	err  error
}

// View gives the last commit to read from. Other processes and commits go on meanwhile. It is used by one goroutine.
func (s *Store) View() sink.View {
	v := &view{f: s.f}
	v.c, v.err = s.f.reader(func() { v.root = s.root.Load() })
	if v.err != nil {
		v.err = fmt.Errorf("read SQLite file %s: %w", s.f.path, v.err)
		v.root = s.root.Load()
	}
	return v
}

// State gives the commit's state.
func (v *view) State() *sink.State { return v.root.state }

// Get implements sink.View.
func (v *view) Get(t syncd.Table, k syncd.Key) (sink.Entry, bool) {
	id, ok := v.root.ids[t]
	if !ok || v.err != nil || v.c == nil {
		return sink.Entry{}, false
	}
	l, err := get(v.c, id, k, v.f.hash(k))
	v.note(t, err)
	return l.entry, l.ok
}

// Rows implements sink.View.
func (v *view) Rows(t syncd.Table, from uint64, fn func(syncd.Key, sink.Entry) bool) {
	id, ok := v.root.ids[t]
	if !ok || v.err != nil || v.c == nil {
		return
	}
	v.note(t, walk(v.c, id, from, true, fn))
}

// note keeps the first error.
func (v *view) note(t syncd.Table, err error) {
	if err != nil && v.err == nil {
		v.err = fmt.Errorf("read %s from SQLite file %s: %w", t, v.f.path, err)
	}
}

// Err implements sink.View.
func (v *view) Err() error { return v.err }

// Close implements sink.View.
func (v *view) Close() {
	if v.c != nil {
		v.f.giveBack(v.c, v.err != nil)
		v.c = nil
	}
}
