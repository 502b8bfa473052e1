package memory

import (
	"unsafe"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// table is one table of one commit, for readers: nothing in it changes.
type table struct {
	dir     vec[leaf] // 2^depth places
	depth   uint8
	blocks  vec[[]byte]
	origins vec[origin]
	entries int
	rows    int
	plain   int // entries that hold a row and are not pending
	hash    func(syncd.Key) uint64
	indexes []index
}

func (t *table) leafOf(hash uint64) leaf { return t.dir.at(int(hash >> (64 - t.depth))) }

// record reads the record at a place.
func (t *table) record(p place) record {
	// What was written was sized by recordSize, so it parses.
	r, _ := parseRecord(t.blocks.at(p.block())[p.offset():])
	return r
}

// locate looks for a key among the slots from index from on, where the first with the hash's bits stands or would stand. It
// gives the index of the key's slot, or where it belongs.
func (t *table) locate(slots []slot, from int, hash uint64, key syncd.Key) (i int, r record, found bool) {
	bits := hash >> placeBits
	for i = from; i < len(slots) && slots[i].bits() == bits; i++ {
		r = t.record(slots[i].place())
		k := keyOf(r.key)
		if k == key {
			return i, r, true
		}
		if h := t.hash(k); hash < h || hash == h && key < k {
			break
		}
	}
	return i, record{}, false
}

func (t *table) get(key syncd.Key) (sink.Entry, bool) {
	if t.entries == 0 {
		return sink.Entry{}, false
	}
	hash := t.hash(key)
	l := t.leafOf(hash)
	_, r, found := t.locate(l.slots(), l.lower(hash), hash, key)
	if !found {
		return sink.Entry{}, false
	}
	return t.entry(&r), true
}

// walkAhead is how many records a walk looks for at a time: they lie anywhere, and the waits for the memory overlap.
const walkAhead = 16

// walk calls fn for each record in the order of hash and key, beginning with hash from, until fn gives false. The
// record is fn's until it returns.
func (t *table) walk(from uint64, fn func(*record) bool) {
	if t.entries == 0 {
		return
	}
	var r record // one for all, since fn makes it escape
	for i := int(from >> (64 - t.depth)); i < t.dir.n; {
		l := t.dir.at(i)
		slots := l.slots()
		for j, s := range slots {
			if j%walkAhead == 0 {
				t.touchAll(slots[j:min(j+walkAhead, len(slots))])
			}
			if s.bits() < from>>placeBits {
				continue
			}
			r = t.record(s.place())
			if s.bits() == from>>placeBits && t.hash(keyOf(r.key)) < from {
				continue
			}
			if !fn(&r) {
				return
			}
		}
		span := 1 << (t.depth - l.depth)
		i = i&^(span-1) + span
	}
}

func (t *table) entry(r *record) sink.Entry {
	o := t.origins.at(int(r.origin))
	return sink.Entry{
		Row:     r.row,
		Version: syncd.Version{Epoch: o.epoch, LSN: r.lsn, Ordinal: r.ordinal},
		XID:     r.xid,
		Snap:    o.snap,
		Pending: r.flags&flagPending != 0,
	}
}

// keyOf gives the key that lies in a block without copying it: what was written to a block doesn't change.
func keyOf(b []byte) syncd.Key { return syncd.Key(unsafe.String(unsafe.SliceData(b), len(b))) }
