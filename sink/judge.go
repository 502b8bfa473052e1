package sink

import (
	"fmt"

	"github.com/syncd-io/syncd"
)

// How says how a page is to be judged.
type How struct {
	// Dry changes nothing.
	Dry bool
	// Early judges a page of a served table though the stream has not passed its H: half of a transaction may be seen
	// until it has, and what differs may be on its way.
	Early bool
}

// Finding is one key of a served table that a page shows otherwise than the cache held it.
type Finding struct {
	Key syncd.Key
	// Kind is what was put right, or would have been. NoRepair: the key could not be decided, and is marked to be fetched.
	Kind Kind
}

// Judge has the gate judge each row of a page, and each key that was asked for and is absent, and applies what wins as one
// commit. It keeps nothing of the page but its snapshot.
//
// Pages of a table that is not served yet are judged as they come; others only once the stream has passed their H, so that
// what they do better is a loss and not lag, and so that readers never see half of a transaction: before that the error is
// an *AheadError. A page of another epoch, server or shape than the cache's gives an error that wraps ErrDiscard.
func (c *Cache) Judge(p *syncd.Page, how How) (_ []Finding, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.heed(&err)
	t, err := c.accept(p, how)
	if err != nil {
		return nil, err
	}
	ch := c.change()
	j := judge{tableChange: ch.table(p.Table, c.pending(len(p.Rows))), cache: c, snap: p.Snapshot, dry: how.Dry}
	gone := absent(p)
	if err := ch.prefetch(p.Table, len(p.Rows)+len(gone), keysOn(p, gone)); err != nil {
		return nil, fmt.Errorf("judge a page: %w", err)
	}
	ahead := warm(ch.store, p.Table, len(p.Rows), func(i int) syncd.Key { return p.Rows[i].Key })
	for i := range p.Rows {
		ahead.before(i)
		if len(p.Rows[i].JSON) == 0 {
			return nil, fmt.Errorf("page of %s: row %s is empty: %w", p.Table, p.Rows[i].Key, ErrDiscard)
		}
		if err := j.judge(p.Rows[i].Key, p.Rows[i].JSON); err != nil {
			return nil, fmt.Errorf("judge %s/%s: %w", p.Table, p.Rows[i].Key, err)
		}
	}
	for _, k := range gone {
		if err := j.judge(k, nil); err != nil {
			return nil, fmt.Errorf("judge the absence of %s/%s: %w", p.Table, k, err)
		}
	}
	if how.Dry {
		return j.found, nil
	}
	if len(ch.batch.Writes) == 0 && !j.opened {
		c.judged.add(p.Table, p.Snapshot)
		return j.found, nil
	}
	if h := p.Snapshot.H; h > ch.state.Cursor.Position.LSN {
		j.Ahead = max(j.Ahead, h)
	}
	if err := c.commit(ch); err != nil {
		return nil, err
	}
	c.judged.add(p.Table, p.Snapshot)
	if t.Listed {
		j.report()
	}
	return j.found, nil
}

// accept says whether a page can be judged, and gives its table.
func (c *Cache) accept(p *syncd.Page, how How) (*TableState, error) {
	discard := func(format string, args ...any) (*TableState, error) {
		return nil, fmt.Errorf("page of %s: %s: %w", p.Table, fmt.Sprintf(format, args...), ErrDiscard)
	}
	s := c.State()
	at := s.Cursor.Position
	t := s.Tables[p.Table]
	switch {
	case p.Snapshot == nil:
		return discard("it has no snapshot")
	case p.Snapshot.Epoch != at.Epoch:
		return discard("it is of epoch %d, the cache of %d", p.Snapshot.Epoch, at.Epoch)
	case p.System != s.System || p.Timeline != s.Timeline:
		return discard("it was read from system %d timeline %d, the stream is of %d timeline %d", p.System, p.Timeline, s.System, s.Timeline)
	case p.Snapshot.Standby && p.Snapshot.R < s.Start:
		return discard("the standby has replayed up to %s, and the epoch starts at %s", p.Snapshot.R, s.Start)
	case t == nil || t.Info.Error != "":
		return discard("the cache does not keep the table")
	case p.Schema != t.Info.Schema:
		return discard("it has another shape")
	case p.Selector != t.Info.Selector:
		return discard("it is of the selector %q, the cache keeps the rows of %q", p.Selector, t.Info.Selector)
	}
	if h := (syncd.Position{Epoch: p.Snapshot.Epoch, LSN: p.Snapshot.H}); t.Listed && !how.Early && at.Compare(h) < 0 {
		return nil, &AheadError{Table: p.Table, H: h, At: at}
	}
	return t, nil
}

