package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/syncd-io/syncd"
)

// ErrDiscard says that a page or a list is of another epoch, server or shape than the cache, or of a table that it does not
// keep: it proves nothing here. Ask for the tables again, and list anew.
var ErrDiscard = errors.New("not of this cache")

// AheadError says that a page can't be judged yet: the stream has not passed its H.
type AheadError struct {
	Table syncd.Table
	H     syncd.Position // where the stream has to be
	At    syncd.Position // where it is
}

func (e *AheadError) Error() string {
	return fmt.Sprintf("page of %s is ahead of the stream: wait for %s, the cache is at %s", e.Table, e.H, e.At)
}

// Options are what a Cache is made of. The zero of each field but Store is usable.
type Options struct {
	// Store holds the cache that is read. It may hold what an earlier process left.
	Store Store
	// New makes an empty store, for the cache of a new epoch to be built beside the one that is read. nil: a new epoch
	// begins in Store, whose tables are then not served until they were listed; their rows of before stay until then, for
	// those who read what Store keeps in another way.
	New func() (Store, error)
	// History bounds what is kept of the last commits, for readers that follow them.
	History  HistoryLimits
	Observer Observer         // nil: nobody is told
	Log      *slog.Logger     // nil: quiet
	Now      func() time.Time // nil: time.Now
}

// Cache owns the store that is read and, while a new epoch's cache is being built, the one that will take its place.
// Everything that changes it goes through the gate. Its methods may be called from many goroutines; those that change it
// wait for each other, and reading waits for none of them.
type Cache struct {
	observer Observer
	log      *slog.Logger
	now      func() time.Time
	create   func() (Store, error)
	gate     gate

	mu        sync.Mutex // held by whoever changes the cache
	building  *generation
	scratch   map[syncd.Key]int
	writes    []Write
	olds      []before
	judged    judged
	selectors selectors
	fault     fault

	// turn is odd while a commit is being made, from before it can be seen until the history has it.
	turn    atomic.Uint64
	history *History

	serving atomic.Pointer[generation]
	newest  atomic.Pointer[State] // the state of the building generation, else of the serving one
	ready   readiness
	changed broadcast
}

// gate holds the two functions that judge. They are fields so that a test can put a rule out of force and see what breaks.
type gate struct {
	delta func(t *TableState, e Entry, has bool, d *syncd.Delta) Verdict
	row   func(t *TableState, e Entry, has bool, row []byte, s *syncd.Snapshot) Verdict
}

// New gives a cache over a store. The cache owns the store from then on.
func New(o Options) *Cache {
	c := &Cache{observer: o.Observer, log: o.Log, now: o.Now, create: o.New, gate: gate{GateDelta, GateRow}, judged: judged{}}
	if c.observer == nil {
		c.observer = quiet{}
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.now == nil {
		c.now = time.Now
	}
	g := &generation{Store: o.Store}
	c.serving.Store(g)
	c.history = newHistory(o.History, g.State())
	c.history.cache = c
	c.publish(g)
	return c
}

// Close gives up the stores. Views that are open stay valid.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.serving.Load().retire()
	if c.building != nil {
		err = errors.Join(err, c.building.retire())
	}
	return err
}

// View gives one commit of the cache that is read. It must be closed soon. After Close it gives nil.
func (c *Cache) View() View {
	for {
		g := c.serving.Load()
		if v, ok := g.view(); ok {
			return v
		}
		if c.serving.Load() == g {
			return nil
		}
	}
}

// History gives the last commits of the cache that is read.
func (c *Cache) History() *History { return c.history }

// Store gives the store that is read now, for a checkpoint of it. It must not be changed. A new epoch puts another in its
// place.
func (c *Cache) Store() Store { return c.serving.Load().Store }

// State gives the state of the newest generation: while a new epoch's cache is being built, of that; else of the one that
// is read. It is what lists and gets are for. The caller must not change it.
func (c *Cache) State() *State { return c.newest.Load() }

// Through is how far the newest generation has taken the stream in.
func (c *Cache) Through() syncd.Position { return c.State().Cursor.Position }

// Cursor is where the newest generation goes on in the stream.
func (c *Cache) Cursor() syncd.Cursor { return c.State().Cursor }

// Changed gives a channel that is closed at the next commit after the call, of either generation.
func (c *Cache) Changed() <-chan struct{} { return c.changed.next() }

