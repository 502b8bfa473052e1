package source

import (
	"encoding/binary"
	"math/bits"
)

// appendString appends s as a JSON string, escaped as escape_json of Postgres's json.c does it: \b \f \n \r \t \" \\, other
// bytes below space as \u00xx, all else as it is, also DEL and what is not ASCII.
func appendString(dst, s []byte) []byte {
	dst = append(dst, '"')
	for {
		n := plain(s)
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return append(dst, '"')
		}
		dst = appendEscaped(dst, s[n])
		s = s[n+1:]
	}
}

// appendKeyPrefix appends a member's name as JSON with the colon behind it.
func appendKeyPrefix(dst []byte, name string) []byte {
	return append(appendString(dst, []byte(name)), ':')
}

func appendEscaped(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	case '"', '\\':
		return append(dst, '\\', c)
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// plain gives how many bytes s begins with that need no escape. It looks at eight bytes at a time.
func plain(s []byte) int {
	i := 0
	for ; len(s)-i >= 8; i += 8 {
		if m := special(binary.LittleEndian.Uint64(s[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

// special marks with its high bit the lowest byte of x that is below space, a double quote or a backslash. Bytes above the
// first marked one may be marked wrongly.
func special(x uint64) uint64 {
	const ones = 0x0101010101010101
	const highs = 0x8080808080808080
	quote := x ^ '"'*ones
	slash := x ^ '\\'*ones
	return ((x-' '*ones)&^x | (quote-ones)&^quote | (slash-ones)&^slash) & highs
}
