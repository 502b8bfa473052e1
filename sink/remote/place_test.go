package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/codec"
)

// server is a place's server in this process. It does to its place what servers do: it is away, loses an answer, loses what it
// holds or goes back to what it was, gives the place to another process, and keeps a commit that was decided by one that died.
type server struct {
	mu    sync.Mutex
	owner *memPlace
	held  content
	fails func(p *memPlace, call string) fault // nil: nothing does. Called with mu held
}

// content is what a place holds. Maps in it are changed in place.
type content struct {
	mark   Mark
	state  []byte
	tables map[syncd.Table]map[syncd.Key]stored
	redo   *Change // decided, and not carried out in full
}

// stored is an entry as it is kept: what orders it, and the row.
type stored struct{ head, row []byte }

// fault is what becomes of a call.
type fault int

const (
	none   fault = iota
	before       // it fails, and nothing is done
	after        // it is done, and its answer is lost
)

var errAway = errors.New("the server is away")

// memPlace is one process's Place in a server.
type memPlace struct {
	*server
	name string

	// What follows is guarded by the server's mu.
	dead     bool // the process was killed: none of its calls does anything
	armed    bool
	left     int // steps that are left to it once it is armed
	released bool
	closed   bool
}

var _ Place = (*memPlace)(nil)

func newServer() *server {
	s := &server{}
	s.lose()
	return s
}

// place makes another process's place.
func (s *server) place(name string) *memPlace { return &memPlace{server: s, name: name} }

// do does something while nobody else does, behind the process's back.
func (s *server) do(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// lose has the server lose all it holds.
func (s *server) lose() { s.held = content{tables: map[syncd.Table]map[syncd.Key]stored{}} }

// copied is what is held now, to go back to.
func (s *server) copied() content {
	c := s.held
	c.tables = make(map[syncd.Table]map[syncd.Key]stored, len(s.held.tables))
	for t, entries := range s.held.tables {
		c.tables[t] = maps.Clone(entries)
	}
	return c
}

// call makes a call of the place's: fn says what it does on the server, with mu held.
func (p *memPlace) call(name string, fn func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errAway
	}
	f := none
	if p.fails != nil {
		f = p.fails(p, name)
	}
	if f == before {
		return fmt.Errorf("%s: %w", name, errAway)
	}
	if err := fn(); err != nil {
		return err
	}
	if f == after {
		return fmt.Errorf("answer of %s: %w", name, errAway)
	}
	return nil
}

// step is one that a process may die before, of a commit. The caller holds mu.
func (p *memPlace) step() error {
	if p.armed {
		if p.left == 0 {
			p.dead = true
		}
		p.left--
	}
	if p.dead {
		return errAway
	}
	return nil
}

// fence says whether the place is still this process's. The caller holds mu.
func (p *memPlace) fence() error {
	if p.owner != nil && p.owner != p {
		return &InUseError{Place: "the place", By: p.owner.name}
	}
	p.owner = p
	return nil
}

func (p *memPlace) Take(context.Context) (m Mark, s *sink.State, err error) {
	err = p.call("take", func() error {
		if err := p.fence(); err != nil {
			return err
		}
		if c := p.held.redo; c != nil {
			p.carry(c.Writes, c)
			p.finish(c)
		}
		if p.held.mark.Gen == "" {
			return nil
		}
		m = p.held.mark
		s, err = codec.ParseState(p.held.state)
		return err
	})
	return m, s, err
}

func (p *memPlace) Begin(_ context.Context, gen string, s *sink.State) (m Mark, err error) {
	err = p.call("begin", func() error {
		if err := p.fence(); err != nil {
			return err
		}
		p.lose()
		p.held.mark, p.held.state = Mark{Gen: gen, Nonce: "begun"}, codec.AppendState(nil, s)
		m = p.held.mark
		return nil
	})
	return m, err
}

