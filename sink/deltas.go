package sink

import (
	"fmt"
	"strings"

	"github.com/syncd-io/syncd"
)

// tableApplier applies one table's deltas in the order of their versions.
type tableApplier struct {
	*tableChange
	flush *applier
	tally *tally
	// moves says that some delta takes values from another key, so that before is kept: the entries that transaction tx
	// has replaced so far, as they were.
	moves  bool
	tx     syncd.LSN
	before map[syncd.Key]Entry
	keeps  syncd.Filter // the table's selector
	// unfilled are the rows of this flush that are still to be put together.
	unfilled map[syncd.Key]unfilled
}

// table applies deltas of one table. A table that the cache does not know is left out: when it becomes known it is listed.
func (a *applier) table(name syncd.Table, deltas []syncd.Delta) error {
	tc := a.change.table(name, a.cache.pending(len(deltas)))
	if tc == nil || tc.Info.Error != "" {
		return nil
	}
	if err := a.change.recall(name, len(deltas), keysOf(deltas)); err != nil {
		return err
	}
	keeps, err := a.cache.selectors.of(&tc.Info)
	if err != nil {
		return err
	}
	a.tally = append(a.tally, tally{table: name})
	ta := &tableApplier{tableChange: tc, flush: a, tally: &a.tally[len(a.tally)-1], moves: moves(deltas), keeps: keeps}
	ahead := warm(a.change.store, name, len(deltas), func(i int) syncd.Key { return deltas[i].Key })
	for i := range deltas {
		ahead.before(i)
		if d := &deltas[i]; d.Version.Epoch == a.marker.Epoch && (a.marker.Part || d.Version.LSN <= a.marker.Through) {
			if err := ta.apply(d); err != nil {
				return err
			}
		}
	}
	ta.fillAll()
	return nil
}

func moves(deltas []syncd.Delta) bool {
	for i := range deltas {
		if deltas[i].Moved && len(deltas[i].Absent) > 0 {
			return true
		}
	}
	return false
}

func (a *tableApplier) apply(d *syncd.Delta) error {
	if d.Op == syncd.Truncate {
		return a.truncate(d)
	}
	if !a.fits(d) {
		a.tally.reject(OtherForm)
		return nil
	}
	if u, ok := a.unfilled[d.Key]; ok && !a.continues(u, d) {
		a.fill(d.Key)
	}
	e, has, err := a.load(d.Key)
	if err != nil {
		return err
	}
	switch v := a.flush.cache.gate.delta(a.TableState, e, has, d); v.Decision {
	case Take:
		if why := unfit(d); why != "" {
			a.tally.reject(Unfit)
			a.park(d, e, why)
			return nil
		}
		a.tally.apply(d)
		return a.take(d, e)
	case Undecided:
		a.tally.reject(v.Reason)
		a.open(d.Key, Open{Deltas: []Seen{{d.Version, d.XID}}, Reason: "it can't be told whether a list had seen the delta", Since: a.flush.cache.now()})
	default:
		a.tally.reject(v.Reason)
	}
	return nil
}

// fits says whether a delta of another shape than the table's can be applied. The shape of the table changed, or the stream
// is behind its change; in either case it has to be listed. Columns may come and go meanwhile, but under another key
// nothing can be applied; and a table that was never listed need not take what it can't tell: its list will have seen it.
func (a *tableApplier) fits(d *syncd.Delta) bool {
	fitting := len(a.Info.Key) == 0 || strings.Count(string(d.Key), "\x00")+1 == len(a.Info.Key)
	if d.Schema == a.Info.Schema && fitting {
		return true
	}
	const why = "the table's shape changed"
	at := max(a.flush.marker.Through, d.Version.LSN)
	if d.Schema == a.Info.Schema {
		a.flush.lose(a.name, a.TableState, at, "a change came under a key that is none of the table's")
		return false
	}
	if !a.Listed || !fitting {
		a.flush.lose(a.name, a.TableState, at, why)
		return false
	}
	a.altered(a.TableState, at, why)
	return true
}

// take puts the state that a delta brings in the place of e.
func (a *tableApplier) take(d *syncd.Delta, e Entry) error {
	next := Entry{Version: d.Version, XID: d.XID}
	if d.Op == syncd.Upsert && !a.leaves(d) {
		row, why, err := a.row(d, e)
		if err != nil {
			return err
		}
		next.Row = row
		if why != "" {
			next.Row, next.Pending = rowBefore(d, e), true
			a.fetch(d, why)
		}
	}
	a.remember(d, e)
	a.put(d.Key, next, e)
	return nil
}

// unfit says why a delta can't be applied at all; empty where it can. Whoever reads the stream has checked the form of what it
// hands over; this is what an error there, or in the source, would leave. (What can't be read at all never comes here: its
// message counts as lost.)
func unfit(d *syncd.Delta) string {
	switch n := len(d.Row); {
	case d.Op != syncd.Upsert && d.Op != syncd.Delete:
		return fmt.Sprintf("its change is of an unknown kind, %s", d.Op)
	case d.Op == syncd.Upsert && n > 0 && (n < 2 || d.Row[0] != '{' || d.Row[n-1] != '}'):
		return "the row of its change is not a JSON object"
	}
	return ""
}

