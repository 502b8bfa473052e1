package memory

// compactShare is how many bytes of records compaction may look at for each byte that commits wrote or made dead. A block
// is chosen when more than a fifth of the table's records are dead, so at least a fifth of its own are, and looking at
// five bytes frees one or more: the dead never come to much more than a fifth.
const compactShare = 5

// compact moves entries out of the sparsest blocks, for as long as there is credit. It looks at all their records first and
// moves the live ones in the order of the index: in a large table that is several times faster than one by one.
func (w *writer) compact() {
	gone := 0 // dead bytes in the victims that were gone through
	for w.credit > 0 && w.slab.count() < maxBlocks {
		if w.victim < 0 && !w.chooseVictim(gone) {
			w.credit = 0
			break
		}
		gone += w.gather()
	}
	w.eachLeaf(w.moves.sort(), w.moveLeaf)
	w.moves.reset()
}

// chooseVictim picks the block of which the greatest part is dead, if so many records are that moving the others is worth
// it. Of the dead, gone bytes are about to go anyway.
func (w *writer) chooseVictim(gone int) bool {
	s := &w.slab
	if filled := s.filled - gone; filled-s.live <= filled/5+2*minBlock {
		return false
	}
	best, share := -1, 0.0
	for no, st := range s.stats {
		if dead := st.filled - st.live; dead > 0 && !st.leaving && float64(dead)/float64(st.filled) > share {
			best, share = no, float64(dead)/float64(st.filled)
		}
	}
	if best < 0 {
		return false
	}
	if best == s.current {
		s.current = -1
	}
	s.stats[best].leaving = true
	w.victim, w.victimAt = best, 0
	return true
}

// gather lists records of the victim to be moved, for as long as there is credit. It gives the dead bytes of the block when
// it is through with it.
func (w *writer) gather() (gone int) {
	st, b := w.slab.stats[w.victim], w.blocks.at(w.victim)
	for w.victimAt < st.filled && w.credit > 0 {
		r, _ := parseRecord(b[w.victimAt:])
		w.moves.add(w.hash(keyOf(r.key)), uint64(makePlace(w.victim, w.victimAt)))
		w.victimAt += r.size
		w.credit -= r.size
	}
	if w.victimAt < st.filled {
		return 0
	}
	w.victim = -1
	return st.filled - st.live
}

// moveLeaf moves the records of one leaf that are live. The last live one of a block takes the block with it.
func (w *writer) moveLeaf(l leaf, moves []item) {
	slots, own := l.slots(), false
	for _, m := range moves {
		from := place(m.ref)
		for i := l.lower(m.hash); i < len(slots) && slots[i].bits() == m.hash>>placeBits; i++ {
			if slots[i].place() == from {
				if !own {
					slots, own = w.copySlots(slots, true), true
				}
				slots[i] = makeSlot(m.hash, w.moveRecord(from))
				break
			}
		}
	}
	if own {
		w.putLeaf(moves[0].hash, leafOver(l.depth, slots))
	}
}

func (w *writer) moveRecord(from place) place {
	old := w.blocks.at(from.block())[from.offset():]
	r, _ := parseRecord(old)
	to := w.add(r.size, func(dst []byte) { copy(dst, old) })
	w.forget(from, r.size)
	return to
}
