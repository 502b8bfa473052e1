package redis

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// A row that is kept as a hash has a field for each column that is not null: texts as they are, everything else as JSON
// prints it. Its form, which is kept with the entry, says what it takes to print the row again, byte by byte: for each column
// its kind and name, or, where that would not give the same bytes, the row itself.
const (
	nullKind = 'n' // no field
	textKind = 's' // the field is the text
	jsonKind = 'j' // the field is the JSON
	rowForm  = 'r' // begins the form that is the row itself
)

// column is a member of a row.
type column struct {
	kind        byte
	name, value string
}

// split gives the fields of a row, name and value by turns, and its form.
func split(row []byte) (fields []string, form string) {
	columns, ok := members(row)
	f := []byte{}
	for _, c := range columns {
		f = append(f, c.kind)
		f = binary.AppendUvarint(f, uint64(len(c.name)))
		f = append(f, c.name...)
		if c.kind != nullKind {
			fields = append(fields, c.name, c.value)
		}
	}
	if form = string(f); ok && len(fields) > 0 {
		held := make(map[string]string, len(columns))
		for i := 0; i < len(fields); i += 2 {
			held[fields[i]] = fields[i+1]
		}
		if bytes.Equal(join(form, held), row) {
			return fields, form
		}
	}
	if len(fields) == 0 {
		fields = []string{"", ""} // a hash without fields is none
	}
	return fields, string(rowForm) + string(row)
}

// members reads a row's columns.
func members(row []byte) ([]column, bool) {
	d := json.NewDecoder(bytes.NewReader(row))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	var all []column
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, false
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, false
		}
		c := column{jsonKind, name, string(raw)}
		switch {
		case c.value == "null":
			c.kind = nullKind
		case raw[0] == '"':
			var text string
			if json.Unmarshal(raw, &text) == nil && utf8.ValidString(text) && quote(text) == c.value {
				c.kind, c.value = textKind, text
			}
		}
		all = append(all, c)
	}
	return all, true
}

// join prints a row of its fields; nil where they are not those of its form.
func join(form string, fields map[string]string) []byte {
	if row, ok := strings.CutPrefix(form, string(rowForm)); ok {
		if len(fields) == 0 {
			return nil
		}
		return []byte(row)
	}
	b := []byte{'{'}
	used := 0
	for rest := form; rest != ""; {
		kind := rest[0]
		n, size := binary.Uvarint([]byte(rest[1:min(len(rest), 1+binary.MaxVarintLen64)]))
		if size <= 0 || n > uint64(len(rest)-1-size) {
			return nil
		}
		name := rest[1+size : 1+size+int(n)]
		rest = rest[1+size+int(n):]
		value, ok := fields[name]
		if ok == (kind == nullKind) {
			return nil
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(b, quote(name)...), ':')
		switch kind {
		case nullKind:
			b = append(b, "null"...)
		case textKind:
			b, used = append(b, quote(value)...), used+1
		default:
			b, used = append(b, value...), used+1
		}
	}
	if used != len(fields) {
		return nil
	}
	return append(b, '}')
}

// quote prints a text as Postgres prints it in JSON.
func quote(s string) string {
	const hex = "0123456789abcdef"
	b := make([]byte, 0, len(s)+2)
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			if c < ' ' {
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
				continue
			}
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}
