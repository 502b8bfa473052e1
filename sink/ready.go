package sink

import (
	"errors"
	"fmt"
	"sync"

	"github.com/syncd-io/syncd"
)

// readiness remembers the end that the stream had when this process began, and that the cache has been there.
type readiness struct {
	mu     sync.Mutex
	known  bool
	target syncd.Position
	done   bool
}

// SetTarget says where the stream ended when this process began: what Ready waits for. Only the first call counts. The
// zero position is that of an empty stream.
func (c *Cache) SetTarget(end syncd.Position) {
	c.ready.mu.Lock()
	defer c.ready.mu.Unlock()
	if !c.ready.known {
		c.ready.known, c.ready.target = true, end
	}
}

// Ready gives nil once the cache may be read behind a readiness probe without going back: every table that can be was
// listed, is complete through the end that the stream had at the start, and has no key to be fetched because of a change
// from before that. (What an earlier process had repaired or fetched may be later than what it left on disk.) Before that it
// says what is missing. Once ready it stays so: what is wrong later is said with each read.
func (c *Cache) Ready() error {
	v := c.View()
	if v == nil {
		return errors.New("shutting down")
	}
	defer v.Close()
	c.ready.mu.Lock()
	defer c.ready.mu.Unlock()
	if c.ready.done {
		return nil
	}
	s := v.State()
	switch {
	case !c.ready.known:
		return errors.New("the stream has not been reached yet")
	case s.Cursor.Position.Compare(c.ready.target) < 0:
		return fmt.Errorf("the cache is at %s, the stream ended at %s at the start", s.Cursor.Position, c.ready.target)
	case len(s.Tables) == 0:
		return errors.New("the tables are not known yet")
	}
	for name, t := range s.Tables {
		if err := t.behind(c.ready.target); err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
	}
	c.ready.done = true
	return nil
}

// behind says why a table may show less than an earlier process showed, which had taken the stream in through p.
func (t *TableState) behind(p syncd.Position) error {
	switch {
	case t.Info.Error != "":
		return nil // it can't be read
	case !t.Listed:
		return errors.New("the first list is not complete yet")
	case t.Through.Compare(p) < 0:
		return fmt.Errorf("changes behind %s are missing until it was listed again, the stream ended at %s at the start", t.Through, p)
	}
	for _, o := range t.Open {
		if !o.Parked && o.since(p) {
			return errors.New("the row of a changed key is to be fetched") // which one is nobody's business at a probe
		}
	}
	return nil
}

// since says whether what left a key open was there when the stream had come to p.
func (o *Open) since(p syncd.Position) bool {
	for _, d := range o.Deltas {
		if d.Version.Position().Compare(p) <= 0 {
			return true
		}
	}
	for _, s := range o.Snaps {
		if (syncd.Position{Epoch: s.Epoch, LSN: s.H}).Compare(p) <= 0 {
			return true
		}
	}
	return false
}
