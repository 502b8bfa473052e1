package storetest

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/codec"
)

// pair is the real sink.Cache twice: over the store under test and over a Map, and both are given the same. What the gate
// decides, it decides by what a store gives back; so a store that passes answers, keeps and shows what a Map does, through
// whatever a cache does with it.
type pair struct {
	t     *testing.T
	place Place
	world *world
	store sink.Store
	cache *sink.Cache // over the store
	plain *sink.Cache // over a Map
	reads *follower   // of cache
}

// recorder is a Map that remembers its commits.
type recorder struct {
	*Map
	commits []*Map
}

func (r *recorder) Commit(b *sink.Batch) error {
	err := r.Map.Commit(b)
	r.commits = append(r.commits, &Map{now: r.latest()})
	return err
}

var clock = time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)

func newPair(t *testing.T, p Place, seed uint64) *pair {
	c := &pair{t: t, place: p, world: newWorld(seed)}
	c.plain = sink.New(sink.Options{Store: &recorder{Map: NewMap()}, New: c.next(func() (sink.Store, error) { return NewMap(), nil }), Now: func() time.Time { return clock }})
	c.open()
	t.Cleanup(c.close)
	return c
}

// next leaves a maker out where the store under test has none.
func (c *pair) next(make func() (sink.Store, error)) func() (sink.Store, error) {
	if c.place.Next == nil {
		return nil
	}
	return make
}

// open begins another process over what the place keeps.
func (c *pair) open() {
	c.store = c.place.Open(c.t)
	c.cache = sink.New(sink.Options{Store: c.store, Now: func() time.Time { return clock },
		New: c.next(func() (sink.Store, error) { return c.place.Next(c.t, c.cache.Store()), nil })})
	c.reads = newFollower(c.t, c.cache)
}

func (c *pair) close() {
	if err := c.cache.Close(); err != nil {
		c.t.Errorf("close: %v", err)
	}
}

// reopen ends the process and begins another. A new epoch that was being built is begun again by both.
func (c *pair) reopen() {
	c.t.Helper()
	if err := c.cache.Close(); err != nil {
		c.t.Fatalf("close: %v", err)
	}
	c.open()
	c.plain = sink.New(sink.Options{Store: c.plain.Store(), New: c.next(func() (sink.Store, error) { return NewMap(), nil }), Now: func() time.Time { return clock }})
	c.tables()
}

