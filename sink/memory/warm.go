package memory

import (
	"sync/atomic"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

var _ sink.Warmer = (*Store)(nil)

// Warm reads what the entries of keys will be found by and in, so that it lies in the processor's cache. An entry lies where
// its hash says, so in a large table each of the three steps to it waits for the memory; side by side the waits of many
// overlap.
func (s *Store) Warm(t syncd.Table, keys []syncd.Key) {
	if tab := s.root.Load().table(t); tab != nil && tab.entries > 0 {
		for len(keys) > 0 {
			n := min(len(keys), maxWarm)
			tab.warm(keys[:n])
			keys = keys[n:]
		}
	}
}

// maxWarm bounds the keys that are looked for side by side.
const maxWarm = 128

// touched keeps the reads from being left out: their sum goes here.
var touched atomic.Uint64

// warm takes each step for all keys before the next. It looks at the slot that a key should be in and the one behind it,
// which is right nearly always.
func (t *table) warm(keys []syncd.Key) {
	var hashes [maxWarm]uint64
	var leaves [maxWarm]leaf
	sum := uint64(0)
	for i, k := range keys {
		hashes[i] = t.hash(k)
		leaves[i] = t.leafOf(hashes[i])
	}
	for i := range keys {
		if l := leaves[i]; l.n > 0 {
			sum += uint64(l.slots()[l.guess(hashes[i])])
		}
	}
	for i := range keys {
		slots := leaves[i].slots()
		if at := leaves[i].lower(hashes[i]); at < len(slots) {
			sum += t.touchRow(slots[at].place())
		}
	}
	touched.Store(sum)
}

// touchRow reads a record of a usual size, one byte of what the processor loads at a time.
func (t *table) touchRow(p place) (sum uint64) {
	const line, lines = 64, 4
	b := t.blocks.at(p.block())[p.offset():]
	for i := 0; i < min(len(b), lines*line); i += line {
		sum += uint64(b[i])
	}
	return sum
}

// touch reads the beginning of a record.
func (t *table) touch(p place) uint64 { return uint64(t.blocks.at(p.block())[p.offset()]) }

// touchAll reads the beginnings of some records.
func (t *table) touchAll(slots []slot) {
	sum := uint64(0)
	for _, s := range slots {
		sum += t.touch(s.place())
	}
	touched.Store(sum)
}

// touchLeaves reads the slots of the leaves that items belong to.
func (t *table) touchLeaves(list []item) {
	const line = 64 / unit
	sum := uint64(0)
	for _, it := range list {
		slots := t.leafOf(it.hash).slots()
		for i := 0; i < len(slots); i += line {
			sum += uint64(slots[i])
		}
	}
	touched.Store(sum)
}

var _ sink.Tidier = (*Store)(nil)

// Tidy implements sink.Tidier.
func (s *Store) Tidy(t syncd.Table) bool {
	tab := s.root.Load().table(t)
	return tab == nil || tab.plain == tab.entries
}
