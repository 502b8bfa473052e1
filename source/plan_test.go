package source

import (
	"strings"
	"testing"
	"time"

	"github.com/syncd-io/syncd"
)

// settled is a slot and a stream that belong together.
func settled() Facts {
	return Facts{
		System: 7, Timeline: 1, Flushed: 1000, Database: "shop", SlotName: "syncd_shop",
		Slot:   SlotState{Exists: true, Plugin: "pgoutput", Database: "shop", Restart: 400, Confirmed: 500},
		Stream: StreamState{Last: syncd.Marker{Epoch: 9, Through: 800, Commit: 700, XID: 70, System: 7, Timeline: 1}},
		Now:    time.UnixMilli(1_764_534_000_000),
	}
}

func TestDecide(t *testing.T) {
	const now = 1_764_534_000_000
	tests := []struct {
		name   string
		change func(*Facts)
		action Action
		why    string
		epoch  syncd.Epoch
		drop   bool
		create bool
	}{
		{name: "slot and stream agree", change: func(*Facts) {}, action: Resume, epoch: 9},
		{name: "slot confirmed up to the last marker", change: func(f *Facts) { f.Slot.Confirmed = 800 }, action: Resume, epoch: 9},
		{name: "server has flushed exactly the marker", change: func(f *Facts) { f.Flushed = 800 }, action: Resume, epoch: 9},
		{name: "first start", change: func(f *Facts) { f.Slot, f.Stream = SlotState{}, StreamState{Missing: true} },
			action: NewEpoch, why: "first start", epoch: now, create: true},
		{name: "slot gone", change: func(f *Facts) { f.Slot = SlotState{} }, action: NewEpoch, why: "slot is gone", epoch: now},
		{name: "slot lost", change: func(f *Facts) { f.Slot.Lost, f.Slot.LostWhy = true, "wal_removed" },
			action: NewEpoch, why: "invalidated the replication slot (wal_removed)", epoch: now, drop: true},
		{name: "slot temporary", change: func(f *Facts) { f.Slot.Temporary = true }, action: NewEpoch, why: "temporary", epoch: now, drop: true},
		{name: "slot decodes prepared transactions", change: func(f *Facts) { f.Slot.TwoPhase = true }, action: NewEpoch, why: "prepared", epoch: now, drop: true},
		{name: "slot past the stream", change: func(f *Facts) { f.Slot.Confirmed = 801 }, action: NewEpoch, why: "what lies between is lost", epoch: now, drop: true},
		{name: "another system", change: func(f *Facts) { f.System = 8 }, action: NewEpoch, why: "system identifier 8", epoch: now, drop: true},
		{name: "another timeline", change: func(f *Facts) { f.Timeline = 2 }, action: NewEpoch, why: "timeline 2", epoch: now, drop: true},
		{name: "standby has yet to replay what the stream has", change: func(f *Facts) { f.Standby, f.Flushed, f.Slot = true, 799, SlotState{} },
			action: Wait, why: "replayed up to 0/31F, the stream is at 0/320"},
		{name: "standby of another timeline", change: func(f *Facts) { f.Standby, f.Flushed, f.Timeline = true, 799, 2 },
			action: NewEpoch, why: "timeline 2", epoch: now, drop: true},
		{name: "restored backup", change: func(f *Facts) { f.Flushed = 799 }, action: NewEpoch, why: "log ends at 0/31F", epoch: now, drop: true},
		{name: "stream emptied by its limits", change: func(f *Facts) { f.Stream = StreamState{Empty: true} }, action: NewEpoch, why: "no marker", epoch: now, drop: true},
		{name: "stream made, slot not", change: func(f *Facts) { f.Slot, f.Stream = SlotState{}, StreamState{Empty: true} },
			action: NewEpoch, why: "no marker", epoch: now},
		{name: "the last epoch lies in the future", change: func(f *Facts) { f.Slot, f.Stream.Last.Epoch = SlotState{}, now+5 },
			action: NewEpoch, why: "slot is gone", epoch: now + 6},
		{name: "clock before 1970", change: func(f *Facts) { f.Slot, f.Stream, f.Now = SlotState{}, StreamState{Missing: true}, time.UnixMilli(-5) },
			action: NewEpoch, why: "first start", epoch: 1, create: true},
		{name: "stream deleted", change: func(f *Facts) { f.Stream = StreamState{Missing: true} }, action: Stop, why: "--recreate"},
		{name: "stream deleted and slot lost", change: func(f *Facts) { f.Stream, f.Slot.Lost = StreamState{Missing: true}, true }, action: Stop, why: "--recreate"},
		{name: "stream deleted, to be made anew", change: func(f *Facts) { f.Stream, f.Recreate = StreamState{Missing: true}, true },
			action: NewEpoch, why: "as asked", epoch: now, drop: true, create: true},
		{name: "recreate asked for a stream that is there", change: func(f *Facts) { f.Recreate = true }, action: Resume, epoch: 9},
		{name: "slot in use", change: func(f *Facts) { f.Slot.ActivePID = 4711 }, action: Wait, why: "process 4711"},
		{name: "slot in use and stream deleted", change: func(f *Facts) { f.Slot.ActivePID, f.Stream = 4711, StreamState{Missing: true} }, action: Wait, why: "process 4711"},
		{name: "physical slot", change: func(f *Facts) { f.Slot.Plugin, f.Slot.Database = "", "" }, action: Stop, why: "is physical"},
		{name: "slot of another plugin", change: func(f *Facts) { f.Slot.Plugin = "wal2json" }, action: Stop, why: "plugin wal2json"},
		{name: "slot of another database", change: func(f *Facts) { f.Slot.Database = "other" }, action: Stop, why: "database other, not shop"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := settled()
			tt.change(&f)
			p := Decide(f)
			if p.Action != tt.action || !strings.Contains(p.Why, tt.why) || p.Epoch != tt.epoch || p.Drop != tt.drop || p.MakeStream != tt.create {
				t.Errorf("got %v %+v\nwant %v, why %q, epoch %d, drop %v, make stream %v", p.Action, p, tt.action, tt.why, tt.epoch, tt.drop, tt.create)
			}
			if p.Action == Resume && p.After.Through != f.Stream.Last.Through {
				t.Errorf("resumes behind %s, the last marker is at %s", p.After.Through, f.Stream.Last.Through)
			}
		})
	}
}

