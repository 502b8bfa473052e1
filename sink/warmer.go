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

// warmer tells a store of the rows of a page, some ahead of the one that is being judged.
type warmer struct {
	store Warmer // nil: it is none
	keys  [warmAhead]syncd.Key
}

// before is called before row i of a page is judged.
func (w *warmer) before(t syncd.Table, rows []syncd.Row, i int) {
	if w.store == nil || i%warmAhead != 0 {
		return
	}
	n := min(warmAhead, len(rows)-i)
	for j := range n {
		w.keys[j] = rows[i+j].Key
	}
	w.store.Warm(t, w.keys[:n])
}
