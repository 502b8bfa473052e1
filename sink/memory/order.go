package memory

import (
	"cmp"
	"math/bits"
	"slices"
)

// item is something to be done at the place of a hash: a write of the batch (ref is its index there), or the move of a
// record (ref is its place).
type item struct{ hash, ref uint64 }

// items are collected for a commit, and keep their memory for the next one.
type items struct {
	list   []item
	spare  []item
	starts []uint32
}

// keepItems is how many items stay allocated between commits.
const keepItems = 1 << 14

func (s *items) add(hash, ref uint64) { s.list = append(s.list, item{hash, ref}) }

func (s *items) reset() {
	if cap(s.list) > keepItems {
		*s = items{}
	}
	s.list = s.list[:0]
}

// sort orders the items by hash; those of one hash stay in the order they came in. Hashes are spread evenly, so dealing them
// out by their top bits, one place for each, leaves next to nothing to sort.
func (s *items) sort() []item {
	n := len(s.list)
	if n <= 16 {
		sortItems(s.list)
		return s.list
	}
	shift := 64 - bits.Len(uint(n))
	s.starts = append(s.starts[:0], make([]uint32, 1<<(64-shift)+1)...)
	for _, it := range s.list {
		s.starts[it.hash>>shift+1]++
	}
	for i := 1; i < len(s.starts); i++ {
		s.starts[i] += s.starts[i-1]
	}
	s.spare = slices.Grow(s.spare[:0], n)[:n]
	for _, it := range s.list {
		b := it.hash >> shift
		s.spare[s.starts[b]] = it
		s.starts[b]++
	}
	s.list, s.spare = s.spare, s.list
	from := uint32(0)
	for _, to := range s.starts { // each start has moved to where the next one was
		if to-from > 1 {
			sortItems(s.list[from:to])
		}
		from = to
	}
	return s.list
}

func sortItems(list []item) {
	slices.SortStableFunc(list, func(a, b item) int { return cmp.Compare(a.hash, b.hash) })
}

// sameLeaf is how many items, from the first on, belong to the leaf of the first, which has the given depth.
func sameLeaf(list []item, depth uint8) int {
	shift := 64 - depth
	n := 1
	for n < len(list) && list[n].hash>>shift == list[0].hash>>shift {
		n++
	}
	return n
}
