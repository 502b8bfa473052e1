package syncd

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// kind says how the values of a column are compared. Each has a comparable form: bytes that are equal where the values are,
// and that have the values' order.
type kind uint8

const (
	plainKind  kind = iota // all that the others leave: the text, for equality alone
	textKind               // the bytes
	paddedKind             // character(n): the bytes without the blanks at the end
	numberKind             // integers, numeric, oid
	realKind
	doubleKind
	boolKind
	dateKind
	timestampKind
	timestamptzKind
	uuidKind
)

// kindOf reads a type's name as format_type prints it. The order of domains and enums is not known from their names.
func kindOf(typ string) kind {
	if head, tail, ok := strings.Cut(typ, "("); ok {
		_, tail, _ = strings.Cut(tail, ")")
		typ = head + tail
	}
	switch typ {
	case "text", "character varying", "name", `"char"`:
		return textKind
	case "character", "bpchar":
		return paddedKind
	case "smallint", "integer", "bigint", "numeric", "oid":
		return numberKind
	case "real":
		return realKind
	case "double precision":
		return doubleKind
	case "boolean":
		return boolKind
	case "date":
		return dateKind
	case "timestamp without time zone":
		return timestampKind
	case "timestamp with time zone":
		return timestamptzKind
	case "uuid":
		return uuidKind
	}
	return plainKind
}

type valueState uint8

const (
	isValue valueState = iota
	isNull
	isOdd // it is not what its type prints: it compares with nothing
)

// value gives the comparable form of a column's value in a row's JSON. It may be appended to scratch, or be part of raw.
func (k kind) value(scratch, raw []byte) ([]byte, valueState) {
	if len(raw) == 0 {
		return nil, isOdd
	}
	if raw[0] == 'n' && bytes.Equal(raw, jsonNull) {
		return nil, isNull
	}
	text := raw
	if raw[0] == '"' {
		var ok bool
		if text, ok = unquote(scratch, raw); !ok {
			return nil, isOdd
		}
	}
	if k == plainKind || k == textKind {
		if bytes.IndexByte(text, 0) >= 0 {
			return nil, isOdd
		}
		return text, isValue
	}
	if v, ok := k.appendForm(scratch, text); ok {
		return v, isValue
	}
	return nil, isOdd
}

// appendForm appends the comparable form of a value's text. text may begin where dst ends.
func (k kind) appendForm(dst, text []byte) ([]byte, bool) {
	switch k {
	case plainKind, textKind:
		return append(dst, text...), bytes.IndexByte(text, 0) < 0
	case paddedKind:
		text = bytes.TrimRight(text, " ")
		return append(dst, text...), bytes.IndexByte(text, 0) < 0
	case numberKind:
		return appendDecimal(dst, text)
	case realKind:
		return appendFloat(dst, text, 32)
	case doubleKind:
		return appendFloat(dst, text, 64)
	case boolKind:
		switch string(text) {
		case "true":
			return append(dst, 1), true
		case "false":
			return append(dst, 0), true
		}
		switch strings.ToLower(string(text)) {
		case "true", "t", "yes", "y", "on", "1":
			return append(dst, 1), true
		case "false", "f", "no", "n", "off", "0":
			return append(dst, 0), true
		}
		return dst, false
	case uuidKind:
		return appendUUID(dst, text)
	}
	n, ok := parseMoment(k, text)
	return binary.BigEndian.AppendUint64(dst, uint64(n)^1<<63), ok
}

// operand gives the comparable form of a value that somebody wrote.
func (k kind) operand(typ, text string) ([]byte, error) {
	v, ok := k.appendForm(nil, []byte(text))
	if ok && utf8.ValidString(text) {
		return v, nil
	}
	want := ""
	switch k {
	case numberKind, realKind, doubleKind:
		want = "a number such as 10, -2.5 or 1e6"
	case boolKind:
		want = "true or false"
	case dateKind:
		want = "a date such as 2025-11-30, or infinity"
	case timestampKind:
		want = "a time without a zone, such as 2025-11-30T20:00:00 with at most six digits behind a point, or infinity"
	case timestamptzKind:
		want = "a time such as 2025-11-30T20:00:00Z or …+01:00 (the + is %2B in a URL) with at most six digits behind a point, or infinity"
	case uuidKind:
		want = "a UUID such as 6f1ed002-ab59-4d3b-9d5c-0d5f2a1c9e11"
	default:
		want = "a text of UTF-8 without zero bytes"
	}
	return nil, fmt.Errorf("%q is no value of type %s: want %s", text, typ, want)
}

// special reads NaN and the infinities: +1, -1, and 2 for NaN, which Postgres places above everything.
func special(text []byte) (which int, ok bool) {
	if len(text) < 3 || len(text) > 9 || text[1]-'0' <= 9 || text[1] == '.' {
		return 0, false
	}
	switch strings.ToLower(string(text)) {
	case "nan":
		return 2, true
	case "infinity", "+infinity", "inf", "+inf":
		return 1, true
	case "-infinity", "-inf":
		return -1, true
	}
	return 0, false
}

// appendFloat writes a float as eight bytes that have its order; -0 is 0, and NaN is above all.
func appendFloat(dst, text []byte, bits int) ([]byte, bool) {
	var f float64
	if which, ok := special(text); ok {
		if which == 2 {
			return binary.BigEndian.AppendUint64(dst, math.MaxUint64), true
		}
		f = math.Inf(which)
	} else {
		if _, ok := parseNumber(text); !ok {
			return dst, false
		}
		var err error
		if f, err = strconv.ParseFloat(string(text), bits); err != nil {
			return dst, false
		}
	}
	n := math.Float64bits(f + 0)
	if f == 0 {
		n = 0
	}
	if n>>63 != 0 {
		n = ^n
	} else {
		n |= 1 << 63
	}
	return binary.BigEndian.AppendUint64(dst, n), true
}

func appendUUID(dst, text []byte) ([]byte, bool) {
	if n := len(text); n > 2 && text[0] == '{' && text[n-1] == '}' {
		text = text[1 : n-1]
	}
	var out [32]byte
	n := 0
	for i, c := range text {
		switch {
		case '0' <= c && c <= '9' || 'a' <= c && c <= 'f':
		case 'A' <= c && c <= 'F':
			c += 'a' - 'A'
		case c == '-' && i > 0 && n%4 == 0 && text[i-1] != '-' && n < 32:
			continue
		default:
			return dst, false
		}
		if n == len(out) {
			return dst, false
		}
		out[n] = c
		n++
	}
	return append(dst, out[:]...), n == len(out)
}
