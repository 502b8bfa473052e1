package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/codec"
)

// Options say what a Store keeps where.
type Options struct {
	// Path is the file. Beside it lie PATH-wal and PATH-shm, which belong to it, PATH-lock, and what was put aside,
	// PATH.bad-<time>.
	Path string
	// Name is the sync's. A file of another sync is put aside.
	Name string
	// Indexes are the indexes to be made of each table, by the names of the source's columns.
	Indexes map[syncd.Table][][]string
	// Log is told what is put aside; nil: quiet.
	Log *slog.Logger
}

// Store implements sink.Store in a SQLite file. Next makes another in the same file, for a new epoch. The file is closed
// when all of them are.
type Store struct {
	f          *file
	options    Options
	generation int64
	commits    int64
	tables     map[syncd.Table]*table
	root       atomic.Pointer[root]
	next       *shared
	closed     bool
}

// shared is what the generations of a file know of each other.
type shared struct {
	mu      sync.Mutex
	open    int   // stores
	current int64 // the generation that others see
	last    int64 // the highest that was given out
}

// root is one commit, for readers. Nothing in it changes.
type root struct {
	state *sink.State
	ids   map[syncd.Table]int64 // of the tables' entries
}

var (
	_ sink.Store      = (*Store)(nil)
	_ sink.Digester   = (*Store)(nil)
	_ sink.Prefetcher = (*Store)(nil)
	_ sink.Promoter   = (*Store)(nil)

	_ sink.IndexKeeper = (*Store)(nil)
)

// Open opens the file, or makes it. A file that is no good is put aside with a warning; one that another sidecar uses is an
// *InUseError.
func Open(o Options) (*Store, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f, err := openFile(o.Path, o.Name, o.Log)
	if err != nil {
		return nil, err
	}
	f.indexes = o.Indexes
	s, err := read(f, o)
	if why, ok := errors.AsType[*unfit](err); ok {
		if err = errors.Join(f.w.close(), f.afresh(o.Name, why)); err == nil {
			s, err = read(f, o)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("SQLite file %s: %w", f.path, err), f.close())
	}
	return s, nil
}

// read makes the store of the generation that others see, and takes away what is left of others.
func read(f *file, o Options) (*Store, error) {
	gen, err := f.w.oneInt("SELECT value FROM _syncd_meta WHERE key = 'generation'")
	if err != nil {
		return nil, broken(err)
	}
	s := newStore(f, o, gen, &shared{open: 1, current: gen, last: gen})
	state := &sink.State{Tables: map[syncd.Table]*sink.TableState{}}
	err = f.w.query("SELECT commits, state FROM _syncd_state WHERE generation = ?", func(row []driver.Value) (err error) {
		s.commits, _ = row[0].(int64)
		b, _ := row[1].([]byte)
		if state, err = codec.ParseState(b); err != nil {
			return &unfit{"it is damaged: " + err.Error()}
		}
		return nil
	}, gen)
	if err == nil {
		err = s.readTables(state)
	}
	if err == nil {
		err = f.w.transaction(s.tidy)
	}
	if err != nil {
		return nil, broken(err)
	}
	s.publish(state)
	return s, nil
}

// broken has an error of a damaged file be an unfit one.
func broken(err error) error {
	if damaged(err) {
		return &unfit{"it is damaged: " + err.Error()}
	}
	return err
}

func newStore(f *file, o Options, generation int64, s *shared) *Store {
	n := &Store{f: f, options: o, generation: generation, tables: map[syncd.Table]*table{}, next: s}
	n.root.Store(&root{state: &sink.State{Tables: map[syncd.Table]*sink.TableState{}}})
	return n
}

// Next makes an empty store in the same file, for the cache of a new epoch: others see its tables once it was promoted.
func (s *Store) Next() (*Store, error) {
	s.next.mu.Lock()
	defer s.next.mu.Unlock()
	s.next.open++
	s.next.last++
	return newStore(s.f, s.options, s.next.last, s.next), nil
}

// publish lets readers begin with a commit. The caller holds f.mu, or is alone.
func (s *Store) publish(state *sink.State) {
	r := &root{state: state, ids: make(map[syncd.Table]int64, len(s.tables))}
	for name, t := range s.tables {
		r.ids[name] = t.id
	}
	s.root.Store(r)
}

