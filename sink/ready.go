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
// listed, and the cache has reached the end that the stream had at the start. Before that it says what is missing. Once
// ready it stays so: what is wrong later is said with each read.
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
		if !t.Listed && t.Info.Error == "" {
			return fmt.Errorf("table %s: the first list is not complete yet", name)
		}
	}
	c.ready.done = true
	return nil
}
