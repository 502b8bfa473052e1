package sink

import (
	"encoding/binary"
	"iter"
	"slices"
	"unsafe"

	"github.com/syncd-io/syncd"
)

// changes are Changes one behind the other in one piece of memory, which is not written to once it is full. So whatever is kept
// of them, the garbage collector has one thing to look at. Of each there are
//
//	flags           one byte: whether there is a Row, whether there is a Was, and the Kind's number
//	lengths         uvarints, of the key, and of Row and Was where there are any
//	key, Row, Was
type changes []byte

const (
	changeRow = 1 << iota
	changeWas
	changeKind // and above: the number in kinds
)

// kinds are numbered by their places.
var kinds = [...]Kind{NoRepair, Missing, Stale, Ghost, Corrupt}

// changeSize is what a change takes at most beside its key and rows.
const changeSize = 1 + 3*binary.MaxVarintLen32

// append adds a change. Key and rows are copied.
func (c changes) append(k syncd.Key, row, was []byte, kind Kind) changes {
	flags := byte(max(slices.Index(kinds[:], kind), 0)) * changeKind
	if row != nil {
		flags |= changeRow
	}
	if was != nil {
		flags |= changeWas
	}
	c = binary.AppendUvarint(append(c, flags), uint64(len(k)))
	if row != nil {
		c = binary.AppendUvarint(c, uint64(len(row)))
	}
	if was != nil {
		c = binary.AppendUvarint(c, uint64(len(was)))
	}
	return append(append(append(c, k...), row...), was...)
}

// next gives the first change, which lies in c, and those behind it.
func (c changes) next() (Change, changes) {
	flags := c[0]
	c = c[1:]
	length := func() int {
		n, size := binary.Uvarint(c)
		c = c[size:]
		return int(n)
	}
	take := func(n int) (b []byte) {
		b, c = c[:n:n], c[n:]
		return b
	}
	var row, was int
	key := length()
	if flags&changeRow != 0 {
		row = length()
	}
	if flags&changeWas != 0 {
		was = length()
	}
	k := take(key)
	x := Change{Key: syncd.Key(unsafe.String(unsafe.SliceData(k), len(k))), Kind: kinds[flags/changeKind]}
	if flags&changeRow != 0 {
		x.Row = take(row)
	}
	if flags&changeWas != 0 {
		x.Was = take(was)
	}
	return x, c
}

// Changes gives what the commit did, in no order. The keys and rows stay as they are for as long as they are held.
func (c *Commit) Changes() iter.Seq[Change] {
	return func(yield func(Change) bool) {
		for rest := c.changes; len(rest) > 0; {
			var x Change
			if x, rest = rest.next(); !yield(x) {
				return
			}
		}
	}
}
