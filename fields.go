package syncd

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// fieldScanner goes through the fields of a row's JSON without decoding them.
type fieldScanner struct {
	row         []byte
	at          int
	name, value []byte // of the field: the name as it stands between its quotes, the value as JSON
	malformed   bool
}

// next goes to the next field. It is false at the end, or where the row is malformed.
func (s *fieldScanner) next() bool {
	i := skipSpace(s.row, s.at)
	switch {
	case i == len(s.row):
		s.malformed = true
		return false
	case s.at == 0 && s.row[i] == '{':
		if i = skipSpace(s.row, i+1); i < len(s.row) && s.row[i] == '}' {
			return s.end(i)
		}
	case s.at > 0 && s.row[i] == ',':
		i = skipSpace(s.row, i+1)
	case s.at > 0 && s.row[i] == '}':
		return s.end(i)
	default:
		s.malformed = true
		return false
	}
	name := skipString(s.row, i)
	colon := skipSpace(s.row, max(name, 0))
	if name < 0 || colon == len(s.row) || s.row[colon] != ':' {
		s.malformed = true
		return false
	}
	from := skipSpace(s.row, colon+1)
	to := skipValue(s.row, from)
	if to < 0 {
		s.malformed = true
		return false
	}
	s.name, s.value, s.at = s.row[i+1:name-1], s.row[from:to], to
	return true
}

func (s *fieldScanner) end(at int) bool {
	s.malformed = skipSpace(s.row, at+1) != len(s.row)
	s.at = at
	return false
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString gives the end of the string that begins at i, or -1.
func skipString(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		esc := bytes.IndexByte(b[i:i+n], '\\')
		if esc < 0 {
			return i + n + 1
		}
		if i += esc + 2; i > len(b) {
			return -1
		}
	}
}

// skipValue gives the end of the value that begins at i, or -1. It does not look at how a number or a word is spelt.
func skipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	from := i
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' && b[i] != '"' && b[i] != ':' {
		i++
	}
	if i == from {
		return -1
	}
	return i
}

func skipNested(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = skipString(b, i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// isName says whether a field's name, as it stands in the JSON, is that of a column.
func isName(raw []byte, name string) bool {
	if string(raw) == name {
		return true
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return false
	}
	var scratch [64]byte
	text, ok := unescape(scratch[:0], raw)
	return ok && string(text) == name
}

// unquote gives what a JSON string stands for: a part of raw where it has no escapes, else appended to scratch.
func unquote(scratch, raw []byte) ([]byte, bool) {
	if len(raw) < 2 || raw[len(raw)-1] != '"' {
		return nil, false
	}
	in := raw[1 : len(raw)-1]
	if bytes.IndexByte(in, '\\') < 0 {
		return in, true
	}
	return unescape(scratch, in)
}

func unescape(dst, s []byte) ([]byte, bool) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '\\' {
			dst = append(dst, c)
			continue
		}
		if i++; i == len(s) {
			return dst, false
		}
		switch s[i] {
		case '"', '\\', '/':
			dst = append(dst, s[i])
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, ok := hex4(s[i+1:])
			if !ok {
				return dst, false
			}
			i += 4
			if utf16.IsSurrogate(r) {
				if i+2 >= len(s) || s[i+1] != '\\' || s[i+2] != 'u' {
					return dst, false
				}
				low, ok := hex4(s[i+3:])
				if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
					return dst, false
				}
				i += 6
			}
			dst = utf8.AppendRune(dst, r)
		default:
			return dst, false
		}
	}
	return dst, true
}

func hex4(s []byte) (r rune, ok bool) {
	if len(s) < 4 {
		return 0, false
	}
	for _, c := range s[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
