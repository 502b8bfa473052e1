package source

import (
	"fmt"
	"time"

	"github.com/syncd-io/syncd"
)

// SlotState is what pg_replication_slots says of the slot.
type SlotState struct {
	Exists    bool
	Plugin    string // empty for a physical slot
	Database  string
	Temporary bool
	TwoPhase  bool
	ActivePID int32 // of the walsender that uses it; 0 where none does
	Lost      bool  // the server has thrown away log or rows that it needs
	LostWhy   string
	Restart   syncd.LSN // the log is kept from here on
	Confirmed syncd.LSN // replay begins behind this
}

// StreamState is what the stream says of itself.
type StreamState struct {
	Missing bool
	Empty   bool // it exists and holds no marker
	Last    syncd.Marker
}

// Facts is everything that decides how a source starts.
type Facts struct {
	System   uint64
	Timeline uint32
	Flushed  syncd.LSN // the server's log is on disk up to here; of a standby: is replayed
	Standby  bool
	Database string
	SlotName string
	Slot     SlotState
	Stream   StreamState
	Recreate bool // somebody asked for a deleted stream to be made anew
	Now      time.Time
}

// Action is what a source does at start.
type Action uint8

// The actions. Wait is for a slot that another source uses, Stop for what only a person can decide.
const (
	Resume Action = iota + 1
	NewEpoch
	Wait
	Stop
)

// String gives the action's name.
func (a Action) String() string {
	return [...]string{"?", "resume", "new epoch", "wait", "stop"}[min(int(a), 4)]
}

// Plan is how to start.
type Plan struct {
	Action Action
	// Why is the reason, in words for people; for Stop with what mends it.
	Why string
	// Epoch is the number of the epoch to go on with, or to begin.
	Epoch syncd.Epoch
	// MakeStream says that the stream is to be made first; Drop that there is a slot of ours to be dropped.
	MakeStream bool
	Drop       bool
	// After is the marker to go on behind (Resume).
	After syncd.Marker
}

// Decide says how to start from the facts. A source resumes only where slot and stream provably belong together; where
// they don't, LSNs of before and after must not be compared, and a new epoch with a new slot begins. What may be a mistake
// of people (a deleted stream, a slot of somebody else) is left to people.
func Decide(f Facts) Plan {
	if p, done := decideSlot(f); done {
		return p
	}
	if f.Stream.Missing {
		return decideNoStream(f)
	}
	epoch := max(f.Stream.Last.Epoch+1, syncd.Epoch(max(f.Now.UnixMilli(), 1)))
	if last := f.Stream.Last; f.Standby && last.System == f.System && last.Timeline == f.Timeline && f.Flushed < last.Through {
		return Plan{Action: Wait, Why: fmt.Sprintf("the standby has replayed up to %s, the stream is at %s", f.Flushed, last.Through)}
	}
	if why := whyNewEpoch(f); why != "" {
		return Plan{Action: NewEpoch, Why: why, Epoch: epoch, Drop: f.Slot.Exists}
	}
	return Plan{
		Action: Resume,
		Why:    fmt.Sprintf("slot and stream belong together at %s", f.Stream.Last.Position()),
		Epoch:  f.Stream.Last.Epoch,
		After:  f.Stream.Last,
	}
}

// decideSlot settles what a slot alone decides: one that is in use, and one that is not ours.
func decideSlot(f Facts) (Plan, bool) {
	s := f.Slot
	switch {
	case !s.Exists:
		return Plan{}, false
	case s.Plugin != "pgoutput":
		kind := "logical with plugin " + s.Plugin
		if s.Plugin == "" {
			kind = "physical"
		}
		return Plan{Action: Stop, Why: fmt.Sprintf("replication slot %s exists and is %s, so it is somebody else's; name another in source.slot", f.SlotName, kind)}, true
	case s.Database != f.Database:
		return Plan{Action: Stop, Why: fmt.Sprintf("replication slot %s belongs to database %s, not %s; slots are named for the whole server, so name another in source.slot", f.SlotName, s.Database, f.Database)}, true
	case s.ActivePID != 0:
		return Plan{Action: Wait, Why: fmt.Sprintf("replication slot %s is in use by another source (server process %d)", f.SlotName, s.ActivePID)}, true
	}
	return Plan{}, false
}

