package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// Store is a sink.Store in a place.
type Store struct {
	place Place
	log   *slog.Logger
	ctx   context.Context // ends with Close
	end   context.CancelFunc

	// What follows is of the goroutine that loads and commits.
	loaded map[syncd.Table]map[syncd.Key]Found // since the last commit
	memory memory                              // of earlier commits
	doubt  *version                            // a commit whose outcome is unknown
	known  bool                                // the place was taken, and nothing speaks against its being as it was left
	closed bool

	mu    sync.Mutex // guards the rest
	now   version
	sent  uint64 // the highest Seq of this generation that may be in the place
	era   int    // counts how often the place became another behind the cache's back
	undo  []*undo
	views map[*view]struct{}
}

// version is a commit and its state.
type version struct {
	mark  Mark
	state *sink.State
}

var (
	_ sink.Store      = (*Store)(nil)
	_ sink.Digester   = (*Store)(nil)
	_ sink.Prefetcher = (*Store)(nil)
)

// New makes a store of a place, which it owns from then on. It tries once to reach the place: where that fails because
// its server is away, or the place is another process's, the store begins without a state and says so in the log, and each
// use tries again. Other errors are of a place that can't be used.
func New(ctx context.Context, p Place, log *slog.Logger) (*Store, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Store{place: p, log: log, loaded: map[syncd.Table]map[syncd.Key]Found{}, views: map[*view]struct{}{}}
	s.now.state = &sink.State{}
	s.ctx, s.end = context.WithCancel(context.WithoutCancel(ctx))
	switch err := s.attach(ctx); {
	case err == nil, errors.Is(err, sink.ErrReset):
	case unusable(err):
		s.end()
		return nil, errors.Join(err, p.Close())
	default:
		log.Warn("the sink can't be used yet; it is tried again", "error", err)
	}
	return s, nil
}

// unusable says whether an error is one that does not pass.
func unusable(err error) bool {
	u, ok := errors.AsType[interface {
		error
		Unusable() bool
	}](err)
	return ok && u.Unusable()
}

// attach makes sure that the place is ours and at the commit that we know. An error that wraps sink.ErrReset says that the
// state is another than before.
func (s *Store) attach(ctx context.Context) error {
	if s.known && s.doubt == nil {
		return nil
	}
	mark, state, err := s.place.Take(ctx)
	if err != nil {
		return err
	}
	was := s.now
	switch {
	case mark == was.mark && mark.Gen != "":
		s.forget(s.doubt)
		s.known, s.doubt = true, nil
		return nil
	case s.doubt != nil && mark == s.doubt.mark:
		s.advance(*s.doubt)
		s.known, s.doubt = true, nil
		return fmt.Errorf("a commit whose outcome was unknown was made: %w", sink.ErrReset)
	case mark.Gen != "" && (mark.Gen > was.mark.Gen || mark.Gen == was.mark.Gen && mark.Seq > was.mark.Seq):
		s.become(version{mark, state})
		if was.mark.Gen == "" {
			return fmt.Errorf("the place was reached, and is at commit %d: %w", mark.Seq, sink.ErrReset)
		}
		return fmt.Errorf("another process went on with the place, to commit %d: %w", mark.Seq, sink.ErrReset)
	}
	return s.begin(ctx, was, mark)
}

// begin begins the place anew, because it holds nothing, or what is older than what was there.
func (s *Store) begin(ctx context.Context, was version, found Mark) error {
	fresh := &sink.State{Tables: make(map[syncd.Table]*sink.TableState, len(was.state.Tables))}
	for name, t := range was.state.Tables {
		fresh.Tables[name] = &sink.TableState{Info: t.Info}
	}
	gen := fmt.Sprintf("%015d-%s", time.Now().UnixMilli(), rand.Text()[:8])
	if gen <= was.mark.Gen || gen <= found.Gen {
		gen = max(was.mark.Gen, found.Gen) + "+"
	}
	mark, err := s.place.Begin(ctx, gen, fresh)
	if err != nil {
		return err
	}
	s.become(version{mark, fresh})
	if was.mark.Gen == "" {
		return nil // an empty state as before
	}
	why := "what it held is gone"
	if found.Gen != "" {
		why = fmt.Sprintf("it is back at commit %d of generation %s", found.Seq, found.Gen)
	}
	s.log.Warn("the sink is not as it was left: every table is listed anew", "why", why, "was_at", was.mark.Seq)
	return fmt.Errorf("%s: every table is listed anew: %w", why, sink.ErrReset)
}

// become takes over what a place holds that is not what we left there. Views of before can't be read any more.
func (s *Store) become(v version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.sent, s.undo = v, v.mark.Seq, nil
	s.era++
	s.known, s.doubt = true, nil
	clear(s.loaded)
	s.memory.clear()
}

