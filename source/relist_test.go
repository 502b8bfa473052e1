package source

import (
	"testing"

	"github.com/syncd-io/syncd"
)

// TestRelistIsToldBehindItsCause: a marker that has not passed where the log ended when a table changed tells nothing of it,
// since a list made before the change may have seen all that this marker has passed. Nor does it vouch for the catalog as it
// is then. And where transactions were open at the change, it is told once more when they have ended.
func TestRelistIsToldBehindItsCause(t *testing.T) {
	r := newRoster(Config{})
	why := map[syncd.Table]string{tableT: "it joined the publication"}
	r.moment = moment{snapshot: &syncd.Snapshot{Xmin: 7, Xmax: 9, Xip: []syncd.XID{7}}, end: 1000}
	r.cause(why)
	expect := func(through syncd.LSN, told, whole bool) {
		t.Helper()
		tables, _, all := r.demanded(through)
		if (len(tables) == 1) != told || all != whole {
			t.Errorf("at %d: told of %v, whole %v", through, tables, all)
		}
		r.told(tables, through)
	}
	expect(999, false, false)
	if r.held() != 1000 {
		t.Errorf("held until %d", r.held())
	}
	expect(1000, true, false)
	r.moment = moment{snapshot: &syncd.Snapshot{Xmin: 7, Xmax: 12, Xip: []syncd.XID{7, 10}}, end: 1100}
	r.cause(nil)
	expect(1200, false, false)
	r.moment = moment{snapshot: &syncd.Snapshot{Xmin: 10, Xmax: 12, Xip: []syncd.XID{10}}, end: 1300}
	r.cause(nil)
	expect(1299, false, false)
	expect(1300, true, true)
	r.settled(1300)
	expect(2000, false, true)
	r.demand(tableT, "again", 2100)
	r.demand(tableT, "again", 2200) // meanwhile once more
	r.told(map[syncd.Table]string{tableT: "again"}, 2150)
	expect(2150, false, false)
	expect(2200, true, true)
	r.untold()
	expect(2300, true, true)
}
