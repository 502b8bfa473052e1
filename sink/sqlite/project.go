package sqlite

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/syncd-io/syncd"
)

// kind is how a column's values are stored.
type kind uint8

const (
	anything kind = iota // as they come: text, a number, or JSON
	integer
	real
	exact // a number that is stored as one where that loses nothing, else its text
	boolean
	blob
	text
	document // JSON text, whatever it is
)

// typeOf says how the values of a Postgres type, as format_type prints it, are stored:
//
//	smallint, integer, bigint, oid      INTEGER
//	real, double precision              REAL; NaN is the text NaN, which SQLite has no number for
//	numeric                             no declared type: INTEGER or REAL where that is exactly the value (up to 15 digits), else TEXT
//	boolean                             INTEGER, 0 or 1
//	bytea                               BLOB
//	json, jsonb, arrays                 TEXT, the JSON
//	text, varchar, char, name, uuid, dates, times, intervals, network addresses, bit strings   TEXT
//	everything else (enums, domains, composites, ranges)    no declared type: what its JSON is, objects and arrays as JSON text
func typeOf(pgType string) (declared string, k kind) {
	t, _, _ := strings.Cut(pgType, "(")
	switch t = strings.TrimSpace(t); {
	case strings.HasSuffix(pgType, "]"), t == "json", t == "jsonb":
		return "TEXT", document
	case t == "smallint", t == "integer", t == "bigint", t == "oid":
		return "INTEGER", integer
	case t == "real", t == "double precision":
		return "REAL", real
	case t == "numeric":
		return "", exact
	case t == "boolean":
		return "INTEGER", boolean
	case t == "bytea":
		return "BLOB", blob
	}
	for _, p := range [...]string{"text", "character", "name", "uuid", "date", "time", "interval", "inet", "cidr", "macaddr", "bit", "xml"} {
		if t == p || strings.HasPrefix(t, p+" ") || p == "macaddr" && t == "macaddr8" {
			return "TEXT", text
		}
	}
	return "", anything
}

// shape is how rows of a table become rows of SQLite.
type shape struct {
	columns []column
	key     []int // indexes of the key's columns
	byName  map[string]int
	extra   map[string]bool // names that rows have had beside the columns
}

// maxExtra is how many names beside the columns are remembered: more than Postgres has columns.
const maxExtra = 2000

// column is one column: its name in the row's JSON, its name in SQLite, and how its values are stored.
type column struct {
	name, sqlite string
	declared     string
	kind         kind
	quoted       []byte // name as JSON has it, for a quick comparison
}

// newShape gives nil where the table's columns or key are not known: it has no table of its own then.
func newShape(info *syncd.TableInfo) *shape {
	if len(info.Columns) == 0 || len(info.Columns) != len(info.Types) || len(info.Key) == 0 || info.Error != "" {
		return nil
	}
	s := &shape{byName: map[string]int{}, extra: map[string]bool{}}
	for i, name := range columnNames(info.Columns) {
		declared, k := typeOf(info.Types[i])
		quoted, _ := json.Marshal(info.Columns[i])
		s.columns = append(s.columns, column{name: info.Columns[i], sqlite: name, declared: declared, kind: k, quoted: quoted})
		s.byName[info.Columns[i]] = i
	}
	for _, name := range info.Key {
		i, ok := s.byName[name]
		if !ok {
			return nil
		}
		s.key = append(s.key, i)
	}
	return s
}

// columnNames gives the columns' names in SQLite, where names that differ only in case are one: of such, in the order of the
// columns, the first keeps its name and the others get _2, _3 and so on behind it.
func columnNames(names []string) []string { return distinct(names, nil) }

// distinct makes names differ from each other and from those taken (in lower case) also without regard to case.
func distinct(names []string, taken map[string]bool) []string {
	used := map[string]bool{}
	for n := range taken {
		used[n] = true
	}
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = name
		for n := 2; used[fold(all[i])]; n++ {
			all[i] = name + "_" + strconv.Itoa(n)
		}
		used[fold(all[i])] = true
	}
	return all
}

// fold gives a name as SQLite compares it: it knows the case of ASCII letters only.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, name)
}

// values gives the values of a row's columns, in their order, in buf. It gives nil for a row that has no place in the table:
// one that is no JSON object, or lacks a value of the key. Columns that the table does not have are left out, and those that
// the row does not have are null; the table is listed again then.
func (s *shape) values(row []byte, buf []any) []any {
	var raw [32][]byte
	all := s.raw(row, raw[:0])
	if all == nil {
		return nil
	}
	return s.ofRaw(all, buf)
}

// raw gives the values of a row's columns as JSON, in buf: nil where the row has none. It gives nil for a row that is no JSON object.
func (s *shape) raw(row []byte, buf [][]byte) [][]byte {
	buf = slices.Grow(buf[:0], len(s.columns))[:len(s.columns)]
	clear(buf)
	p := parser(row)
	if !p.skip('{') {
		return nil
	}
	for i := 0; !p.skip('}'); i++ {
		if i > 0 && !p.skip(',') {
			return nil
		}
		name, ok := p.value()
		if !ok || name[0] != '"' || !p.skip(':') {
			return nil
		}
		v, ok := p.value()
		if !ok {
			return nil
		}
		if at := s.find(name, i); at >= 0 {
			buf[at] = v
		}
	}
	return buf
}

