package source

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// Category says how row_to_json prints a type's values. It is what json_categorize_type of Postgres's json.c decides, a
// little finer.
type Category uint8

// The categories. A domain has that of its base type.
const (
	// Quoted is everything that the others leave: the type's text as a JSON string.
	Quoted Category = iota
	// Boolean is bool.
	Boolean
	// Integer is int2, int4 and int8: the bare text.
	Integer
	// Number is float4, float8 and numeric: the bare text, unless that is NaN or an infinity.
	Number
	// Date is date.
	Date
	// Timestamp is timestamp, and TimestampTZ timestamptz: ISO 8601 with a T.
	Timestamp
	TimestampTZ
	// JSON is json and jsonb: as written.
	JSON
	// Array is every true array.
	Array
	// Vector is int2vector and oidvector, arrays with a text of their own.
	Vector
	// Composite is every row type.
	Composite
	// Hstore is the extension's type, whose cast to json is known here.
	Hstore
	// Server is a type whose JSON can't be made from its text: one with a cast to json by a function that only the server
	// can run (PostGIS's geometry), or with an output function that this package does not know.
	Server
)

// Type is a type of Postgres with all that it is made of. A Catalog makes it; it is never changed, so goroutines may share
// it.
type Type struct {
	OID      uint32
	Schema   string
	Name     string
	Category Category
	Base     *Type    // of a domain: the type it narrows, perhaps a domain too
	Typmod   int32    // of a domain: the type modifier it gives to Base; else -1
	Elem     *Type    // of an Array or Vector
	Fields   []Field  // of a Composite, in order
	Labels   []string // of an enum, in order
	Of       *Type    // of a range: the subtype; of a multirange: the range
	Delim    byte     // between elements where the type is an array's element; a comma for all but box
	Cast     string   // of Hstore and Server: the function that casts to json; "" where the output function is the trouble
	age      string   // where the catalog has the labels and fields: elsewhere after each change
}

// Field is an attribute of a composite type.
type Field struct {
	Name   string
	Type   *Type
	Typmod int32
	prefix []byte // "name": as JSON
}

// String gives the qualified name, for messages.
func (t *Type) String() string { return t.Schema + "." + t.Name }

// root is the type behind all domains.
func (t *Type) root() *Type {
	for t.Base != nil {
		t = t.Base
	}
	return t
}

// ServerOnlyError says that only the server can print a type's values as JSON.
type ServerOnlyError struct{ Type *Type }

// Error says why.
func (e *ServerOnlyError) Error() string {
	if e.Type.Cast != "" {
		return fmt.Sprintf("type %s is printed by its cast to json, %s, which only the server can run", e.Type, e.Type.Cast)
	}
	return fmt.Sprintf("type %s has a text form that is not known here", e.Type)
}

// NeedsServer finds the part of t, perhaps t itself, for which only the server can print the JSON that row_to_json prints.
// It is nil where AppendJSON does for every value.
func (t *Type) NeedsServer() *Type {
	t = t.root()
	switch t.Category {
	case Server:
		return t
	case Array, Vector:
		return t.Elem.NeedsServer()
	case Composite:
		for i := range t.Fields {
			if s := t.Fields[i].Type.NeedsServer(); s != nil {
				return s
			}
		}
	}
	return nil
}

// appendForm appends everything that decides how the type's values read, to be hashed: names, modifiers, fields, labels,
// casts; not OIDs, which differ after dump and restore.
func (t *Type) appendForm(b []byte) []byte {
	b = appendPart(b, t.Schema)
	b = appendPart(b, t.Name)
	b = append(b, t.Delim)
	b = binary.BigEndian.AppendUint32(b, uint32(t.Typmod))
	b = appendPart(b, t.Cast)
	for _, u := range [...]*Type{t.Base, t.Elem, t.Of} {
		if u == nil {
			b = append(b, 0)
			continue
		}
		b = append(b, 1)
		b = u.appendForm(b)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(t.Fields)))
	for _, f := range t.Fields {
		b = appendPart(b, f.Name)
		b = binary.BigEndian.AppendUint32(b, uint32(f.Typmod))
		b = f.Type.appendForm(b)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(t.Labels)))
	for _, l := range t.Labels {
		b = appendPart(b, l)
	}
	return b
}

// appendAge appends what changes where a label or a field had another name for a while, in which rows were written.
func (t *Type) appendAge(b []byte) []byte {
	if t == nil {
		return b
	}
	b = append(append(b, t.age...), ' ')
	for _, u := range [...]*Type{t.Base, t.Elem, t.Of} {
		b = u.appendAge(b)
	}
	for i := range t.Fields {
		b = t.Fields[i].Type.appendAge(b)
	}
	return b
}

