package bus

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/syncd-io/syncd"
)

// MalformedError says where a message or reply of the bus is not what docs/wire.md describes.
type MalformedError struct {
	Subject string // of the message; for a reply the endpoint
	Seq     uint64 // in the stream; 0 for a reply
	Line    int    // from 1; 0 where it is not about a line of the body
	Offset  int    // in the line, from 0
	Reason  string
}

// Error names the place and what is wrong there.
func (e *MalformedError) Error() string {
	where := "reply of " + e.Subject
	if e.Seq > 0 {
		where = fmt.Sprintf("message %d on %s", e.Seq, e.Subject)
	}
	if e.Line == 0 {
		return where + ": " + e.Reason
	}
	return fmt.Sprintf("%s: line %d, offset %d: %s", where, e.Line, e.Offset, e.Reason)
}

// Is says that it is a syncd.ErrMalformed.
func (e *MalformedError) Is(target error) bool { return target == syncd.ErrMalformed }

// fault is a MalformedError in the making: what is wrong in one line.
type fault struct {
	line, offset int
	reason       string
}

func (f *fault) Error() string {
	return fmt.Sprintf("line %d, offset %d: %s", f.line, f.offset, f.reason)
}

// located gives err with the message it was met in.
func located(err error, subject string, seq uint64) error {
	var f *fault
	if errors.As(err, &f) {
		return &MalformedError{Subject: subject, Seq: seq, Line: f.line, Offset: f.offset, Reason: f.reason}
	}
	if errors.Is(err, syncd.ErrFormat) {
		return fmt.Errorf("message %d on %s: %w", seq, subject, err)
	}
	return &MalformedError{Subject: subject, Seq: seq, Reason: err.Error()}
}

// parser reads lines that are JSON objects. Strings are views of the body wherever they hold no escapes.
type parser struct {
	scanner
	line  int
	seen  uint32 // the fields met in this object, one bit each
	arena []byte // holds what had to be unescaped or joined; never written again once handed out
	ts    []byte // the last time read, since lines that follow each other mostly carry the same
	at    time.Time

	commit   string // the last version read, up to its ordinal
	position syncd.Position
}

func (p *parser) fault() error {
	return &fault{line: p.line, offset: p.i, reason: p.why}
}

// lines calls fn with the parser set to each line of body; the last line may lack its newline.
func (p *parser) lines(body []byte, fn func() bool) error {
	for len(body) > 0 {
		p.line++
		line := body
		if n := bytes.IndexByte(body, '\n'); n >= 0 {
			line, body = body[:n], body[n+1:]
		} else {
			body = nil
		}
		p.b, p.i, p.seen = line, 0, 0
		if !fn() {
			return p.fault()
		}
	}
	return nil
}

// whole calls fn with the parser set to a body that is one object.
func (p *parser) whole(body []byte, fn func() bool) error {
	p.line, p.b, p.i, p.seen = 1, body, 0, 0
	if !fn() {
		return p.fault()
	}
	return nil
}

// object reads the object that is all the rest of the text. field is called with each member's name, the parser before
// its value; it reads the value, or gives false without having set why for a name that it doesn't know.
func (p *parser) object(field func(name string) bool) bool {
	p.space()
	if !p.members(field) {
		return false
	}
	p.space()
	if p.i < len(p.b) {
		return p.bad("text goes on behind the object")
	}
	return true
}

// members reads one object.
func (p *parser) members(field func(name string) bool) bool {
	if p.i >= len(p.b) || p.b[p.i] != '{' {
		return p.bad("want an object")
	}
	p.i++
	p.space()
	if p.i < len(p.b) && p.b[p.i] == '}' {
		p.i++
		return true
	}
	for {
		p.space()
		name, ok := p.name()
		if !ok {
			return false
		}
		from := p.i
		if !field(name) {
			if p.why != "" || p.i != from || !p.skipValue() {
				return false
			}
		}
		p.space()
		if p.i >= len(p.b) {
			return p.bad("text ends inside an object")
		}
		c := p.b[p.i]
		if c != ',' && c != '}' {
			return p.bad("want a comma or the end of the object")
		}
		p.i++
		if c == '}' {
			return true
		}
	}
}

