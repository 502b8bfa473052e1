package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
)

var oddTable = syncd.Table{Schema: "public", Name: "Odd \"table\""}

// oddShape has a key of two columns that stand in another order than the key's, and a name that JSON escapes.
func oddShape(t testing.TB) *Shape {
	t.Helper()
	types := testTypes(t)
	s, err := NewShape(oddTable, []Column{
		{"b", types["text"], "text"}, {"q\"uo\nte", types["int4[]"], "integer[]"}, {"a", types["discount"], "public.discount"}, {"é", types["bool"], "boolean"},
	}, []string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestShape(t *testing.T) {
	s := oddShape(t)
	for _, c := range []struct {
		name   string
		values []Value
		row    string
		key    string
		absent []string
	}{
		{"all", []Value{text("x\ty"), text("{1,NULL}"), text("1.50"), text("t")}, `{"b":"x\ty","q\"uo\nte":[1,null],"a":1.50,"é":true}`, "1.50\x00x\ty", nil},
		{"nulls", []Value{text(""), null, text("0"), null}, `{"b":"","q\"uo\nte":null,"a":0,"é":null}`, "0\x00", nil},
		{"unchanged within", []Value{text("x"), unchanged, text("1"), text("f")}, `{"b":"x","a":1,"é":false}`, "1\x00x", []string{"q\"uo\nte"}},
		{"unchanged at the end", []Value{text("x"), null, text("1"), unchanged}, `{"b":"x","q\"uo\nte":null,"a":1}`, "1\x00x", []string{"é"}},
	} {
		row, err := s.AppendRow([]byte("before"), c.values)
		if err != nil || string(row) != "before"+c.row {
			t.Errorf("%s: row %s, error %v, want %s", c.name, row, err, c.row)
		}
		key, err := s.AppendKey(nil, c.values)
		if err != nil || string(key) != c.key {
			t.Errorf("%s: key %q, error %v, want %q", c.name, key, err, c.key)
		}
		if absent := s.Absent(c.values); !reflect.DeepEqual(absent, c.absent) {
			t.Errorf("%s: absent %q, want %q", c.name, absent, c.absent)
		}
	}
	// An unchanged column in front leaves no comma behind.
	if row, err := s.AppendRow(nil, []Value{unchanged, unchanged, text("1"), null}); err != nil || string(row) != `{"a":1,"é":null}` {
		t.Errorf("row %s, error %v", row, err)
	}
	want := syncd.TableInfo{Table: oddTable, Columns: []string{"b", "q\"uo\nte", "a", "é"}, Types: []string{"text", "integer[]", "public.discount", "boolean"},
		Key: []string{"a", "b"}, Schema: s.Hash()}
	if got := s.Info(); !reflect.DeepEqual(got, want) {
		t.Errorf("info %+v, want %+v", got, want)
	}
}

func TestShapeRefuses(t *testing.T) {
	s, types := oddShape(t), testTypes(t)
	full := []Value{text("x"), null, text("1"), null}
	with := func(i int, v Value) []Value {
		values := append([]Value(nil), full...)
		values[i] = v
		return values
	}
	for _, c := range []struct {
		name     string
		values   []Value
		row, key string // the errors; empty where there is none
	}{
		{"too few", full[:3], `table public."Odd ""table""": a row of 3 columns, the table has 4 published`, `table public."Odd ""table""": a row of 3 columns, the table has 4 published`},
		{"null key", with(2, null), "", `table public."Odd ""table""", column "a": the key is NULL`},
		{"unchanged key", with(0, unchanged), "", `table public."Odd ""table""", column "b": the key is not in the message (unchanged large value)`},
		{"zero byte in the key", with(0, text("x\x00y")), "", `table public."Odd ""table""", column "b": the value holds a zero byte`},
		{"binary", with(2, Value{Binary, []byte{1}}), `table public."Odd ""table""", column "a": the value is in the binary format: replication was not started with text values`,
			`table public."Odd ""table""", column "a": the value is in the binary format: replication was not started with text values`},
		{"malformed", with(1, text("{1,x}")), `table public."Odd ""table""", column "q\"uo\nte": public.int4[], an element at byte 3: text of type pg_catalog.int4 is malformed at byte 0: it is not an integer`, ""},
	} {
		_, err := s.AppendRow(nil, c.values)
		if got := sentence(err); got != c.row {
			t.Errorf("%s, row:\n got %s\nwant %s", c.name, got, c.row)
		}
		_, err = s.AppendKey(nil, c.values)
		if got := sentence(err); got != c.key {
			t.Errorf("%s, key:\n got %s\nwant %s", c.name, got, c.key)
		}
	}
	id := Column{"id", types["int4"], "integer"}
	for _, c := range []struct {
		columns []Column
		key     []string
		want    string
	}{
		{[]Column{id}, nil, `table public."Odd ""table""" has no key`},
		{[]Column{id}, []string{"ID"}, `table public."Odd ""table""": the key column "ID" is not among the published ones`},
		{[]Column{id, {"g", types["geometry[]"], "geometry[]"}}, []string{"id"},
			`table public."Odd ""table""", column "g": type public.geometry is printed by its cast to json, public.json(public.geometry), which only the server can run`},
		{[]Column{id, {"g", types["strange"], "strange"}}, []string{"id"}, `table public."Odd ""table""", column "g": type public.strange has a text form that is not known here`},
	} {
		if _, err := NewShape(oddTable, c.columns, c.key); sentence(err) != c.want {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
}

func sentence(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestShapeHash: everything that decides how rows read gives another hash. The hash of one shape is written down here: it
// must be the same on every machine and in every release, or caches list everything again.
func TestShapeHash(t *testing.T) {
	const want = 0x7f3d5f6042d99aa6
	types := testTypes(t)
	id, note := Column{"id", types["int4"], "integer"}, Column{"note", types["addr"], "public.addr"}
	hash := func(key string, cols ...Column) uint64 {
		s, err := NewShape(oddTable, cols, []string{key})
		if err != nil {
			t.Fatal(err)
		}
		return s.Hash()
	}
	base := hash("id", id, note)
	if base != want {
		t.Errorf("the hash is %#x, it was %#x", base, want)
	}
	relabeled := *types["state"]
	relabeled.Labels = []string{"fresh", "done"}
	others := map[string]uint64{
		"other order":       hash("id", note, id),
		"other name":        hash("id", id, Column{"Note", note.Type, note.TypeName}),
		"other modifier":    hash("id", id, Column{"note", types["numeric"], "numeric(8,2)"}),
		"no modifier":       hash("id", id, Column{"note", types["numeric"], "numeric"}),
		"other key":         hash("note", id, note),
		"fewer columns":     hash("id", id),
		"enum":              hash("id", id, Column{"note", types["state"], "state"}),
		"enum, other label": hash("id", id, Column{"note", &relabeled, "state"}),
	}
	seen := map[uint64]string{base: "the shape itself"}
	for name, h := range others {
		if seen[h] != "" {
			t.Errorf("%s has the hash of %s", name, seen[h])
		}
		seen[h] = name
	}
	if again := hash("id", id, note); again != base {
		t.Error("equal shapes have different hashes")
	}
}

// FuzzAppendJSON: no text makes the encoder panic; what it takes gives JSON (save json itself, which is passed on as the
// server wrote it), behind what was there before; what it refuses is a *TextError with a place within the text.
func FuzzAppendJSON(f *testing.F) {
	types := testTypes(f)
	var names []string
	for name := range types {
		names = append(names, name)
	}
	for _, s := range []string{"{}", `{a,"b c",NULL,"q\"\\"}`, "[0:1][-5:-5]={{1},{2}}", `(x,"(1,""a """"b"""" \\\\"")",,"2024-06-01 10:00:00+00","{""a"":1}")`,
		`"a"=>"1", "b"=>NULL`, "2024-02-29 23:59:59.999999+05:45 BC", "1 -2 3", "-1.5e+10", "t", `{"{\"a\": 1}"}`, `{"(1,\"q\"\"\\\\\")",NULL}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, name := range names {
			typ := types[name]
			if typ.NeedsServer() != nil {
				continue
			}
			got, err := typ.AppendJSON([]byte("before"), b)
			var malformed *TextError
			switch {
			case err == nil:
				if js := strings.TrimPrefix(string(got), "before"); len(js) == len(got) || typ.Category != JSON && !json.Valid([]byte(js)) {
					t.Errorf("%s %q: %q is not JSON", name, b, got)
				}
			case !errors.As(err, &malformed) || malformed.Offset < 0 || malformed.Offset > len(b):
				t.Errorf("%s %q: %v", name, b, err)
			}
		}
	})
}

func ExampleShape() {
	// The Catalog gives these, read from the server.
	integer := &Type{OID: 23, Schema: "pg_catalog", Name: "int4", Category: Integer}
	moment := &Type{OID: 1184, Schema: "pg_catalog", Name: "timestamptz", Category: TimestampTZ}
	shape, err := NewShape(syncd.Table{Schema: "public", Name: "visits"}, []Column{
		{Name: "id", Type: integer, TypeName: "integer"},
		{Name: "at", Type: moment, TypeName: "timestamp with time zone"},
	}, []string{"id"})
	if err != nil {
		fmt.Println(err)
		return
	}
	values := []Value{{Text, []byte("42")}, {Text, []byte("2024-02-29 12:00:00+00")}}
	key, _ := shape.AppendKey(nil, values)
	row, _ := shape.AppendRow(nil, values)
	fmt.Printf("%s %s\n", key, row)
	// Output: 42 {"id":42,"at":"2024-02-29T12:00:00+00:00"}
}

func ExampleDecoder() {
	var d Decoder
	kind, err := d.Decode([]byte("I\x00\x00\x40\x06N\x00\x02t\x00\x00\x00\x0242n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s into %d: %s, null %v\n", kind, d.Change.Relation, d.Change.New[0].Data, d.Change.New[1].Kind == Null)
	// Output: Insert into 16390: 42, null true
}
