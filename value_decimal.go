package syncd

import (
	"bytes"
	"encoding/binary"
)

// decimal is a number taken apart: 0.DIGITS times ten to the power exp. digits has neither leading nor trailing zeros, but
// perhaps a point in it; zero has none.
type decimal struct {
	negative bool
	exp      int
	digits   []byte
}

// maxExp bounds exponents. Postgres's numbers end long before it.
const maxExp = 1 << 30

// parseNumber reads a number as Postgres and JSON write it.
func parseNumber(s []byte) (d decimal, ok bool) {
	if len(s) > 0 && (s[0] == '-' || s[0] == '+') {
		d.negative = s[0] == '-'
		s = s[1:]
	}
	i := countDigits(s)
	whole, n := i, i
	if i < len(s) && s[i] == '.' {
		frac := countDigits(s[i+1:])
		n += frac
		i += 1 + frac
	}
	if n == 0 {
		return d, false
	}
	mantissa := s[:i]
	exp := 0
	if i < len(s) {
		if s[i]|0x20 != 'e' {
			return d, false
		}
		if exp, ok = parseExp(s[i+1:]); !ok {
			return d, false
		}
	}
	first := bytes.IndexAny(mantissa, "123456789")
	if first < 0 {
		return decimal{}, true
	}
	d.exp = exp + whole - first
	if first > whole {
		d.exp++ // the point is no digit
	}
	d.digits = bytes.TrimRight(mantissa[first:], ".0")
	return d, true
}

func parseExp(s []byte) (exp int, ok bool) {
	negative := len(s) > 0 && s[0] == '-'
	if negative || len(s) > 0 && s[0] == '+' {
		s = s[1:]
	}
	if len(s) == 0 || countDigits(s) != len(s) {
		return 0, false
	}
	for _, c := range s {
		if exp = exp*10 + int(c-'0'); exp > maxExp {
			exp = maxExp
		}
	}
	if negative {
		exp = -exp
	}
	return exp, true
}

func countDigits(s []byte) int {
	i := 0
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	return i
}

// The first byte of a number's comparable form.
const (
	minusInfinity = 1 + iota
	negativeNumber
	zeroNumber
	positiveNumber
	plusInfinity
	notANumber
)

// appendDecimal writes a number so that its bytes have its order: what it is, its exponent, its digits and a zero; all but
// the first byte complemented for a negative one. No form is the beginning of another.
func appendDecimal(dst, text []byte) ([]byte, bool) {
	switch which, ok := special(text); {
	case !ok:
	case which == 2:
		return append(dst, notANumber), true
	case which > 0:
		return append(dst, plusInfinity), true
	default:
		return append(dst, minusInfinity), true
	}
	d, ok := parseNumber(text)
	switch {
	case !ok:
		return dst, false
	case len(d.digits) == 0:
		return append(dst, zeroNumber), true
	}
	var short [64]byte
	digits := append(short[:0], d.digits...) // text may lie where dst is going to be written
	first := byte(positiveNumber)
	if d.negative {
		first = negativeNumber
	}
	from := len(dst) + 1
	dst = append(dst, first)
	switch {
	case d.exp > 100:
		dst = binary.BigEndian.AppendUint32(append(dst, 255), uint32(d.exp))
	case d.exp < -100:
		dst = binary.BigEndian.AppendUint32(append(dst, 1), uint32(d.exp+2*maxExp))
	default:
		dst = append(dst, byte(d.exp+128))
	}
	for _, c := range digits {
		if c != '.' {
			dst = append(dst, c)
		}
	}
	dst = append(dst, 0)
	if d.negative {
		for i := from; i < len(dst); i++ {
			dst[i] = ^dst[i]
		}
	}
	return dst, true
}