// name reads a member's name and its colon, and moves to its value. Names are written without escapes.
func (p *parser) name() (string, bool) {
	if p.i >= len(p.b) || p.b[p.i] != '"' {
		return "", p.bad("want the name of a field")
	}
	n := plainRun(p.b[p.i+1:])
	end := p.i + 1 + n
	if end >= len(p.b) || p.b[end] != '"' {
		p.i = min(end, len(p.b))
		return "", p.bad("the name of a field has no end, or an escape")
	}
	name := view(p.b[p.i+1 : end])
	p.i = end + 1
	if !p.expect(':', "want a colon after the name") {
		return "", false
	}
	p.space()
	return name, true
}

// once notes a field as met; a second time is an error.
func (p *parser) once(bit int) bool {
	if p.seen&(1<<bit) != 0 {
		return p.bad("a field stands there twice")
	}
	p.seen |= 1 << bit
	return true
}

// view gives a string over b, which must never change again; asBytes the bytes of s, which must not be written.
func view(b []byte) string    { return unsafe.String(unsafe.SliceData(b), len(b)) }
func asBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// str reads a string. It is a view of the body, or of the arena.
func (p *parser) str() (string, bool) {
	raw, escaped, ok := p.rawString()
	if !ok || !escaped {
		return view(raw), ok
	}
	p.reserve(len(raw))
	from := len(p.arena)
	if !p.unescape(raw) {
		return "", false
	}
	return view(p.arena[from:]), true
}

// rawString moves behind a string and gives what stands between its quotes.
func (p *parser) rawString() (raw []byte, escaped, ok bool) {
	if p.i >= len(p.b) || p.b[p.i] != '"' {
		return nil, false, p.bad("want a string")
	}
	from := p.i + 1
	if n := from + plainRun(p.b[from:]); n < len(p.b) && p.b[n] == '"' {
		p.i = n + 1
		return p.b[from:n], false, true
	}
	if !p.skipString() {
		return nil, false, false
	}
	return p.b[from : p.i-1], true, true
}

