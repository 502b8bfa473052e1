package remote

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// Commit implements sink.Store.
func (s *Store) Commit(b *sink.Batch) error {
	if err := s.attach(s.ctx); err != nil {
		return err
	}
	if err := s.loadBefore(b); err != nil {
		return err
	}
	c := s.change(b)
	s.send(c)
	remembered := make(chan struct{})
	go func() { // while the server works
		defer close(remembered)
		s.memory.commit(c)
	}()
	err := s.place.Apply(s.ctx, c)
	<-remembered
	if err == nil {
		s.advance(version{c.To, c.State})
		return nil
	}
	s.memory.clear()
	made := version{c.To, c.State}
	if _, inUse := errors.AsType[*InUseError](err); inUse || errors.Is(err, ErrMoved) {
		s.forget(&made)
		if why := s.lost(); why != nil {
			return why
		}
		return err
	}
	s.doubt, s.known = &made, false
	state := s.State()
	why := s.attach(s.ctx)
	switch {
	case !errors.Is(why, sink.ErrReset):
		return err
	case s.State() == c.State && state != c.State:
		return nil // it was made, and only the answer was lost
	}
	return errors.Join(err, why)
}

// loadBefore loads what is under the keys of a batch, where that was not done yet.
func (s *Store) loadBefore(b *sink.Batch) error {
	missing := map[syncd.Table][]syncd.Key{}
	for i := range b.Writes {
		w := &b.Writes[i]
		if _, ok := s.loaded[w.Table][w.Key]; !ok {
			missing[w.Table] = append(missing[w.Table], w.Key)
		}
	}
	for t, keys := range missing {
		if err := s.fetchAll(t, keys); err != nil {
			return fmt.Errorf("load %d entries of %s: %w", len(keys), t, err)
		}
	}
	return nil
}

// change makes the commit of a batch, which owns its rows.
func (s *Store) change(b *sink.Batch) *Change {
	at := s.now.mark
	c := &Change{From: at, To: Mark{at.Gen, at.Seq + 1, rand.Text()[:10]}, Drop: b.Drop, Writes: b.Writes}
	loaded := s.loaded
	c.Before = func(t syncd.Table, k syncd.Key) Found {
		if slices.Contains(c.Drop, t) {
			return Found{}
		}
		return loaded[t][k]
	}
	old := s.now.state
	c.State = b.State
	if c.State == nil {
		c.State = copyOf(old)
	}
	for name, t := range c.State.Tables {
		if was := old.Tables[name]; was == nil {
			c.New = append(c.New, name)
			t.Rows = 0
		} else {
			t.Rows = was.Rows
		}
	}
	for _, name := range b.Drop {
		if t := c.State.Tables[name]; t != nil {
			t.Rows = 0
		}
	}
	c.count()
	return c
}

// count sets the Rows of the tables' states.
func (c *Change) count() {
	for i := range c.Writes {
		w := &c.Writes[i]
		t := c.State.Tables[w.Table]
		if t == nil {
			continue
		}
		if c.Before(w.Table, w.Key).Counted {
			t.Rows--
		}
		if !w.Remove && w.Entry.Row != nil {
			t.Rows++
		}
	}
}

// copyOf copies a state and its tables' states.
func copyOf(s *sink.State) *sink.State {
	c := *s
	c.Tables = make(map[syncd.Table]*sink.TableState, len(s.Tables))
	for name, t := range s.Tables {
		copied := *t
		c.Tables[name] = &copied
	}
	return &c
}
