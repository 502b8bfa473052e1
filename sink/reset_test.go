package sink_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/storetest"
)

// forgetful is a store outside of this process that loses what it holds.
type forgetful struct {
	*storetest.Map
	lost bool
}

func (f *forgetful) Commit(b *sink.Batch) error {
	if f.lost {
		f.lost = false
		f.Map = storetest.NewMap()
		return fmt.Errorf("a test's server: %w", sink.ErrReset)
	}
	return f.Map.Commit(b)
}

// TestAStoreLosesWhatItHeld wants a cache to go on from what its store holds now, and no list that began before to count.
func TestAStoreLosesWhatItHeld(t *testing.T) {
	t.Parallel()
	store := &forgetful{Map: storetest.NewMap()}
	c := sink.New(sink.Options{Store: store})
	info := syncd.TableInfo{Table: syncd.Table{Schema: "public", Name: "t"}, Columns: []string{"id"}, Types: []string{"integer"}, Key: []string{"id"}, Schema: 1}
	flush := func(previous, through syncd.LSN) error {
		return c.Flush(&sink.Flush{Marker: &syncd.Marker{Epoch: 1, Previous: previous, Through: through, Safe: through}, Seq: uint64(through)})
	}
	page := &syncd.Page{Table: info.Table, Schema: 1, Safe: 10, Last: true, Snapshot: &syncd.Snapshot{Epoch: 1, Xmin: 5, Xmax: 5, H: 10},
		Rows: []syncd.Row{{Key: syncd.MakeKey("1"), JSON: []byte(`{"id":1}`)}}}
	list := &sink.List{Table: info.Table, Schema: 1, Snapshots: []*syncd.Snapshot{page.Snapshot}, Safe: 10}
	for _, err := range []error{c.SetTables([]syncd.TableInfo{info}), flush(0, 10)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Judge(page, sink.How{}); err != nil {
		t.Fatal(err)
	}
	changed := c.Changed()
	store.lost = true
	if err := flush(10, 20); !errors.Is(err, sink.ErrReset) {
		t.Fatalf("the flush: %v", err)
	}
	if at := c.Cursor(); at.Seq != 0 || len(c.State().Tables) != 0 {
		t.Errorf("the cache still is at %+v with %d tables", at, len(c.State().Tables))
	}
	select {
	case <-changed:
	default:
		t.Error("nobody was told")
	}
	for _, err := range []error{c.SetTables([]syncd.TableInfo{info}), flush(10, 20)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := c.Done(t.Context(), list); !errors.Is(err, sink.ErrDiscard) {
		t.Errorf("a list of before counts: %v", err)
	}
}
