package memory

import (
	"encoding/binary"
	"math/bits"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// A record is an entry in a block, and in a snapshot file:
//
//	flags                one byte
//	length of the key    uvarint
//	length of the row    uvarint, with flagRow
//	origin               uvarint, the number of the entry's epoch and snapshot in the table's list
//	lsn, ordinal, xid    three uvarints, with flagChange
//	key, row
//	zeros up to a multiple of 8
type record struct {
	flags   byte
	origin  uint32
	lsn     syncd.LSN
	ordinal uint32
	xid     syncd.XID
	key     []byte
	row     []byte // nil without flagRow
	size    int    // with the zeros
}

const (
	flagRow     = 1 << iota // the entry holds a row
	flagPending             // sink.Entry.Pending
	flagChange              // lsn, ordinal and xid are not all zero
	flagsKnown  = 1<<iota - 1
)

func flagsOf(e *sink.Entry) byte {
	var f byte
	if e.Row != nil {
		f |= flagRow
	}
	if e.Pending {
		f |= flagPending
	}
	if e.Version.LSN != 0 || e.Version.Ordinal != 0 || e.XID != 0 {
		f |= flagChange
	}
	return f
}

// recordSize is the size of the record of an entry.
func recordSize(key syncd.Key, e *sink.Entry, origin uint32) int {
	n := 1 + uvarintLen(uint64(len(key))) + uvarintLen(uint64(origin)) + len(key) + len(e.Row)
	f := flagsOf(e)
	if f&flagRow != 0 {
		n += uvarintLen(uint64(len(e.Row)))
	}
	if f&flagChange != 0 {
		n += uvarintLen(uint64(e.Version.LSN)) + uvarintLen(uint64(e.Version.Ordinal)) + uvarintLen(uint64(e.XID))
	}
	return align(n)
}

// appendRecord appends the record of an entry to b, less the zeros at its end.
func appendRecord(b []byte, key syncd.Key, e *sink.Entry, origin uint32) []byte {
	f := flagsOf(e)
	b = append(b, f)
	b = binary.AppendUvarint(b, uint64(len(key)))
	if f&flagRow != 0 {
		b = binary.AppendUvarint(b, uint64(len(e.Row)))
	}
	b = binary.AppendUvarint(b, uint64(origin))
	if f&flagChange != 0 {
		b = binary.AppendUvarint(b, uint64(e.Version.LSN))
		b = binary.AppendUvarint(b, uint64(e.Version.Ordinal))
		b = binary.AppendUvarint(b, uint64(e.XID))
	}
	b = append(b, key...)
	return append(b, e.Row...)
}

// parseRecord reads the record at the start of b. Its key and row lie in b. It gives false where there is none.
func parseRecord(b []byte) (r record, ok bool) {
	if len(b) == 0 || b[0]&^flagsKnown != 0 {
		return r, false
	}
	p := fields{b: b[1:], ok: true}
	r.flags = b[0]
	keyLen, rowLen := p.next(), uint64(0)
	if r.flags&flagRow != 0 {
		rowLen = p.next()
	}
	origin, ordinal := p.next(), uint64(0)
	if r.flags&flagChange != 0 {
		r.lsn, ordinal = syncd.LSN(p.next()), p.next()
		r.xid = syncd.XID(p.next())
	}
	rest := uint64(len(p.b))
	if !p.ok || origin>>32 != 0 || ordinal>>32 != 0 || keyLen > rest || rowLen > rest-keyLen {
		return r, false
	}
	r.origin, r.ordinal = uint32(origin), uint32(ordinal)
	end := keyLen + rowLen
	r.key = p.b[:keyLen:keyLen]
	if r.flags&flagRow != 0 {
		r.row = p.b[keyLen:end:end]
	}
	r.size = align(len(b) - len(p.b) + int(end))
	return r, r.size <= len(b)
}

// fields reads uvarints from the front of b.
type fields struct {
	b  []byte
	ok bool
}

func (f *fields) next() uint64 {
	if len(f.b) > 0 && f.b[0] < 0x80 {
		x := f.b[0]
		f.b = f.b[1:]
		return uint64(x)
	}
	x, n := binary.Uvarint(f.b)
	if n <= 0 {
		f.ok = false
		return 0
	}
	f.b = f.b[n:]
	return x
}

func uvarintLen(x uint64) int { return (bits.Len64(x|1) + 6) / 7 }

func align(n int) int { return (n + unit - 1) &^ (unit - 1) }
