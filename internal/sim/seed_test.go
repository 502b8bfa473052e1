//go:build !race

package sim

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
)

// The race detector's scheduler takes goroutines' turns at random, on purpose: no seed decides them there.

// TestASeedDecides: run again, a history is the same to the last line of its log. (On a machine that is busy the scheduler may
// take a goroutine's turn away, which no seed decides: two runs in a few have to agree.)
func TestASeedDecides(t *testing.T) {
	for _, seed := range []uint64{10, 12, 17} {
		logs := map[string]int{}
		for agree := false; !agree; {
			var text bytes.Buffer
			synctest.Test(t, func(*testing.T) {
				h := newHistory(seed, "", bug{})
				h.log = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
				h.run()
			})
			logs[text.String()]++
			if agree = logs[text.String()] > 1; !agree && len(logs) == 8 || text.Len() < 1000 {
				t.Errorf("seed %d goes another way each time, such as:\n%.3000s", seed, text.String())
				break
			}
		}
	}
}
