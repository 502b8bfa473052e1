package source

import (
	"context"
	"sync"
	"time"

	"github.com/syncd-io/syncd"
)

// commitRef is a commit that was decoded.
type commitRef struct {
	lsn   syncd.LSN // where its record ends
	xid   syncd.XID
	start syncd.LSN // where its record starts
}

// visibility knows which decoded commits are not yet known to be visible. A commit is decoded as soon as it is in the log,
// and visible only when its transaction has left the list of the running ones: microseconds later, or, while a synchronous
// standby is away, much later.
//
// A term that resumes knows nothing of the commits before it: until the slot has replayed those that the stream has, it says
// no more than the last marker did. The slot is never confirmed beyond what is visible, so they are all among them.
type visibility struct {
	mu     sync.Mutex
	unseen []commitRef // by LSN
	held   bool        // the replay has not passed the stream's end
	last   syncd.LSN   // the safe of the last marker, while held
	wake   chan struct{}
}

func newVisibility() *visibility { return &visibility{wake: make(chan struct{}, 1)} }

// hold lets nothing beyond last count as safe, until lift.
func (v *visibility) hold(last syncd.LSN) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held, v.last = true, last
}

// lift says that every commit is known.
func (v *visibility) lift() {
	v.mu.Lock()
	was := v.held
	v.held = false
	v.mu.Unlock()
	if was {
		signal(v.wake)
	}
}

// add takes in commits, before they are handed to the publisher.
func (v *visibility) add(commits []commitRef) {
	if len(commits) == 0 {
		return
	}
	v.mu.Lock()
	v.unseen = append(v.unseen, commits...)
	v.mu.Unlock()
	signal(v.wake)
}

// see takes out what a snapshot shows, and says how many commits it does not show.
func (v *visibility) see(s *syncd.Snapshot) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	kept := v.unseen[:0]
	for _, c := range v.unseen {
		if s.Visible(c.xid, c.lsn) != syncd.Visible {
			kept = append(kept, c)
		}
	}
	v.unseen = kept
	return len(kept)
}

// safe gives the highest LSN up to through such that every commit up to it is visible in a snapshot that was taken.
func (v *visibility) safe(through syncd.LSN) syncd.LSN {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held {
		through = min(through, v.last)
	}
	if len(v.unseen) > 0 && v.unseen[0].lsn <= through {
		return v.unseen[0].lsn - 1
	}
	return through
}

// confirmable gives how far the slot may be told that all is safe, at most through: such that every commit that is not known
// to be visible is replayed to the next term, which has to know of it. A server replays the commits whose records start at or
// behind what is confirmed (SnapBuildXactNeedsSkip), so to confirm a place within a record is to do without it. It is 0 while
// it is not known which they are.
func (v *visibility) confirmable(through syncd.LSN) syncd.LSN {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.held:
		return 0
	case len(v.unseen) > 0:
		return min(v.unseen[0].start, through)
	}
	return through
}

const (
	probePause    = 10 * time.Millisecond
	probePauseMax = 250 * time.Millisecond
)

// probe takes snapshots while there are commits not known to be visible. seen is called after each.
func (v *visibility) probe(ctx context.Context, take func(context.Context) (*syncd.Snapshot, error), seen func(*syncd.Snapshot)) error {
	pause := probePause
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-v.wake:
		}
		s, err := take(ctx)
		if err != nil {
			return err
		}
		if v.see(s) > 0 {
			signal(v.wake)
			pause = min(2*pause, probePauseMax)
		} else {
			pause = probePause
		}
		seen(s)
		if sleep(ctx, pause) != nil {
			return nil
		}
	}
}

// signal wakes whoever waits on c, now or at their next look.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
