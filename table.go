package syncd

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Table names a table: the pair of its schema and name as the catalog holds them, never joined by a dot.
type Table struct {
	Schema, Name string
}

// String gives the name as SQL writes it, `schema.table`, a part quoted where it has to be.
func (t Table) String() string { return quotePart(t.Schema) + "." + quotePart(t.Name) }

// SQL gives the name for use in a statement: both parts always quoted.
func (t Table) SQL() string { return QuoteIdent(t.Schema) + "." + QuoteIdent(t.Name) }

// QuoteIdent quotes an identifier for use in a statement.
func QuoteIdent(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

func quotePart(s string) string {
	if s == "" || '0' <= s[0] && s[0] <= '9' || s[0] == '$' {
		return QuoteIdent(s)
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '$') {
			return QuoteIdent(s)
		}
	}
	return s
}

// ParseTable reads a table's name as SQL writes it: unquoted parts fold to lower case, quoted ones are taken as they are.
func ParseTable(s string) (Table, error) {
	bad := func(why string) (Table, error) {
		return Table{}, fmt.Errorf("table %q: %s; write it as in SQL, schema.table, such as public.users or public.\"Odd Name\"", s, why)
	}
	switch {
	case !utf8.ValidString(s):
		return bad("it is not UTF-8")
	case strings.IndexByte(s, 0) >= 0:
		return bad("no name holds a NUL byte")
	}
	var parts []string
	rest := s
	for {
		var part string
		if strings.HasPrefix(rest, `"`) {
			i := 1
			for {
				j := strings.IndexByte(rest[i:], '"')
				if j < 0 {
					return bad("a quoted part has no end")
				}
				i += j + 1
				if i >= len(rest) || rest[i] != '"' {
					break
				}
				i++
			}
			part, rest = strings.ReplaceAll(rest[1:i-1], `""`, `"`), rest[i:]
		} else {
			i := strings.IndexAny(rest, `."`)
			if i < 0 {
				i = len(rest)
			}
			part, rest = foldASCII(rest[:i]), rest[i:]
			if strings.ContainsAny(part, " \t\r\n,;()'*") {
				return bad("an unquoted part holds a character that SQL wants quoted")
			}
		}
		if part == "" {
			return bad("a part is empty")
		}
		parts = append(parts, part)
		if rest == "" {
			break
		}
		if rest[0] != '.' {
			return bad("a part ends in the middle")
		}
		rest = rest[1:]
	}
	switch len(parts) {
	case 2:
	case 1:
		return bad("the schema is missing")
	default:
		return bad(fmt.Sprintf("it has %d parts", len(parts)))
	}
	return Table{parts[0], parts[1]}, nil
}

func foldASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// TableInfo is what a source tells of a table: its published shape, or why it can't be synced.
type TableInfo struct {
	Table   Table
	Columns []string // the published columns, in the order of the row's JSON
	Types   []string // their types as format_type prints them, same order
	Key     []string // the key columns, in key order
	Schema  uint64   // hash of the shape; another number means another shape. 0 where Error is set
	Error   string   // why the table is refused, with what mends it; empty where it is synced
	// Selector says which rows a consumer keeps, in the form of Filter.String; empty: all. It is the consumer's own: no source
	// tells it.
	Selector string
}
