package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/syncd-io/syncd"
)

var histories = [...]syncd.Table{{Schema: "public", Name: "a"}, {Schema: "public", Name: "b"}}

// historyFlush is a flush of one change of key in each table.
func historyFlush(prev, lsn syncd.LSN, key string, op syncd.Op) *syncd.Flush {
	f := &syncd.Flush{Marker: syncd.Marker{Epoch: 1, Previous: prev, Through: lsn, Counts: map[syncd.Table]int{}, System: 1, Timeline: 1, Sent: time.Unix(1, 0)}}
	for i, t := range histories {
		d := syncd.Delta{Table: t, Op: op, Key: syncd.MakeKey(key), XID: syncd.XID(lsn), Version: syncd.Version{Epoch: 1, LSN: lsn, Ordinal: uint32(i + 1)}, Schema: 7, Committed: time.Unix(1, 0).UTC()}
		switch op {
		case syncd.Upsert:
			d.Row = fmt.Appendf(nil, `{"id":%q,"lsn":%d}`, key, lsn)
		case syncd.Truncate:
			d.Key = ""
		}
		f.Deltas = append(f.Deltas, d)
		f.Marker.Counts[t] = 1
	}
	return f
}

func history(t *testing.T, s *Stream, key string, l HistoryLimits) *History {
	t.Helper()
	h, err := s.History(testContext(t), histories[0], syncd.MakeKey(key), l)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// lsns gives what was found as text.
func (h *History) lsns() string {
	var all []string
	for _, c := range h.Changes {
		all = append(all, fmt.Sprintf("%s %d", c.Delta.Op, c.Delta.Version.LSN))
	}
	return strings.Join(all, ", ")
}

// TestHistory: the last changes of a key and its table's TRUNCATEs come back, oldest first, and no other table's.
func TestHistory(t *testing.T) {
	nc := testConn(t, nil)
	p := testPublisher(t, nc, nil)
	s := testStream(t, nc)
	if h := history(t, s, "1", HistoryLimits{}); len(h.Changes) != 0 || !h.Whole || h.To != 0 {
		t.Errorf("of an empty stream: %+v", h)
	}
	lsn := syncd.LSN(0)
	change := func(key string, op syncd.Op) {
		lsn += 10
		publish(t, p, historyFlush(lsn-10, lsn, key, op))
	}
	change("1", syncd.Upsert)
	change("1", syncd.Delete)
	change("2", syncd.Upsert)
	change("", syncd.Truncate)
	change("1", syncd.Upsert)
	for range 600 { // more sequences than the first step takes
		change("3", syncd.Upsert)
	}
	waitAcked(t, p, lsn)
	h := history(t, s, "1", HistoryLimits{})
	if got, want := h.lsns(), "upsert 10, delete 20, truncate 40, upsert 50"; got != want {
		t.Errorf("changes %s, want %s", got, want)
	}
	if !h.Whole || h.From != 1 || h.To != 605*3 || h.Unread != 0 {
		t.Errorf("looked at %d to %d, whole %v, %d unread; want all of 1 to %d", h.From, h.To, h.Whole, h.Unread, 605*3)
	}
	if c := h.Changes[3]; string(c.Delta.Row) != `{"id":"1","lsn":50}` || c.Seq < 13 || c.Seq > 14 || c.Time.IsZero() {
		t.Errorf("the last change: %+v", c)
	}
	if got := history(t, s, "1", HistoryLimits{Deltas: 2}).lsns(); got != "truncate 40, upsert 50" {
		t.Errorf("of at most two: %s", got)
	}
	if h := history(t, s, "3", HistoryLimits{Deltas: 1}); len(h.Changes) != 1 || h.Whole || h.From != h.To-historyStep+1 {
		t.Errorf("it looked at %d to %d for the last change of all", h.From, h.To)
	}
	if h := history(t, s, "1", HistoryLimits{Messages: 100}); len(h.Changes) != 0 || h.Whole || h.To-h.From+1 != historyStep {
		t.Errorf("it looked at %d to %d, found %s, though it was to look at 100 messages", h.From, h.To, h.lsns())
	}
	if h := history(t, s, "1", HistoryLimits{Bytes: 1}); len(h.Changes) != 0 || h.Whole {
		t.Errorf("it looked at %d to %d though it was to read a byte", h.From, h.To)
	}
}

// TestHistoryTakesItsConsumersBack, and says what can't be asked.
func TestHistoryTakesItsConsumersBack(t *testing.T) {
	nc := testConn(t, nil)
	p := testPublisher(t, nc, nil)
	publish(t, p, historyFlush(0, 10, "1", syncd.Upsert))
	waitAcked(t, p, 10)
	s := testStream(t, nc)
	history(t, s, "1", HistoryLimits{})
	ctx := testContext(t)
	for {
		n, err := s.consumers(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	none := &Stream{Conn: nc, Name: "none_" + s.Name}
	if _, err := none.History(ctx, histories[0], syncd.MakeKey("1"), HistoryLimits{}); !errors.Is(err, syncd.ErrNoStream) {
		t.Errorf("of no stream: %v", err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.History(over, histories[0], syncd.MakeKey("1"), HistoryLimits{}); err == nil {
		t.Error("no error though the context had ended")
	}
}