// both does the same to both caches, and fails the test where they answer otherwise.
func (c *pair) both(what string, do func(*sink.Cache) (any, error)) error {
	c.t.Helper()
	got, gotErr := do(c.cache)
	if c.plain == c.cache {
		return gotErr
	}
	want, wantErr := do(c.plain)
	if (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() {
		c.t.Fatalf("%s: %v, over a map: %v", what, gotErr, wantErr)
	}
	if !equalAnswers(got, want) {
		c.t.Fatalf("%s: %+v, over a map: %+v", what, got, want)
	}
	return gotErr
}

func equalAnswers(a, b any) bool {
	switch a := a.(type) {
	case []sink.Finding:
		return slices.Equal(a, b.([]sink.Finding))
	case *sink.Comparison:
		o := b.(*sink.Comparison)
		return a == nil && o == nil || a != nil && o != nil && slices.Equal(a.Unequal, o.Unequal) && slices.Equal(a.Held, o.Held)
	}
	return a == b
}

// alone has no second cache follow any more: what comes has nothing to be compared with.
func (c *pair) alone() { c.plain = c.cache }

// tables tells the caches of their tables.
func (c *pair) tables() {
	c.t.Helper()
	if err := c.both("set the tables", func(x *sink.Cache) (any, error) { return nil, x.SetTables(c.world.infos()) }); err != nil {
		c.t.Fatal(err)
	}
}

// flush publishes what is committed. With faults some of it is lost, noticed or not, and some comes once more.
func (c *pair) flush(faults bool) {
	c.t.Helper()
	w := c.world
	w.seq += uint64(1 + w.r.IntN(4))
	m := &syncd.Marker{Epoch: w.epoch, Previous: w.last, Through: w.lsn, Safe: w.lsn, Sent: clock.Add(-time.Second)}
	f := &sink.Flush{Deltas: map[syncd.Table][]syncd.Delta{}, Marker: m, Seq: w.seq}
	deltas := w.queue
	if faults && w.r.IntN(4) == 0 {
		deltas = slices.Concat(w.past, deltas)
	}
	for _, d := range deltas {
		if faults && w.r.IntN(15) == 0 {
			if w.r.IntN(3) > 0 {
				f.Lost = append(f.Lost, d.Table)
			}
			continue
		}
		f.Deltas[d.Table] = append(f.Deltas[d.Table], d)
	}
	w.past, w.queue, w.last = w.queue, nil, w.lsn
	if err := c.both("flush", func(x *sink.Cache) (any, error) { return nil, x.Flush(f) }); err != nil {
		c.t.Fatal(err)
	}
}

// list lists a table in whole, of a digest where it may be, and draws the conclusions.
func (c *pair) list(name syncd.Table, digest bool) {
	c.t.Helper()
	l := &sink.List{Table: name, Schema: c.world.tables[name].info.Schema, Safe: c.world.last}
	var only *syncd.BucketSet
	if digest {
		d := c.world.digest(name, 3)
		var unequal []int
		err := c.both("compare a digest", func(x *sink.Cache) (any, error) {
			found, err := x.Compare(d, sink.How{})
			if x == c.plain && err == nil {
				unequal = found.Unequal
			}
			return found, err
		})
		if err == nil {
			only = syncd.NewBucketSet(3, unequal)
			l.Snapshots = append(l.Snapshots, d.Snapshot)
		}
	}
	p := c.world.page(name, nil, only)
	if !c.judge(p) {
		return
	}
	l.Snapshots = append(l.Snapshots, p.Snapshot)
	if gone := c.unseen(p, only); len(gone) > 0 {
		p := c.world.page(name, gone, nil)
		if !c.judge(p) {
			return
		}
		l.Snapshots = append(l.Snapshots, p.Snapshot)
	}
	type done struct {
		at      syncd.Position
		claimed bool
	}
	if t := c.plain.State().Tables[name]; t == nil || c.plain.Through().LSN < max(c.world.lsn, t.Ahead) {
		return // the stream would have to come further first, and here nobody has it come
	}
	_ = c.both("end a list", func(x *sink.Cache) (any, error) {
		at, claimed, err := x.Done(context.Background(), l)
		return done{at, claimed}, err
	})
}

func (c *pair) judge(p *syncd.Page) bool {
	c.t.Helper()
	return c.both("judge a page", func(x *sink.Cache) (any, error) { return x.Judge(p, sink.How{}) }) == nil
}

// unseen gives the keys that are held and not on a page.
func (c *pair) unseen(p *syncd.Page, only *syncd.BucketSet) (keys []syncd.Key) {
	on := map[syncd.Key]bool{}
	for i := range p.Rows {
		on[p.Rows[i].Key] = true
	}
	err := c.cache.Walk(p.Table, 0, func(k syncd.Key, e sink.Entry) bool {
		if e.Row != nil && !on[k] && only.Holds(k.Hash()) {
			keys = append(keys, k)
		}
		return true
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return keys
}

// check fails the test where the two caches hold or show something else.
func (c *pair) check() {
	c.t.Helper()
	sameStores(c.t, c.cache.Store(), c.plain.Store(), c.world.names()...)
	got, want := codec.AppendState(nil, c.cache.State()), codec.AppendState(nil, c.plain.State())
	if !bytes.Equal(got, want) {
		c.t.Fatalf("the newest state is %+v, over a map %+v", c.cache.State(), c.plain.State())
	}
	if c.place.Check != nil {
		c.place.Check(c.t, c.cache.Store())
	}
	c.reads.catchUp(c.world.names()...)
	for _, name := range c.world.names() {
		if got, want := c.shown(c.cache, name), c.shown(c.plain, name); !maps.Equal(got, want) {
			c.t.Fatalf("%s: readers see %v, over a map %v", name, got, want)
		}
	}
}

// shown gives the rows of a table that readers see.
func (c *pair) shown(x *sink.Cache, name syncd.Table) map[syncd.Key]string {
	c.t.Helper()
	v := x.View()
	defer v.Close()
	rows := map[syncd.Key]string{}
	v.Rows(name, 0, func(k syncd.Key, e sink.Entry) bool { rows[k] = string(e.Row); return true })
	for k, row := range rows {
		if e, ok := v.Get(name, k); !ok || string(e.Row) != row {
			c.t.Fatalf("%s/%s: a get gives %s, a scan %s", name, k, e.Row, row)
		}
	}
	if err := v.Err(); err != nil {
		c.t.Fatal(err)
	}
	return rows
}

// settle publishes all, ends the faults, and lists everything: then the cache has to be equal to the tables.
func (c *pair) settle() {
	c.t.Helper()
	c.world.pruned = false
	c.tables()
	for range 2 { // what the first finds to be fetched, the second settles
		c.flush(false)
		for _, name := range c.world.names() {
			c.list(name, true)
		}
	}
	c.check()
	c.converged()
}

// converged fails the test where readers see other rows than the tables have.
func (c *pair) converged() {
	c.t.Helper()
	for _, name := range c.world.names() {
		want := map[syncd.Key]string{}
		for k, row := range c.world.tables[name].rows {
			want[k] = string(row)
		}
		if got := c.shown(c.cache, name); !maps.Equal(got, want) {
			c.t.Fatalf("%s: readers see %v, want %v", name, got, want)
		}
		if st := c.cache.State().Tables[name]; !st.Listed || st.Loss != 0 || len(st.Open) > 0 {
			c.t.Fatalf("%s: listed %v, loss %s, %d open", name, st.Listed, st.Loss, len(st.Open))
		}
	}
}
