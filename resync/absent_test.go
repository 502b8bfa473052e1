package resync

import (
	"context"
	"iter"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/syncd-io/syncd"
)

// TestGapWithCollisions: whatever keys share a hash, each key that the list lacks is asked for, and no key of a hash under
// which the list returned all that the cache holds.
func TestGapWithCollisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g gap
		var rows []heldRow
		lacking, whole := map[syncd.Key]bool{}, map[syncd.Key]bool{}
		for h := range uint64(6) {
			short := false
			var group []syncd.Key
			for i := range rapid.IntRange(0, 3).Draw(t, "keys of a hash") {
				k := syncd.Key(rune('a'+h)) + key(i)
				switch rapid.SampledFrom([]string{"both", "both", "cache", "list", "list of a dry run"}).Draw(t, "where") {
				case "both":
					g.seen = append(g.seen, h)
					group = append(group, k)
				case "cache":
					lacking[k], short = true, true
					group = append(group, k)
				case "list": // the cache has taken it meanwhile
					g.seen = append(g.seen, h)
					group = append(group, k)
				case "list of a dry run":
					g.seen, g.unlike = append(g.seen, h), append(g.unlike, h)
				}
			}
			for _, k := range group {
				rows = append(rows, heldRow{h, k, Held{Row: true}})
				whole[k] = !short
			}
		}
		walk := func(yield func(heldRow, error) bool) {
			for _, r := range rows {
				if !yield(r, nil) {
					return
				}
			}
		}
		c, err := g.count(walk)
		if err != nil {
			t.Fatal(err)
		}
		asked := collect(t, g.keys(walk))
		if c.rows != len(rows) || c.lacking != len(asked) || c.due != len(lacking) {
			t.Errorf("counts %+v of %d rows, %d asked for, %d lacking", c, len(rows), len(asked), len(lacking))
		}
		for k := range lacking {
			if !slices.Contains(asked, k) {
				t.Errorf("%q is not asked for", k)
			}
		}
		for _, k := range asked {
			if whole[k] {
				t.Errorf("%q is asked for in vain", k)
			}
		}
	})
}

func collect(t interface{ Fatal(...any) }, keys iter.Seq2[syncd.Key, error]) (all []syncd.Key) {
	for k, err := range keys {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, k)
	}
	return all
}

func TestGapWantsOrder(t *testing.T) {
	var g gap
	_, err := g.count(func(yield func(heldRow, error) bool) {
		_ = yield(heldRow{hash: 2}, nil) && yield(heldRow{hash: 1}, nil) && yield(heldRow{hash: 3}, nil)
	})
	if err == nil {
		t.Error("rows out of order are counted as if they were in it: keys would be missed")
	}
}

func TestWorthAndDue(t *testing.T) {
	const epoch = 7
	at := func(xmax syncd.XID, xip ...syncd.XID) *syncd.Snapshot {
		return &syncd.Snapshot{Epoch: epoch, Xmin: 1, Xmax: xmax, Xip: xip, H: 900}
	}
	set := func(lsn syncd.LSN, xid syncd.XID) Held {
		return Held{Row: true, Version: syncd.Version{Epoch: epoch, LSN: lsn}, XID: xid}
	}
	listed := func(s *syncd.Snapshot) Held {
		return Held{Row: true, Version: syncd.Version{Epoch: s.Epoch}, Snap: s}
	}
	old := Held{Row: true, Version: syncd.Version{Epoch: epoch - 1, LSN: 5000}, XID: 5000}
	g := gap{epoch: epoch, high: 1000, oldest: at(100, 90)}
	for name, tc := range map[string]struct {
		held       Held
		worth, due bool
	}{
		"a change that all pages saw":          {set(500, 50), true, true},
		"one that the first page did not see":  {set(950, 101), true, false},
		"one that was running then":            {set(950, 90), true, false},
		"one that no page can have seen":       {set(1001, 200), false, false},
		"listed before":                        {listed(at(80)), true, true},
		"fetched while the list ran":           {listed(at(120)), true, false},
		"of an older epoch, whatever its LSN":  {old, true, true},
		"listed in an older epoch":             {listed(&syncd.Snapshot{Epoch: epoch - 1, Xmax: 9000}), true, true},
		"the last commit that a page can hold": {set(1000, 50), true, true},
	} {
		if w, d := g.worth(tc.held), g.due(tc.held); w != tc.worth || d != tc.due {
			t.Errorf("%s: worth asking %v, due %v; want %v, %v", name, w, d, tc.worth, tc.due)
		}
	}
	g.oldest = nil // pages of standby and primary: no oldest is known, so all count
	if !g.due(set(950, 101)) || g.due(set(1001, 200)) {
		t.Error("without an oldest snapshot all that is worth asking for is due")
	}
}

// TestRowsOfWalksInChunks: every row comes once, in order, also where the cache has more entries than a chunk and tombstones
// among them, and the cache may be called in between.
func TestRowsOfWalksInChunks(t *testing.T) {
	s, _ := pair(0)
	c := newCache(s)
	const n = 2*chunkEntries + 100
	for i := range n {
		c.rows[key(i)] = held{Held: Held{Row: i%3 > 0}}
	}
	sorted := c.sorted()
	var got []syncd.Key
	for row, err := range rowsOf(c, users, nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, row.key)
		c.Through() // would block if the walk still held the cache
	}
	var want []syncd.Key
	for _, k := range sorted {
		if c.rows[k].Row {
			want = append(want, k)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d rows, want %d, or another order", len(got), len(want))
	}
	for range rowsOf(c, users, nil) {
		break // ends the walk
	}
}

func TestGetsAreBounded(t *testing.T) {
	s, _ := pair(0)
	var sizes []int
	r := run{job: job{table: users}, lister: s, cache: newCache(s), wait: wait{cache: newCache(s)}, state: State{Listed: true}}
	long := string(make([]byte, 50<<10))
	s.before = func(_ context.Context, q any) error {
		sizes = append(sizes, len(q.(syncd.GetRequest).Keys))
		return nil
	}
	err := r.singles(t.Context(), func(yield func(syncd.Key, error) bool) {
		for i := range 2500 {
			if !yield(key(i), nil) {
				return
			}
		}
		for i := range 3 {
			if !yield(key(i)+syncd.Key(long), nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{1000, 1000, 502, 1}; !slices.Equal(sizes, want) {
		t.Errorf("keys a get %v, want %v", sizes, want)
	}
}
