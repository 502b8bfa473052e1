package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// histories has caches live through generated histories: changes, losses, repetitions, lists, digests, new shapes, tables that
// come and go, restarts and new epochs.
func histories(t *testing.T, place func(testing.TB) Place) {
	for seed := range rounds(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			c := newPair(t, place(t), seed)
			c.tables()
			for range 60 {
				c.step()
				if t.Failed() {
					return
				}
			}
			c.settle()
			if c.place.Keeps {
				c.reopen()
				c.check()
				c.converged()
			}
		})
	}
}

// rounds gives a number of rounds: all, or one where the race detector watches.
func rounds(n uint64) uint64 {
	if underRace {
		return 1
	}
	return n
}

// step does one thing to both caches.
func (c *pair) step() {
	c.t.Helper()
	w := c.world
	name := w.names()[w.r.IntN(len(w.tables))]
	switch w.r.IntN(20) {
	case 0, 1, 2, 3, 4, 5:
		w.commit()
		return // nothing to be seen yet
	case 6, 7, 8, 9:
		c.flush(true)
	case 10, 11:
		c.list(name, false)
	case 12, 13:
		c.list(name, true)
	case 14:
		c.judge(w.page(name, []syncd.Key{w.tables[name].randomKey(w.r), w.tables[name].randomKey(w.r)}, nil))
	case 15:
		w.alter()
		c.flush(false)
		c.tables()
	case 16:
		w.pruned = !w.pruned
		c.tables()
	case 17:
		if c.place.Keeps {
			c.reopen()
		}
	case 18:
		if w.r.IntN(4) == 0 {
			c.newEpoch()
		}
	}
	c.check()
}

// newEpoch begins another epoch, and sometimes lists all of it, so that it takes the place of the old one.
func (c *pair) newEpoch() {
	c.t.Helper()
	w := c.world
	w.epoch++
	w.queue, w.past = nil, nil
	w.lsn += 100
	w.last = 0
	c.flush(false)
	if w.r.IntN(2) == 0 {
		for _, name := range w.names() {
			c.list(name, false)
		}
	}
}

// crashes kills the store before each step of a commit, opens the place again, and wants to find the commit in whole or not
// at all; then the process that comes next goes on.
func crashes(t *testing.T, place func(testing.TB) Place) {
	died := 0
	for _, kind := range []string{"flush", "list", "alter", "drop", "epoch"}[5-rounds(5):] {
		for step := 0; ; step++ {
			c := newPair(t, place(t), uint64(step))
			c.tables()
			for range 6 {
				c.world.commit()
			}
			c.settle()
			c.world.commit()
			r := c.plain.Store().(*recorder)
			r.commits = r.commits[len(r.commits)-1:]
			c.place.Crash(t, c.store, step)
			err := c.attempt(kind)
			if err == nil {
				break
			}
			died++
			_ = c.cache.Close() // of what is dead
			c.open()
			if !slices.ContainsFunc(r.commits, func(m *Map) bool { return sameAs(c.store, m) }) {
				t.Fatalf("%s, killed before step %d: the store is neither that of before the commit nor that of after it", kind, step)
			}
			c.alone()
			c.settle()
		}
	}
	if died < int(rounds(5)) {
		t.Errorf("the store died %d times", died)
	}
}

// attempt makes one commit of a kind, or of several, the first of which may be the last.
func (c *pair) attempt(kind string) error {
	each := func(do func(*sink.Cache) error) error {
		err := do(c.cache)
		return errors.Join(err, do(c.plain))
	}
	w := c.world
	switch kind {
	case "list":
		w.lsn, w.queue = w.last, nil // its flush is lost without a trace
		p := w.page(users, nil, nil)
		return each(func(x *sink.Cache) error { _, err := x.Judge(p, sink.How{}); return err })
	case "alter":
		t := w.tables[users]
		t.info.Columns, t.info.Types, t.info.Schema = append(t.info.Columns, "more"), append(t.info.Types, "integer"), t.info.Schema+1
		return each(func(x *sink.Cache) error { return x.SetTables(w.infos()) })
	case "drop":
		w.pruned = true
		return each(func(x *sink.Cache) error { return x.SetTables(w.infos()) })
	case "epoch":
		w.epoch, w.queue, w.last = w.epoch+1, nil, 0
	}
	m := &syncd.Marker{Epoch: w.epoch, Previous: w.last, Through: w.lsn, Safe: w.lsn}
	f := &sink.Flush{Marker: m, Seq: w.seq + 1, Deltas: map[syncd.Table][]syncd.Delta{}}
	for _, d := range w.queue {
		f.Deltas[d.Table] = append(f.Deltas[d.Table], d)
	}
	return each(func(x *sink.Cache) error { return x.Flush(f) })
}

// spoiled spoils a row behind the store's back: the next resync has to find it and to put it right.
func spoiled(t *testing.T, place func(testing.TB) Place) {
	ways := place(t).Spoils
	for _, how := range ways[:rounds(uint64(len(ways)))] {
		for _, closed := range []bool{false, true} {
			for _, digest := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, closed %v, digest %v", how.Name, closed, digest), func(t *testing.T) {
					c := newPair(t, place(t), 3)
					c.tables()
					c.settle()
					k := syncd.MakeKey("5")
					for c.world.tables[users].rows[k] == nil {
						c.world.commit()
					}
					c.settle()
					c.spoil(how.Name, closed, k)
					c.alone()
					c.found(k, digest)
					c.settle()
				})
			}
		}
	}
}

// spoil spoils a row of users, under an open store or a closed one.
func (c *pair) spoil(name string, closed bool, k syncd.Key) {
	c.t.Helper()
	if closed {
		if err := c.cache.Close(); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, how := range c.place.Spoils {
		if how.Name == name {
			how.Do(c.t, users, k)
		}
	}
	if closed {
		c.open()
	}
	c.reads.spoilt = true
}

// found fails the test where a resync does not find the spoilt row.
func (c *pair) found(k syncd.Key, digest bool) {
	c.t.Helper()
	var only *syncd.BucketSet
	if digest {
		d := c.world.digest(users, 4)
		got, err := c.cache.Compare(d, sink.How{})
		switch {
		case err == nil && len(got.Unequal) == 0:
			c.t.Fatal("the digest of what is stored is that of the rows, though one is spoilt")
		case err == nil:
			only = syncd.NewBucketSet(4, got.Unequal)
		}
	}
	found, err := c.cache.Judge(c.world.page(users, nil, only), sink.How{})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range found {
		if f.Key == k && f.Kind != sink.NoRepair {
			return
		}
	}
	c.t.Fatalf("a resync found %v, and %s is spoilt", found, k)
}
