package storetest

import (
	"errors"
	"maps"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// follower is a reader that has read the tables of a cache over the store under test, and follows its history from then on,
// as watches do: what it has must be what the cache shows, and what a commit says was there before must be what it had.
type follower struct {
	t      *testing.T
	cache  *sink.Cache
	tables map[syncd.Table]*followed
	turn   int
	spoilt bool // rows were changed behind the store's back: what it says was there is not what was shown
}

// followed is one table as the follower has it.
type followed struct {
	mark    sink.Mark
	through syncd.Position
	rows    map[syncd.Key]string
}

func newFollower(t *testing.T, c *sink.Cache) *follower {
	return &follower{t: t, cache: c, tables: map[syncd.Table]*followed{}}
}

// catchUp takes in what came, and compares.
func (f *follower) catchUp(tables ...syncd.Table) {
	f.t.Helper()
	f.turn++
	v, head := f.cache.History().Look()
	defer v.Close()
	for _, name := range tables {
		ts := v.State().Tables[name]
		if ts == nil || !ts.Listed {
			delete(f.tables, name)
			continue
		}
		t := f.tables[name]
		if t == nil || !f.follow(name, t) {
			t = &followed{rows: map[syncd.Key]string{}}
			v.Rows(name, 0, func(k syncd.Key, e sink.Entry) bool { t.rows[k] = string(e.Row); return true })
			f.tables[name] = t
		}
		t.mark, t.through = head, ts.Complete()
		rows := map[syncd.Key]string{}
		v.Rows(name, 0, func(k syncd.Key, e sink.Entry) bool { rows[k] = string(e.Row); return true })
		if err := v.Err(); err != nil {
			f.t.Fatal(err)
		}
		if !maps.Equal(rows, t.rows) {
			f.t.Fatalf("who follows %s has %v, the cache shows %v", name, t.rows, rows)
		}
	}
}

// follow takes in what came behind the mark, or now and then behind a read's version, and says whether that is known.
func (f *follower) follow(name syncd.Table, t *followed) bool {
	f.t.Helper()
	h, from := f.cache.History(), t.mark
	again := f.turn%3 == 0 // some of what comes may be there already
	var err error
	if again {
		from, err = h.After(name, t.through)
	}
	var commits []*sink.Commit
	if err == nil {
		commits, err = h.Next(name, from, 1<<20)
	}
	if errors.As(err, new(*sink.ResetError)) || errors.Is(err, syncd.ErrTooOld) {
		return false
	}
	if err != nil {
		f.t.Fatalf("follow %s: %v", name, err)
	}
	for _, c := range commits {
		for x := range c.Changes() {
			if was, ok := t.rows[x.Key]; !again && !f.spoilt && (ok != (x.Was != nil) || was != string(x.Was)) {
				f.t.Fatalf("%s/%s was %q, and its change says %q", name, x.Key, was, x.Was)
			}
			delete(t.rows, x.Key)
			if x.Row != nil {
				t.rows[x.Key] = string(x.Row)
			}
		}
	}
	return true
}