// park keeps what a key held before a delta that can't be applied, and marks the key: the next answer that sees the delta,
// of a get or of a resync, settles it. The other keys go on.
func (a *tableApplier) park(d *syncd.Delta, e Entry, why string) {
	a.remember(d, e)
	a.put(d.Key, Entry{Row: rowBefore(d, e), Version: d.Version, XID: d.XID, Pending: true}, e)
	if a.Listed {
		a.open(d.Key, Open{Deltas: []Seen{{d.Version, d.XID}}, Reason: why, Parked: true, Since: a.flush.cache.now()})
	}
}

// rowBefore gives the row to show while that of d is to be fetched: the one that was held, unless that is of an older epoch and
// may never have been in this one.
func rowBefore(d *syncd.Delta, e Entry) []byte {
	if e.Version.Epoch != d.Version.Epoch {
		return nil
	}
	return e.Row
}

// fetch marks a key whose delta left its row unknown. While a table was never listed the mark in the entry will do: its list
// brings most of these rows, and what is left is marked at the list's end.
func (a *tableApplier) fetch(d *syncd.Delta, why string) {
	if a.Listed {
		a.open(d.Key, Open{Deltas: []Seen{{d.Version, d.XID}}, Reason: why, Since: a.flush.cache.now()})
	}
}

// row gives the row that an upsert brings, or says why it has to be fetched.
func (a *tableApplier) row(d *syncd.Delta, e Entry) (row []byte, why string, err error) {
	if d.Pointer || len(d.Row) == 0 {
		return nil, "the row is too large for a message", nil
	}
	if len(d.Absent) == 0 {
		return d.Row, "", nil
	}
	if u, ok := a.unfilled[d.Key]; ok { // d continues it
		a.unfilled[d.Key] = unfilled{u.base, d}
		return nil, "", nil
	}
	base, err := a.base(d, e)
	if err != nil {
		return nil, "", err
	}
	if base != nil && !a.moves {
		a.fillLater(d, base)
		return nil, "", nil
	}
	if base != nil {
		if row := fill(base, d.Row, d.Absent); row != nil {
			if !a.keeps.Match(row) {
				row = nil
			}
			return row, "", nil
		}
	}
	return nil, notFilled, nil
}

// base gives the row whose values an upsert did not change: what the key, or the one it moved from, held just before. It
// gives nil where that is not sure: while deltas of the table are missing or it is to be listed, from a row of another shape or
// epoch, and from a row that is itself open.
func (a *tableApplier) base(d *syncd.Delta, e Entry) ([]byte, error) {
	if !a.mayFill(d) {
		return nil, nil
	}
	if d.Moved {
		if a.isOpen(d.From) {
			return nil, nil
		}
		var err error
		if e, err = a.moved(d); err != nil {
			return nil, err
		}
	}
	if e.Pending || e.Version.Epoch != d.Version.Epoch {
		return nil, nil
	}
	return e.Row, nil
}

// mayFill says whether what is held under d's key is surely what the change met.
func (a *tableApplier) mayFill(d *syncd.Delta) bool {
	return a.Loss == 0 && a.Relist == "" && d.Schema == a.Info.Schema && !a.isOpen(d.Key)
}

func (a *tableApplier) isOpen(k syncd.Key) bool {
	_, ok := a.Open[k]
	return ok
}

// moved gives what the key that d moved from held before d's transaction changed it: what was remembered; or what is held
// now, where that change is still to come and what is held is surely from before the transaction.
func (a *tableApplier) moved(d *syncd.Delta) (Entry, error) {
	if d.Version.LSN == a.tx {
		if e, ok := a.before[d.From]; ok {
			return e, nil
		}
	}
	e, _, err := a.load(d.From)
	switch {
	case err != nil:
		return Entry{}, err
	case e.Snap != nil && e.Snap.Visible(d.XID, d.Version.LSN) == syncd.Invisible:
		return e, nil
	case e.Snap == nil && e.Version.LSN < d.Version.LSN:
		return e, nil
	}
	return Entry{}, nil
}

// remember keeps what a change of this transaction replaces, for the delta that moved from there.
func (a *tableApplier) remember(d *syncd.Delta, e Entry) {
	if !a.moves {
		return
	}
	if a.before == nil {
		a.before = map[syncd.Key]Entry{}
	}
	if a.tx != d.Version.LSN {
		a.tx = d.Version.LSN
		clear(a.before)
	}
	a.before[d.Key] = e
}

// truncate deletes every entry that is not newer. They leave no tombstones: the TRUNCATE itself is kept, and stands for the
// tombstone of every key without an entry.
func (a *tableApplier) truncate(d *syncd.Delta) error {
	a.tally.apply(d)
	a.fillAll()
	gone := func(k syncd.Key, e Entry) {
		switch a.flush.cache.gate.delta(a.TableState, e, true, d).Decision {
		case Take:
			a.remove(k, e)
		case Undecided:
			a.open(k, Open{Deltas: []Seen{{d.Version, d.XID}}, Reason: "it can't be told whether a list had seen the TRUNCATE", Since: a.flush.cache.now()})
		}
	}
	for k, i := range a.pending {
		if w := a.batch.Writes[i]; !w.Remove {
			gone(k, w.Entry)
		}
	}
	err := a.store.Walk(a.name, 0, func(k syncd.Key, e Entry) bool {
		if _, changed := a.pending[k]; !changed {
			gone(k, e)
		}
		return true
	})
	if err != nil {
		return err
	}
	if d.Version.Compare(a.Truncated.Version) > 0 {
		a.Truncated = Seen{d.Version, d.XID}
	}
	return nil
}
