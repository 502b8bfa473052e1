package sink

import (
	"sync"

	"github.com/syncd-io/syncd"
)

// generation is one store of a cache: the one that is read, or the one being built beside it for a new epoch. It closes the
// store when it was given up and its last view is closed.
type generation struct {
	Store
	mu      sync.Mutex
	views   int
	retired bool
}

// view gives a view of the store, and false where the generation was given up.
func (g *generation) view() (View, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.retired {
		return nil, false
	}
	g.views++
	return &heldView{View: g.Store.View(), g: g}, true
}

// retire gives the generation up. Views that are open stay valid.
func (g *generation) retire() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.retired = true
	if g.views > 0 {
		return nil
	}
	return g.Store.Close()
}

func (g *generation) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.views--
	if g.retired && g.views == 0 {
		_ = g.Store.Close() // nothing is written to it any more
	}
}

// heldView is a view that keeps its generation's store from being closed.
type heldView struct {
	View
	g    *generation
	once sync.Once
}

func (v *heldView) Close() {
	v.once.Do(func() {
		v.View.Close()
		v.g.release()
	})
}

// Find has the store's indexes used, where it has any.
func (v *heldView) Find(t syncd.Table, f syncd.Filter, from uint64, fn func(syncd.Key, Entry) bool) bool {
	x, ok := v.View.(Indexer)
	return ok && x.Find(t, f, from, fn)
}