// State gives the state of the last commit.
func (s *Store) State() *sink.State { return s.root.Load().state }

// Load gives the entry under a key, tombstones too.
func (s *Store) Load(name syncd.Table, k syncd.Key) (e sink.Entry, ok bool, err error) {
	s.f.wmu.Lock()
	defer s.f.wmu.Unlock()
	t := s.tables[name]
	if t == nil {
		return sink.Entry{}, false, nil
	}
	if l, known := t.loaded[k]; known {
		return t.shown(k, l.entry), l.ok, nil
	}
	if err := s.fresh(t); err != nil {
		return sink.Entry{}, false, fmt.Errorf("load %s/%s from %s: %w", name, k, s.f.path, err)
	}
	if err := t.load(s.f, []syncd.Key{k}); err != nil {
		return sink.Entry{}, false, fmt.Errorf("load %s/%s from %s: %w", name, k, s.f.path, err)
	}
	l := t.loaded[k]
	return t.shown(k, l.entry), l.ok, nil
}

// Prefetch loads the entries under keys, which are kept until the next commit.
func (s *Store) Prefetch(name syncd.Table, keys []syncd.Key) error {
	s.f.wmu.Lock()
	defer s.f.wmu.Unlock()
	t := s.tables[name]
	if t == nil {
		return nil
	}
	if err := s.fresh(t); err != nil {
		return err
	}
	return t.load(s.f, keys)
}

// Walk calls fn for each entry of a table, as sink.Store says.
func (s *Store) Walk(name syncd.Table, from uint64, fn func(syncd.Key, sink.Entry) bool) error {
	s.f.wmu.Lock()
	defer s.f.wmu.Unlock()
	t := s.tables[name]
	if t == nil {
		return nil
	}
	err := s.fresh(t)
	if err == nil {
		err = walk(s.f.w, t.id, from, false, func(k syncd.Key, e sink.Entry) bool { return fn(k, t.shown(k, e)) })
	}
	if err != nil {
		return fmt.Errorf("read the entries of %s from %s: %w", name, s.f.path, err)
	}
	return nil
}

// SetIndexes makes the tables that others see have these indexes.
func (s *Store) SetIndexes(indexes map[syncd.Table][][]string) error {
	s.f.wmu.Lock()
	defer s.f.wmu.Unlock()
	old := s.f.indexes
	s.f.indexes = indexes
	if err := s.f.w.transaction(s.reindex); err != nil {
		s.f.indexes = old
		for _, t := range s.tables {
			s.besides(t)
		}
		return fmt.Errorf("make indexes in %s: %w", s.f.path, err)
	}
	return nil
}

// Promote puts the store's tables in the place of those that others see. The entries of the other generation stay until its
// store is closed.
func (s *Store) Promote() error {
	s.f.wmu.Lock()
	defer s.f.wmu.Unlock()
	err := s.f.commit(func() error {
		if err := s.f.next(); err != nil {
			return err
		}
		return s.takePlace()
	}, func() {
		s.next.mu.Lock()
		s.next.current = s.generation
		s.next.mu.Unlock()
		for _, t := range s.tables {
			t.physical = t.sqlite
		}
	})
	if err != nil {
		return fmt.Errorf("put the new epoch's tables in their place in %s: %w", s.f.path, err)
	}
	return nil
}

// Close closes the store, and the file with the last store of it. What is left of a generation that others don't see goes.
func (s *Store) Close() error {
	s.f.wmu.Lock()
	if s.closed {
		s.f.wmu.Unlock()
		return nil
	}
	s.closed = true
	s.next.mu.Lock()
	s.next.open--
	last, seen := s.next.open == 0, s.next.current == s.generation
	s.next.mu.Unlock()
	var err error
	if !seen && s.f.w != nil {
		err = s.f.w.transaction(s.discard)
	}
	s.f.wmu.Unlock()
	if last {
		err = errors.Join(err, s.f.close())
	}
	if err != nil {
		return fmt.Errorf("close SQLite file %s: %w", s.f.path, err)
	}
	return nil
}
