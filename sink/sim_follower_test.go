package sink_test

import (
	"bytes"
	"errors"
	"maps"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// follower follows the history of a simulation's cache as readers do that come and go, and holds what it has against what
// can be read.
type follower struct {
	s      *simulation
	cache  *sink.Cache // followed so far; a restart makes another
	turn   int
	tables [simTables]followed

	follows, resets, forgotten int // what has happened
}

// followed is what is held of one table.
type followed struct {
	on      bool
	mark    sink.Mark
	through syncd.Position // what was held was complete through that
	rows    map[syncd.Key]string
	some    map[syncd.Key]string // those that picked holds for
	// spoilt and someSpoilt are keys whose rows were changed behind the cache's back, and the number of the last commit before
	// that: what is held of them is as it was, until a later commit changes them.
	spoilt, someSpoilt map[syncd.Key]uint64
}

func (f *follower) spoil(at place) {
	if t := &f.tables[at.table]; t.on {
		head, _ := f.cache.History().Head()
		t.spoilt[keyOf(at.key)], t.someSpoilt[keyOf(at.key)] = head.Commit, head.Commit
	}
}

// picked is a filter.
func picked(row []byte) bool { return row != nil && syncd.RowDigest("", row)%2 == 0 }

// check goes on from where the follower is, at two of three turns, and by one of the ways there are.
func (f *follower) check() {
	if f.cache != f.s.cache {
		f.cache, f.tables = f.s.cache, [simTables]followed{}
	}
	f.turn++
	if f.turn%3 == 0 {
		return // it is slow
	}
	v, m := f.cache.History().Look()
	defer v.Close()
	for i := range f.tables {
		f.follow(v, m, tableName(i), &f.tables[i])
	}
}

func (f *follower) follow(v sink.View, head sink.Mark, name syncd.Table, t *followed) {
	ts := v.State().Tables[name]
	if ts == nil || !ts.Listed {
		t.on = false
		return
	}
	commits, err := f.behind(name, t)
	reset := (*sink.ResetError)(nil)
	switch {
	case !t.on, errors.As(err, &reset), errors.Is(err, syncd.ErrTooOld):
		if t.on && reset != nil {
			f.resets++
		} else if t.on {
			f.forgotten++
		}
		*t = followed{on: true, rows: map[syncd.Key]string{}, some: map[syncd.Key]string{}, spoilt: map[syncd.Key]uint64{}, someSpoilt: map[syncd.Key]uint64{}}
		v.Rows(name, 0, func(k syncd.Key, e sink.Entry) bool {
			t.rows[k] = string(e.Row)
			if picked(e.Row) {
				t.some[k] = string(e.Row)
			}
			return true
		})
	case err != nil:
		f.s.bad("follow %s: %v", name, err)
		return
	}
	for _, c := range commits {
		f.follows++
		for x := range c.Changes() {
			f.apply(name, t, c.Commit, &x)
		}
	}
	t.mark, t.through = head, ts.Complete()
	f.compare(v, name, t)
}

// behind gives what came since, by the mark that is held, by what was given out for it, or by how far the table was complete.
func (f *follower) behind(name syncd.Table, t *followed) ([]*sink.Commit, error) {
	if !t.on {
		return nil, nil
	}
	var err error
	from := t.mark
	switch f.turn % 5 {
	case 0:
		if from, err = f.cache.History().Find(name, from.Version()); err == nil && from != t.mark {
			f.s.bad("mark %+v was found to be %+v", t.mark, from)
		}
	case 1:
		from, err = f.cache.History().After(name, t.through)
	}
	if err != nil {
		return nil, err
	}
	return f.cache.History().Next(name, from, 1<<20)
}

func (f *follower) apply(name syncd.Table, t *followed, n uint64, c *sink.Change) {
	if bytes.Equal(c.Row, c.Was) && (c.Row == nil) == (c.Was == nil) {
		f.s.bad("%s/%s is said to have changed, and is %s as before", name, c.Key, c.Row)
	}
	if _, spoilt := t.spoilt[c.Key]; f.turn%5 != 1 && !spoilt { // else what is held may have it already
		if was, ok := t.rows[c.Key]; ok != (c.Was != nil) || was != string(c.Was) {
			f.s.bad("%s/%s was %q, and its change says %q", name, c.Key, was, c.Was)
		}
	}
	mend(t.spoilt, c.Key, n)
	delete(t.rows, c.Key)
	if c.Row != nil {
		t.rows[c.Key] = string(c.Row)
	}
	switch {
	case picked(c.Row):
		t.some[c.Key] = string(c.Row)
		mend(t.someSpoilt, c.Key, n)
	case picked(c.Was), c.Kind != sink.NoRepair: // what was there before a repair may be what nobody was told of
		delete(t.some, c.Key)
		mend(t.someSpoilt, c.Key, n)
	}
}

func (f *follower) compare(v sink.View, name syncd.Table, t *followed) {
	rows, some := map[syncd.Key]string{}, map[syncd.Key]string{}
	v.Rows(name, 0, func(k syncd.Key, e sink.Entry) bool {
		rows[k] = string(e.Row)
		if picked(e.Row) {
			some[k] = string(e.Row)
		}
		return true
	})
	alike(rows, t.rows, t.spoilt)
	alike(some, t.some, t.someSpoilt)
	if !maps.Equal(rows, t.rows) || !maps.Equal(some, t.some) {
		f.s.bad("who follows %s has %v and of some %v, the cache has %v and %v", name, t.rows, t.some, rows, some)
	}
}

// mend forgets that a key was spoilt, if that was before commit n.
func mend(spoilt map[syncd.Key]uint64, k syncd.Key, n uint64) {
	if at, ok := spoilt[k]; ok && int64(n-at) > 0 {
		delete(spoilt, k)
	}
}

// alike has both maps hold the same under some keys.
func alike(a, b map[syncd.Key]string, keys map[syncd.Key]uint64) {
	for k := range keys {
		delete(a, k)
		if v, ok := b[k]; ok {
			a[k] = v
		}
	}
}