// unescape appends the text of a string that skipString found well-formed to the arena, where the caller has reserved
// len(raw) bytes.
func (p *parser) unescape(raw []byte) bool {
	for i := 0; i < len(raw); {
		c := raw[i]
		if c != '\\' {
			n := plainRun(raw[i:])
			p.arena = append(p.arena, raw[i:i+n]...)
			i += n
			continue
		}
		if raw[i+1] != 'u' {
			p.arena = append(p.arena, unescaped(raw[i+1]))
			i += 2
			continue
		}
		r, _ := hex4(raw[i+2:])
		i += 6
		if 0xD800 <= r && r < 0xE000 {
			low := rune(0)
			if r < 0xDC00 && i+1 < len(raw) && raw[i] == '\\' && raw[i+1] == 'u' {
				low, _ = hex4(raw[i+2:])
			}
			if low < 0xDC00 || low >= 0xE000 {
				return p.bad("a string holds half a surrogate pair")
			}
			r = (r-0xD800)<<10 + (low - 0xDC00) + 0x10000
			i += 6
		}
		p.arena = utf8.AppendRune(p.arena, r)
	}
	return true
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// reserve makes room for n bytes in the arena without moving what was handed out.
func (p *parser) reserve(n int) {
	if cap(p.arena)-len(p.arena) < n {
		p.arena = make([]byte, 0, max(n, 4096))
	}
}

// key reads an array of strings as a key: a view of the body where it is one plain string. n is how many there were.
func (p *parser) key() (k syncd.Key, n int, ok bool) {
	if !p.arrayStart() {
		return "", 0, false
	}
	if p.arrayEnd() {
		return "", 0, true
	}
	first, ok := p.keyPart()
	if !ok {
		return "", 0, false
	}
	n = 1
	joined := false
	var from int
	for !p.arrayEnd() {
		if !p.expect(',', "want a comma or the end of the array") {
			return "", 0, false
		}
		p.space()
		if !joined {
			p.reserve(len(first) + len(p.b) - p.i + 64)
			from = len(p.arena)
			p.arena = append(p.arena, first...)
			joined = true
		}
		if !p.joinKeyPart() {
			return "", 0, false
		}
		n++
	}
	if joined {
		first = view(p.arena[from:])
	}
	return syncd.Key(first), n, true
}

func (p *parser) keyPart() (string, bool) {
	s, ok := p.str()
	if ok && strings.IndexByte(s, 0) >= 0 {
		return "", p.bad("a key holds a NUL byte")
	}
	return s, ok
}

// joinKeyPart appends the separator and one more value of a key to the arena. The caller has reserved the room.
func (p *parser) joinKeyPart() bool {
	raw, escaped, ok := p.rawString()
	if !ok {
		return false
	}
	p.arena = append(p.arena, 0)
	from := len(p.arena)
	if !escaped {
		p.arena = append(p.arena, raw...)
	} else if !p.unescape(raw) {
		return false
	}
	if bytes.IndexByte(p.arena[from:], 0) >= 0 {
		return p.bad("a key holds a NUL byte")
	}
	return true
}

func (p *parser) arrayStart() bool {
	if !p.expect('[', "want an array") {
		return false
	}
	p.space()
	return true
}

// arrayEnd says whether the array ends here, and if so moves behind it.
func (p *parser) arrayEnd() bool {
	p.space()
	if p.i < len(p.b) && p.b[p.i] == ']' {
		p.i++
		return true
	}
	return false
}

// array calls item at each element of an array.
func (p *parser) array(item func() bool) bool {
	if !p.arrayStart() {
		return false
	}
	for first := true; !p.arrayEnd(); first = false {
		if !first {
			if !p.expect(',', "want a comma or the end of the array") {
				return false
			}
			p.space()
		}
		if !item() {
			return false
		}
	}
	return true
}

func (p *parser) strings() (list []string, ok bool) {
	ok = p.array(func() bool {
		s, ok := p.str()
		list = append(list, s)
		return ok
	})
	return list, ok
}

// uint reads a whole number without sign, fraction and leading zero.
func (p *parser) uint(highest uint64) (uint64, bool) {
	from := p.i
	n := p.digits()
	if n == 0 || n > 1 && p.b[from] == '0' {
		return 0, p.bad("want a whole number")
	}
	v, err := strconv.ParseUint(view(p.b[from:p.i]), 10, 64)
	if err != nil || v > highest {
		return 0, p.bad("the number is too large")
	}
	return v, true
}

func (p *parser) xid() (syncd.XID, bool) {
	v, ok := p.uint(math.MaxUint64)
	return syncd.XID(v), ok
}

func (p *parser) bool() (v, ok bool) {
	rest := p.b[p.i:]
	switch {
	case bytes.HasPrefix(rest, []byte("true")):
		p.i += 4
		return true, true
	case bytes.HasPrefix(rest, []byte("false")):
		p.i += 5
		return false, true
	}
	return false, p.bad("want true or false")
}

// text reads a string and has it read by parse, whose error it keeps at the string's place.
func text[T any](p *parser, parse func(string) (T, error)) (v T, ok bool) {
	from := p.i
	s, ok := p.str()
	if !ok {
		return v, false
	}
	v, err := parse(s)
	if err != nil {
		p.i = from
		return v, p.bad(err.Error())
	}
	return v, true
}

func (p *parser) lsn() (syncd.LSN, bool) { return text(p, syncd.ParseLSN) }

// decimal reads a 64-bit number that is written as a string, since JavaScript keeps only 53 bits of a number.
func (p *parser) decimal() (uint64, bool) {
	return text(p, func(s string) (uint64, error) {
		v, err := strconv.ParseUint(s, 10, 64)
		if err != nil || s[0] == '+' || len(s) > 1 && s[0] == '0' {
			return 0, fmt.Errorf("%q is not a whole number", s)
		}
		return v, nil
	})
}

// time reads a time as RFC 3339 writes it.
func (p *parser) time() (time.Time, bool) {
	from := p.i
	raw, escaped, ok := p.rawString()
	if !ok {
		return time.Time{}, false
	}
	if len(p.ts) > 0 && bytes.Equal(raw, p.ts) {
		return p.at, true
	}
	t, err := time.Parse(time.RFC3339Nano, view(raw))
	if err != nil || escaped {
		p.i = from
		return time.Time{}, p.bad("want a time such as 2025-11-30T20:00:00.123456Z")
	}
	p.ts, p.at = raw, t.UTC()
	return p.at, true
}

// row reads a JSON object in place and gives its bytes.
func (p *parser) row() ([]byte, bool) {
	if p.i >= len(p.b) || p.b[p.i] != '{' {
		return nil, p.bad("want an object")
	}
	from := p.i
	if !p.skipValue() {
		return nil, false
	}
	return p.b[from:p.i:p.i], true
}

// rowText reads a JSON object that is written as a string.
func (p *parser) rowText() ([]byte, bool) {
	from := p.i
	s, ok := p.str()
	if !ok {
		return nil, false
	}
	row := asBytes(s)
	inner := scanner{b: row}
	if len(row) == 0 || row[0] != '{' || !inner.skipValue() || inner.i != len(row) {
		p.i = from
		return nil, p.bad("the text of the row is not an object")
	}
	return row[:len(row):len(row)], true
}
