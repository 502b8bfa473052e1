package source

import (
	"testing"

	"github.com/syncd-io/syncd"
)

// TestSafeAfterARestart: a term that resumes claims nothing that the marker before did not, until every commit that the
// stream has was replayed, and then nothing that a snapshot does not show.
func TestSafeAfterARestart(t *testing.T) {
	t.Parallel()
	v := newVisibility()
	v.hold(100)
	if got := v.safe(200); got != 100 {
		t.Errorf("before the replay: safe is %d, want 100", got)
	}
	v.add([]commitRef{{150, 7}, {180, 8}})
	v.lift()
	if got := v.safe(200); got != 149 {
		t.Errorf("a replayed commit is invisible: safe is %d, want 149", got)
	}
	v.see(&syncd.Snapshot{Xmin: 8, Xmax: 9, Xip: []syncd.XID{8}})
	if got := v.safe(200); got != 179 {
		t.Errorf("the second is: safe is %d, want 179", got)
	}
	v.see(&syncd.Snapshot{Xmin: 9, Xmax: 9})
	if got := v.safe(200); got != 200 {
		t.Errorf("all is visible: safe is %d, want 200", got)
	}
}