// absent gives the keys that were asked for and have no row.
func absent(p *syncd.Page) []syncd.Key {
	if p.Asked == nil || len(p.Asked) == len(p.Rows) {
		return nil
	}
	there := make(map[syncd.Key]bool, len(p.Rows))
	for i := range p.Rows {
		there[p.Rows[i].Key] = true
	}
	var keys []syncd.Key
	for _, k := range p.Asked {
		if !there[k] {
			keys = append(keys, k)
		}
	}
	return keys
}

// judge puts one page's states before the gate.
type judge struct {
	*tableChange
	cache *Cache
	snap  *syncd.Snapshot
	dry   bool
	found []Finding
}

// judge puts one state before the gate: row is nil where the key is absent.
func (j *judge) judge(k syncd.Key, row []byte) error {
	e, has, err := j.load(k)
	if err != nil {
		return err
	}
	v := j.cache.gate.row(j.TableState, e, has, row, j.snap)
	j.find(k, v)
	if j.dry {
		return nil
	}
	next := Entry{Row: row, Version: syncd.Version{Epoch: j.snap.Epoch}, Snap: j.snap}
	_, isOpen := j.Open[k]
	switch {
	case v.Decision == Take:
		j.write(Write{Table: j.name, Key: k, Entry: next}, before{row: e.Row, kind: v.Kind})
	case v.Decision == Agree && has && (isOpen || !j.Listed):
		j.put(k, next, e) // from now on it is known to be as new as this
	case v.Decision == Undecided:
		j.open(k, Open{Snaps: []*syncd.Snapshot{j.snap}, Reason: "it can't be told whether the list's state is newer", Since: j.cache.now()})
	case !j.Listed && e.Pending && e.Row == nil && row != nil:
		old := e
		e.Row = row // an older state to serve until the newer is fetched
		j.put(k, e, old)
	}
	if isOpen {
		return j.settle(k, v)
	}
	return nil
}

// settle takes away the mark of an open key if this answer decided it: it is later than every snapshot that it could not be
// ordered against, sees every delta in question, and left nothing to be fetched.
func (j *judge) settle(k syncd.Key, v Verdict) error {
	if v.Decision == Undecided {
		return nil
	}
	o := j.Open[k]
	for _, s := range o.Snaps {
		if !j.snap.Later(s) {
			return nil
		}
	}
	for _, d := range o.Deltas {
		if d.Version.Epoch == j.snap.Epoch && j.snap.Visible(d.XID, d.Version.LSN) != syncd.Visible {
			return nil
		}
	}
	e, _, err := j.load(k)
	if err != nil {
		return err
	}
	if !e.Pending {
		j.shut(k)
	}
	return nil
}

// find takes note of what differs in a table that is served.
func (j *judge) find(k syncd.Key, v Verdict) {
	if j.Listed && (v.Kind != NoRepair || v.Decision == Undecided) {
		j.found = append(j.found, Finding{k, v.Kind})
	}
}

// report tells the observer what was repaired.
func (j *judge) report() {
	n := map[Kind]int{}
	for _, f := range j.found {
		n[f.Kind]++
	}
	for _, k := range [...]Kind{Missing, Stale, Ghost, Corrupt} {
		if n[k] > 0 {
			j.cache.observer.Repaired(j.name, string(k), n[k])
		}
	}
}
