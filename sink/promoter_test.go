package sink_test

import (
	"errors"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/storetest"
)

// shy is a store that can be promoted, the second time it is asked.
type shy struct {
	*storetest.Map
	asked int
}

func (s *shy) Promote() error {
	s.asked++
	if s.asked == 1 {
		return errors.New("the server is away")
	}
	return nil
}

// TestPromoted has a new epoch's store promoted before it is read; while that can't be, the old one is read on.
func TestPromoted(t *testing.T) {
	old, next := storetest.NewMap(), &shy{Map: storetest.NewMap()}
	c := sink.New(sink.Options{Store: old, New: func() (sink.Store, error) { return next, nil }})
	flush := func(m syncd.Marker) {
		t.Helper()
		if err := c.Flush(&sink.Flush{Marker: &m, Seq: uint64(m.Through)}); err != nil {
			t.Fatal(err)
		}
	}
	list := func(e syncd.Epoch, at syncd.LSN) {
		t.Helper()
		snap := &syncd.Snapshot{Epoch: e, Xmin: 9, Xmax: 9, H: at}
		if _, err := c.Judge(&syncd.Page{Table: item.Table, Schema: item.Schema, Snapshot: snap, Safe: at}, sink.How{}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Done(t.Context(), &sink.List{Table: item.Table, Schema: item.Schema, Snapshots: []*syncd.Snapshot{snap}, Safe: at}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.SetTables([]syncd.TableInfo{item}); err != nil {
		t.Fatal(err)
	}
	flush(syncd.Marker{Epoch: 1, Through: 10, Safe: 10})
	list(1, 10)
	flush(syncd.Marker{Epoch: 2, Through: 20, Safe: 20})
	if c.Store() != sink.Store(old) || next.asked != 0 {
		t.Fatalf("the new epoch's store is read before it was listed, asked %d times", next.asked)
	}
	list(2, 20)
	if next.asked < 2 || c.Store() != sink.Store(next) {
		t.Fatalf("the new epoch's store was asked %d times, and is not read", next.asked)
	}
	asked := next.asked
	flush(syncd.Marker{Epoch: 2, Previous: 20, Through: 30, Safe: 30})
	if next.asked != asked {
		t.Error("a store that is read was promoted again")
	}
}
