package bus

import (
	"encoding/binary"
	"math/bits"
)

// scanner walks over JSON text in place. It allocates nothing for text nested up to 64 deep and has no limit beyond.
type scanner struct {
	b   []byte
	i   int
	why string // what is wrong at i; empty while nothing is

	// The open brackets: one bit each, the innermost lowest, 1 for an object. more keeps full words of outer ones.
	kinds uint64
	depth int
	more  []uint64
}

func (s *scanner) bad(why string) bool {
	if s.why == "" {
		s.why = why
	}
	return false
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return
		}
	}
}

// skipValue moves behind one JSON value of any kind, checking all of its structure (RFC 8259).
func (s *scanner) skipValue() bool {
	s.kinds, s.depth, s.more = 0, 0, s.more[:0]
	for {
		if s.kinds&1 == 1 && s.plainMembers() {
			if !s.next() {
				return s.why == ""
			}
			continue
		}
		s.space()
		if s.i >= len(s.b) {
			return s.bad("text ends where a value should be")
		}
		switch c := s.b[s.i]; {
		case c == '"':
			if !s.skipString() {
				return false
			}
		case c == '-' || '0' <= c && c <= '9':
			if !s.skipNumber() {
				return false
			}
		case c == '{' || c == '[':
			s.i++
			s.space()
			if s.i < len(s.b) && s.b[s.i] == c+2 { // '}' is '{'+2, ']' is '['+2
				s.i++
				break
			}
			s.push(c == '{')
			if c == '{' && !s.memberName() {
				return false
			}
			continue
		default:
			if !s.skipLiteral() {
				return false
			}
		}
		if !s.next() {
			return s.why == ""
		}
	}
}

// plainMembers moves over the members of an object, from the value at i on, as rows have them: strings without escapes,
// numbers without exponent and literals, and no space between. It stops before the first value that is none of these, and
// says whether it stands behind one, the last or the last it could read; what follows is for the caller to judge.
func (s *scanner) plainMembers() (behind bool) {
	b, i := s.b, s.i
	for i < len(b) {
		switch c := b[i]; {
		case c == '"':
			i++
			if i += plainRun(b[i:]); i >= len(b) || b[i] != '"' {
				return false
			}
			i++
		case c == '-' || '0' <= c && c <= '9':
			if i = plainNumber(b, i); i < 0 {
				return false
			}
		case c == 'n' && i+4 <= len(b) && string(b[i:i+4]) == "null", c == 't' && i+4 <= len(b) && string(b[i:i+4]) == "true":
			i += 4
		case c == 'f' && i+5 <= len(b) && string(b[i:i+5]) == "false":
			i += 5
		default:
			return false
		}
		s.i = i
		if i+1 >= len(b) || b[i] != ',' || b[i+1] != '"' {
			return true
		}
		i += 2
		if i += plainRun(b[i:]); i+1 >= len(b) || b[i] != '"' || b[i+1] != ':' {
			return true
		}
		i += 2
		s.i = i
	}
	return false
}

// plainNumber moves behind the number that begins at i. It gives -1 where there is none, and where it has an exponent.
func plainNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	from := i
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	if i == from || b[from] == '0' && i > from+1 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		i++
		from = i
		for i < len(b) && '0' <= b[i] && b[i] <= '9' {
			i++
		}
		if i == from {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		return -1
	}
	return i
}

// push opens an object or array.
func (s *scanner) push(object bool) {
	if s.depth&63 == 0 && s.depth > 0 {
		s.more = append(s.more, s.kinds)
	}
	s.depth++
	s.kinds <<= 1
	if object {
		s.kinds |= 1
	}
}

// next closes what ends behind a value and moves to where the next value begins. It gives false at the end of the
// outermost value, and where something is wrong.
func (s *scanner) next() bool {
	for s.depth > 0 {
		s.space()
		if s.i >= len(s.b) {
			return s.bad("text ends inside an object or array")
		}
		c := s.b[s.i]
		object := s.kinds&1 == 1
		if c == ',' {
			s.i++
			if !object {
				return true
			}
			s.space()
			return s.memberName()
		}
		if object && c != '}' || !object && c != ']' {
			return s.bad("want a comma or the end of the object or array")
		}
		s.i++
		s.depth--
		s.kinds >>= 1
		if s.depth&63 == 0 && s.depth > 0 {
			s.kinds = s.more[len(s.more)-1]
			s.more = s.more[:len(s.more)-1]
		}
	}
	return false
}

// memberName moves behind the name of an object's member and its colon.
func (s *scanner) memberName() bool {
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return s.bad("want the name of a member")
	}
	if !s.skipString() {
		return false
	}
	return s.expect(':', "want a colon after the name")
}

func (s *scanner) expect(c byte, why string) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	s.space()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return s.bad(why)
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plainRun gives the number of leading bytes of b that a JSON string holds as they are: no quote, no backslash, no
// control character.
func plainRun(b []byte) int {
	i := 0
	for i+8 <= len(b) {
		w := binary.LittleEndian.Uint64(b[i:])
		q, e := w^(ones*'"'), w^(ones*'\\')
		// The lowest flag set is exact; those above it need not be.
		m := ((w - ones*0x20) &^ w) | ((q - ones) &^ q) | ((e - ones) &^ e)
		if m &= highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i < len(b) && b[i] >= 0x20 && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// skipString moves behind the string that begins at i.
func (s *scanner) skipString() bool {
	s.i++
	for {
		s.i += plainRun(s.b[s.i:])
		if s.i >= len(s.b) {
			return s.bad("text ends inside a string")
		}
		switch s.b[s.i] {
		case '"':
			s.i++
			return true
		case '\\':
			if !s.skipEscape() {
				return false
			}
		default:
			return s.bad("a string holds a control character")
		}
	}
}

func (s *scanner) skipEscape() bool {
	if s.i+1 >= len(s.b) {
		return s.bad("text ends inside an escape")
	}
	switch s.b[s.i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i += 2
		return true
	case 'u':
		if _, ok := hex4(s.b[s.i+2:]); ok {
			s.i += 6
			return true
		}
	}
	return s.bad("wrong escape")
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
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

func (s *scanner) digits() int {
	from := s.i
	for s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i - from
}

func (s *scanner) skipNumber() bool {
	if s.b[s.i] == '-' {
		s.i++
	}
	zero := s.i < len(s.b) && s.b[s.i] == '0'
	if n := s.digits(); n == 0 || zero && n > 1 {
		return s.bad("wrong number")
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if s.digits() == 0 {
			return s.bad("wrong number")
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if s.digits() == 0 {
			return s.bad("wrong number")
		}
	}
	return true
}

func (s *scanner) skipLiteral() bool {
	for _, lit := range [3]string{"null", "true", "false"} {
		if len(s.b)-s.i >= len(lit) && string(s.b[s.i:s.i+len(lit)]) == lit {
			s.i += len(lit)
			return true
		}
	}
	return s.bad("want a value")
}
