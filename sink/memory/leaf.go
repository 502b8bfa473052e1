package memory

import "unsafe"

// A slot is one entry of the index: the top 28 bits of the key's hash, and the entry's place. So slots compare as the
// hashes do, as far as 28 bits tell; entries equal in them are ordered by the whole hash, then by the key.
type slot uint64

// A place says where an entry begins: the number of its block and the offset there, in units of 8 bytes.
type place uint64

const (
	unit      = 8  // entries begin at multiples of it
	unitBits  = 17 // blocks that entries share hold up to 2^17 units, 1 MiB
	placeBits = 36
	maxBlocks = 1 << (placeBits - unitBits) // blocks in a table at a time
	maxBlock  = unit << unitBits
)

func makePlace(block, offset int) place { return place(block<<unitBits | offset/unit) }

func (p place) block() int  { return int(p >> unitBits) }
func (p place) offset() int { return int(p&(1<<unitBits-1)) * unit }

func makeSlot(hash uint64, p place) slot { return slot(hash>>placeBits<<placeBits | uint64(p)) }

func (s slot) place() place { return place(s & (1<<placeBits - 1)) }

// bits are the 28 bits of the hash that the slot holds.
func (s slot) bits() uint64 { return uint64(s >> placeBits) }

// leaf holds the slots, in order, of all entries whose hashes have the same top bits; depth says how many. It is as small
// as can be, since each commit copies the parts of the directory that it changes.
type leaf struct {
	first *slot // of n
	n     uint32
	depth uint8
}

// maxLeaf is how many slots a leaf holds before it splits.
const maxLeaf = 64

func makeLeaf(depth uint8, slots []slot) leaf {
	return leafOver(depth, append(make([]slot, 0, len(slots)), slots...))
}

// leafOver makes a leaf of slots that nothing changes any more.
func leafOver(depth uint8, slots []slot) leaf {
	return leaf{first: unsafe.SliceData(slots), n: uint32(len(slots)), depth: depth}
}

func (l leaf) slots() []slot { return unsafe.Slice(l.first, l.n) }

// lower gives the index of the first slot whose bits are no lower than those of the hash. Hashes are spread evenly, so it
// looks where that should be, and walks from there.
func (l leaf) lower(hash uint64) int {
	slots, bits := l.slots(), hash>>placeBits
	i := l.guess(hash)
	for i > 0 && slots[i-1].bits() >= bits {
		i--
	}
	for i < len(slots) && slots[i].bits() < bits {
		i++
	}
	return i
}

// guess gives the index of the slot where a hash should be.
func (l leaf) guess(hash uint64) int {
	return int((hash << l.depth) >> 32 * uint64(l.n) >> 32)
}
