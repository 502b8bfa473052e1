package syncd

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Epoch numbers the spans in which LSNs and transaction ids are comparable. A new one begins with a new replication
// slot: after a failover, a restore, a lost slot, a lost stream. Its number is the greater of the last known epoch plus
// one and the Unix time in milliseconds. Zero is "none".
type Epoch uint64

// Position says how far: everything up to LSN in Epoch. Positions of different epochs order by epoch alone.
type Position struct {
	Epoch Epoch
	LSN   LSN
}

// Compare orders positions: by epoch, then by LSN.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Epoch, q.Epoch), cmp.Compare(p.LSN, q.LSN))
}

// IsZero says whether p is the position before everything.
func (p Position) IsZero() bool { return p == Position{} }

// String gives "<epoch>-<lsn>", such as "1764534000000-0/16B3748".
func (p Position) String() string { return string(p.Append(nil)) }

// Append appends the form of String to b.
func (p Position) Append(b []byte) []byte {
	b = strconv.AppendUint(b, uint64(p.Epoch), 10)
	b = append(b, '-')
	return p.LSN.Append(b)
}

// ParsePosition reads the form of Position.String.
func ParsePosition(s string) (Position, error) {
	e, l, ok := strings.Cut(s, "-")
	if ok {
		epoch, err1 := parseDecimal(e, 64)
		lsn, err2 := ParseLSN(l)
		if err1 == nil && err2 == nil {
			return Position{Epoch(epoch), lsn}, nil
		}
	}
	return Position{}, fmt.Errorf("%q is not a version: want <epoch>-<lsn>, such as 1764534000000-0/16B3748", s)
}

// Version is the place of one change in the order of all: its epoch, the end LSN of its commit, and its ordinal among
// the changes of that commit. The zero Version is older than every change.
type Version struct {
	Epoch   Epoch
	LSN     LSN
	Ordinal uint32
}

// Compare orders versions field by field. Along one key it is the order in which the states of the row came to be.
func (v Version) Compare(w Version) int {
	if v.Epoch != w.Epoch {
		return cmp.Compare(v.Epoch, w.Epoch)
	}
	if v.LSN != w.LSN {
		return cmp.Compare(v.LSN, w.LSN)
	}
	return cmp.Compare(v.Ordinal, w.Ordinal)
}

// Position is the position of v's commit.
func (v Version) Position() Position { return Position{v.Epoch, v.LSN} }

// String gives "<epoch>-<lsn>-<ordinal>".
func (v Version) String() string { return string(v.Append(nil)) }

// Append appends the form of String to b.
func (v Version) Append(b []byte) []byte {
	b = v.Position().Append(b)
	b = append(b, '-')
	return strconv.AppendUint(b, uint64(v.Ordinal), 10)
}

// ParseVersion reads the form of Version.String.
func ParseVersion(s string) (Version, error) {
	i := strings.LastIndexByte(s, '-')
	if i > 0 {
		p, err1 := ParsePosition(s[:i])
		n, err2 := parseDecimal(s[i+1:], 32)
		if err1 == nil && err2 == nil {
			return Version{p.Epoch, p.LSN, uint32(n)}, nil
		}
	}
	return Version{}, fmt.Errorf("%q is not a change's version: want <epoch>-<lsn>-<ordinal>, such as 1764534000000-0/16B3748-1", s)
}

func parseDecimal(s string, bits int) (uint64, error) {
	if s == "" || s[0] == '+' || (len(s) > 1 && s[0] == '0') {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseUint(s, 10, bits)
}