// ages stands for the names of everything that the columns' types are made of, and for when they were given.
func (s *Shape) ages() string {
	var b []byte
	for i := range s.columns {
		b = s.columns[i].Type.appendAge(b)
	}
	return string(b)
}

func appendPart(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
	return append(b, s...)
}

// formHash is the first half of a SHA-256, but never 0, which stands for "no shape".
func formHash(form []byte) uint64 {
	sum := sha256.Sum256(form)
	return max(1, binary.BigEndian.Uint64(sum[:]))
}

// OIDs of built-in types, from Postgres's pg_type.dat. They never change.
const (
	oidBool        = 16
	oidInt8        = 20
	oidInt2        = 21
	oidInt2vector  = 22
	oidInt4        = 23
	oidOidvector   = 30
	oidJSON        = 114
	oidFloat4      = 700
	oidFloat8      = 701
	oidDate        = 1082
	oidTimestamp   = 1114
	oidTimestamptz = 1184
	oidNumeric     = 1700
	oidJSONB       = 3802
)

// typeRow is what the catalog says of one type.
type typeRow struct {
	oid          uint32
	schema, name string
	typtype      string // pg_type.typtype
	elem         uint32 // of a true array
	arrayOut     bool   // its output function is array_out
	delim        string
	base         uint32
	typmod       int32
	of           uint32
	cast         string // the function that casts to json, as regprocedure
	hstoreCast   bool   // that function is hstore's own
	labels       []string
	fields       []string
	fieldTypes   []uint32
	fieldTypmods []int32
	age          string // where the catalog has the labels and fields: elsewhere after each change
}

// children are the types that the type is made of.
func (r *typeRow) children() []uint32 {
	c := make([]uint32, 0, 3+len(r.fieldTypes))
	for _, oid := range [...]uint32{r.elem, r.base, r.of} {
		if oid != 0 {
			c = append(c, oid)
		}
	}
	return append(c, r.fieldTypes...)
}

// category repeats json_categorize_type for what is not a domain.
func (r *typeRow) category() Category {
	switch r.oid {
	case oidBool:
		return Boolean
	case oidInt2, oidInt4, oidInt8:
		return Integer
	case oidFloat4, oidFloat8, oidNumeric:
		return Number
	case oidDate:
		return Date
	case oidTimestamp:
		return Timestamp
	case oidTimestamptz:
		return TimestampTZ
	case oidJSON, oidJSONB:
		return JSON
	case oidInt2vector, oidOidvector:
		return Vector
	}
	switch {
	case r.elem != 0 && r.arrayOut:
		return Array
	case r.elem != 0:
		return Server
	case r.typtype == "c":
		return Composite
	case r.hstoreCast:
		return Hstore
	case r.cast != "" || r.typtype == "p":
		return Server
	}
	return Quoted
}

// maxTypeDepth bounds how deep types are made of types. Postgres forbids a type within itself, so more is a fault.
const maxTypeDepth = 100

// link makes the Type of oid out of rows, with everything below it; made holds what is done.
func link(oid uint32, rows map[uint32]*typeRow, made map[uint32]*Type, depth int) (*Type, error) {
	if t := made[oid]; t != nil {
		return t, nil
	}
	r := rows[oid]
	if r == nil {
		return nil, &NoTypeError{OID: oid}
	}
	if depth == maxTypeDepth {
		return nil, fmt.Errorf("type %s.%s is made of more than %d levels of types", r.schema, r.name, maxTypeDepth)
	}
	t := &Type{OID: oid, Schema: r.schema, Name: r.name, Typmod: -1, Labels: r.labels, Delim: ',', Cast: r.cast, age: r.age}
	if r.delim != "" {
		t.Delim = r.delim[0]
	}
	var err error
	sub := func(oid uint32) *Type {
		if oid == 0 || err != nil {
			return nil
		}
		var u *Type
		u, err = link(oid, rows, made, depth+1)
		return u
	}
	t.Elem, t.Base, t.Of = sub(r.elem), sub(r.base), sub(r.of)
	for i, name := range r.fields {
		t.Fields = append(t.Fields, Field{
			Name: name, Type: sub(r.fieldTypes[i]), Typmod: r.fieldTypmods[i], prefix: appendKeyPrefix(nil, name),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("type %s: %w", t, err)
	}
	if t.Category = r.category(); t.Base != nil {
		t.Category, t.Typmod = t.root().Category, r.typmod
	}
	made[oid] = t
	return t, nil
}

// NoTypeError says that the catalog has no type of an OID: it was dropped after the log was written that names it.
type NoTypeError struct{ OID uint32 }

// Error names the OID.
func (e *NoTypeError) Error() string { return fmt.Sprintf("no type has OID %d any more", e.OID) }
