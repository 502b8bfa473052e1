package source

import (
	"testing"
	"time"

	"github.com/syncd-io/syncd"
	"pgregory.net/rapid"
)

func TestTrailConfirmsWhatWasAckedAnIntervalAgo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		interval := time.Duration(rapid.IntRange(-1, 5).Draw(t, "interval")) * time.Second
		now := time.Unix(1000, 0)
		first := syncd.LSN(100)
		tr := newTrail(interval, first)
		type ack struct {
			lsn syncd.LSN
			at  time.Time
		}
		var acks []ack
		lsn, last := first, first
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "ms")) * time.Millisecond)
			if rapid.Bool().Draw(t, "ack") {
				lsn += syncd.LSN(rapid.IntRange(0, 50).Draw(t, "bytes"))
				acks = append(acks, ack{lsn, now})
				tr.ack(lsn, now)
			}
			got := tr.confirmed(now)
			if got < last {
				t.Fatalf("confirms %s after %s", got, last)
			}
			last = got
			allowed, due := first, first
			for _, a := range acks {
				if !a.at.Add(interval).After(now) {
					allowed = a.lsn
				}
				if !a.at.Add(interval + interval/trailSteps + 1).After(now) {
					due = a.lsn
				}
			}
			if got > allowed {
				t.Fatalf("confirms %s, but only %s was acknowledged %v ago", got, allowed, interval)
			}
			if got < due {
				t.Fatalf("confirms %s, though %s was acknowledged long ago", got, due)
			}
		}
		if len(tr.acked) > trailSteps+2 {
			t.Fatalf("%d positions are kept", len(tr.acked))
		}
		tr.hurry()
		if got := tr.confirmed(now); got != lsn {
			t.Fatalf("in a hurry it confirms %s, %s is acknowledged", got, lsn)
		}
	})
}
