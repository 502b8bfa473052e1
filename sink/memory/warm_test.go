package memory

import (
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// TestWarmReachesEveryRecord: keys that are held, that are not, of tables that are not, in tables of any size and with
// hashes that collide; none is read beyond the end of its block.
func TestWarmReachesEveryRecord(t *testing.T) {
	t.Parallel()
	for _, hash := range []func(syncd.Key) uint64{syncd.Key.Hash, weakHash} {
		for _, rows := range []int{0, 1, 100, 5000} {
			s := newStore(Options{}, hash)
			fill(t, s, 0, rows)
			keys := make([]syncd.Key, 0, rows+300)
			for i := range cap(keys) {
				keys = append(keys, benchKey(i))
			}
			s.Warm(benchTable, keys)
			s.Warm(syncd.Table{Schema: "public", Name: "none"}, keys)
			for i, k := range keys {
				if _, has, _ := s.Load(benchTable, k); has != (i < rows) {
					t.Fatalf("%d rows: %s is held: %v", rows, k, has)
				}
			}
		}
	}
}

func TestTidy(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	put := func(k syncd.Key, e sink.Entry, remove bool) {
		t.Helper()
		e.Version.Epoch = 1
		if err := s.Commit(&sink.Batch{Writes: []sink.Write{{Table: benchTable, Key: k, Entry: e, Remove: remove}}}); err != nil {
			t.Fatal(err)
		}
	}
	row := []byte(`{}`)
	for i, step := range []struct {
		key    syncd.Key
		entry  sink.Entry
		remove bool
		tidy   bool
	}{
		{key: "1", entry: sink.Entry{Row: row}, tidy: true},
		{key: "2", entry: sink.Entry{}},
		{key: "2", entry: sink.Entry{Row: row, Pending: true}},
		{key: "1", entry: sink.Entry{Row: row, Pending: true}},
		{key: "1", entry: sink.Entry{Row: row}},
		{key: "2", entry: sink.Entry{Row: row}, tidy: true},
		{key: "1", entry: sink.Entry{}},
		{key: "1", remove: true, tidy: true},
		{key: "2", remove: true, tidy: true},
	} {
		if put(step.key, step.entry, step.remove); s.Tidy(benchTable) != step.tidy {
			t.Errorf("after step %d tidy is %v", i, !step.tidy)
		}
	}
}
