package source

import (
	"slices"

	"github.com/syncd-io/syncd"
)

// fillRow appends d's row with its absent values taken from q, the change of the same transaction and the same shape before
// it, and says which are absent still.
func fillRow(dst []byte, s *Shape, d, q *syncd.Delta) ([]byte, []string) {
	var absent []string
	mine, theirs := d.Row, q.Row
	dst = append(dst, '{')
	first := true
	for _, c := range s.Columns() {
		var m, old []byte
		inMine, inTheirs := !slices.Contains(d.Absent, c.Name), !slices.Contains(q.Absent, c.Name)
		if inTheirs {
			old, theirs = nextMember(theirs)
		}
		switch {
		case inMine:
			m, mine = nextMember(mine)
		case inTheirs:
			m = old
		default:
			absent = append(absent, c.Name)
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, m...)
	}
	return append(dst, '}'), absent
}

// nextMember gives the first member of an object, `"name":value`, and the rest of the object behind it. The row begins with
// the brace or comma before the member, as Shape.AppendRow prints it, with nothing between the members; a value may hold any
// JSON.
func nextMember(row []byte) (member, rest []byte) {
	depth, quoted := 0, false
	for i := 1; i < len(row); i++ {
		c := row[i]
		switch {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case depth > 0 && (c == '}' || c == ']'):
			depth--
		case depth == 0 && (c == ',' || c == '}'):
			return row[1:i], row[i:]
		}
	}
	return nil, nil
}
