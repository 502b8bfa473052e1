package sink_test

import (
	"fmt"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/storetest"
)

// TestPoisonParksItsKey: a delta that can't be applied leaves its key as it was and marks it, and the rest of its flush is
// applied. The table can't be claimed until an answer that sees the delta settles the key.
func TestPoisonParksItsKey(t *testing.T) {
	poison := func(change func(d *syncd.Delta)) syncd.Delta {
		d := upsert(110, 2, 1, person(1, 2, "poison"))
		change(&d)
		return d
	}
	for name, d := range map[string]syncd.Delta{
		"a row that is an array":        poison(func(d *syncd.Delta) { d.Row = []byte(`[1,2]`) }),
		"half a row":                    poison(func(d *syncd.Delta) { d.Row = d.Row[:9] }),
		"one byte":                      poison(func(d *syncd.Delta) { d.Row = []byte(`{`) }),
		"half a row with absent values": poison(func(d *syncd.Delta) { d.Row, d.Absent = d.Row[:9], []string{"bio"} }),
		"a change of an unknown kind":   poison(func(d *syncd.Delta) { d.Op = 77 }),
		"a change of no kind":           poison(func(d *syncd.Delta) { d.Op = 0 }),
	} {
		t.Run(name, func(t *testing.T) {
			r := served(t, person(1, 1, "one"), person(2, 1, "two"))
			r.at(1, 110, upsert(110, 1, 2, person(2, 2, "two")), d, upsert(110, 3, 3, person(3, 2, "three")))
			r.wantRow(1, person(1, 1, "one"))
			r.wantRow(2, person(2, 2, "two"))
			r.wantRow(3, person(3, 2, "three"))
			r.wantOpen(1)
			if o := r.table().Open[key(1)]; !o.Parked || o.Reason == "" || o.Since != clock {
				t.Errorf("the mark is %+v", o)
			}
			if n := r.seen.rejected["people "+string(sink.Unfit)]; n != 1 {
				t.Errorf("rejected %v, want the one", r.seen.rejected)
			}
			if r.table().Loss != 0 || r.table().Through.LSN != 110 {
				t.Errorf("through %s, loss %s: the rest does not flow", r.table().Through, r.table().Loss)
			}
			all := []string{person(1, 1, "one"), person(2, 2, "two"), person(3, 2, "three")}
			if _, claimed := r.list(page(1, 105, all[0], person(2, 1, "two"))); claimed {
				t.Error("a list that does not see the delta was claimed")
			}
			r.wantOpen(1)
			all[0] = person(1, 2, "good")
			r.at(1, 115)
			if _, claimed := r.list(page(1, 115, all...)); !claimed {
				t.Error("the list that sees the delta was not claimed")
			}
			r.wantOpen()
			r.wantRow(1, all[0])
		})
	}
}

// TestParkedStaysParked: later troubles of the key don't hide that it is parked, a later good change does not settle it, a get
// that sees all does.
func TestParkedStaysParked(t *testing.T) {
	r := served(t, person(1, 1, "one"))
	bad := upsert(110, 1, 1, `"no row"`)
	r.at(1, 110, bad)
	r.at(1, 120, unchanged(120, 1, 1, 3)) // must not be filled from the row before the poison
	r.wantRow(1, person(1, 1, "one"))
	r.at(1, 130, upsert(130, 1, 1, person(1, 4, "four")))
	r.wantRow(1, person(1, 4, "four"))
	r.wantOpen(1)
	if o := r.table().Open[key(1)]; !o.Parked {
		t.Errorf("the mark is %+v", o)
	}
	r.at(1, 140)
	r.judge(answerTo(page(1, 140, person(1, 4, "four")), 1))
	r.wantOpen()
}

// TestPoisonBeforeTheFirstList: its list brings the row.
func TestPoisonBeforeTheFirstList(t *testing.T) {
	r := newRig(t, storetest.NewMap())
	r.at(1, 1)
	r.tables(people)
	r.at(1, 100, upsert(90, 1, 1, `null`))
	if _, claimed := r.list(page(1, 100, person(1, 2, "b"))); !claimed {
		t.Error("the list was not claimed")
	}
	r.wantRow(1, person(1, 2, "b"))
	r.wantOpen()
}

// TestForeignKeyCountsAsLost: a key that is none of the table's can be asked for by nobody, so it is not parked.
func TestForeignKeyCountsAsLost(t *testing.T) {
	r := served(t, person(1, 1, "one"))
	d := upsert(110, 1, 1, person(1, 2, "poison"))
	d.Key = syncd.MakeKey("1", "2")
	r.at(1, 110, d)
	r.wantOpen()
	r.wantRow(1, person(1, 1, "one"))
	if got := fmt.Sprint(r.table().Loss); got != "0/6E" || r.table().Relist == "" {
		t.Errorf("loss %s, relist %q, want the table to be listed", got, r.table().Relist)
	}
	r.at(1, 120)
	if _, claimed := r.list(page(1, 120, person(1, 2, "good"))); !claimed {
		t.Error("the list was not claimed")
	}
	r.wantRow(1, person(1, 2, "good"))
}
