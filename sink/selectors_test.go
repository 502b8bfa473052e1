package sink_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/storetest"
)

// few is the table people of those whose n is below 10 and whose bio is not "out".
func few(selector string) syncd.TableInfo {
	info := people
	info.Selector = selector
	return info
}

const fewSelector = "bio=neq.out&n=lt.10"

// by makes a page one of a selector.
func by(selector string, p *syncd.Page) *syncd.Page {
	p.Selector = selector
	return p
}

func servedFew(t *testing.T, rows ...string) *rig {
	t.Helper()
	r := newRig(t, storetest.NewMap())
	r.at(1, 1)
	r.tables(few(fewSelector))
	r.at(1, 100)
	p := by(fewSelector, page(1, 100, rows...))
	r.judge(p)
	if _, claimed, err := r.cache.Done(t.Context(), &sink.List{Table: p.Table, Schema: p.Schema, Selector: fewSelector, Snapshots: []*syncd.Snapshot{p.Snapshot}, Safe: p.Safe}); err != nil || !claimed {
		t.Fatalf("the first list: claimed %v, %v", claimed, err)
	}
	return r
}

// TestRowsThatEnterAndLeaveASelector: what leaves is a delete with the change's version, and large values that did not change
// are fetched only where the others don't tell that the row is left out.
func TestRowsThatEnterAndLeaveASelector(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		deltas []syncd.Delta
		row    string // of key 1; empty: none
		open   []int
	}{
		"stays":                             {[]syncd.Delta{upsert(110, 1, 1, person(1, 2, "new"))}, person(1, 2, "new"), nil},
		"leaves":                            {[]syncd.Delta{upsert(110, 1, 1, person(1, 20, "new"))}, "", nil},
		"leaves by another column":          {[]syncd.Delta{upsert(110, 1, 1, person(1, 2, "out"))}, "", nil},
		"leaves and enters":                 {[]syncd.Delta{upsert(110, 1, 1, person(1, 20, "new")), upsert(111, 1, 1, person(1, 3, "new"))}, person(1, 3, "new"), nil},
		"unchanged value, stays":            {[]syncd.Delta{unchanged(110, 1, 1, 2)}, person(1, 2, "one"), nil},
		"unchanged value, leaves":           {[]syncd.Delta{unchanged(110, 1, 1, 20)}, "", nil},
		"unchanged value, stays and leaves": {[]syncd.Delta{unchanged(110, 1, 1, 2), unchanged(111, 1, 1, 20)}, "", nil},
		"unchanged value, enters":           {[]syncd.Delta{unchanged(110, 1, 1, 20), unchanged(111, 1, 1, 3)}, "", []int{1}},
		"unchanged value, outside twice":    {[]syncd.Delta{unchanged(110, 1, 1, 20), unchanged(111, 1, 1, 30)}, "", nil},
		"a key that was never seen":         {[]syncd.Delta{upsert(110, 1, 7, person(7, 20, "x")), unchanged(111, 1, 7, 30)}, person(1, 1, "one"), nil},
		"moved to here from outside":        {[]syncd.Delta{upsert(110, 1, 7, person(7, 20, "x")), remove(111, 1, 7), movedFrom(7, unchanged(111, 2, 1, 3))}, person(1, 1, "one"), []int{1}},
		"moved away, out":                   {[]syncd.Delta{remove(111, 1, 1), movedFrom(1, unchanged(111, 2, 7, 30))}, "", nil},
		"too large for a message":           {[]syncd.Delta{pointer(110, 1)}, person(1, 1, "one"), []int{1}},
		"older states after it left":        {[]syncd.Delta{upsert(110, 2, 1, person(1, 20, "new")), upsert(109, 1, 1, person(1, 5, "late"))}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := servedFew(t, person(1, 1, "one"))
			r.at(1, 120, c.deltas...)
			r.wantRow(1, c.row)
			r.wantOpen(c.open...)
		})
	}
}

// TestSelectorTombstones: a key that was never in the cache is guarded too: an older state of its row, late from the stream or a
// list, does not come in; and the fetched row of a pointer may be left out.
func TestSelectorTombstones(t *testing.T) {
	t.Parallel()
	r := servedFew(t)
	r.at(1, 120, upsert(115, 1, 1, person(1, 20, "now")))
	r.at(1, 121, upsert(110, 1, 1, person(1, 2, "late")))
	r.wantRow(1, "")
	r.judge(by(fewSelector, page(1, 112, person(1, 2, "late"))))
	r.wantRow(1, "")
	r.at(1, 130, pointer(125, 2))
	r.wantOpen(2)
	r.judge(by(fewSelector, answerTo(page(1, 126), 2)))
	r.wantOpen()
	r.wantRow(2, "")
}

// TestSelectorThatChanges: the table is listed again, as one whose rows may have gone with the change; pages, digests and lists
// of the selector before are good for nothing.
func TestSelectorThatChanges(t *testing.T) {
	t.Parallel()
	r := servedFew(t, person(1, 1, "one"), person(2, 8, "two"))
	const next = "n=lt.5"
	old := by(fewSelector, page(1, 110, person(1, 1, "one")))
	r.at(1, 110)
	r.judge(old)
	r.tables(few(next))
	if ts := r.table(); ts.Relist == "" || !ts.Changed || ts.Loss == 0 || !strings.Contains(ts.Relist, "selector") {
		t.Fatalf("it is not to be listed again: %+v", ts)
	}
	if _, _, err := r.cache.Done(t.Context(), &sink.List{Table: old.Table, Schema: old.Schema, Selector: fewSelector, Snapshots: []*syncd.Snapshot{old.Snapshot}, Safe: old.Safe}); !errors.Is(err, sink.ErrDiscard) {
		t.Errorf("a list by the selector before ends with %v", err)
	}
	for _, selector := range []string{fewSelector, ""} {
		if _, err := r.cache.Judge(by(selector, page(1, 110, person(3, 6, "three"))), sink.How{}); !errors.Is(err, sink.ErrDiscard) {
			t.Errorf("a page by %q: %v", selector, err)
		}
	}
	r.at(1, 120, upsert(115, 1, 4, person(4, 7, "four")), upsert(116, 1, 5, person(5, 4, "five")))
	r.wantRow(4, "")
	r.wantRow(5, person(5, 4, "five"))
	p := by(next, page(1, 118, person(1, 1, "one"), person(5, 4, "five"), person(6, 3, "out")))
	r.judge(p)
	absent := by(next, answerTo(page(1, 118), 2))
	r.judge(absent)
	l := &sink.List{Table: p.Table, Schema: p.Schema, Selector: next, Snapshots: []*syncd.Snapshot{p.Snapshot, absent.Snapshot}, Safe: p.Safe}
	if _, claimed, err := r.cache.Done(t.Context(), l); err != nil || !claimed {
		t.Fatalf("claimed %v, %v", claimed, err)
	}
	r.wantRow(1, person(1, 1, "one"))
	r.wantRow(2, "")
	r.wantRow(6, person(6, 3, "out"))
	r.tables(few("nn=lt.5"))
	if ts := r.table(); !strings.Contains(ts.Info.Error, "did you mean n?") || ts.Rows != 0 {
		t.Errorf("a selector of no column: %+v", ts.Info)
	}
}