// advance goes on to a commit that was made.
func (s *Store) advance(v version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = v
	s.loaded = map[syncd.Table]map[syncd.Key]Found{} // the old one is in undo
	s.prune()
}

// lost says that the place was found at another mark than ours, and gives the error of that, which is nil where it was only
// the outcome of a commit that had been unknown.
func (s *Store) lost() error {
	s.known = false
	return s.attach(s.ctx)
}

// Prefetch implements sink.Prefetcher. What was loaded of the table before is read again: since the last commit somebody may
// have spoiled it, and it is not to pile up.
func (s *Store) Prefetch(t syncd.Table, keys []syncd.Key) error {
	if err := s.attach(s.ctx); err != nil {
		return err
	}
	delete(s.loaded, t)
	return s.fetchAll(t, keys)
}

// fetchAll loads entries in stretches of a size that a server answers in one go.
func (s *Store) fetchAll(t syncd.Table, keys []syncd.Key) error {
	for part := range slices.Chunk(keys, fetchKeys) {
		if err := s.fetch(t, part); err != nil {
			return err
		}
	}
	return nil
}

// fetchKeys is how many entries are asked for at once.
const fetchKeys = 2000

// fetch loads entries.
func (s *Store) fetch(t syncd.Table, keys []syncd.Key) error {
	if err := s.attach(s.ctx); err != nil {
		return err
	}
	found, mark, err := s.place.Fetch(s.ctx, t, keys)
	if err != nil {
		return err
	}
	if mark != s.now.mark {
		if err := s.lost(); err != nil {
			return err
		}
		return fmt.Errorf("read at commit %d, the place is at %d: %w", mark.Seq, s.now.mark.Seq, ErrMoved)
	}
	have := s.loaded[t]
	if have == nil {
		have = make(map[syncd.Key]Found, len(keys))
		s.loaded[t] = have
	}
	for i, k := range keys {
		have[k] = found[i]
	}
	return nil
}

// Load implements sink.Store.
func (s *Store) Load(t syncd.Table, k syncd.Key) (sink.Entry, bool, error) {
	f, ok := s.loaded[t][k]
	if !ok {
		if err := s.fetch(t, []syncd.Key{k}); err != nil {
			return sink.Entry{}, false, err
		}
		f = s.loaded[t][k]
	}
	return f.Entry, f.Held, nil
}

// Walk implements sink.Store.
func (s *Store) Walk(t syncd.Table, from uint64, fn func(syncd.Key, sink.Entry) bool) error {
	return s.scan(t, from, func(i *Item) bool { return fn(i.Key, i.Entry) })
}

// scan gives the entries of a table as they were left.
func (s *Store) scan(t syncd.Table, from uint64, fn func(*Item) bool) error {
	if err := s.attach(s.ctx); err != nil {
		return err
	}
	for more := true; more; {
		stretch, mark, err := s.place.Scan(s.ctx, t, from)
		if err != nil {
			return err
		}
		if mark != s.now.mark {
			if err := s.lost(); err != nil {
				return err
			}
			return fmt.Errorf("read at commit %d, the place is at %d: %w", mark.Seq, s.now.mark.Seq, ErrMoved)
		}
		for i := range stretch.Items {
			if !fn(&stretch.Items[i]) {
				return nil
			}
		}
		from, more = stretch.Next, stretch.More
	}
	return nil
}

// Digest implements sink.Digester. It reads the table from the server.
func (s *Store) Digest(t syncd.Table, bits int) ([]syncd.Totals, syncd.Epoch, error) {
	all, oldest := make([]syncd.Totals, 1<<bits), syncd.Epoch(0)
	first := true
	err := s.scan(t, 0, func(i *Item) bool {
		if e := i.Version.Epoch; first || e < oldest {
			oldest, first = e, false
		}
		if i.Row != nil {
			hash := i.Key.Hash()
			b := &all[syncd.BucketOf(hash, bits)]
			b.Rows++
			b.Digest += syncd.RowDigestOf(hash, i.Row)
		}
		return true
	})
	if err != nil {
		return nil, 0, fmt.Errorf("digest of %s: %w", t, err)
	}
	return all, oldest, nil
}

// State implements sink.Store.
func (s *Store) State() *sink.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.state
}

// Close implements sink.Store. It gives the place up, so that another process can take it at once.
func (s *Store) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	ctx, cancel := context.WithTimeout(s.ctx, releaseTimeout)
	defer cancel()
	if s.known {
		if err := s.place.Release(ctx); err != nil {
			s.log.Warn("the sink was not given up: another process has to wait until this one's lease has run out", "error", err)
		}
	}
	s.end()
	return s.place.Close()
}

// releaseTimeout bounds how long the end of a process waits for a server that does not answer.
const releaseTimeout = 3 * time.Second
