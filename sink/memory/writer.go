package memory

import (
	"slices"
	"sort"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// writer makes the next table of one name. Its table is what seal publishes next.
type writer struct {
	table
	dirOwner, blockOwner, originOwner owner
	slab                              slab
	interned                          interned
	leafBytes                         int
	// victim is the block whose entries are being moved away, -1: none; victimAt is the offset of the next to look at.
	victim, victimAt int
	credit           int // bytes of records that compaction may look at
	items, moves     items
	scratch          []slot
	indexOps         []indexOp
	declared         [][]string     // the columns of the indexes, also of those that the table has no columns for
	shape            uint64         // hash of the shape that the indexes are of
	digest           []syncd.Totals // of 2^syncd.MaxDigestBits buckets; nil: not kept yet

	number    int     // of its table in root.tables
	published *table  // what the next root shows
	counted   account // what of it is in the store's total
}

func newWriter(hash func(syncd.Key) uint64) *writer {
	w := &writer{table: table{hash: hash}, victim: -1}
	w.slab.current = -1
	w.dir.push(&w.dirOwner, leaf{})
	return w
}

// begin says which commit what follows belongs to, and whether it had not begun yet.
func (w *writer) begin(commit uint64) bool {
	if w.dirOwner.commit == commit {
		return false
	}
	w.dirOwner.commit, w.blockOwner.commit, w.originOwner.commit = commit, commit, commit
	return true
}

// seal makes what was done since begin what the next root shows.
func (w *writer) seal() {
	t := w.table
	w.published = &t
}

// account counts the table's memory.
func (w *writer) account() account {
	const leafSize, blockSize, statSize, originSize, refSize = 16, 24, 24, 24, 8
	vectors := w.dir.size(leafSize) + w.blocks.size(blockSize) + w.origins.size(originSize)
	index := vectors + w.leafBytes + w.digestBytes() + len(w.slab.stats)*statSize + w.interned.bytes + len(w.interned.refs)*refSize + w.indexBytes()
	return account{used: w.slab.size + index, blocks: w.slab.size, live: w.slab.live, count: w.slab.count()}
}

// apply makes the writes of a batch that w.items names.
func (w *writer) apply(writes []sink.Write) {
	w.eachLeaf(w.items.sort(), func(l leaf, list []item) { w.applyLeaf(l, list, writes) })
	w.items.reset()
	w.applyIndexes()
	w.keepDigest()
	w.compact()
	if cap(w.scratch) > keepItems {
		w.scratch = nil
	}
}

// leavesAhead is how many items have their leaves looked for at a time.
const leavesAhead = 32

// eachLeaf calls fn with each leaf that items, which ascend, belong to, and those that do.
func (w *writer) eachLeaf(list []item, fn func(l leaf, list []item)) {
	for done, ahead := 0, 0; done < len(list); {
		if done >= ahead && len(list) > leavesAhead/8 {
			ahead = min(done+leavesAhead, len(list))
			w.touchLeaves(list[done:ahead])
		}
		l := w.leafOf(list[done].hash)
		n := sameLeaf(list[done:], l.depth)
		fn(l, list[done:done+n])
		done += n
	}
}

// applyLeaf makes the writes of one leaf.
func (w *writer) applyLeaf(l leaf, list []item, writes []sink.Write) {
	slots, own, keeps := l.slots(), false, false
	at := l.lower(list[0].hash)
	for _, it := range list {
		for at < len(slots) && slots[at].bits() < it.hash>>placeBits {
			at++
		}
		c := &writes[it.ref]
		i, old, found := w.locate(slots, at, it.hash, c.Key)
		if !own {
			keeps = found && !c.Remove
			slots, own = w.copySlots(slots, keeps), true
		}
		slots = w.write(slots, i, it.hash, c, &old, found)
	}
	if keeps && len(slots) == int(l.n) {
		w.putLeaf(list[0].hash, leafOver(l.depth, slots))
		return
	}
	w.replaceLeaf(list[0].hash, l, slots)
}

// copySlots gives a copy of a leaf's slots to be changed: one that can be the leaf's next, where it is to keep its size, else
// one that lies in the scratch space and has room.
func (w *writer) copySlots(slots []slot, keeps bool) []slot {
	if keeps {
		return append(make([]slot, 0, len(slots)), slots...)
	}
	w.scratch = slices.Grow(w.scratch[:0], 2*maxLeaf)
	return append(w.scratch, slots...)
}

// write makes one write among the slots of its leaf: of the record old in slot i, or, where the key was not found, before slot i.
func (w *writer) write(slots []slot, i int, hash uint64, c *sink.Write, old *record, found bool) []slot {
	switch {
	case c.Remove && !found:
		return slots
	case c.Remove:
		w.subDigest(hash, old.row)
		w.reindex(hash, old.row, nil)
		w.take(slots[i].place(), old)
		return slices.Delete(slots, i, i+1)
	}
	w.reindex(hash, old.row, c.Entry.Row)
	s := makeSlot(hash, w.addEntry(c.Key, &c.Entry))
	w.addDigest(hash, c.Entry.Row)
	if !found {
		return slices.Insert(slots, i, s)
	}
	w.subDigest(hash, old.row)
	w.take(slots[i].place(), old)
	slots[i] = s
	return slots
}

func (w *writer) addEntry(key syncd.Key, e *sink.Entry) place {
	no := w.intern(origin{e.Version.Epoch, e.Snap, true})
	w.keepOrigin(no)
	w.entries++
	if e.Row != nil {
		w.rows++
		if !e.Pending {
			w.plain++
		}
	}
	size := recordSize(key, e, no)
	w.credit += compactShare * size
	return w.add(size, func(dst []byte) { appendRecord(dst[:0], key, e, no) })
}

// take takes an entry away; its slot goes next.
func (w *writer) take(p place, r *record) {
	w.entries--
	if r.row != nil {
		w.rows--
		if r.flags&flagPending == 0 {
			w.plain--
		}
	}
	w.credit += compactShare * r.size
	w.leaveOrigin(r.origin)
	w.forget(p, r.size)
}

func (w *writer) replaceLeaf(hash uint64, old leaf, slots []slot) {
	w.leafBytes -= unit * int(old.n)
	w.setLeaf(hash, old.depth, slots)
}

// setLeaf makes leaves of slots, which share the top depth bits of the hash, and puts them into the directory.
func (w *writer) setLeaf(hash uint64, depth uint8, slots []slot) {
	if len(slots) > maxLeaf && w.maySplit(depth) {
		bit := uint64(1) << (63 - depth)
		mid := sort.Search(len(slots), func(i int) bool { return uint64(slots[i])&bit != 0 })
		w.setLeaf(hash&^bit, depth+1, slots[:mid])
		w.setLeaf(hash|bit, depth+1, slots[mid:])
		return
	}
	for w.depth < depth {
		w.doubleDir()
	}
	w.leafBytes += unit * len(slots)
	w.putLeaf(hash, makeLeaf(depth, slots))
}

// putLeaf puts a leaf into its places in the directory.
func (w *writer) putLeaf(hash uint64, l leaf) {
	span := 1 << (w.depth - l.depth)
	first := int(hash>>(64-w.depth)) &^ (span - 1)
	for i := range span {
		w.dir.set(&w.dirOwner, first+i, l)
	}
}

// maySplit keeps the directory in proportion to the entries, also where many keys have one hash: there leaves grow.
func (w *writer) maySplit(depth uint8) bool {
	const maxDepth = 64 - placeBits // all the bits that a slot holds
	return depth < maxDepth && 1<<depth < w.entries/8
}

func (w *writer) doubleDir() {
	old := w.dir
	w.dir = vec[leaf]{}
	w.dirOwner = owner{commit: w.dirOwner.commit}
	w.depth++
	for i := range old.n {
		l := old.at(i)
		w.dir.push(&w.dirOwner, l)
		w.dir.push(&w.dirOwner, l)
	}
}
