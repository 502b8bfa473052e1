package sink

import (
	"context"
	"fmt"

	"github.com/syncd-io/syncd"
)

// List is the account of a complete list of a table: all pages arrived and were judged, as the totals prove, and so was the
// answer to a get of every key that the cache holds and no page returned. Buckets that Compare found equal count as listed,
// and their digest as a page.
type List struct {
	Table    syncd.Table
	Schema   uint64
	Selector string // of all pages and answers
	// Snapshots are those of the pages, and of the answers where they came from another server than the pages.
	Snapshots []*syncd.Snapshot
	// Safe is the least Safe of all pages and answers.
	Safe syncd.LSN
	// Early says that a page was judged before the stream had passed its H though the table was served: nothing can be
	// claimed of the list.
	Early bool
}

// epoch and high are those of all pages: the highest H.
func (l *List) bounds() (e syncd.Epoch, high syncd.LSN) {
	for i, s := range l.Snapshots {
		if i == 0 {
			e = s.Epoch
		}
		if s.Epoch != e {
			return 0, 0
		}
		high = max(high, s.H)
	}
	return e, high
}

// Done draws the conclusions of a complete list. It first waits until the stream has passed every page, unless the list is
// Early; then
//
//   - the floor moves, where the list's oldest snapshot is provably later than the present one, and tombstones that it
//     covers go;
//   - the loss, and the cause for which the table was to be listed, end if the list has seen everything up to them; else the
//     table is to be listed again;
//   - a table that was never listed is served from now on, if no loss stays open;
//   - the table is verified through the list's Safe, if no loss is open and no key is: verified gives that position, and
//     claimed is true.
func (c *Cache) Done(ctx context.Context, l *List) (verified syncd.Position, claimed bool, err error) {
	e, high := l.bounds()
	for done := false; !done; {
		if err := c.passed(ctx, l, syncd.Position{Epoch: e, LSN: high}); err != nil {
			return syncd.Position{}, false, fmt.Errorf("end the list of %s: %w", l.Table, err)
		}
		if done, err = c.conclude(l, e); err != nil {
			return syncd.Position{}, false, fmt.Errorf("end the list of %s: %w", l.Table, err)
		}
	}
	if err := c.sweep(ctx, l.Table); err != nil {
		return syncd.Position{}, false, fmt.Errorf("sweep %s: %w", l.Table, err)
	}
	verified = syncd.Position{Epoch: e, LSN: l.Safe}
	claimed, err = c.claim(l, verified)
	if err != nil || !claimed {
		return syncd.Position{}, false, err
	}
	return verified, true, nil
}

// passed waits until the stream has passed p and all else that was applied to the table, or a newer epoch has begun.
func (c *Cache) passed(ctx context.Context, l *List, p syncd.Position) error {
	if l.Early {
		return nil
	}
	return c.until(ctx, func() bool {
		s := c.State()
		at := s.Cursor.Position
		t := s.Tables[l.Table]
		return at.Compare(p) >= 0 && (t == nil || at.Epoch != p.Epoch || at.LSN >= t.Ahead)
	})
}

// find gives the table of a list, if the list is of this cache.
func (c *Cache) find(ch *change, l *List, e syncd.Epoch) (*tableChange, error) {
	t := ch.table(l.Table, c.pending(0))
	if t == nil || t.Info.Error != "" || t.Info.Schema != l.Schema || t.Info.Selector != l.Selector || ch.state.Cursor.Position.Epoch != e {
		return nil, ErrDiscard
	}
	return t, nil
}

// conclude moves the floor and ends what the list has healed. It gives false where the stream has to be waited for again,
// because another page was applied meanwhile.
func (c *Cache) conclude(l *List, e syncd.Epoch) (done bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.heed(&err)
	ch := c.change()
	t, err := c.find(ch, l, e)
	if err != nil {
		return false, err
	}
	if !l.Early && ch.state.Cursor.Position.LSN < t.Ahead {
		return false, nil
	}
	if !c.judged.bear(l) {
		return false, fmt.Errorf("its pages were not all judged since the table was begun: %w", ErrDiscard)
	}
	if f := syncd.Oldest(l.Snapshots); f != nil && (t.Floor == nil || f.Later(t.Floor)) {
		t.Floor = f
	}
	if l.Safe >= t.Loss {
		t.Loss = 0
		ch.advance(t.TableState)
	}
	if t.Loss == 0 && l.Safe >= t.RelistAt {
		t.Relist, t.RelistAt, t.Changed = "", 0, false
	}
	t.Listed = t.Listed || t.Loss == 0 && !l.Early
	t.Stopped = ""
	t.Resynced = c.now()
	if err := c.commit(ch); err != nil {
		return false, err
	}
	c.judged.forget(l)
	c.fault.at.Store(nil)
	return true, nil
}

