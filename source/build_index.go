package source

import "github.com/syncd-io/syncd"

// keyIndex finds the change of a key in the open transaction. A small transaction is looked through; above that it is a
// hash table with open addressing, which is emptied by counting its generation up.
type keyIndex struct {
	slots []indexSlot
	gen   uint32
	used  int
	live  bool // the table holds the open transaction's changes
}

type indexSlot struct {
	gen, hash, at uint32 // at: the delta's place behind the transaction's first
}

const (
	indexFrom = 16      // changes from which on the table is used
	indexKeep = 1 << 16 // slots that are kept for the next transaction
)

// reset empties the index for a new transaction.
func (x *keyIndex) reset() {
	x.live, x.used = false, 0
	x.gen++
	if len(x.slots) > indexKeep || x.gen == 0 {
		x.slots, x.gen = nil, 1
	}
}

// add takes the last of deltas in; open is where the transaction begins.
func (x *keyIndex) add(deltas []syncd.Delta, open int) {
	switch n := len(deltas) - open; {
	case x.live:
		x.insert(deltas, open, len(deltas)-1)
	case n > indexFrom:
		x.rebuild(deltas, open)
	}
}

// rebuild takes all changes of the transaction in, where they are many enough.
func (x *keyIndex) rebuild(deltas []syncd.Delta, open int) {
	x.reset()
	n := len(deltas) - open
	if n <= indexFrom {
		return
	}
	if len(x.slots) < 4*n {
		size := 64
		for size < 4*n {
			size *= 2
		}
		x.slots, x.gen = make([]indexSlot, size), 1
	}
	x.live = true
	for i := open; i < len(deltas); i++ {
		x.insert(deltas, open, i)
	}
}

func (x *keyIndex) insert(deltas []syncd.Delta, open, i int) {
	d := &deltas[i]
	if d.Op == 0 || d.Op == syncd.Truncate {
		return
	}
	if 2*x.used >= len(x.slots) {
		x.rebuild(deltas, open)
		return
	}
	h := indexHash(d.Table, d.Key)
	for at := h; ; at++ {
		s := &x.slots[int(at)&(len(x.slots)-1)]
		if s.gen != x.gen {
			*s = indexSlot{x.gen, h, uint32(i - open)}
			x.used++
			return
		}
		if o := &deltas[open+int(s.at)]; s.hash == h && (o.Op == 0 || o.Key == d.Key && o.Table == d.Table) {
			s.at = uint32(i - open)
			return
		}
	}
}

// find gives the place of the key's change, or -1.
func (x *keyIndex) find(deltas []syncd.Delta, open int, t syncd.Table, k syncd.Key) int {
	if !x.live {
		for i := open; i < len(deltas); i++ {
			if d := &deltas[i]; d.Key == k && (d.Op == syncd.Upsert || d.Op == syncd.Delete) && d.Table == t {
				return i
			}
		}
		return -1
	}
	h := indexHash(t, k)
	for at := h; ; at++ {
		s := &x.slots[int(at)&(len(x.slots)-1)]
		if s.gen != x.gen {
			return -1
		}
		if d := &deltas[open+int(s.at)]; s.hash == h && d.Op != 0 && d.Key == k && d.Table == t {
			return open + int(s.at)
		}
	}
}

// indexHash mixes the table in by its length alone: tables of one transaction seldom share keys, and where they do a slot
// further is no harm.
func indexHash(t syncd.Table, k syncd.Key) uint32 {
	h := k.Hash() + uint64(len(t.Name))*0x9E3779B97F4A7C15
	return uint32(h ^ h>>32)
}
