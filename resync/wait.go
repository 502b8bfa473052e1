package resync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/syncd-io/syncd"
)

// quick is how long the next marker is waited for before one is asked for.
const quick = 20 * time.Millisecond

// wait waits for the stream to pass a snapshot's H.
type wait struct {
	cache    Cache
	marks    Marks // nil: markers come by themselves
	patience time.Duration
	log      *slog.Logger
	// stood is where the stream stood when a wait was given up; while it has not moved since, no further wait begins.
	stood syncd.Position
}

// errStood says that the stream did not move for as long as patience lasts.
type errStood struct{ at, want syncd.Position }

func (e errStood) Error() string {
	return fmt.Sprintf("the stream stands still at %s and has not reached %s", e.at, e.want)
}

// reach returns nil once the stream has passed the snapshot's H, an errStood when it does not move, and ctx's error
// when that ends. A stream that moves is waited for however far it has to go.
func (w *wait) reach(ctx context.Context, s *syncd.Snapshot) error {
	h := syncd.Position{Epoch: s.Epoch, LSN: s.H}
	for d := quick; ; d = w.patience {
		at := w.cache.Through()
		if at.Compare(h) >= 0 {
			return nil
		}
		if at == w.stood {
			return errStood{at, h}
		}
		if d != quick {
			w.mark(ctx, s.H)
		}
		err := w.within(ctx, d, h)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if d != quick && w.cache.Through() == at {
			w.stood = at
		}
	}
}

func (w *wait) within(ctx context.Context, d time.Duration, p syncd.Position) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		changed := w.cache.Changed()
		if w.cache.Through().Compare(p) >= 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// markTimeout bounds one request for a marker.
const markTimeout = 2 * time.Second

// mark asks the source to let the stream pass an LSN. Where it can't be asked, the marker of an idle source will do.
func (w *wait) mark(ctx context.Context, at syncd.LSN) {
	if w.marks == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	if _, err := w.marks.Mark(ctx, at); err != nil {
		w.log.Debug("ask the source for a marker", "at", at, "error", err)
	}
}

// busyFor is how long a source that is busy is asked again for, in the middle of a list; busyMin and busyMax bound the pauses.
const (
	busyFor = time.Minute
	busyMin = 100 * time.Millisecond
	busyMax = 5 * time.Second
)

// chance gives a duration below d. Chance is made of the clock, whose nanoseconds differ from one process to the next, so that
// in fake time a history goes the same way each time.
func chance(d time.Duration) time.Duration {
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	return time.Duration(r.Int64N(int64(d)))
}

// patiently asks the source, and again, a while, where it is busy.
func patiently(ctx context.Context, ask func() (*syncd.Page, error)) (*syncd.Page, error) {
	until := time.Now().Add(busyFor)
	for pause := busyMin; ; pause = min(2*pause, busyMax) {
		p, err := ask()
		if !errors.Is(err, syncd.ErrBusy) || time.Now().After(until) {
			return p, err
		}
		if err := sleep(ctx, time.Now().Add(pause/2+chance(pause/2))); err != nil {
			return nil, err
		}
	}
}

// sleep waits for a hint, until a time (zero: no time), or for ctx to end, whose error it returns.
func sleep(ctx context.Context, until time.Time, hints ...<-chan struct{}) error {
	var hint [2]<-chan struct{}
	copy(hint[:], hints)
	var timer <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-hint[0]:
	case <-hint[1]:
	case <-timer:
	}
	return nil
}
