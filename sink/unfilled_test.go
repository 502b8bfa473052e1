package sink_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
)

// TestUnchangedValueManyTimesInAFlush: what a flush leaves is what its deltas leave one by one.
func TestUnchangedValueManyTimesInAFlush(t *testing.T) {
	for name, c := range map[string]struct {
		deltas []syncd.Delta
		row    string // empty: none
		open   []int
	}{
		"again and again":            {[]syncd.Delta{unchanged(110, 1, 1, 2), unchanged(111, 1, 1, 3), unchanged(112, 1, 1, 4)}, person(1, 4, "one"), nil},
		"then the whole row":         {[]syncd.Delta{unchanged(110, 1, 1, 2), upsert(111, 1, 1, person(1, 3, "new")), unchanged(112, 1, 1, 4)}, person(1, 4, "new"), nil},
		"then a delete":              {[]syncd.Delta{unchanged(110, 1, 1, 2), remove(111, 1, 1)}, "", nil},
		"delete and insert":          {[]syncd.Delta{unchanged(110, 1, 1, 2), remove(111, 1, 1), upsert(112, 1, 1, person(1, 3, "new")), unchanged(113, 1, 1, 5)}, person(1, 5, "new"), nil},
		"then a TRUNCATE":            {[]syncd.Delta{unchanged(110, 1, 1, 2), truncate(111, 1)}, "", nil},
		"a TRUNCATE between":         {[]syncd.Delta{unchanged(110, 1, 1, 2), truncate(111, 1), upsert(112, 1, 1, person(1, 3, "new"))}, person(1, 3, "new"), nil},
		"then a pointer":             {[]syncd.Delta{unchanged(110, 1, 1, 2), pointer(111, 1)}, person(1, 2, "one"), []int{1}},
		"another value unchanged":    {[]syncd.Delta{unchanged(110, 1, 1, 2), withAbsent(unchanged(111, 1, 1, 3), "nothing")}, person(1, 2, "one"), []int{1}},
		"unfit at the end":           {[]syncd.Delta{unchanged(110, 1, 1, 2), half(unchanged(111, 1, 1, 3))}, person(1, 2, "one"), []int{1}},
		"of another shape":           {[]syncd.Delta{unchanged(110, 1, 1, 2), reshaped(unchanged(111, 1, 1, 3))}, person(1, 2, "one"), []int{1}},
		"moved away, and back again": {[]syncd.Delta{unchanged(110, 1, 1, 2), remove(111, 1, 1), movedFrom(1, unchanged(111, 2, 2, 3))}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := served(t, person(1, 1, "one"))
			r.at(1, 120, c.deltas...)
			if c.row != "" || len(c.open) == 0 {
				r.wantRow(1, c.row)
			}
			r.wantOpen(c.open...)
		})
	}
}

// half cuts a delta's row off.
func half(d syncd.Delta) syncd.Delta { d.Row = d.Row[:len(d.Row)-1]; return d }

// TestUnchangedValueIsCopiedOnce: a large value that many changes of a flush left alone is not copied for each.
func TestUnchangedValueIsCopiedOnce(t *testing.T) {
	const size, changes = 1 << 20, 200
	large := strings.Repeat("x", size)
	r := served(t, person(1, 1, large))
	var deltas []syncd.Delta
	for i := range changes {
		deltas = append(deltas, unchanged(syncd.LSN(110+i), 1, 1, i))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.at(1, 110+changes, deltas...)
	runtime.ReadMemStats(&after)
	r.wantRow(1, person(1, changes-1, large))
	if got := after.TotalAlloc - before.TotalAlloc; got > 20*size {
		t.Errorf("%d changes of a row with a value of %d bytes allocated %d bytes", changes, size, got)
	}
}
