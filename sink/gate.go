package sink

import (
	"bytes"

	"github.com/syncd-io/syncd"
)

// Decision is what the gate says of a state that arrives for a key.
type Decision uint8

const (
	// Drop: what is held is as new or newer. Nothing changes.
	Drop Decision = iota
	// Take: what arrives is newer.
	Take
	// Agree: a listed state that is no older than what is held, and the same. Nothing has to change.
	Agree
	// Undecided: it can't be proved which is newer. Nothing changes and the key is to be fetched.
	Undecided
)

// Reason says why something was not taken, for counters and for people.
type Reason string

// The reasons of the gate and of the cache around it.
const (
	// Of deltas.
	Duplicate Reason = "duplicate" // the delta that set the entry, once more
	Older     Reason = "older"     // a later delta set the entry
	Listed    Reason = "listed"    // the entry came from a list that had seen the delta
	Floored   Reason = "floor"     // the last complete list had seen the delta
	Truncated Reason = "truncated" // a TRUNCATE came after it
	OldEpoch  Reason = "epoch"     // of an older epoch than what is held
	Unordered Reason = "undecided" // it can't be told whether the list that set the entry had seen it
	OtherForm Reason = "shape"     // of another shape than the table's: it counts as lost
	Unfit     Reason = "unfit"     // it can't be applied: its key is parked
	// Of listed states.
	Unseen   Reason = "newer delta" // the snapshot does not see the delta that set the entry
	OlderRow Reason = "older list"  // a later snapshot set the entry, or a later list was complete
)

// Kind is what a listed state repairs.
type Kind string

// The kinds of repairs, as reports name them. Fetched values of pending keys, and states that only replace those of an
// older epoch, repair nothing.
const (
	NoRepair Kind = ""
	Missing  Kind = "missing" // in Postgres, not in the cache
	Stale    Kind = "stale"   // an older state of the row
	Ghost    Kind = "ghost"   // in the cache, not in Postgres
	// Corrupt: no change of the row can have been lost since the cached state was set, so that state itself is wrong: the
	// right version and the wrong content.
	Corrupt Kind = "corrupt"
)

// Verdict is the gate's answer.
type Verdict struct {
	Decision Decision
	Reason   Reason // why it was dropped
	Kind     Kind   // what is repaired by taking it
}

func drop(why Reason) Verdict { return Verdict{Decision: Drop, Reason: why} }

var (
	take      = Verdict{Decision: Take}
	agree     = Verdict{Decision: Agree}
	undecided = Verdict{Decision: Undecided, Reason: Unordered}
)

// GateDelta says whether a delta is newer than what table t holds under its key: entry e, or nothing where has is false. A
// TRUNCATE is asked about for one entry after another, as a delete of it.
//
// A delta is newer than another by version. It is newer than a list's state unless the list's snapshot sees its
// transaction; log positions can't tell, since a commit is in the log before it is visible. What the last complete list has
// seen, and what came before the last TRUNCATE, is old for every key, also for those whose tombstones are gone.
func GateDelta(t *TableState, e Entry, has bool, d *syncd.Delta) Verdict {
	if f := t.Floor; f != nil {
		if f.Epoch > d.Version.Epoch {
			return drop(OldEpoch)
		}
		if f.Epoch == d.Version.Epoch {
			switch f.Visible(d.XID, d.Version.LSN) {
			case syncd.Visible:
				return drop(Floored)
			case syncd.Undecided:
				if !has {
					return undecided
				}
			}
		}
	}
	if !has {
		if d.Version.Compare(t.Truncated.Version) <= 0 {
			return drop(Truncated)
		}
		return take
	}
	switch held := e.Version; {
	case held.Epoch > d.Version.Epoch:
		return drop(OldEpoch)
	case held.Epoch < d.Version.Epoch:
		return take
	case e.Snap != nil:
		return gateSeen(e.Snap.Visible(d.XID, d.Version.LSN))
	case d.Version == held:
		return drop(Duplicate)
	case d.Version.Compare(held) < 0:
		return drop(Older)
	}
	return take
}

// gateSeen judges a delta by whether the list that set the entry had seen it.
func gateSeen(v syncd.Visibility) Verdict {
	switch v {
	case syncd.Visible:
		return drop(Listed)
	case syncd.Invisible:
		return take
	}
	return undecided
}

// GateRow says whether a listed state is newer than what table t holds under the key: entry e, or nothing where has is
// false. row is the row's JSON, nil where the key is absent in snapshot s.
//
// A listed state is newer than a delta's when its snapshot sees the delta's transaction, also where the version is the
// same: a delta that was misapplied has the right version and the wrong content. It is newer than another list's when its
// snapshot provably contains the other's. For a key without an entry the last TRUNCATE and the floor stand in.
func GateRow(t *TableState, e Entry, has bool, row []byte, s *syncd.Snapshot) Verdict {
	if !has {
		return gateUnheld(t, row, s)
	}
	switch held := e.Version.Epoch; {
	case held > s.Epoch:
		return drop(OldEpoch)
	case held < s.Epoch:
		return Verdict{Decision: Take, Kind: kindOf(t, e, row, s)}
	case e.Snap != nil:
		if v := gateLater(s, e.Snap); v.Decision != Take {
			return v
		}
	default:
		switch s.Visible(e.XID, e.Version.LSN) {
		case syncd.Invisible:
			return drop(Unseen)
		case syncd.Undecided:
			return undecided
		}
	}
	if !e.Pending && same(e.Row, row) {
		return agree
	}
	return Verdict{Decision: Take, Kind: kindOf(t, e, row, s)}
}

// gateUnheld judges a listed state for a key without an entry.
func gateUnheld(t *TableState, row []byte, s *syncd.Snapshot) Verdict {
	if t.Floor != nil {
		if v := gateLater(s, t.Floor); v.Decision != Take {
			return v
		}
	}
	if at := t.Truncated; at.Version.Epoch == s.Epoch {
		switch s.Visible(at.XID, at.Version.LSN) {
		case syncd.Invisible:
			return drop(Unseen)
		case syncd.Undecided:
			return undecided
		}
	}
	if row == nil {
		return agree
	}
	return Verdict{Decision: Take, Kind: Missing}
}

// gateLater judges a listed state by the order of its snapshot and the held one's.
func gateLater(s, held *syncd.Snapshot) Verdict {
	switch {
	case s.Later(held):
		return take
	case held.Later(s):
		return drop(OlderRow)
	}
	return undecided
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// kindOf says what is repaired where row, as s shows it, takes the place of e.
func kindOf(t *TableState, e Entry, row []byte, s *syncd.Snapshot) Kind {
	switch {
	case e.Pending || same(e.Row, row):
		return NoRepair
	case e.Row == nil:
		return Missing
	case row == nil:
		return Ghost
	case newest(t, e, s.Epoch):
		return Corrupt
	}
	return Stale
}

// newest says whether the entry's state is proved to be the key's newest: no delta of the table was found missing behind
// the position at which the entry is known to be true. That is its delta's commit, or its standby snapshot's R, or that of
// the last complete comparison, whichever is furthest. (A primary's snapshot has no position that all it sees lies behind
// and all it does not see lies ahead of, so an entry from one rests on the last comparison.)
func newest(t *TableState, e Entry, epoch syncd.Epoch) bool {
	if e.Version.Epoch != epoch {
		return false
	}
	at := e.Version.LSN
	if e.Snap != nil {
		at = e.Snap.R
	}
	if v := t.Verified.Position; v.Epoch == epoch {
		at = max(at, v.LSN)
	}
	return t.LastLoss <= at
}
