package source

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/syncd-io/syncd"
)

// Column is one published column of a table.
type Column struct {
	Name string
	Type *Type
	// TypeName is the type with its modifier, as format_type prints it with an empty search_path.
	TypeName string
}

// Columns gives the columns of a Relation, in its order, with their types out of c. It runs one query beside those of
// Catalog.Types; where a type is gone it is a *NoTypeError.
func (c *Catalog) Columns(ctx context.Context, q Querier, rel []RelationColumn) ([]Column, error) {
	oids, typmods := make([]uint32, len(rel)), make([]int32, len(rel))
	for i := range rel {
		oids[i], typmods[i] = rel[i].Type, rel[i].Typmod
	}
	types, err := c.Types(ctx, q, oids)
	if err != nil {
		return nil, err
	}
	rows, err := q.Query(ctx, `SELECT pg_catalog.format_type(oid, typmod)
		FROM unnest($1::oid[], $2::int4[]) WITH ORDINALITY AS u (oid, typmod, i) ORDER BY i`, oids, typmods)
	if err != nil {
		return nil, fmt.Errorf("read the names of types: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read the names of types: %w", err)
	}
	cols := make([]Column, len(rel))
	for i := range rel {
		cols[i] = Column{Name: string(rel[i].Name), Type: types[i], TypeName: names[i]}
	}
	return cols, nil
}

// Shape is what the rows of a table look like: the published columns in the order of the row's JSON, and the key. It turns
// tuples into JSON and keys, those of the stream and those of a list alike. It is never changed, so goroutines may share it.
type Shape struct {
	table   syncd.Table
	columns []Column
	parts   []part
	key     []int // places of the key columns, in key order
	printed []int // places of the columns that the server has to print
	hash    uint64
}

// part is what a column needs for each row.
type part struct {
	prefix []byte // "name":
	typ    *Type  // behind all domains
}

// NewShape makes the shape of a table; key names the key columns in key order. It fails where a key column is not among the
// columns, and with a *ServerOnlyError where only the server could print a column as JSON.
func NewShape(table syncd.Table, columns []Column, key []string) (*Shape, error) {
	s, err := newPrintedShape(table, columns, key)
	if err != nil {
		return nil, err
	}
	for _, i := range s.printed {
		return nil, fmt.Errorf("table %s, column %q: %w", table, columns[i].Name, &ServerOnlyError{columns[i].Type.NeedsServer()})
	}
	return s, nil
}

// newPrintedShape makes a shape whose rows the server helps to print: for each column that only the server can print, in
// order, AppendRow takes a further value behind those of the columns, the JSON that the server prints.
func newPrintedShape(table syncd.Table, columns []Column, key []string) (*Shape, error) {
	s := &Shape{table: table, columns: slices.Clone(columns)}
	for i, c := range columns {
		if c.Type.NeedsServer() != nil {
			s.printed = append(s.printed, i)
		}
		s.parts = append(s.parts, part{appendKeyPrefix(nil, c.Name), c.Type.root()})
	}
	if len(key) == 0 {
		return nil, fmt.Errorf("table %s has no key", table)
	}
	for _, name := range key {
		i := slices.IndexFunc(columns, func(c Column) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("table %s: the key column %q is not among the published ones", table, name)
		}
		s.key = append(s.key, i)
	}
	s.hash = formHash(s.form())
	return s, nil
}

func (s *Shape) form() []byte {
	b := appendPart(nil, "syncd shape 1")
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.columns)))
	for _, c := range s.columns {
		b = appendPart(b, c.Name)
		b = appendPart(b, c.TypeName)
		b = c.Type.appendForm(b)
	}
	for _, i := range s.key {
		b = binary.BigEndian.AppendUint32(b, uint32(i))
	}
	return b
}

// Table is the table that s is of.
func (s *Shape) Table() syncd.Table { return s.table }

// Columns are the published columns. The caller must not change them.
func (s *Shape) Columns() []Column { return s.columns }

// Key gives the places of the key columns among Columns, in key order. The caller must not change it.
func (s *Shape) Key() []int { return s.key }

