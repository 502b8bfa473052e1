package source

import (
	"context"
	"errors"
	"testing"

	"github.com/syncd-io/syncd"
)

func deltasOf(lsn syncd.LSN, n int) []syncd.Delta {
	d := make([]syncd.Delta, n)
	for i := range d {
		d[i] = syncd.Delta{Table: tableT, Op: syncd.Upsert, Version: syncd.Version{Epoch: 1, LSN: lsn, Ordinal: uint32(i + 1)}}
	}
	return d
}

func TestQueueGivesWholeBatchesInOrder(t *testing.T) {
	q := newQueue(1000, 10)
	if b, through := q.take(100); !b.empty() || through != 10 {
		t.Errorf("an empty queue gives %+v up to %s", b, through)
	}
	for i := range syncd.LSN(4) {
		q.put(batch{deltas: deltasOf(20+i, 2), bytes: 60, end: 20 + i, xid: syncd.XID(i)}, 20+i)
	}
	q.put(batch{}, 50)
	large := &spill{}
	q.put(batch{spill: large, bytes: 5, end: 60, xid: 9}, 60)
	q.put(batch{deltas: deltasOf(70, 1), bytes: 500, end: 70, xid: 10}, 70)
	q.put(batch{}, 80)
	for i, want := range []struct {
		deltas  int
		spill   bool
		through syncd.LSN
		xid     syncd.XID
	}{{2, false, 20, 0}, {4, false, 22, 2}, {2, false, 23, 3}, {0, true, 60, 9}, {1, false, 80, 10}, {0, false, 80, 0}} {
		limit := 120
		if i == 0 {
			limit = 1 // a whole batch at least
		}
		b, through := q.take(limit)
		if len(b.deltas) != want.deltas || (b.spill != nil) != want.spill || through != want.through || b.xid != want.xid {
			t.Errorf("take %d gives %d deltas, spill %v, up to %s, of %d; want %+v", i, len(b.deltas), b.spill != nil, through, b.xid, want)
		}
	}
	q.put(batch{}, 70) // a keepalive that says less
	if got := q.reached(); got != 80 {
		t.Errorf("reached %s", got)
	}
}

func TestQueueHasTheReaderWait(t *testing.T) {
	q := newQueue(100, 0)
	q.put(batch{deltas: deltasOf(1, 1), bytes: 99, end: 1}, 1)
	if err := q.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	q.put(batch{deltas: deltasOf(2, 1), bytes: 1, end: 2}, 2)
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error)
	go func() { waited <- q.wait(ctx) }()
	select {
	case err := <-waited:
		t.Fatalf("a full queue lets the reader go on: %v", err)
	default:
	}
	q.take(1)
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	q.put(batch{deltas: deltasOf(3, 1), bytes: 1000, end: 3}, 3)
	go func() { waited <- q.wait(ctx) }()
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that was cancelled: %v", err)
	}
}

func TestSafeIsBelowTheLowestInvisibleCommit(t *testing.T) {
	v := newVisibility()
	if got := v.safe(50); got != 50 {
		t.Errorf("with nothing decoded %s is safe", got)
	}
	v.add([]commitRef{{100, 7, 92}, {110, 5, 102}, {120, 9, 112}})
	for _, step := range []struct {
		snapshot string
		through  syncd.LSN
		safe     syncd.LSN
		left     int
	}{
		{"5:5:", 120, 99, 3},   // none has become visible
		{"7:10:7", 120, 99, 1}, // 5 and 9 are, 7 commits first and hangs
		{"7:10:7", 99, 99, 1},
		{"10:10:", 120, 120, 0},
	} {
		s, err := syncd.ParseSnapshot(step.snapshot)
		if err != nil {
			t.Fatal(err)
		}
		if left := v.see(s); left != step.left {
			t.Errorf("after %s %d are invisible, want %d", step.snapshot, left, step.left)
		}
		if got := v.safe(step.through); got != step.safe {
			t.Errorf("after %s up to %s is safe, want %s", step.snapshot, got, step.safe)
		}
	}
	v.add([]commitRef{{200, 20, 192}})
	if got := v.safe(150); got != 150 {
		t.Errorf("a commit behind the marker holds it at %s", got)
	}
}
