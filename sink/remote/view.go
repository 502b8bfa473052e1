package remote

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// undo is what a commit replaced: what was loaded before it, which all of its keys were.
type undo struct {
	mark    Mark
	before  map[syncd.Table]map[syncd.Key]Found
	dropped []syncd.Table
}

// send takes note, before a commit is sent, of what it replaces: from then on readers may meet it.
func (s *Store) send(c *Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = c.To.Seq
	s.undo = append(s.undo, &undo{c.To, s.loaded, c.Drop})
}

// forget takes back that a commit was sent: it was not made, and never will be.
func (s *Store) forget(v *version) {
	if v == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undo = slices.DeleteFunc(s.undo, func(u *undo) bool { return u.mark == v.mark })
	s.sent = s.now.mark.Seq
}

// prune drops what no view needs any more. The caller holds mu.
func (s *Store) prune() {
	oldest := s.now.mark.Seq
	for v := range s.views {
		if v.era == s.era {
			oldest = min(oldest, v.mark.Seq)
		}
	}
	s.undo = slices.DeleteFunc(s.undo, func(u *undo) bool { return u.mark.Seq <= oldest })
}

// view reads a place as it was at a commit.
type view struct {
	store *Store
	era   int
	version

	mu  sync.Mutex
	err error
}

// version's state and mark are promoted as fields; View's methods are below.
var _ sink.View = (*view)(nil)

// View implements sink.Store.
func (s *Store) View() sink.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &view{store: s, era: s.era, version: s.now}
	s.views[v] = struct{}{}
	return v
}

// State implements sink.View.
func (v *view) State() *sink.State { return v.state }

// Err implements sink.View.
func (v *view) Err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

// Close implements sink.View.
func (v *view) Close() {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	delete(v.store.views, v)
	v.store.prune()
}

// fail keeps the first error.
func (v *view) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err == nil {
		v.err = err
	}
}

// later gives what commits behind the view's replaced, oldest first, for what was read of a table at a mark. An error says
// that the view can't be read any more. The caller holds the store's mu.
func (v *view) later(t syncd.Table, m Mark) ([]*undo, error) {
	s := v.store
	if v.era != s.era || m.Gen != v.mark.Gen || m.Seq < v.mark.Seq || m.Seq > s.sent {
		return nil, fmt.Errorf("read %s: the sink is no longer as this cache left it: ask again", t)
	}
	first := slices.IndexFunc(s.undo, func(u *undo) bool { return u.mark.Seq > v.mark.Seq })
	if first < 0 {
		return nil, nil
	}
	later := s.undo[first:]
	if slices.ContainsFunc(later, func(u *undo) bool { return slices.Contains(u.dropped, t) }) {
		return nil, fmt.Errorf("read %s: its rows were dropped meanwhile: ask again", t)
	}
	return later, nil
}

// was gives what a key held in the view, of which now was read at a mark.
func (v *view) was(t syncd.Table, k syncd.Key, m Mark, now Found) (Found, error) {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	later, err := v.later(t, m)
	if err != nil {
		return Found{}, err
	}
	for _, u := range later {
		if f, ok := u.before[t][k]; ok {
			return f, nil
		}
	}
	return now, nil
}

// past gives what was replaced in a table since the view, among the hashes from first to last, for what was read at a mark.
func (v *view) past(t syncd.Table, m Mark, first, last uint64) (map[syncd.Key]Found, error) {
	v.store.mu.Lock()
	defer v.store.mu.Unlock()
	later, err := v.later(t, m)
	if err != nil {
		return nil, err
	}
	var all map[syncd.Key]Found
	for _, u := range later {
		for k, f := range u.before[t] {
			if h := k.Hash(); h < first || h > last {
				continue
			}
			if all == nil {
				all = map[syncd.Key]Found{}
			}
			if _, earlier := all[k]; !earlier {
				all[k] = f
			}
		}
	}
	return all, nil
}

// Get implements sink.View.
func (v *view) Get(t syncd.Table, k syncd.Key) (sink.Entry, bool) {
	if v.mark.Gen == "" || v.state.Tables[t] == nil {
		return sink.Entry{}, false
	}
	found, mark, err := v.store.place.Fetch(v.store.ctx, t, []syncd.Key{k})
	if err != nil {
		v.fail(err)
		return sink.Entry{}, false
	}
	f, err := v.was(t, k, mark, found[0])
	if err != nil {
		v.fail(err)
		return sink.Entry{}, false
	}
	return f.Entry, f.Held
}

// Rows implements sink.View.
func (v *view) Rows(t syncd.Table, from uint64, fn func(syncd.Key, sink.Entry) bool) {
	if v.mark.Gen == "" || v.state.Tables[t] == nil {
		return
	}
	for more := true; more; {
		stretch, mark, err := v.store.place.Scan(v.store.ctx, t, from)
		if err != nil {
			v.fail(err)
			return
		}
		last := ^uint64(0)
		if stretch.More {
			last = stretch.Next - 1
		}
		past, err := v.past(t, mark, from, last)
		if err != nil {
			v.fail(err)
			return
		}
		for _, i := range restore(stretch.Items, past) {
			if i.Row != nil && !fn(i.Key, i.Entry) {
				return
			}
		}
		from, more = stretch.Next, stretch.More
	}
}

// restore puts what was there before in the place of what is.
func restore(items []Item, past map[syncd.Key]Found) []Item {
	if len(past) == 0 {
		return items
	}
	items = slices.DeleteFunc(items, func(i Item) bool { _, changed := past[i.Key]; return changed })
	for k, f := range past {
		if f.Held {
			items = append(items, Item{k, f})
		}
	}
	slices.SortFunc(items, byHash)
	return items
}

// byHash is the order of sink.Store.Walk.
func byHash(a, b Item) int {
	return cmp.Or(cmp.Compare(a.Key.Hash(), b.Key.Hash()), cmp.Compare(a.Key, b.Key))
}
