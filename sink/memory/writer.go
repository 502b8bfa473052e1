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
	const leafSize, blockSize, statSize, originSize, refSize = 32, 24, 24, 24, 8
	vectors := w.dir.size(leafSize) + w.blocks.size(blockSize) + w.origins.size(originSize)
	index := vectors + w.leafBytes + w.digestBytes() + len(w.slab.stats)*statSize + w.interned.bytes + len(w.interned.refs)*refSize + w.indexBytes()
	return account{used: w.slab.size + index, blocks: w.slab.size, live: w.slab.live, count: w.slab.count()}
}

// apply makes the writes of a batch that w.items names.
func (w *writer) apply(writes []sink.Write) {
	for list := w.items.sort(); len(list) > 0; {
		l := w.leafOf(list[0].hash)
		n := sameLeaf(list, l.depth)
		w.applyLeaf(l, list[:n], writes)
		list = list[n:]
	}
	w.items.reset()
	w.applyIndexes()
	w.keepDigest()
	w.compact()
	if cap(w.scratch) > keepItems {
		w.scratch = nil
	}
}

// applyLeaf makes the writes of one leaf.
func (w *writer) applyLeaf(l leaf, list []item, writes []sink.Write) {
	slots := append(w.scratch[:0], l.slots...)
	at := l.lower(list[0].hash)
	for _, it := range list {
		for at < len(slots) && slots[at].bits() < it.hash>>placeBits {
			at++
		}
		slots = w.write(slots, at, it.hash, &writes[it.ref])
	}
	w.scratch = slots
	w.replaceLeaf(list[0].hash, l, slots)
}

// write makes one write among the slots of its leaf; the first slot with the hash's bits stands at index at, or would.
func (w *writer) write(slots []slot, at int, hash uint64, c *sink.Write) []slot {
	i, old, found := w.locate(slots, at, hash, c.Key)
	switch {
	case c.Remove && !found:
		return slots
	case c.Remove:
		w.subDigest(hash, old.row)
		w.reindex(hash, old.row, nil)
		w.take(slots[i].place(), &old)
		return slices.Delete(slots, i, i+1)
	}
	w.reindex(hash, old.row, c.Entry.Row)
	s := makeSlot(hash, w.addEntry(c.Key, &c.Entry))
	w.addDigest(hash, c.Entry.Row)
	if !found {
		return slices.Insert(slots, i, s)
	}
	w.subDigest(hash, old.row)
	w.take(slots[i].place(), &old)
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
	w.leafBytes -= unit * len(old.slots)
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
	l := makeLeaf(depth, slots)
	w.leafBytes += unit * len(slots)
	span := 1 << (w.depth - depth)
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
