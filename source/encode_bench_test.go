package source

import (
	"testing"

	"github.com/syncd-io/syncd"
)

// benchTable is a shape and an Insert of one of its rows.
type benchTable struct {
	name   string
	types  []string
	values []any
}

var benchTables = []benchTable{
	{"users", []string{"int8", "int4", "text", "text", "bool", "numeric", "timestamptz", "timestamptz"},
		[]any{"9007199254740993", "17", "ann.lee@example.com", "Ann Lee \"the elder\", 17 Some Street, Some Town", "t", "1234.50", "2024-02-29 12:00:00.123456+00", nil}},
	{"large", []string{"int8", "text"}, []any{"1", string(make200())}},
	{"jsonb", []string{"int8", "jsonb"}, []any{"1", `{"id": 1, "tags": ["a", "b", "c"], "address": {"city": "Some Town", "street": "17 Some Street"}, "note": "nothing in particular to be said about this"}`}},
	{"nested", []string{"int4", "text[]", "int4[]", "geo", "geo[]", "hstore", "hstore[]", "timestamptz[]", "discount", "box[]"},
		[]any{"1", `{a,"b c",NULL,"q\"\\"}`, "{{1,2},{3,4}}", `(1,"a ""b"" \\")`, `{"(1,\"q\"\"\\\\\")",NULL}`, `"a"=>"1", "b"=>NULL, "N\"\\"=>""`, `{"\"a\"=>\"1\"",NULL}`,
			`{"2024-01-01 00:00:00+00",infinity}`, "99.50", "{(1,1),(0,0);(3,3),(2,2)}"}},
	{"zoo", []string{"int4", "text[]", "int4[]", "addr", "geo[]", "hstore", "timestamptz[]", "discount", "jsonb[]"},
		[]any{"1", `{a,"b c",NULL,"q\"\\"}`, "{{1,2},{3,4}}", `(x,"(1,""a """"b"""" \\\\"")","{""a b"",NULL,""""}","2024-06-01 10:00:00+00","{""a"":""\\\\\\\\""}")`,
			`{"(1,\"q\"\"\\\\\")",NULL}`, `"a"=>"1", "b"=>NULL, "N\"\\"=>""`, `{"2024-01-01 00:00:00+00",infinity}`, "99.50", `{"{\"a\": [1, \"\\\"\"]}",1}`}},
}

func make200() []byte {
	b := make([]byte, 200)
	for i := range b {
		b[i] = 'a' + byte(i%26)
	}
	return b
}

func (bt *benchTable) shape(tb testing.TB) *Shape {
	tb.Helper()
	types := testTypes(tb)
	var cols []Column
	for i, name := range bt.types {
		cols = append(cols, Column{Name: "column_" + string(rune('a'+i)), Type: types[name], TypeName: name})
	}
	s, err := NewShape(syncd.Table{Schema: "public", Name: bt.name}, cols, []string{"column_a"})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// decodeAndEncode is what a change costs between the socket and the row's JSON.
func decodeAndEncode(tb testing.TB, d *Decoder, s *Shape, buf, msg []byte) []byte {
	if _, err := d.Decode(msg); err != nil {
		tb.Fatal(err)
	}
	buf, err := s.AppendKey(buf[:0], d.Change.New)
	if err != nil {
		tb.Fatal(err)
	}
	if buf, err = s.AppendRow(buf, d.Change.New); err != nil {
		tb.Fatal(err)
	}
	return buf
}

func TestRowsAllocateNothing(t *testing.T) {
	for _, bt := range benchTables {
		if bt.name == "zoo" {
			continue // json within other types is checked by encoding/json, which keeps its scanners in a pool
		}
		var d Decoder
		s, msg, buf := bt.shape(t), message('I', uint32(1), 'N', tuple(bt.values...)), make([]byte, 0, 4096)
		if n := testing.AllocsPerRun(100, func() { buf = decodeAndEncode(t, &d, s, buf, msg) }); n != 0 {
			t.Errorf("%s: %v allocations a row", bt.name, n)
		}
	}
}

// BenchmarkDecodeEncode counts bytes of pgoutput.
func BenchmarkDecodeEncode(b *testing.B) {
	for _, bt := range benchTables {
		b.Run(bt.name, func(b *testing.B) {
			var d Decoder
			s, msg, buf := bt.shape(b), message('I', uint32(1), 'N', tuple(bt.values...)), make([]byte, 0, 4096)
			b.SetBytes(int64(len(msg)))
			b.ReportAllocs()
			for b.Loop() {
				buf = decodeAndEncode(b, &d, s, buf, msg)
			}
		})
	}
}
