package bus

import (
	"bytes"
	"strconv"
	"time"

	"github.com/syncd-io/syncd"
)

// appendString appends s as a JSON string: only quotes, backslashes and control characters are escaped.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for {
		n := plainRun(asBytes(s))
		b = append(b, s[:n]...)
		if n == len(s) {
			return append(b, '"')
		}
		b = appendEscape(b, s[n])
		s = s[n+1:]
	}
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	const lowerHex = "0123456789abcdef"
	return append(b, '\\', 'u', '0', '0', lowerHex[c>>4], lowerHex[c&15])
}

// appendKey appends the values of a key as a JSON array of strings.
func appendKey(b []byte, k syncd.Key) []byte {
	b = append(b, '[')
	rest := string(k)
	for {
		n := bytes.IndexByte(asBytes(rest), 0)
		if n < 0 {
			break
		}
		b = append(appendString(b, rest[:n]), ',')
		rest = rest[n+1:]
	}
	return append(appendString(b, rest), ']')
}

func appendStrings(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, s := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s)
	}
	return append(b, ']')
}

func appendLSN(b []byte, l syncd.LSN) []byte {
	b = append(b, '"')
	return append(l.Append(b), '"')
}

// appendRow appends the field that carries a row: "row", or "rowtext" where the row's JSON holds a line break between its
// tokens (a json column keeps the spaces it was written with), so that one line stays one object.
func appendRow(b, row []byte) []byte {
	if bytes.IndexByte(row, '\n') < 0 && bytes.IndexByte(row, '\r') < 0 {
		b = append(b, `"row":`...)
		return append(b, row...)
	}
	b = append(b, `"rowtext":`...)
	return appendString(b, view(row))
}

// appendTime appends a time in UTC with microseconds, which is what Postgres keeps. A time that RFC 3339 can't write
// stands for "not known": it is for people, never for order.
func appendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	if t.Year() < 1 || t.Year() > 9999 {
		t = time.Time{}
	}
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	b = append(b, '"')
	b = appendDigits(b, year, 4, '-')
	b = appendDigits(b, int(month), 2, '-')
	b = appendDigits(b, day, 2, 'T')
	b = appendDigits(b, hour, 2, ':')
	b = appendDigits(b, minute, 2, ':')
	b = appendDigits(b, second, 2, '.')
	b = appendDigits(b, t.Nanosecond()/1000, 6, 'Z')
	return append(b, '"')
}

// appendDigits appends v with n digits, and what follows them.
func appendDigits(b []byte, v, n int, then byte) []byte {
	b = append(b, "000000"[:n]...)
	for i := len(b) - 1; v > 0; i-- {
		b[i] = byte('0' + v%10)
		v /= 10
	}
	return append(b, then)
}

func appendUintField(b []byte, name string, v uint64) []byte {
	b = append(b, name...)
	return strconv.AppendUint(b, v, 10)
}

func appendDecimal(b []byte, v uint64) []byte {
	b = append(b, '"')
	b = strconv.AppendUint(b, v, 10)
	return append(b, '"')
}
