package sink

import (
	"slices"

	"github.com/syncd-io/syncd"
)

// unfilled is a row whose absent columns are not filled in yet. A flush that comes after a backlog may change a row with a
// large unchanged value many times, and readers see the last of its states alone: to copy the value for each would cost
// the value's size times the number of changes.
type unfilled struct {
	base  []byte       // the row as it was before the first of the changes
	delta *syncd.Delta // the last of them; all have the same absent columns
}

const notFilled = "an unchanged value is not in the stream, nor surely in the cache"

// fillLater has the row of a delta put together when it is needed. Until then its entry in the batch has none.
func (a *tableApplier) fillLater(d *syncd.Delta, base []byte) {
	if a.unfilled == nil {
		a.unfilled = map[syncd.Key]unfilled{}
	}
	a.unfilled[d.Key] = unfilled{base, d}
}

// continues says whether d, if the gate takes it, can stand in the place of the delta that u waits for.
func (a *tableApplier) continues(u unfilled, d *syncd.Delta) bool {
	return d.Op == syncd.Upsert && !d.Pointer && len(d.Row) > 0 && !d.Moved && slices.Equal(d.Absent, u.delta.Absent) && unfit(d) == "" && a.mayFill(d) && !a.leaves(d)
}

// fill puts the row of a key together, or marks the key to be fetched where the two parts don't fit.
func (a *tableApplier) fill(k syncd.Key) {
	u := a.unfilled[k]
	delete(a.unfilled, k)
	e := &a.batch.Writes[a.pending[k]].Entry
	if e.Row = fill(u.base, u.delta.Row, u.delta.Absent); e.Row == nil {
		e.Row, e.Pending = u.base, true
		a.fetch(u.delta, notFilled)
	} else if !a.keeps.Match(e.Row) {
		e.Row = nil
	}
}

func (a *tableApplier) fillAll() {
	for k := range a.unfilled {
		a.fill(k)
	}
}
