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
	confirmable(t, v, 0)
	v.add([]commitRef{{150, 7, 142}, {180, 8, 172}})
	v.lift()
	if got := v.safe(200); got != 149 {
		t.Errorf("a replayed commit is invisible: safe is %d, want 149", got)
	}
	confirmable(t, v, 142)
	v.see(&syncd.Snapshot{Xmin: 8, Xmax: 9, Xip: []syncd.XID{8}})
	if got := v.safe(200); got != 179 {
		t.Errorf("the second is: safe is %d, want 179", got)
	}
	confirmable(t, v, 172)
	v.see(&syncd.Snapshot{Xmin: 9, Xmax: 9})
	if got := v.safe(200); got != 200 {
		t.Errorf("all is visible: safe is %d, want 200", got)
	}
	confirmable(t, v, 200)
}

// confirmable wants the slot to be told of a place from which the invisible commits are replayed: none within their records.
func confirmable(t *testing.T, v *visibility, want syncd.LSN) {
	t.Helper()
	if got := v.confirmable(200); got != want {
		t.Errorf("the slot may be told of %d, want %d", got, want)
	}
}
