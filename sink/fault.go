package sink

import "sync/atomic"

// fault remembers what keeps a cache from taking in what comes.
type fault struct{ at atomic.Pointer[failed] }

type failed struct {
	err    error
	writes int // of the commit
}

// note takes note of how a commit of so many writes has ended. A smaller one that succeeds proves nothing: an idle stream's
// markers fit into a store that is full.
func (f *fault) note(err error, writes int) {
	last := f.at.Load()
	switch {
	case err != nil:
		f.at.Store(&failed{err, writes})
	case last != nil && writes >= last.writes:
		f.at.Store(nil)
	}
}

// Fault gives the error that the last large commit has failed with: the store is full, or can't be reached. nil: all is well. It
// ends with a commit of as many writes that succeeds, or a complete list.
func (c *Cache) Fault() error {
	if f := c.fault.at.Load(); f != nil {
		return f.err
	}
	return nil
}
