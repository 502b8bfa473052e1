package source

import (
	"errors"
	"strings"
	"testing"
)

// testTypes links types as a catalog would give them: built-in ones, and some that a user may have made.
func testTypes(t testing.TB) map[string]*Type {
	t.Helper()
	rows := map[uint32]*typeRow{}
	byName := map[string]uint32{}
	add := func(name string, oid uint32, row typeRow) {
		row.oid, row.schema, row.name = oid, "pg_catalog", name
		if oid >= 16384 {
			row.schema = "public"
		}
		if row.typtype == "" {
			row.typtype = "b"
		}
		if row.delim == "" {
			row.delim = ","
		}
		rows[oid], byName[name] = &row, oid
	}
	for oid, name := range map[uint32]string{
		16: "bool", 17: "bytea", 20: "int8", 21: "int2", 23: "int4", 25: "text", 26: "oid", 114: "json", 3802: "jsonb",
		700: "float4", 701: "float8", 1700: "numeric", 1082: "date", 1114: "timestamp", 1184: "timestamptz", 1186: "interval",
	} {
		add(name, oid, typeRow{})
	}
	add("box", 603, typeRow{delim: ";"})
	add("int2vector", 22, typeRow{elem: 21})
	add("oidvector", 30, typeRow{elem: 26})
	next := uint32(20000)
	user := func(name string, row typeRow) uint32 {
		next++
		add(name, next, row)
		return next
	}
	array := func(of string) uint32 { return user(of+"[]", typeRow{elem: byName[of], arrayOut: true}) }
	for _, of := range []string{"text", "int4", "numeric", "box", "jsonb", "timestamptz", "bool"} {
		array(of)
	}
	geo := user("geo", typeRow{typtype: "c", fields: []string{"lat", "label"}, fieldTypes: []uint32{1700, 25}, fieldTypmods: []int32{-1, -1}})
	user("addr", typeRow{typtype: "c", fields: []string{`st"reet`, "spot", "tags", "at", "doc"},
		fieldTypes: []uint32{25, geo, byName["text[]"], 1184, 114}, fieldTypmods: []int32{-1, -1, -1, -1, -1}})
	user("one", typeRow{typtype: "c", fields: []string{"a"}, fieldTypes: []uint32{25}, fieldTypmods: []int32{-1}})
	user("nothing", typeRow{typtype: "c"})
	array("geo")
	amount := user("amount", typeRow{typtype: "d", base: 1700, typmod: 786438})
	user("discount", typeRow{typtype: "d", base: amount, typmod: -1})
	array("discount")
	user("tags", typeRow{typtype: "d", base: byName["text[]"], typmod: -1})
	user("state", typeRow{typtype: "e", labels: []string{"new", "done"}})
	user("hstore", typeRow{cast: "hstore_to_json(hstore)", hstoreCast: true})
	array("hstore")
	user("geometry", typeRow{cast: "public.json(public.geometry)"})
	array("geometry")
	user("strange", typeRow{elem: 25})
	types, made := map[string]*Type{}, map[uint32]*Type{}
	for name, oid := range byName {
		typ, err := link(oid, rows, made, 0)
		if err != nil {
			t.Fatal(err)
		}
		types[name] = typ
	}
	return types
}

