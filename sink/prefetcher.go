package sink

import (
	"fmt"

	"github.com/syncd-io/syncd"
)

// Prefetcher is a Store that loads many entries at once in less time than one after the other.
type Prefetcher interface {
	// Prefetch says that the entries under these keys of a table are about to be loaded, before the next Commit. A key may be
	// named twice, and others may be loaded as well. Calls count as those of Load do; the keys are the store's until the call
	// returns.
	Prefetch(t syncd.Table, keys []syncd.Key) error
}

// Recaller is a Prefetcher that remembers what it wrote. That will do for what the stream brings, which is put in the place of
// whatever is there; where what is there is compared, it is to be read.
type Recaller interface {
	// Recall is Prefetch, but that entries may be given as they were written, though somebody may have spoilt them since.
	Recall(t syncd.Table, keys []syncd.Key) error
}

// recall is prefetch for entries that are not compared with anything.
func (c *change) recall(name syncd.Table, n int, add func(keys []syncd.Key) []syncd.Key) error {
	r, ok := c.store.(Recaller)
	if !ok {
		return c.prefetch(name, n, add)
	}
	keys := add(make([]syncd.Key, 0, n))
	if len(keys) == 0 {
		return nil
	}
	if err := r.Recall(name, keys); err != nil {
		return fmt.Errorf("load %d entries of %s: %w", len(keys), name, err)
	}
	return nil
}

// prefetch tells the store of a change which of a table's keys it is about to load; add names them.
func (c *change) prefetch(name syncd.Table, n int, add func(keys []syncd.Key) []syncd.Key) error {
	p, ok := c.store.(Prefetcher)
	if !ok {
		return nil
	}
	keys := add(make([]syncd.Key, 0, n))
	if len(keys) == 0 {
		return nil
	}
	if err := p.Prefetch(name, keys); err != nil {
		return fmt.Errorf("load %d entries of %s: %w", len(keys), name, err)
	}
	return nil
}

// keysOf names the keys whose entries decide what deltas do.
func keysOf(deltas []syncd.Delta) func(keys []syncd.Key) []syncd.Key {
	return func(keys []syncd.Key) []syncd.Key {
		for i := range deltas {
			d := &deltas[i]
			if d.Op == syncd.Truncate {
				continue
			}
			keys = append(keys, d.Key)
			if d.Moved && len(d.Absent) > 0 {
				keys = append(keys, d.From)
			}
		}
		return keys
	}
}

// keysOn names the keys that a page tells of.
func keysOn(p *syncd.Page, absent []syncd.Key) func(keys []syncd.Key) []syncd.Key {
	return func(keys []syncd.Key) []syncd.Key {
		for i := range p.Rows {
			keys = append(keys, p.Rows[i].Key)
		}
		return append(keys, absent...)
	}
}