func decideNoStream(f Facts) Plan {
	epoch := syncd.Epoch(max(f.Now.UnixMilli(), 1))
	switch {
	case !f.Slot.Exists:
		return Plan{Action: NewEpoch, Why: "first start: there is neither stream nor slot", Epoch: epoch, MakeStream: true}
	case f.Recreate:
		return Plan{Action: NewEpoch, Why: "the stream was deleted and is made anew as asked", Epoch: epoch, MakeStream: true, Drop: true}
	}
	return Plan{Action: Stop, Why: fmt.Sprintf("the stream is gone, but replication slot %s shows that there was one; if it was deleted on purpose, start once with --recreate: every consumer then lists everything again", f.SlotName)}
}

// whyNewEpoch says why slot and stream do not belong together; empty where they do.
func whyNewEpoch(f Facts) string {
	last := f.Stream.Last
	switch {
	case f.Stream.Empty:
		return "the stream holds no marker"
	case !f.Slot.Exists:
		return "the replication slot is gone"
	case f.Slot.Lost:
		return "the server has invalidated the replication slot" + parenthesized(f.Slot.LostWhy)
	case f.Slot.Temporary:
		return "the replication slot is a temporary one"
	case f.Slot.TwoPhase:
		return "the replication slot decodes prepared transactions before they are committed"
	case last.System != f.System:
		return fmt.Sprintf("the server is another one: system identifier %d, the stream's is %d", f.System, last.System)
	case last.Timeline != f.Timeline:
		return fmt.Sprintf("the server is on timeline %d, the stream on %d", f.Timeline, last.Timeline)
	case f.Flushed < last.Through:
		return fmt.Sprintf("the server's log ends at %s, the stream is already at %s", f.Flushed, last.Through)
	case f.Slot.Confirmed > last.Through:
		return fmt.Sprintf("the slot replays from %s on, but the stream ends at %s: what lies between is lost", f.Slot.Confirmed, last.Through)
	}
	return ""
}

func parenthesized(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// Replay checks, while a slot replays what the stream holds already, that it is the same history. The zero Replay is of a
// new epoch, which has nothing to check.
type Replay struct {
	After     syncd.Marker
	Confirmed syncd.LSN // where the replay begins
	met, done bool
}

// Skip says whether a commit that ends at end and belongs to transaction xid is in the stream already. changes says whether
// it has deltas. A commit that can't be part of the stream's history is an error: the epoch is over.
func (r *Replay) Skip(end syncd.LSN, xid syncd.XID, changes bool) (bool, error) {
	m := &r.After
	if end > m.Through {
		return false, r.Pass(end)
	}
	switch {
	case end == m.Commit && xid != m.XID:
		return true, fmt.Errorf("the commit at %s is of transaction %d, in the stream it is of %d", end, xid, m.XID)
	case end == m.Commit:
		r.met = true
	case changes && end > m.Commit:
		return true, fmt.Errorf("there is a commit at %s (transaction %d) with changes that the stream lacks, which says that it has all up to %s", end, xid, m.Through)
	}
	return true, nil
}

// Pass says that everything up to lsn has been replayed.
func (r *Replay) Pass(lsn syncd.LSN) error {
	if r.done || lsn <= r.After.Through {
		return nil
	}
	r.done = true
	if !r.met && r.After.Commit > r.Confirmed {
		return fmt.Errorf("the stream has a commit at %s (transaction %d) that the slot did not replay", r.After.Commit, r.After.XID)
	}
	return nil
}