func TestAppendJSON(t *testing.T) {
	types := testTypes(t)
	for _, c := range []struct{ typ, text, want string }{
		{"bool", "t", "true"},
		{"bool", "f", "false"},
		{"int4", "-2147483648", "-2147483648"},
		{"int8", "9223372036854775807", "9223372036854775807"},
		{"numeric", "1.10", "1.10"},
		{"numeric", "NaN", `"NaN"`},
		{"numeric", "-Infinity", `"-Infinity"`},
		{"float8", "1e-300", "1e-300"},
		{"float8", "1.7976931348623157e+308", "1.7976931348623157e+308"},
		{"float4", "-0", "-0"},
		{"float4", "Infinity", `"Infinity"`},
		{"oid", "4294967295", `"4294967295"`},
		{"text", "", `""`},
		{"text", "plain text without anything", `"plain text without anything"`},
		{"text", "12345678\"", `"12345678\""`},
		{"text", "\x01\x1f\b\f\n\r\t\"\\/\x7f\u00e9\u2028\U0001F600", `"\u0001\u001f\b\f\n\r\t\"\\/` + "\x7f\u00e9\u2028\U0001F600\""},
		{"text", "caf\xe9 \xff\xfe", "\"caf\xe9 \xff\xfe\""},
		{"bytea", `\x00ff`, `"\\x00ff"`},
		{"interval", "-1 days +00:00:01.5", `"-1 days +00:00:01.5"`},
		{"json", "{\"a\" : \n1}", "{\"a\" : \n1}"},
		{"jsonb", `"x"`, `"x"`},
		{"date", "2024-02-29", `"2024-02-29"`},
		{"date", "0044-03-15 BC", `"0044-03-15 BC"`},
		{"date", "5874897-12-31", `"5874897-12-31"`},
		{"date", "infinity", `"infinity"`},
		{"timestamp", "2024-02-29 23:59:59.999999", `"2024-02-29T23:59:59.999999"`},
		{"timestamp", "294276-12-31 23:59:59", `"294276-12-31T23:59:59"`},
		{"timestamp", "0001-12-31 23:40:28.5 BC", `"0001-12-31T23:40:28.5 BC"`},
		{"timestamptz", "2024-01-01 00:00:00+00", `"2024-01-01T00:00:00+00:00"`},
		{"timestamptz", "2024-01-01 05:45:00.25+05:45", `"2024-01-01T05:45:00.25+05:45"`},
		{"timestamptz", "1960-01-01 00:00:00-00:44:30", `"1960-01-01T00:00:00-00:44:30"`},
		{"timestamptz", "4713-01-01 00:00:00+00 BC", `"4713-01-01T00:00:00+00:00 BC"`},
		{"timestamptz", "-infinity", `"-infinity"`},
		{"text[]", "{}", "[]"},
		{"text[]", `{a,"b c",NULL,"NULL","",null-ish,"q\"\\"}`, `["a","b c",null,"NULL","","null-ish","q\"\\"]`},
		{"int4[]", "{{1,2},{3,NULL}}", "[[1,2],[3,null]]"},
		{"int4[]", "[0:1][-5:-5]={{1},{2}}", "[[1],[2]]"},
		{"int4[]", "{{{{{{1}}}}}}", "[[[[[[1]]]]]]"},
		{"numeric[]", "{1.0,NaN}", `[1.0,"NaN"]`},
		{"bool[]", "{t,f,NULL}", "[true,false,null]"},
		{"box[]", "{(1,1),(0,0);(3,3),(2,2)}", `["(1,1),(0,0)","(3,3),(2,2)"]`},
		{"jsonb[]", `{"{\"a\": [1, \"\\\"\"]}",1}`, `[{"a": [1, "\""]},1]`},
		{"timestamptz[]", `{"2024-01-01 00:00:00+00",infinity}`, `["2024-01-01T00:00:00+00:00","infinity"]`},
		{"int2vector", "1 -2 3", "[1,-2,3]"},
		{"int2vector", "", "[]"},
		{"oidvector", "23 4294967295", `["23","4294967295"]`},
		{"geo", "(1.50,a)", `{"lat":1.50,"label":"a"}`},
		{"geo", "(,)", `{"lat":null,"label":null}`},
		{"geo", `(NaN,"")`, `{"lat":"NaN","label":""}`},
		{"geo", `(1,"(p) ,c ""q"" \\b")`, `{"lat":1,"label":"(p) ,c \"q\" \\b"}`},
		{"addr", `(x,"(1,""a """"b"""" \\\\"")","{""a b"",NULL,""""}","2024-06-01 10:00:00+00","{""a"":""\\\\\\\\""}")`,
			`{"st\"reet":"x","spot":{"lat":1,"label":"a \"b\" \\"},"tags":["a b",null,""],"at":"2024-06-01T10:00:00+00:00","doc":{"a":"\\\\"}}`},
		{"one", "()", `{"a":null}`},
		{"one", `("")`, `{"a":""}`},
		{"nothing", "()", "{}"},
		{"geo[]", `{"(1,\"q\"\"\\\\\")",NULL}`, `[{"lat":1,"label":"q\"\\"},null]`},
		{"discount", "99.50", "99.50"},
		{"discount[]", "{1.00,NULL}", "[1.00,null]"},
		{"tags", "{x,y}", `["x","y"]`},
		{"state", "new", `"new"`},
		{"hstore", "", "{}"},
		{"hstore", `"a"=>"1", "b"=>NULL, "N\"\\"=>"", ""=>"NULL"`, `{"a": "1", "b": null, "N\"\\": "", "": "NULL"}`},
		{"hstore", "\"tab\tbell\x07\"=>\"\n\"", `{"tab\tbell\u0007": "\n"}`},
		{"hstore[]", `{"\"a\"=>\"1\"",NULL,""}`, `[{"a": "1"},null,{}]`},
	} {
		got, err := types[c.typ].AppendJSON([]byte("before "), []byte(c.text))
		if err != nil {
			t.Errorf("%s %q: %v", c.typ, c.text, err)
		} else if string(got) != "before "+c.want {
			t.Errorf("%s %q:\n got %s\nwant %s", c.typ, c.text, strings.TrimPrefix(string(got), "before "), c.want)
		}
	}
}