// Apply decides a commit, and carries it out in two parts, between which others read.
func (p *memPlace) Apply(_ context.Context, c *Change) error {
	half := len(c.Writes) / 2
	return errors.Join(p.call("apply", func() error {
		if err := p.fence(); err != nil {
			return err
		}
		if c.From != p.held.mark {
			return ErrMoved
		}
		if err := p.step(); err != nil {
			return err
		}
		kept := *c
		kept.Writes = slices.Clone(c.Writes)
		for i := range kept.Writes { // the rows are the caller's
			kept.Writes[i].Entry.Row = slices.Clone(kept.Writes[i].Entry.Row)
		}
		p.held.redo = &kept
		if err := p.step(); err != nil {
			return err
		}
		for _, t := range slices.Concat(c.Drop, c.New) {
			delete(p.held.tables, t)
		}
		p.carry(c.Writes[:half], c)
		return nil
	}), p.call("finish", func() error {
		if p.held.redo == nil || p.held.redo.To != c.To {
			return errAway // it was not decided, or another process has ended it
		}
		if err := p.step(); err != nil {
			return err
		}
		p.carry(c.Writes[half:], c)
		p.finish(c)
		return p.step()
	}))
}

// carry carries out a part of a commit. It may be done twice. The caller holds mu.
func (p *memPlace) carry(writes []sink.Write, c *Change) {
	if len(writes) == len(c.Writes) {
		for _, t := range slices.Concat(c.Drop, c.New) {
			delete(p.held.tables, t)
		}
	}
	for i := range writes {
		w := &writes[i]
		if w.Remove {
			delete(p.held.tables[w.Table], w.Key)
			continue
		}
		if p.held.tables[w.Table] == nil {
			p.held.tables[w.Table] = map[syncd.Key]stored{}
		}
		p.held.tables[w.Table][w.Key] = stored{AppendHead(nil, &w.Entry, ""), slices.Clone(w.Entry.Row)}
	}
}

func (p *memPlace) finish(c *Change) {
	p.held.mark, p.held.state, p.held.redo = c.To, codec.AppendState(nil, c.State), nil
}

// found gives what is held under a key. The caller holds mu.
func (s *server) found(t syncd.Table, k syncd.Key) Found {
	e, ok := s.held.tables[t][k]
	if !ok {
		return Found{}
	}
	h, err := ParseHead(e.head)
	if err != nil {
		return Found{} // somebody has overwritten it
	}
	h.Entry.Row = slices.Clone(e.row)
	return Found{Entry: h.Entry, Held: true, Counted: h.HasRow}
}

func (p *memPlace) Fetch(_ context.Context, t syncd.Table, keys []syncd.Key) (all []Found, m Mark, err error) {
	err = p.call("fetch", func() error {
		m = p.held.mark
		for _, k := range keys {
			all = append(all, p.found(t, k))
		}
		return nil
	})
	return all, m, err
}

// stretch is how many entries a scan gives at a time.
const stretch = 40

func (p *memPlace) Scan(_ context.Context, t syncd.Table, from uint64) (s Stretch, m Mark, err error) {
	err = p.call("scan", func() error {
		m = p.held.mark
		var keys []Item
		for k := range p.held.tables[t] {
			if k.Hash() >= from {
				keys = append(keys, Item{Key: k})
			}
		}
		slices.SortFunc(keys, byHash)
		n := min(len(keys), stretch)
		for n > 0 && n < len(keys) && keys[n].Key.Hash() == keys[n-1].Key.Hash() {
			n++ // a hash is given as a whole
		}
		if s.More = n < len(keys); s.More {
			s.Next = keys[n].Key.Hash()
		}
		for _, i := range keys[:n] {
			if i.Found = p.found(t, i.Key); i.Held {
				s.Items = append(s.Items, i)
			}
		}
		return nil
	})
	return s, m, err
}

func (p *memPlace) Release(context.Context) error {
	return p.call("release", func() error {
		p.released = true
		if p.owner == p {
			p.owner = nil
		}
		return nil
	})
}

func (p *memPlace) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return nil
}

// open makes a store in a place; it is closed at the test's end.
func open(t testing.TB, p *memPlace) *Store {
	t.Helper()
	s, err := New(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
