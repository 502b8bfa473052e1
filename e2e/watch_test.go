package e2e

import (
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/syncd-io/syncd"
)

// witness reads a table (id, n) of a cache all the time, whenever it may be read behind a readiness probe, and sees that no
// key ever steps back: writers give each key an n greater than all before, also when they insert it anew.
type witness struct {
	t     *testing.T
	c     *cache
	table syncd.Table
	over  chan struct{}
	done  sync.WaitGroup

	keys  map[int64]sight
	reads int
	bad   int
}

// sight is what was seen of a key.
type sight struct {
	n    int64 // the highest
	gone bool  // it was away since
}

// watch begins to read. It ends with end, or with the test.
func (c *cache) watch(t syncd.Table) *witness {
	reader := *c
	reader.member = nil // the test may put another in its place meanwhile
	w := &witness{t: c.f.t, c: &reader, table: t, over: make(chan struct{}), keys: map[int64]sight{}}
	w.done.Go(w.run)
	c.f.t.Cleanup(w.stop)
	return w
}

func (w *witness) run() {
	for {
		select {
		case <-w.over:
			return
		case <-time.After(5 * time.Millisecond): // to leave others the processor
		}
		w.look()
	}
}

func (w *witness) look() {
	if _, err := w.c.ask(http.MethodGet, "/readyz"); err != nil {
		return
	}
	rows, _, err := w.c.rows(w.table)
	if err != nil {
		return
	}
	w.reads++
	now := map[int64]int64{}
	for _, row := range rows {
		var r struct{ ID, N int64 }
		if err := json.Unmarshal([]byte(row), &r); err != nil {
			w.t.Errorf("row %s: %v", row, err)
			return
		}
		now[r.ID] = r.N
	}
	for id, n := range now {
		was, known := w.keys[id]
		if known && (n < was.n || n == was.n && was.gone) && w.bad < 5 {
			w.bad++
			w.t.Errorf("cache %s: key %d stepped back to n %d, after it had %d (gone since: %v)", w.c.name, id, n, was.n, was.gone)
		}
		w.keys[id] = sight{n: max(n, was.n)}
	}
	for id, was := range w.keys {
		if _, there := now[id]; !there {
			w.keys[id] = sight{was.n, true}
		}
	}
}

func (w *witness) stop() {
	select {
	case <-w.over:
	default:
		close(w.over)
	}
	w.done.Wait()
}

// end ends the reading, and wants it to have seen something.
func (w *witness) end() {
	w.t.Helper()
	w.stop()
	if w.reads < 3 {
		w.t.Errorf("cache %s was read only %d times", w.c.name, w.reads)
	}
	w.t.Logf("cache %s was read %d times", w.c.name, w.reads)
}