func TestMalformedText(t *testing.T) {
	types := testTypes(t)
	for _, c := range []struct {
		typ, text string
		at        int
	}{
		{"bool", "", 0}, {"bool", "true", 0}, {"int4", "", 0}, {"int4", "-", 0}, {"int8", "1.5", 0},
		{"numeric", "", 0}, {"numeric", "1.", 1}, {"numeric", "01", 0}, {"numeric", "1e", 1}, {"float8", "nan", 0},
		{"json", "", 0}, {"date", "24-01-01", 2}, {"date", "2024-01-1", 7}, {"date", "2024-01-01 AD", 10}, {"date", "", 0},
		{"timestamp", "2024-01-01", 10}, {"timestamp", "2024-01-01 00:00", 16}, {"timestamp", "2024-01-01 00:00:00.", 20},
		{"timestamp", "2024-01-01 00:00:00+00", 19}, {"timestamp", "2024-01-01 00:00:00.1234567", 27},
		{"timestamptz", "2024-01-01 00:00:00", 19}, {"timestamptz", "2024-01-01 00:00:00+0", 19}, {"timestamptz", "2024-01-01 00:00:00+00:0", 22},
		{"text[]", "", 0}, {"text[]", "a", 0}, {"text[]", "{", 1}, {"text[]", "{a", 2}, {"text[]", "{a}}", 3}, {"text[]", "{a,}", 3},
		{"text[]", "{,a}", 1}, {"text[]", "{{a},b}", 5}, {"text[]", "{a,{b}}", 3}, {"text[]", "{{a},{b,c}}", 9}, {"text[]", "{{}}", 2},
		{"text[]", `{"a}`, 1}, {"text[]", `{"a\`, 1}, {"text[]", `{"a"b}`, 4}, {"text[]", `{a"b}`, 2}, {"text[]", `{a\b}`, 2},
		{"text[]", "[1:2]={a}", 0}, {"text[]", "[1:0]={}", 0}, {"text[]", "[1:1]{a}", 5}, {"text[]", "[1:1", 0}, {"text[]", "[x:1]={a}", 0},
		{"text[]", "[1:1][1:1]={a}", 0}, {"text[]", "[1:1]=", 6}, {"text[]", "{{{{{{{a}}}}}}}", 6}, {"text[]", "[0:99999999999]={a}", 0},
		{"int4[]", "{1,x}", 3}, {"jsonb[]", "{hello}", 1}, {"int2vector", "1  2", 2}, {"int2vector", "1x", 1}, {"int2vector", "1 ", 2},
		{"geo", "", 0}, {"geo", "(", 0}, {"geo", "(1)", 2}, {"geo", "(1,2,3)", 4}, {"geo", "(1,2", 4}, {"geo", "(1,2)x", 4}, {"geo", `(1,"a)`, 3},
		{"geo", `(1,"a\b")`, 5}, {"geo", `(1,a"b)`, 4}, {"geo", "(x,a)", 1}, {"nothing", "(a)", 1},
		{"hstore", "a", 0}, {"hstore", `"a"`, 3}, {"hstore", `"a"=>`, 5}, {"hstore", `"a"=>1`, 5}, {"hstore", `"a"=>"1",`, 8}, {"hstore", `"a`, 0},
		{"hstore", `"a"=>"1", `, 10}, {"hstore", `"a\n"=>"1"`, 2}, {"hstore", `"a\`, 2}, {"hstore", `"a"=>NUL`, 5},
	} {
		_, err := types[c.typ].AppendJSON(nil, []byte(c.text))
		var text *TextError
		if !errors.As(err, &text) {
			t.Errorf("%s %q: error %v, want a *TextError", c.typ, c.text, err)
			continue
		}
		if text.Offset != c.at || !strings.HasSuffix(text.Type, "."+c.typ) {
			t.Errorf("%s %q: %v; want byte %d", c.typ, c.text, err, c.at)
		}
	}
}
