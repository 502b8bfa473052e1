package source

import (
	"sync"
	"time"

	"github.com/syncd-io/syncd"
)

// trail decides how far the slot is told that all is safe: as far as JetStream had acknowledged an interval ago. An ack
// means "in the page cache of the server"; what a power loss takes from there, the slot can still replay.
type trail struct {
	mu       sync.Mutex
	interval time.Duration // 0 or less: at once
	acked    []ackedAt     // ascending in both
	confirm  syncd.LSN
}

type ackedAt struct {
	lsn syncd.LSN
	at  time.Time
}

// trailSteps is how finely an interval is told: positions of one step are kept as the last of them, at the step's end.
const trailSteps = 128

// newTrail begins at what the slot has confirmed already.
func newTrail(interval time.Duration, confirmed syncd.LSN) *trail {
	return &trail{interval: interval, confirm: confirmed}
}

// ack says that everything up to l was acknowledged at the time now.
func (t *trail) ack(l syncd.LSN, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := now
	if step := t.interval / trailSteps; step > 0 {
		at = now.Truncate(step).Add(step)
	}
	if n := len(t.acked); n > 0 && !t.acked[n-1].at.Before(at) {
		t.acked[n-1].lsn = max(t.acked[n-1].lsn, l)
		return
	}
	t.acked = append(t.acked, ackedAt{l, at})
}

// hurry ends the trailing: the log that it holds back is needed more than the guard against a power loss.
func (t *trail) hurry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.interval = 0
}

// confirmed gives what to tell the slot at the time now. It never moves back and is never beyond what was acknowledged.
func (t *trail) confirmed(now time.Time) syncd.LSN {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for n < len(t.acked) && (t.interval <= 0 || !t.acked[n].at.Add(t.interval).After(now)) {
		t.confirm = max(t.confirm, t.acked[n].lsn)
		n++
	}
	t.acked = append(t.acked[:0], t.acked[n:]...)
	return t.confirm
}
