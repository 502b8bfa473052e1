package sink

import (
	"bytes"
	"encoding/json"
	"slices"
)

// fill gives the row of a delta with its absent columns taken from base, the row as it was just before; nil where the two
// don't fit together: base's columns less the absent ones must be the delta's, in the same order. Both are JSON objects as
// row_to_json prints them.
func fill(base, row []byte, absent []string) []byte {
	names := make([][]byte, len(absent))
	for i, name := range absent {
		names[i] = []byte(name)
	}
	old, rest := scanner(base), scanner(row)
	out := make([]byte, 0, len(base)+len(row))
	out = append(out, '{')
	filled := 0
	if !old.begin() || !rest.begin() {
		return nil
	}
	for !old.end() {
		m, ok := old.member()
		if !ok {
			return nil
		}
		if isAbsent := slices.ContainsFunc(names, func(n []byte) bool { return bytes.Equal(n, m.column()) }); isAbsent {
			filled++
		} else if n, ok := rest.member(); !ok || !bytes.Equal(n.name, m.name) {
			return nil
		} else {
			m = n
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, m.name...), ':'), m.value...)
	}
	if filled != len(absent) || !rest.end() || len(old) > 0 || len(rest) > 0 {
		return nil
	}
	return append(out, '}')
}

// member is one column of a row: its name with the quotes around it, and its value, both as they stand.
type member struct{ name, value []byte }

// column gives the column's name.
func (m member) column() []byte {
	if inner := m.name[1 : len(m.name)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var name string
	if json.Unmarshal(m.name, &name) != nil {
		return nil
	}
	return []byte(name)
}

// scanner reads the members of one JSON object. It looks no deeper than it must to find where a value ends: the values are
// what Postgres printed.
type scanner []byte

// begin reads the opening brace.
func (s *scanner) begin() bool { return s.skip('{') }

// end reads the closing brace, if it comes next.
func (s *scanner) end() bool { return s.skip('}') }

func (s *scanner) skip(c byte) bool {
	if len(*s) == 0 || (*s)[0] != c {
		return false
	}
	*s = (*s)[1:]
	return true
}

// member reads the next member and the comma behind it, if there is one. A comma before the closing brace is an error.
func (s *scanner) member() (member, bool) {
	n := stringEnd(*s)
	if n == 0 {
		return member{}, false
	}
	m := member{name: (*s)[:n]}
	*s = (*s)[n:]
	if !s.skip(':') {
		return member{}, false
	}
	n = valueEnd(*s)
	if n == 0 {
		return member{}, false
	}
	m.value = (*s)[:n]
	*s = (*s)[n:]
	if s.skip(',') {
		return m, len(*s) > 0 && (*s)[0] == '"'
	}
	return m, len(*s) > 0 && (*s)[0] == '}'
}

// stringEnd gives the length of the string that b begins with; 0 where it begins with none, or with one that does not end.
func stringEnd(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return 0
	}
	quote := 0 // the next one from i on, where it is beyond i
	for i := 1; i < len(b); {
		if quote < i {
			q := bytes.IndexByte(b[i:], '"')
			if q < 0 {
				return 0
			}
			quote = i + q
		}
		escape := bytes.IndexByte(b[i:quote], '\\')
		if escape < 0 {
			return quote + 1
		}
		i += escape + 2
	}
	return 0
}

// valueEnd gives the length of the value that b begins with, up to the comma or brace behind it; 0 where there is none.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			n := stringEnd(b[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		case '{', '[':
			depth++
		case ']':
			depth--
		case '}':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
		if depth < 0 {
			return 0
		}
	}
	return 0
}
