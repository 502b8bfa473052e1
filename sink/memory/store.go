package memory

import (
	"sync"
	"sync/atomic"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// GCPercent is the GOGC for a process that is little more than a Store. The collector has almost nothing to look at in one
// (a few milliseconds a cycle for a million rows), so it can run often; with Go's default of 100 the process would take
// twice the memory of the rows.
const GCPercent = 20

// Options are what a Store may be told.
type Options struct {
	// MaxMemory is how many bytes the store may take; 0: no limit. A commit that would make it grow beyond is refused with
	// a FullError. It counts the rows, the keys, the index and the room that compaction needs; not the state, the headroom
	// of Go's garbage collector (GOGC), and what of older commits a View still holds.
	MaxMemory int64
	// Indexes are by which columns the rows of tables are to be found, until SetIndexes says otherwise.
	Indexes map[syncd.Table][][]string
}

// Store implements sink.Store in memory. Commit and ReadFrom exclude each other; every other method may be called by any
// goroutine at any time, waits for nothing, and works on the last commit. Of snapshots with the same content a table keeps
// one: the one an Entry comes back with may be another object than the one it was put with.
type Store struct {
	options Options
	hash    func(syncd.Key) uint64
	root    atomic.Pointer[root]

	mu      sync.Mutex // held by whoever writes
	indexes map[syncd.Table][][]string
	writerState
}

// writerState is what the next commit is made from.
type writerState struct {
	writers map[syncd.Table]*writer
	total   account
}

// account counts bytes: all that is taken, and what of it are blocks and live records; and the blocks.
type account struct{ used, blocks, live, count int }

// root is one commit. Nothing in it changes; it is the View of it.
type root struct {
	state   *sink.State
	numbers map[syncd.Table]int
	tables  []*table // by number
	used    int
	commits uint64
	writes  uint64
	closed  bool
}

var (
	_ sink.Store = (*Store)(nil)
	_ sink.View  = (*root)(nil)
)

// New makes an empty store.
func New(o Options) *Store { return newStore(o, syncd.Key.Hash) }

// newStore takes the hash of keys, so that tests can make it collide.
func newStore(o Options, hash func(syncd.Key) uint64) *Store {
	s := &Store{options: o, hash: hash, indexes: o.Indexes}
	s.clear(false)
	return s
}

func (s *Store) clear(closed bool) {
	s.writerState = writerState{writers: make(map[syncd.Table]*writer)}
	s.root.Store(&root{state: &sink.State{Tables: map[syncd.Table]*sink.TableState{}}, closed: closed})
}

// Load gives the entry under a key, tombstones too. It never fails.
func (s *Store) Load(t syncd.Table, k syncd.Key) (sink.Entry, bool, error) {
	e, ok := s.root.Load().Get(t, k)
	return e, ok, nil
}

// Walk calls fn for each entry of the last commit, as sink.Store says. It never fails. fn may call the store.
func (s *Store) Walk(t syncd.Table, from uint64, fn func(syncd.Key, sink.Entry) bool) error {
	if tab := s.root.Load().table(t); tab != nil {
		tab.walk(from, func(r *record) bool { return fn(keyOf(r.key), tab.entry(r)) })
	}
	return nil
}

// State gives the state of the last commit; before the first one it is empty, never nil.
func (s *Store) State() *sink.State { return s.root.Load().state }

// View gives the last commit. It holds up nothing; the memory of what it shows stays taken until it is forgotten.
func (s *Store) View() sink.View { return s.root.Load() }

// MemoryUsed is how many bytes the last commit takes, of what Options.MaxMemory counts.
func (s *Store) MemoryUsed() int64 { return int64(s.root.Load().used) }

// Commits gives two numbers that only grow: how many commits there were since the store was made or read, and how many
// writes and drops of tables they made.
func (s *Store) Commits() (commits, writes uint64) {
	r := s.root.Load()
	return r.commits, r.writes
}

// Close empties the store; views taken before stay. Commit, ReadFrom and WriteTo fail from now on.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear(true)
	return nil
}

func (r *root) table(t syncd.Table) *table {
	if no, ok := r.numbers[t]; ok {
		return r.tables[no]
	}
	return nil
}

// State implements sink.View.
func (r *root) State() *sink.State { return r.state }

// Get implements sink.View.
func (r *root) Get(t syncd.Table, k syncd.Key) (sink.Entry, bool) {
	if tab := r.table(t); tab != nil {
		return tab.get(k)
	}
	return sink.Entry{}, false
}

// Rows implements sink.View.
func (r *root) Rows(t syncd.Table, from uint64, fn func(syncd.Key, sink.Entry) bool) {
	tab := r.table(t)
	if tab == nil {
		return
	}
	tab.walk(from, func(rec *record) bool {
		return rec.row == nil || fn(keyOf(rec.key), tab.entry(rec))
	})
}

// Err implements sink.View. Memory is always there to be read.
func (r *root) Err() error { return nil }

// Close implements sink.View. There is nothing to give back.
func (r *root) Close() {}
