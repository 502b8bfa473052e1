package memory

// slab is the writer's account of a table's blocks.
type slab struct {
	stats   []blockStat // by number
	vacant  []int       // numbers without a block
	current int         // the block that is being filled; -1: none
	size    int         // bytes of all blocks
	filled  int         // bytes of all records, dead ones too
	live    int         // bytes of the records that the index leads to
}

type blockStat struct {
	filled, live int
	leaving      bool // compaction is moving its entries away
}

func (s *slab) count() int { return len(s.stats) - len(s.vacant) }

const (
	minBlock = 4 << 10
	// ownBlock is the size above which a record gets a block of its own, so that the end of a shared block that stays
	// empty is no more than an eighth of it.
	ownBlock = maxBlock / 8
)

// add copies a record made by fill, of the given size, to the end of the table's blocks.
func (w *writer) add(size int, fill func(dst []byte)) place {
	no := w.room(size)
	st := &w.slab.stats[no]
	p := makePlace(no, st.filled)
	fill(w.blocks.at(no)[st.filled : st.filled+size])
	st.filled += size
	st.live += size
	w.slab.filled += size
	w.slab.live += size
	return p
}

// room gives the number of a block with size bytes left at its end.
func (w *writer) room(size int) int {
	if size > ownBlock {
		return w.newBlock(size)
	}
	c := w.slab.current
	if c < 0 || w.slab.stats[c].filled+size > len(w.blocks.at(c)) {
		w.slab.current = w.newBlock(max(size, w.nextBlock()))
	}
	return w.slab.current
}

// nextBlock is the size of the next shared block: it grows with the table, so that what is not filled yet is no more than
// a quarter of what is.
func (w *writer) nextBlock() int {
	n := minBlock
	for n < maxBlock && n < w.slab.live/4 {
		n *= 2
	}
	return n
}

func (w *writer) newBlock(size int) int {
	b := make([]byte, size)
	w.slab.size += size
	if n := len(w.slab.vacant); n > 0 {
		no := w.slab.vacant[n-1]
		w.slab.vacant = w.slab.vacant[:n-1]
		w.blocks.set(&w.blockOwner, no, b)
		return no
	}
	w.blocks.push(&w.blockOwner, b)
	w.slab.stats = append(w.slab.stats, blockStat{})
	return w.blocks.n - 1
}

// forget takes a record of the given size out of the account; the index no longer leads to it.
func (w *writer) forget(p place, size int) {
	no := p.block()
	w.slab.live -= size
	w.slab.stats[no].live -= size
	if w.slab.stats[no].live == 0 {
		w.dropBlock(no)
	}
}

// dropBlock leaves a block to the garbage collector, which takes it when no reader holds it any more.
func (w *writer) dropBlock(no int) {
	w.slab.size -= len(w.blocks.at(no))
	w.slab.filled -= w.slab.stats[no].filled
	w.slab.stats[no] = blockStat{}
	w.slab.vacant = append(w.slab.vacant, no)
	w.blocks.set(&w.blockOwner, no, nil)
	if no == w.slab.current {
		w.slab.current = -1
	}
	if no == w.victim {
		w.victim = -1
	}
}
