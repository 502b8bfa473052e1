package sink

import "github.com/syncd-io/syncd"

// Warmer is a Store that finds keys it was told of beforehand faster: many at once can be looked for side by side, where one
// after the other each waits for the memory.
type Warmer interface {
	// Warm says that the keys are about to be loaded. It changes nothing, and calls count as those of Load do. Few keys at a
	// time do best: what was made ready for the first must still be so when the last was. (A Prefetcher is told once, of all.)
	Warm(t syncd.Table, keys []syncd.Key)
}

// Tidier is a Store that counts what a sweep looks for.
type Tidier interface {
	// Tidy says that each entry of a table holds a row and none is pending. Calls count as those of Load do.
	Tidy(t syncd.Table) bool
}

// warmAhead is how many keys a store is told of at a time.
const warmAhead = 64

// warmer tells a store of the keys of a page, or of a flush's deltas, some ahead of the one that is being judged.
type warmer struct {
	store Warmer // nil: it is none
	table syncd.Table
	n     int
	key   func(i int) syncd.Key
	keys  [warmAhead]syncd.Key
}

// warm begins with a store's n keys of a table. Few are not worth it.
func warm(s Store, t syncd.Table, n int, key func(i int) syncd.Key) *warmer {
	w := &warmer{table: t, n: n, key: key}
	if n >= warmAhead/8 {
		w.store, _ = s.(Warmer)
	}
	return w
}

// before is called before key i is loaded.
func (w *warmer) before(i int) {
	if w.store == nil || i%warmAhead != 0 {
		return
	}
	n := min(warmAhead, w.n-i)
	for j := range n {
		w.keys[j] = w.key(i + j)
	}
	w.store.Warm(w.table, w.keys[:n])
}
