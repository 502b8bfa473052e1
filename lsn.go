package syncd

import (
	"fmt"
	"strconv"
	"strings"
)

// LSN is a byte position in the write-ahead log of one Postgres timeline. Wherever syncd orders changes it is the
// position just behind the commit record (pgoutput's Commit.end_lsn), since every LSN function of Postgres returns ends
// and the two must be comparable. The zero LSN is "none": no commit ends there.
type LSN uint64

// String gives the form Postgres prints for pg_lsn, such as "16/B374D848".
func (l LSN) String() string { return string(l.Append(nil)) }

// Append appends the form of String to b.
func (l LSN) Append(b []byte) []byte {
	b = appendHex(b, uint32(l>>32))
	b = append(b, '/')
	return appendHex(b, uint32(l))
}

func appendHex(b []byte, v uint32) []byte {
	const digits = "0123456789ABCDEF"
	shift := 28
	for shift > 0 && v>>shift == 0 {
		shift -= 4
	}
	for ; shift >= 0; shift -= 4 {
		b = append(b, digits[v>>shift&15])
	}
	return b
}

// ParseLSN reads the form that Postgres prints: two hexadecimal halves of at most eight digits around a slash.
func ParseLSN(s string) (LSN, error) {
	hi, lo, ok := strings.Cut(s, "/")
	if ok {
		h, err1 := parseHex(hi)
		l, err2 := parseHex(lo)
		if err1 == nil && err2 == nil {
			return LSN(h)<<32 | LSN(l), nil
		}
	}
	return 0, fmt.Errorf("%q is not an LSN: want two hexadecimal numbers around a slash, such as 0/16B3748", s)
}

func parseHex(s string) (uint64, error) {
	if len(s) == 0 || len(s) > 8 || s[0] == '+' || s[0] == '-' {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseUint(s, 16, 32)
}

// XID is a top-level transaction id widened to 64 bits (Postgres's xid8). A row's own xmin is never one: it may be a
// subtransaction's, and it has 32 bits.
type XID uint64

// WidenXID gives the 64-bit form of a transaction id as the replication protocol carries it, next to ref: a 64-bit id
// known to be within 2^31 of it, such as the xmax of a recent snapshot. It is the only place where ids are widened.
func WidenXID(xid uint32, ref XID) XID {
	return XID(int64(ref) + int64(int32(xid-uint32(ref))))
}
