package sink

import (
	"errors"
	"fmt"
	"time"

	"github.com/syncd-io/syncd"
)

// Flush is what one marker of the stream brings to a cache.
type Flush struct {
	// Deltas are those of the flush by table, each table's in strictly ascending order of version. Those that the cache
	// had already are dropped by the gate; those of other epochs than the marker's, and above its Through, are left out.
	Deltas map[syncd.Table][]syncd.Delta
	// Marker ends the flush. With Part its deltas are applied wherever they lie, and the cache's position stays.
	Marker *syncd.Marker
	Seq    uint64 // the marker's place in the stream
	// Lost are tables of which deltas up to Marker.Through are known to be missing; Gap says that whole flushes are, so that
	// any table's may be.
	Lost []syncd.Table
	Gap  bool
}

// Flush applies a flush as one commit: readers see all of it or nothing. After an error nothing of it is applied and it can
// be tried again. A marker of a new epoch begins a new generation; one of an older epoch is left out.
func (c *Cache) Flush(f *Flush) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.heed(&err)
	at := c.State().Cursor.Position
	if f.Marker.Epoch < at.Epoch {
		return nil
	}
	if f.Marker.Epoch > at.Epoch {
		if err := c.begin(f.Marker.Epoch); err != nil {
			return fmt.Errorf("begin epoch %d: %w", f.Marker.Epoch, err)
		}
	}
	a := applier{cache: c, change: c.change(), marker: f.Marker}
	a.losses(f)
	a.relists()
	for name, deltas := range f.Deltas {
		if err := a.table(name, deltas); err != nil {
			return fmt.Errorf("apply deltas of %s: %w", name, err)
		}
	}
	if !f.Marker.Part {
		a.change.pass(f.Marker, f.Seq, c.now())
	}
	if err := c.commit(a.change); err != nil {
		return err
	}
	a.report()
	return nil
}

// Join takes up the stream behind a marker without having read what lies before it: at the first start, and where the
// stream no longer reaches back to the cursor. What the cache may have missed is recorded as a loss of every table. m is the
// stream's last marker and seq its place.
func (c *Cache) Join(m *syncd.Marker, seq uint64) error {
	whole := *m
	whole.Part = false // what a part's transaction had before is missed, and its last marker's counts will say so
	f := &Flush{Marker: &whole, Seq: seq}
	at := c.Through()
	switch {
	case m.Epoch < at.Epoch:
		return fmt.Errorf("the stream's last marker is of epoch %d, and this cache has seen epoch %d: another stream, or one that was restored", m.Epoch, at.Epoch)
	case m.Epoch > at.Epoch:
		f.Gap = m.Previous != 0 || len(m.Counts) > 0
	default:
		f.Gap = m.Through > at.LSN
	}
	return c.Flush(f)
}

// pass moves a cache's position to a marker.
func (c *change) pass(m *syncd.Marker, seq uint64, now time.Time) {
	s := c.state
	if at := s.Cursor.Position; at.Epoch == m.Epoch && at.LSN > m.Through {
		for _, t := range s.Tables { // the stream has lost its end, and what was applied of that is to come again
			t.Ahead = max(t.Ahead, at.LSN)
		}
	}
	s.Cursor = syncd.Cursor{Seq: seq, Position: m.Position()}
	s.System, s.Timeline, s.Start = m.System, m.Timeline, m.Start
	s.Safe = max(s.Safe, m.Safe)
	s.Sent, s.Applied = m.Sent, now
	for _, t := range s.Tables {
		c.advance(t)
	}
}

