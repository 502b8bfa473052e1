package sink_test

import (
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// The transactions of these tests: 10 to 19 at LSNs 100 to 190. seesTo gives a primary's snapshot that sees those up to an id but
// the ones named.
func seesTo(x syncd.XID, but ...syncd.XID) *syncd.Snapshot {
	s := &syncd.Snapshot{Epoch: 2, Xmin: x + 1, Xmax: x + 1, Xip: but, H: syncd.LSN(x * 10)}
	if len(but) > 0 {
		s.Xmin = but[0]
	}
	return s
}

// replayed gives a standby's snapshot that sees what was replayed between two LSNs.
func replayed(r, r2 syncd.LSN) *syncd.Snapshot {
	return &syncd.Snapshot{Epoch: 2, Standby: true, Xmin: 10, Xmax: 30, R: r, R2: r2, H: r2}
}

func inEpoch(e syncd.Epoch, s *syncd.Snapshot) *syncd.Snapshot {
	s.Epoch = e
	return s
}

func version(e syncd.Epoch, x syncd.XID, ordinal uint32) syncd.Version {
	return syncd.Version{Epoch: e, LSN: syncd.LSN(x * 10), Ordinal: ordinal}
}

// fromDelta is the entry that the first delta of a transaction left.
func fromDelta(x syncd.XID, row string) *sink.Entry {
	return &sink.Entry{Row: bytesOf(row), Version: version(2, x, 1), XID: x}
}

// fromList is the entry that a list left.
func fromList(s *syncd.Snapshot, row string) *sink.Entry {
	return &sink.Entry{Row: bytesOf(row), Version: syncd.Version{Epoch: s.Epoch}, Snap: s}
}

func bytesOf(row string) []byte {
	if row == "" {
		return nil
	}
	return []byte(row)
}

func pending(e *sink.Entry) *sink.Entry {
	e.Pending = true
	return e
}

func truncatedAt(x syncd.XID) sink.Seen { return sink.Seen{Version: version(2, x, 1), XID: x} }

func TestGateDelta(t *testing.T) {
	first := fromDelta(13, "a")
	for _, c := range []struct {
		name  string
		table sink.TableState
		held  *sink.Entry // nil: nothing
		delta syncd.Version
		xid   syncd.XID
		want  sink.Decision
		why   sink.Reason
	}{
		{"nothing held", sink.TableState{}, nil, version(2, 13, 1), 13, sink.Take, ""},
		{"a later commit", sink.TableState{}, first, version(2, 14, 1), 14, sink.Take, ""},
		{"a later change of the same commit", sink.TableState{}, first, version(2, 13, 2), 13, sink.Take, ""},
		{"once more", sink.TableState{}, first, version(2, 13, 1), 13, sink.Drop, sink.Duplicate},
		{"an earlier commit", sink.TableState{}, first, version(2, 12, 9), 12, sink.Drop, sink.Older},
		{"an earlier commit of a later transaction id", sink.TableState{}, first, version(2, 12, 1), 15, sink.Drop, sink.Older},
		{"an older epoch", sink.TableState{}, first, version(1, 99, 1), 99, sink.Drop, sink.OldEpoch},
		{"a newer epoch", sink.TableState{}, first, version(3, 1, 1), 1, sink.Take, ""},
		{"a tombstone is as good as a row", sink.TableState{}, fromDelta(13, ""), version(2, 12, 1), 12, sink.Drop, sink.Older},

		{"the list has seen it", sink.TableState{}, fromList(seesTo(15), "a"), version(2, 13, 1), 13, sink.Drop, sink.Listed},
		{"the list has not seen it, though its LSN is below the list's H", sink.TableState{}, fromList(seesTo(15, 13), "a"), version(2, 13, 1), 13, sink.Take, ""},
		{"the list began before it", sink.TableState{}, fromList(seesTo(12), "a"), version(2, 13, 1), 13, sink.Take, ""},
		{"the list has seen its absence", sink.TableState{}, fromList(seesTo(15), ""), version(2, 13, 1), 13, sink.Drop, sink.Listed},
		{"a standby had replayed it", sink.TableState{}, fromList(replayed(130, 150), "a"), version(2, 13, 1), 13, sink.Drop, sink.Listed},
		{"a standby had not", sink.TableState{}, fromList(replayed(100, 120), "a"), version(2, 13, 1), 13, sink.Take, ""},
		{"a standby may have", sink.TableState{}, fromList(replayed(120, 150), "a"), version(2, 13, 1), 13, sink.Undecided, sink.Unordered},
		{"a list of an older epoch", sink.TableState{}, fromList(inEpoch(1, seesTo(15)), "a"), version(2, 13, 1), 13, sink.Take, ""},

		{"the floor has seen it: nothing held", sink.TableState{Floor: seesTo(15)}, nil, version(2, 13, 1), 13, sink.Drop, sink.Floored},
		{"the floor has seen it: an older delta held", sink.TableState{Floor: seesTo(15)}, fromDelta(12, "a"), version(2, 13, 1), 13, sink.Drop, sink.Floored},
		{"the floor has not seen it", sink.TableState{Floor: seesTo(15, 13)}, nil, version(2, 13, 1), 13, sink.Take, ""},
		{"the floor may have seen it: nothing held", sink.TableState{Floor: replayed(120, 150)}, nil, version(2, 13, 1), 13, sink.Undecided, sink.Unordered},
		{"the floor may have seen it: an older delta held", sink.TableState{Floor: replayed(120, 150)}, fromDelta(12, "a"), version(2, 13, 1), 13, sink.Take, ""},
		{"the floor is of an older epoch", sink.TableState{Floor: inEpoch(1, seesTo(15))}, nil, version(2, 13, 1), 13, sink.Take, ""},
		{"the floor is of a newer epoch", sink.TableState{Floor: inEpoch(3, seesTo(1))}, nil, version(2, 13, 1), 13, sink.Drop, sink.OldEpoch},

		{"before the TRUNCATE", sink.TableState{Truncated: truncatedAt(14)}, nil, version(2, 13, 1), 13, sink.Drop, sink.Truncated},
		{"before the TRUNCATE in its transaction", sink.TableState{Truncated: truncatedAt(14)}, nil, version(2, 14, 1), 14, sink.Drop, sink.Truncated},
		{"after the TRUNCATE in its transaction", sink.TableState{Truncated: truncatedAt(14)}, nil, version(2, 14, 2), 14, sink.Take, ""},
		{"a TRUNCATE of an older epoch", sink.TableState{Truncated: sink.Seen{Version: version(1, 99, 1)}}, nil, version(2, 14, 1), 14, sink.Take, ""},
		{"an entry says more than the TRUNCATE", sink.TableState{Truncated: truncatedAt(12)}, first, version(2, 14, 1), 14, sink.Take, ""},
	} {
		d := syncd.Delta{Op: syncd.Upsert, Version: c.delta, XID: c.xid}
		var e sink.Entry
		if c.held != nil {
			e = *c.held
		}
		got := sink.GateDelta(&c.table, e, c.held != nil, &d)
		if got.Decision != c.want || got.Reason != c.why {
			t.Errorf("%s: %d %q, want %d %q", c.name, got.Decision, got.Reason, c.want, c.why)
		}
	}
}

func TestGateRow(t *testing.T) {
	verified := func(loss, last syncd.LSN) sink.TableState {
		return sink.TableState{LastLoss: loss, Verified: sink.Verified{Position: syncd.Position{Epoch: 2, LSN: last}}}
	}
	for _, c := range []struct {
		name  string
		table sink.TableState
		held  *sink.Entry // nil: nothing
		row   string      // empty: absent
		snap  *syncd.Snapshot
		want  sink.Decision
		kind  sink.Kind
		why   sink.Reason
	}{
		{"nothing held, a row", sink.TableState{}, nil, "a", seesTo(15), sink.Take, sink.Missing, ""},
		{"nothing held, nothing there", sink.TableState{}, nil, "", seesTo(15), sink.Agree, "", ""},

		{"does not see the delta", sink.TableState{}, fromDelta(15, "b"), "a", seesTo(14), sink.Drop, "", sink.Unseen},
		{"does not see the delta, though H is behind it", sink.TableState{}, fromDelta(13, "b"), "a", seesTo(15, 13), sink.Drop, "", sink.Unseen},
		{"does not see the delete", sink.TableState{}, fromDelta(15, ""), "a", seesTo(14), sink.Drop, "", sink.Unseen},
		{"sees the delta, and the same row", sink.TableState{}, fromDelta(13, "a"), "a", seesTo(15), sink.Agree, "", ""},
		{"sees the delete, and nothing there", sink.TableState{}, fromDelta(13, ""), "", seesTo(15), sink.Agree, "", ""},
		{"sees the delta, and another row", sink.TableState{}, fromDelta(13, "a"), "b", seesTo(15), sink.Take, sink.Corrupt, ""},
		{"sees the delta, and another row, after a loss", sink.TableState{LastLoss: 140}, fromDelta(13, "a"), "b", seesTo(15), sink.Take, sink.Stale, ""},
		{"sees the delta, and another row, a loss before it", sink.TableState{LastLoss: 120}, fromDelta(13, "a"), "b", seesTo(15), sink.Take, sink.Corrupt, ""},
		{"sees the delta, and another row, verified since the loss", verified(140, 145), fromDelta(13, "a"), "b", seesTo(15), sink.Take, sink.Corrupt, ""},
		{"sees the delta, and another row, verified before the loss", verified(140, 135), fromDelta(13, "a"), "b", seesTo(15), sink.Take, sink.Stale, ""},
		{"sees the delta, and nothing there", sink.TableState{}, fromDelta(13, "a"), "", seesTo(15), sink.Take, sink.Ghost, ""},
		{"sees the delete, and a row", sink.TableState{}, fromDelta(13, ""), "b", seesTo(15), sink.Take, sink.Missing, ""},
		{"may see the delta", sink.TableState{}, fromDelta(13, "a"), "b", replayed(120, 150), sink.Undecided, "", sink.Unordered},
		{"the value of a pending key", sink.TableState{}, pending(fromDelta(13, "a")), "b", seesTo(15), sink.Take, "", ""},
		{"the value of a pending key is as before", sink.TableState{}, pending(fromDelta(13, "a")), "a", seesTo(15), sink.Take, "", ""},
		{"too old for a pending key", sink.TableState{}, pending(fromDelta(15, "a")), "a", seesTo(14), sink.Drop, "", sink.Unseen},

		{"a later list", sink.TableState{}, fromList(seesTo(14), "a"), "b", seesTo(15), sink.Take, sink.Corrupt, ""},
		{"a later list, after a loss", sink.TableState{LastLoss: 10}, fromList(seesTo(14), "a"), "b", seesTo(15), sink.Take, sink.Stale, ""},
		{"a later list of a standby, after a loss", sink.TableState{LastLoss: 140}, fromList(replayed(130, 131), "a"), "b", replayed(150, 151), sink.Take, sink.Stale, ""},
		{"a later list of a standby, a loss before the first", sink.TableState{LastLoss: 130}, fromList(replayed(130, 131), "a"), "b", replayed(150, 151), sink.Take, sink.Corrupt, ""},
		{"a later list with the same", sink.TableState{}, fromList(seesTo(14), "a"), "a", seesTo(15), sink.Agree, "", ""},
		{"an earlier list", sink.TableState{}, fromList(seesTo(15), "b"), "a", seesTo(14), sink.Drop, "", sink.OlderRow},
		{"lists that see different things", sink.TableState{}, fromList(seesTo(15, 13), "b"), "a", seesTo(15, 14), sink.Undecided, "", sink.Unordered},
		{"the same page once more", sink.TableState{}, fromList(seesTo(15), "a"), "a", seesTo(15), sink.Agree, "", ""},

		{"not in the floor: a row", sink.TableState{Floor: seesTo(14)}, nil, "a", seesTo(15), sink.Take, sink.Missing, ""},
		{"older than the floor: a row", sink.TableState{Floor: seesTo(15)}, nil, "a", seesTo(14), sink.Drop, "", sink.OlderRow},
		{"beside the floor: a row", sink.TableState{Floor: seesTo(15, 13)}, nil, "a", seesTo(15, 14), sink.Undecided, "", sink.Unordered},
		{"older than the floor, but it sees what is held", sink.TableState{Floor: seesTo(15)}, fromDelta(13, "a"), "b", seesTo(14), sink.Take, sink.Corrupt, ""},
		{"the floor is of an older epoch", sink.TableState{Floor: inEpoch(1, seesTo(15))}, nil, "a", seesTo(14), sink.Take, sink.Missing, ""},

		{"does not see the TRUNCATE", sink.TableState{Truncated: truncatedAt(15)}, nil, "a", seesTo(14), sink.Drop, "", sink.Unseen},
		{"sees the TRUNCATE", sink.TableState{Truncated: truncatedAt(15)}, nil, "a", seesTo(16), sink.Take, sink.Missing, ""},
		{"may see the TRUNCATE", sink.TableState{Truncated: truncatedAt(13)}, nil, "a", replayed(120, 150), sink.Undecided, "", sink.Unordered},
		{"a TRUNCATE of an older epoch", sink.TableState{Truncated: sink.Seen{Version: version(1, 20, 1), XID: 20}}, nil, "a", seesTo(14), sink.Take, sink.Missing, ""},

		{"an older epoch is held", sink.TableState{}, fromList(inEpoch(1, seesTo(15)), "a"), "b", seesTo(14), sink.Take, sink.Stale, ""},
		{"an older epoch is held, and the same", sink.TableState{}, fromList(inEpoch(1, seesTo(15)), "a"), "a", seesTo(14), sink.Take, "", ""},
		{"a newer epoch is held", sink.TableState{}, fromList(inEpoch(3, seesTo(1)), "a"), "b", seesTo(15), sink.Drop, "", sink.OldEpoch},
	} {
		var e sink.Entry
		if c.held != nil {
			e = *c.held
		}
		got := sink.GateRow(&c.table, e, c.held != nil, bytesOf(c.row), c.snap)
		if got.Decision != c.want || got.Kind != c.kind || got.Reason != c.why {
			t.Errorf("%s: %d %q %q, want %d %q %q", c.name, got.Decision, got.Kind, got.Reason, c.want, c.kind, c.why)
		}
	}
}