// claim moves what the table is verified through, if nothing stands in the way.
func (c *Cache) claim(l *List, p syncd.Position) (claimed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.heed(&err)
	ch := c.change()
	t, err := c.find(ch, l, p.Epoch)
	if err != nil {
		return false, nil // another epoch or shape began meanwhile: what was proved is no longer asked for
	}
	if l.Early || !t.Listed || t.Loss != 0 || len(t.Open) > 0 {
		return false, nil
	}
	if p.Compare(t.Verified.Position) < 0 {
		p = t.Verified.Position
	}
	t.Verified = Verified{Position: p, At: c.now()}
	return true, c.commit(ch)
}

// sweepEntries is how many entries are looked at without letting others at the cache.
const sweepEntries = 8192

// sweep takes away the tombstones that the floor covers, and marks the pending entries that are not marked yet.
func (c *Cache) sweep(ctx context.Context, name syncd.Table) error {
	if c.tidy(name) {
		return nil
	}
	for from := uint64(0); ; {
		next, more, err := c.sweepFrom(name, from)
		if err != nil || !more {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		from = next
	}
}

// tidy says that a sweep of a table would find nothing.
func (c *Cache) tidy(name syncd.Table) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.current().Store.(Tidier)
	return ok && s.Tidy(name)
}

// sweepFrom sweeps the next entries, and says where to go on.
func (c *Cache) sweepFrom(name syncd.Table, from uint64) (next uint64, more bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.heed(&err)
	ch := c.change()
	t := ch.table(name, c.pending(sweepEntries))
	if t == nil {
		return 0, false, nil
	}
	n, last := 0, from
	err = ch.store.Walk(name, from, func(k syncd.Key, e Entry) bool {
		h := k.Hash()
		if n >= sweepEntries && h != last {
			next, more = h, true
			return false
		}
		n, last = n+1, h
		if _, marked := t.Open[k]; e.Pending && !marked && t.Listed && e.Version.Epoch == ch.state.Cursor.Position.Epoch {
			t.open(k, Open{Deltas: []Seen{{e.Version, e.XID}}, Reason: "its delta came before its table was listed", Since: c.now()})
		} else if e.Row == nil && (!e.Pending || older(t.Floor, e)) && covers(t.Floor, e) {
			t.remove(k, e)
		}
		return true
	})
	if err != nil || len(ch.batch.Writes) == 0 && !t.opened {
		return next, more, err
	}
	return next, more, c.commit(ch)
}

// older says whether an entry is of an older epoch than the floor: nothing of it is waited for any more.
func older(floor *syncd.Snapshot, e Entry) bool { return floor != nil && e.Version.Epoch < floor.Epoch }

// covers says whether a floor makes a tombstone superfluous: it is of what the floor has seen.
func covers(floor *syncd.Snapshot, e Entry) bool {
	switch {
	case floor == nil || e.Version.Epoch > floor.Epoch:
		return false
	case e.Version.Epoch < floor.Epoch:
		return true
	case e.Snap != nil:
		return floor.Later(e.Snap)
	}
	return floor.Visible(e.XID, e.Version.LSN) == syncd.Visible
}

// Stop marks a table whose list would have deleted more than it may; why says so to people. The next Done takes the mark away.
func (c *Cache) Stop(name syncd.Table, why string) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.heed(&err)
	ch := c.change()
	t := ch.state.Tables[name]
	if t == nil {
		return fmt.Errorf("stop the resync of %s: %w", name, syncd.ErrNoTable)
	}
	t.Stopped = why
	return c.commit(ch)
}