// begin makes a new generation for an epoch: beside the one that is read, with nothing in it; or, where nothing is read from
// that, in its place. A store that can have none beside it keeps the entries of the older epoch for those who read it past
// this cache: each is replaced by the first state of the new epoch, and goes with the first complete list that lacks it.
func (c *Cache) begin(e syncd.Epoch) error {
	clear(c.judged)
	old := c.State()
	fresh := &State{Cursor: syncd.Cursor{Position: syncd.Position{Epoch: e}}, Tables: make(map[syncd.Table]*TableState, len(old.Tables))}
	for name, t := range old.Tables {
		fresh.Tables[name] = &TableState{Info: t.Info}
	}
	if c.building != nil {
		if err := c.building.retire(); err != nil {
			return err
		}
		c.building = nil
	}
	if serving := c.serving.Load(); c.create == nil || !serving.State().serves() {
		c.turn.Add(1)
		defer c.turn.Add(1)
		b := &Batch{State: fresh}
		if c.create != nil {
			b.Drop = names(serving.State())
		}
		if err := serving.Commit(b); err != nil {
			return err
		}
		c.history.resetAll(serving.State(), newEpoch)
		c.publish(serving)
		return nil
	}
	store, err := c.create()
	if err != nil {
		return err
	}
	if err := store.Commit(&Batch{State: fresh}); err != nil {
		return errors.Join(err, store.Close())
	}
	c.building = &generation{Store: store}
	c.log.Info("a new epoch began: its cache is being built beside the one that is read", "epoch", e)
	c.publish(c.building)
	return nil
}

// serves says whether any table can be read.
func (s *State) serves() bool {
	for _, t := range s.Tables {
		if t.Listed {
			return true
		}
	}
	return false
}

func names(s *State) []syncd.Table {
	all := make([]syncd.Table, 0, len(s.Tables))
	for name := range s.Tables {
		all = append(all, name)
	}
	return all
}

// applier applies one flush to a change, and keeps count for the observer.
type applier struct {
	cache  *Cache
	change *change
	marker *syncd.Marker
	gaps   []syncd.Table
	tally  []tally
}

// tally counts what became of one table's deltas.
type tally struct {
	table    syncd.Table
	applied  [syncd.Truncate + 1]int
	rejected map[Reason]int
	commits  []time.Time // of the transactions that changed the table
	last     syncd.LSN
}

func (t *tally) reject(why Reason) {
	if t.rejected == nil {
		t.rejected = map[Reason]int{}
	}
	t.rejected[why]++
}

func (t *tally) apply(d *syncd.Delta) {
	t.applied[d.Op]++
	if d.Version.LSN != t.last && !d.Committed.IsZero() {
		t.last = d.Version.LSN
		t.commits = append(t.commits, d.Committed)
	}
}

// report tells the observer, after the commit.
func (a *applier) report() {
	o, now := a.cache.observer, a.cache.now()
	for _, t := range a.gaps {
		o.Gap(t)
	}
	for i := range a.tally {
		t := &a.tally[i]
		for op, n := range t.applied {
			if n > 0 {
				o.Applied(t.table, syncd.Op(op), n)
			}
		}
		for why, n := range t.rejected {
			o.Rejected(t.table, string(why), n)
		}
		for _, at := range t.commits {
			o.Delay(t.table, max(now.Sub(at), 0)) // the two clocks may differ
		}
	}
}

// losses opens the losses that the feed noticed, before anything is filled from rows that they spoil.
func (a *applier) losses(f *Flush) {
	lost := f.Lost
	if f.Gap {
		lost = names(a.change.state)
	}
	for _, name := range lost {
		if t := a.change.state.Tables[name]; t != nil {
			a.lose(name, t, f.Marker.Through, "deltas were lost")
		}
	}
}

// lose opens a loss. A table that was never listed had nothing to lose: its first list has to see a little more.
func (a *applier) lose(name syncd.Table, t *TableState, at syncd.LSN, why string) {
	if a.change.openLoss(t, at, why) && t.Listed {
		a.gaps = append(a.gaps, name)
	}
}

// relists takes over the causes that the source has seen.
func (a *applier) relists() {
	for name, why := range a.marker.Relist {
		if t := a.change.state.Tables[name]; t != nil && t.Info.Error == "" {
			a.change.altered(t, a.marker.Through, why)
		}
	}
}