func TestReplay(t *testing.T) {
	type commit struct {
		end     syncd.LSN
		xid     syncd.XID
		changes bool
		skip    bool
		fault   string
	}
	after := syncd.Marker{Through: 800, Commit: 700, XID: 70}
	tests := []struct {
		name      string
		after     syncd.Marker
		confirmed syncd.LSN
		commits   []commit
		pass      syncd.LSN
		fault     string
	}{
		{name: "the same history", after: after, confirmed: 500, commits: []commit{
			{600, 60, true, true, ""}, {700, 70, true, true, ""}, {750, 71, false, true, ""}, {800, 72, false, true, ""}, {900, 73, true, false, ""}}},
		{name: "slot already past the commit", after: after, confirmed: 700, commits: []commit{{900, 73, true, false, ""}}},
		{name: "another transaction in its place", after: after, confirmed: 500, commits: []commit{
			{700, 69, true, true, "is of transaction 69, in the stream it is of 70"}}},
		{name: "a commit with changes behind the last", after: after, confirmed: 500, commits: []commit{
			{700, 70, true, true, ""}, {750, 71, true, true, "changes that the stream lacks"}}},
		{name: "the commit is missing, a later one comes", after: after, confirmed: 500, commits: []commit{
			{600, 60, true, true, ""}, {900, 73, true, false, "did not replay"}}},
		{name: "the commit is missing, the server is idle", after: after, confirmed: 500, pass: 801, fault: "did not replay"},
		{name: "not yet there", after: after, confirmed: 500, pass: 800},
		{name: "no commit yet in the epoch", after: syncd.Marker{Through: 800}, confirmed: 500, commits: []commit{
			{600, 60, true, true, "changes that the stream lacks"}}},
		{name: "a new epoch", commits: []commit{{600, 60, true, false, ""}}, pass: 900},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := Replay{After: tt.after, Confirmed: tt.confirmed}
			for _, c := range tt.commits {
				skip, err := r.Skip(c.end, c.xid, c.changes)
				if skip != c.skip || !faultIs(err, c.fault) {
					t.Fatalf("commit at %s: skip %v, %v; want %v, %q", c.end, skip, err, c.skip, c.fault)
				}
			}
			if err := r.Pass(tt.pass); !faultIs(err, tt.fault) {
				t.Errorf("pass %s: %v, want %q", tt.pass, err, tt.fault)
			}
		})
	}
}

// faultIs says whether err says want, or is nil where want is empty.
func faultIs(err error, want string) bool {
	if err == nil || want == "" {
		return err == nil && want == ""
	}
	return strings.Contains(err.Error(), want)
}