// Hash is a hash of everything that decides how the rows read: the columns' names, types and modifiers, what the types are
// made of (fields, base types, the labels of enums), and the key. Equal shapes have equal hashes on every server; it is
// never 0. It is TableInfo.Schema, Delta.Schema and Page.Schema.
func (s *Shape) Hash() uint64 { return s.hash }

// Info tells of the shape in the words of the root package.
func (s *Shape) Info() syncd.TableInfo {
	info := syncd.TableInfo{Table: s.table, Schema: s.hash}
	for _, c := range s.columns {
		info.Columns = append(info.Columns, c.Name)
		info.Types = append(info.Types, c.TypeName)
	}
	for _, i := range s.key {
		info.Key = append(info.Key, s.columns[i].Name)
	}
	return info
}

// AppendRow appends the row as row_to_json prints it. values has one value for each column. Unchanged ones are left out;
// plainJSON is the type of what the server has printed.
var plainJSON = &Type{OID: oidJSON, Schema: "pg_catalog", Name: "json", Category: JSON, Typmod: -1}

// Absent names them. A value whose text does not fit its column's type is an error that wraps a *TextError, and then the
// result is meaningless.
func (s *Shape) AppendRow(dst []byte, values []Value) ([]byte, error) {
	if len(values) != len(s.parts)+len(s.printed) {
		return dst, s.countError(values)
	}
	values, printed := values[:len(s.parts)], values[len(s.parts):]
	dst = append(dst, '{')
	first := true
	for i := range values {
		v, p := &values[i], &s.parts[i]
		typ := p.typ
		if len(printed) > 0 && s.printed[len(s.printed)-len(printed)] == i {
			v, typ, printed = &printed[0], plainJSON, printed[1:]
		}
		if v.Kind == Unchanged {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, p.prefix...)
		switch v.Kind {
		case Text:
			var err error
			if dst, err = typ.appendJSON(dst, v.Data, false); err != nil {
				return dst, fmt.Errorf("table %s, column %q: %w", s.table, s.columns[i].Name, err)
			}
		case Null:
			dst = append(dst, "null"...)
		default:
			return dst, s.formatError(i, v.Kind)
		}
	}
	return append(dst, '}'), nil
}

// AppendKey appends the row's key, in the form of syncd.Key: the texts of the key columns, in key order, joined by NUL.
// values has one value for each column; those beside the key don't matter, so that the old tuple of an update or a delete
// will do.
func (s *Shape) AppendKey(dst []byte, values []Value) ([]byte, error) {
	if len(values) != len(s.parts)+len(s.printed) {
		return dst, s.countError(values)
	}
	for n, i := range s.key {
		v := &values[i]
		if v.Kind != Text {
			return dst, s.formatError(i, v.Kind)
		}
		if bytes.IndexByte(v.Data, 0) >= 0 {
			return dst, fmt.Errorf("table %s, column %q: the value holds a zero byte", s.table, s.columns[i].Name)
		}
		if n > 0 {
			dst = append(dst, 0)
		}
		dst = append(dst, v.Data...)
	}
	return dst, nil
}

// Absent names the columns that are Unchanged, in order; nil where none is.
func (s *Shape) Absent(values []Value) []string {
	var names []string
	for i := range min(len(values), len(s.columns)) {
		if values[i].Kind == Unchanged {
			names = append(names, s.columns[i].Name)
		}
	}
	return names
}

func (s *Shape) countError(values []Value) error {
	return fmt.Errorf("table %s: a row of %d columns, the table has %d published", s.table, len(values), len(s.columns))
}

var (
	errBinary    = errors.New("the value is in the binary format: replication was not started with text values")
	errNullKey   = errors.New("the key is NULL")
	errAbsentKey = errors.New("the key is not in the message (unchanged large value)")
	errNoValue   = errors.New("the value is of no known kind")
)

func (s *Shape) formatError(i int, k ValueKind) error {
	err := errNoValue
	switch k {
	case Binary:
		err = errBinary
	case Null:
		err = errNullKey
	case Unchanged:
		err = errAbsentKey
	}
	return fmt.Errorf("table %s, column %q: %w", s.table, s.columns[i].Name, err)
}