// Wait waits until the cache that is read is complete through p, in the tables named, or in all that are not refused where
// none is named. A position of an older epoch than the cache's is reached at once.
func (c *Cache) Wait(ctx context.Context, p syncd.Position, tables ...syncd.Table) error {
	return c.until(ctx, func() bool {
		v := c.View()
		if v == nil {
			return false
		}
		defer v.Close()
		return v.State().reached(p, tables)
	})
}

// reached says whether the tables named, or all, are complete through p.
func (s *State) reached(p syncd.Position, tables []syncd.Table) bool {
	for _, name := range tables {
		if t := s.Tables[name]; t == nil || t.Through.Compare(p) < 0 {
			return false
		}
	}
	if len(tables) > 0 {
		return true
	}
	for _, t := range s.Tables {
		if t.Info.Error == "" && t.Through.Compare(p) < 0 {
			return false
		}
	}
	return s.Cursor.Position.Compare(p) >= 0
}

// until waits until ok gives true, asking again after each commit.
func (c *Cache) until(ctx context.Context, ok func() bool) error {
	for {
		changed := c.changed.next()
		if ok() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// Walk calls fn for each entry of a table of the newest generation, tombstones too, in ascending order of the key's hash,
// beginning with hash from, until fn gives false. Nothing can change the cache meanwhile, so fn must be quick, and must not
// call the cache.
func (c *Cache) Walk(t syncd.Table, from uint64, fn func(syncd.Key, Entry) bool) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.heed(&err)
	return c.current().Walk(t, from, fn)
}

// current is the newest generation. The caller holds mu.
func (c *Cache) current() *generation {
	if c.building != nil {
		return c.building
	}
	return c.serving.Load()
}

// publish lets everybody see the state of g, the newest generation, and wakes who waits.
func (c *Cache) publish(g *generation) {
	c.newest.Store(g.State())
	c.changed.wake()
}

// change begins a change of the newest generation. The caller holds mu until it was committed or given up.
func (c *Cache) change() *change { return newChange(c.current().Store, c.writes[:0], c.olds[:0]) }

// commit makes a change of the newest generation visible. The caller holds mu.
func (c *Cache) commit(ch *change) error {
	c.turn.Add(1)
	defer c.turn.Add(1)
	err := ch.commit()
	c.fault.note(err, len(ch.batch.Writes))
	if err != nil {
		return fmt.Errorf("commit to the store: %w", err)
	}
	if c.building == nil {
		c.history.add(ch)
	}
	clear(ch.batch.Writes)
	clear(ch.before)
	if c.writes, c.olds = ch.batch.Writes, ch.before; cap(c.writes) > maxScratch {
		c.writes, c.olds = nil, nil
	}
	c.publish(c.current())
	c.swap()
	return nil
}

// swap has the building generation take the place of the one that is read, once all its tables were listed.
func (c *Cache) swap() {
	if c.building == nil || !c.building.State().listed() {
		return
	}
	if p, ok := c.building.Store.(Promoter); ok {
		if err := p.Promote(); err != nil {
			c.log.Warn("the new epoch's cache can't take the place of the one that is read yet", "error", err)
			return
		}
	}
	old := c.serving.Swap(c.building)
	c.building = nil
	c.history.resetAll(c.serving.Load().State(), newEpoch)
	c.log.Info("the new epoch's cache is complete and is read from now on", "position", c.State().Cursor.Position)
	c.changed.wake()
	if err := old.retire(); err != nil {
		c.log.Warn("close the store of the old epoch", "error", err)
	}
}

// newEpoch is why all tables are to be read anew when another generation is read.
const newEpoch = "a new epoch's cache is read from now on"

// listed says whether every table that can be was listed.
func (s *State) listed() bool {
	for _, t := range s.Tables {
		if !t.Listed && t.Info.Error == "" {
			return false
		}
	}
	return true
}

// maxScratch is how many writes have their space kept for the next change.
const maxScratch = 16 << 10

// pending gives the space of a change of one table, empty. The caller holds mu.
func (c *Cache) pending(n int) map[syncd.Key]int {
	if c.scratch == nil || len(c.scratch) > 16*n+1024 || len(c.scratch) > maxScratch {
		c.scratch = make(map[syncd.Key]int, n) // a large one takes long to clear
	}
	clear(c.scratch)
	return c.scratch
}