// ofRaw gives the values of what raw gave, in buf, or nil where one of the key is missing.
func (s *shape) ofRaw(raw [][]byte, buf []any) []any {
	buf = buf[:0]
	for i, v := range raw {
		if v == nil {
			buf = append(buf, nil)
		} else {
			buf = append(buf, s.columns[i].kind.value(v))
		}
	}
	for _, i := range s.key {
		if buf[i] == nil {
			return nil
		}
	}
	return buf
}

// sameRaw says whether two rows have the same in some columns.
func sameRaw(a, b [][]byte, columns []int) bool {
	for _, i := range columns {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// find gives the column of a name, as JSON has it; most often it is the next one.
func (s *shape) find(name []byte, next int) int {
	if next < len(s.columns) && bytes.Equal(s.columns[next].quoted, name) {
		return next
	}
	plain := unquote(name)
	if i, ok := s.byName[plain]; ok {
		return i
	}
	if !s.extra[plain] && len(s.extra) < maxExtra {
		s.extra[plain] = true
	}
	return -1
}

// keyOf gives the values of the key's columns.
func (s *shape) keyOf(values []any, buf []any) []any {
	for _, i := range s.key {
		buf = append(buf, values[i])
	}
	return buf
}

// value gives a JSON value as it is stored: nil, int64, float64, string or []byte. What SQLite would change on its way in,
// because it is not of the column's type, is null: the type was changed, and the table will be listed again.
func (k kind) value(v []byte) any {
	switch {
	case string(v) == "null":
		return nil
	case k == document:
		return string(v)
	case v[0] == '"':
		return k.text(unquote(v))
	case k == text || k == blob:
		return string(v)
	case string(v) == "true" && k != real:
		return int64(1)
	case string(v) == "false" && k != real:
		return int64(0)
	case k == anything && (v[0] == '{' || v[0] == '['):
		return string(v)
	}
	return k.number(string(v))
}

func (k kind) text(s string) any {
	switch k {
	case integer, boolean:
		return nil
	case real:
		switch s {
		case "NaN":
			return s
		case "Infinity":
			return math.Inf(1)
		case "-Infinity":
			return math.Inf(-1)
		}
		return nil
	case blob:
		if b, err := hex.DecodeString(strings.TrimPrefix(s, `\x`)); err == nil && strings.HasPrefix(s, `\x`) {
			return b
		}
	}
	return s
}

// number gives a number as a number where that loses nothing, else as text.
func (k kind) number(s string) any {
	n, err := strconv.ParseInt(s, 10, 64)
	whole := err == nil && s != "-0"
	switch {
	case k == real:
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return f
		}
		return nil
	case whole:
		return n
	case k == integer || k == boolean:
		return nil
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && significant(s) <= 15 {
		return f
	}
	return s
}

// significant counts a decimal's digits, less zeros before and behind them: up to 15 a float64 keeps.
func significant(s string) int {
	mantissa, _, _ := strings.Cut(strings.TrimLeft(s, "-+"), "e")
	digits := strings.TrimLeft(strings.Replace(mantissa, ".", "", 1), "0")
	if strings.Contains(mantissa, ".") {
		digits = strings.TrimRight(digits, "0")
	}
	return len(digits)
}

// unquote gives the text of a JSON string. Bytes that are no UTF-8 stay as they are.
func unquote(v []byte) string {
	inner := v[1 : len(v)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return string(inner)
	}
	return s
}

// parser reads JSON as Postgres prints it. It looks no deeper than it must to find where a value ends.
type parser []byte

func (p *parser) space() {
	for len(*p) > 0 && ((*p)[0] == ' ' || (*p)[0] == '\n' || (*p)[0] == '\t' || (*p)[0] == '\r') {
		*p = (*p)[1:]
	}
}

func (p *parser) skip(c byte) bool {
	p.space()
	if len(*p) == 0 || (*p)[0] != c {
		return false
	}
	*p = (*p)[1:]
	return true
}

// value takes the next value, up to the comma, colon or brace behind it.
func (p *parser) value() ([]byte, bool) {
	p.space()
	b := *p
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if i >= len(b) {
				return nil, false
			}
			if depth == 0 {
				*p = b[i+1:]
				return b[:i+1], b[0] == '"'
			}
		case '{', '[':
			depth++
		case '}', ']', ',', ':':
			if depth == 0 {
				*p = b[i:]
				return bytes.TrimRight(b[:i], " \n\t\r"), i > 0
			}
			if b[i] == '}' || b[i] == ']' {
				if depth--; depth == 0 {
					*p = b[i+1:]
					return b[:i+1], true
				}
			}
		}
	}
	return nil, false
}
