package syncd

import (
	"fmt"
	"slices"
	"strings"
)

// Selection names columns of a table, in the order in which they are wanted. The zero Selection wants all, as they are. It
// is not changed after it was made.
type Selection struct {
	columns []string
	names   [][]byte // as JSON, with the colon behind
}

// ParseSelect reads columns parted by commas, in PostgREST's form without renames, casts and embedded tables: id,name. A
// name that holds a comma or a double quote stands in double quotes, in which a backslash takes the next character as it
// is. "*" is all columns.
func ParseSelect(info TableInfo, text string) (Selection, error) {
	if text == "*" {
		return Selection{}, nil
	}
	names, err := parseList("(" + text + ")")
	if err != nil || len(names) == 0 {
		return Selection{}, fmt.Errorf("%q names no columns: want them parted by commas, such as id,name, in double quotes where a name holds a comma", text)
	}
	var s Selection
	for _, name := range names {
		if !slices.Contains(info.Columns, name) {
			if strings.ContainsAny(name, ":(*") {
				return Selection{}, fmt.Errorf("%q is no column: renames, casts and embedded tables are not known here; want columns' names parted by commas", name)
			}
			return Selection{}, noColumn(info, name)
		}
		if slices.Contains(s.columns, name) {
			return Selection{}, fmt.Errorf("column %q is there twice", name)
		}
		s.columns = append(s.columns, name)
		s.names = append(s.names, append(appendJSONString(nil, name), ':'))
	}
	return s, nil
}

// IsZero says whether all columns are wanted, as they are.
func (s Selection) IsZero() bool { return len(s.columns) == 0 }

// Append appends a row with the wanted columns alone, their values as the row has them. A column that the row lacks is left
// out. row is JSON in the form of row_to_json; of what is none, what could be read is taken.
func (s Selection) Append(dst, row []byte) []byte {
	if s.IsZero() {
		return append(dst, row...)
	}
	var few [16][]byte
	values := few[:min(len(s.columns), len(few))]
	if len(s.columns) > len(few) {
		values = make([][]byte, len(s.columns))
	}
	fields := fieldScanner{row: row}
	for left := len(values); left > 0 && fields.next(); {
		i := slices.IndexFunc(s.columns, func(name string) bool { return isName(fields.name, name) })
		if i >= 0 && values[i] == nil {
			values[i] = fields.value
			left--
		}
	}
	dst = append(dst, '{')
	from := len(dst)
	for i, v := range values {
		if v == nil {
			continue
		}
		if len(dst) > from {
			dst = append(dst, ',')
		}
		dst = append(append(dst, s.names[i]...), v...)
	}
	return append(dst, '}')
}

// appendJSONString writes a text as Postgres's escape_json does.
func appendJSONString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\b':
			dst = append(dst, '\\', 'b')
		case c == '\f':
			dst = append(dst, '\\', 'f')
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
