package syncd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
)

func filterInfo() syncd.TableInfo {
	return syncd.TableInfo{
		Table:   syncd.Table{Schema: "public", Name: "t"},
		Columns: []string{"id", "name", "price", "ratio", "ok", "born", "at", "atz", "ref", "code", "tags", "doc", `odd "x"`, "r4"},
		Types: []string{"integer", "character varying(20)", "numeric(30,10)", "double precision", "boolean", "date", "timestamp without time zone",
			"timestamp(3) with time zone", "uuid", "character(4)", "text[]", "jsonb", "text", "real"},
		Key: []string{"id"},
	}
}

// TestFilterMatch asks of single values. A value is the JSON that row_to_json prints; a condition with a ! before it must
// not hold.
func TestFilterMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ column, value, conditions string }{
		{"id", `42`, "eq.42 eq.42.0 eq.4.2e1 !eq.43 neq.43 !neq.42 gt.41 gt.41.9 !gt.42 gte.42 lt.100 !lt.5 lte.42 in.(1,42) !in.(1,2) not.in.(1,2) !in.() not.in.() " +
			"!is.null is.not_null not.is.null !not.is.not_null not.eq.1 gt.-infinity lt.nan"},
		{"id", `null`, "is.null !is.not_null !eq.1 !neq.1 !not.eq.1 !gt.1 !not.gt.1 !in.(1) !not.in.(1) not.in.()"},
		{"id", `-7`, "lt.0 gt.-8 lt.-6.999 gt.-7.0001 !gt.-7 eq.-7.00 lt.-0 gt.-70 lt.-0.7"},
		{"price", `100000000000000000000.0000000001`, "gt.100000000000000000000 lt.100000000000000000000.0000000002 !eq.100000000000000000000 eq.100000000000000000000.00000000010"},
		{"price", `0.00`, "eq.0 eq.-0 gt.-1e-300 lt.1e-300 lt.1e300 eq.0e5"},
		{"price", `"NaN"`, "eq.NaN gt.Infinity !lt.1e100 gt.1"},
		{"price", `"-Infinity"`, "lt.-1e1000000 eq.-inf !gt.1"},
		{"price", `1.5`, "gt.1.49 lt.1.51 in.(1,1.50) eq.+1.5 eq..15e1 eq.1500e-3 lt.1.55 gt.-1.55"},
		{"ratio", `0.1`, "eq.0.1 eq.1e-1 lt.0.2 gt.-0.1 eq.0.1000000000000000000000001"},
		{"ratio", `-0`, "eq.0 !lt.0 gte.0"},
		{"ratio", `"Infinity"`, "gt.1e300 lt.NaN eq.inf"},
		{"r4", `16777216`, "eq.16777217 eq.16777216 !eq.16777218"},
		{"ok", `true`, "eq.true eq.t is.true !is.false !not.is.true gt.false !is.unknown not.is.unknown neq.false"},
		{"ok", `null`, "!is.true !is.false not.is.true not.is.false is.unknown !eq.true"},
		{"name", `"Ab"`, "eq.Ab !eq.ab lt.a gt.AZ in.(x,Ab) gte.Ab !gt.Ab"},
		{"name", `"a,\"\\b\u00e9\n\ud83d\ude00"`, `in.("a,\"\\bé` + "\n" + `😀") !eq.a`},
		{"name", `""`, `eq. in.("") lt.a !is.null neq.x`},
		{"name", `"x.y"`, "eq.x.y not.eq.x"},
		{"born", `"2025-02-28"`, "eq.2025-02-28 lt.2025-03-01 gt.0044-03-15_BC lt.infinity gt.-infinity lt.10000-01-01"},
		{"born", `"0044-03-15 BC"`, "lt.0043-01-01_BC gt.0045-12-31_BC eq.0044-03-15_BC lt.0001-01-01"},
		{"born", `"infinity"`, "eq.infinity gt.5874897-12-31 !lt.infinity"},
		{"at", `"2025-11-30T20:00:00.12"`, "eq.2025-11-30T20:00:00.120000 eq.2025-11-30_20:00:00.12 gt.2025-11-30 lt.2025-11-30T20:01 gt.2025-11-30T20:00:00.119999"},
		{"at", `"0001-01-01T00:00:00 BC"`, "lt.0001-01-01T00:00:00 gt.4713-01-01_BC lt.294276-12-31T23:59:59.999999"},
		{"atz", `"2025-11-30T20:00:00+00:00"`, "eq.2025-11-30T20:00:00Z eq.2025-11-30T21:00:00+01:00 eq.2025-11-30T21:30:00+0130 eq.2025-11-30T19:00:00-01 lt.2025-11-30T20:00:00-00:30 eq.2025-11-30_20:00"},
		{"ref", `"6f1ed002-ab59-4d3b-9d5c-0d5f2a1c9e11"`, "eq.6F1ED002-AB59-4D3B-9D5C-0D5F2A1C9E11 eq.{6f1ed002ab594d3b9d5c0d5f2a1c9e11} gt.6f1ed002-ab59-4d3b-9d5c-0d5f2a1c9e10 lt.7f1ed002-ab59-4d3b-9d5c-0d5f2a1c9e11"},
		{"code", `"ab  "`, "eq.ab eq.ab__ lt.abc in.(ab) gt.aa"},
		{"tags", `["a","b]}"]`, `eq.["a","b]}"] neq.[] !is.null`},
		{"doc", `{"id": 7, "x": [1, {"y": "}"}]}`, `eq.{"id":_7,_"x":_[1,_{"y":_"}"}]} is.not_null`},
		{`odd "x"`, `"v"`, "eq.v"},
	} {
		name, _ := json.Marshal(c.column)
		for _, row := range []string{
			fmt.Sprintf(`{"zz":[{"id":"}"}],"\\":"\"",%s:%s,"after":{"a":1}}`, name, c.value),
			fmt.Sprintf(`{%s: %s}`, name, c.value),
		} {
			for text := range strings.SplitSeq(c.conditions, " ") {
				text, no := strings.CutPrefix(strings.ReplaceAll(text, "_", " "), "!")
				if strings.HasPrefix(text, "is.not ") || strings.Contains(text, "not null") {
					text = strings.ReplaceAll(text, "not null", "not_null")
				}
				f, err := syncd.ParseFilter(filterInfo(), url.Values{c.column: {text}})
				if err != nil {
					t.Errorf("%s=%s: %v", c.column, text, err)
					continue
				}
				if f.Match([]byte(row)) == no {
					t.Errorf("%s=%s of %s: %v", c.column, text, row, !no)
				}
			}
		}
	}
}

// TestFilterTogether holds that all conditions count, that a column that is not there is NULL, and what a broken row is.
func TestFilterTogether(t *testing.T) {
	t.Parallel()
	f, err := syncd.ParseSelector(filterInfo(), "price=lte.20&name=neq.x&price=gt.10&price=gt.10")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.String(), "name=neq.x&price=gt.10&price=lte.20"; got != want {
		t.Errorf("it is written %s, want %s", got, want)
	}
	if got := strings.Join(f.Columns(), " "); got != "name price" {
		t.Errorf("columns: %s", got)
	}
	for row, want := range map[string]bool{
		`{"id":1,"name":"y","price":15}`:   true,
		`{"price":15,"name":"y"}`:          true,
		`{"id":1,"name":"x","price":15}`:   false,
		`{"id":1,"name":"y","price":10}`:   false,
		`{"id":1,"name":"y","price":21}`:   false,
		`{"id":1,"name":"y"}`:              false,
		`{"id":1,"name":"y","price":15`:    true, // read no further than it has to be
		`{"id":1,"name":"y","price":`:      false,
		`{"id":1,"name":"y" "price":15}`:   false,
		`[]`:                               false,
		``:                                 false,
		`{"id":1,"name":"y","price":"a"}`:  false,
		`{"id":1,"name":"y","price":[15]}`: false,
	} {
		if got := f.Match([]byte(row)); got != want {
			t.Errorf("%s: %v", row, got)
		}
	}
	var all syncd.Filter
	if !all.IsZero() || !all.Match(nil) || all.String() != "" || f.IsZero() {
		t.Error("the zero filter does not hold for all")
	}
	null, err := syncd.ParseSelector(filterInfo(), "doc=is.null")
	if err != nil || !null.Match([]byte(`{"id":1}`)) || null.Match([]byte(`{"id":1`)) {
		t.Errorf("a missing column is not NULL: %v", err)
	}
}

func TestFilterRefused(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"nmae=eq.x":                           `no column "nmae"; did you mean name?`,
		"zzzzzzzz=eq.x":                       `it has id, name`,
		"name=x":                              "the operator is missing: write OPERATOR.VALUE, such as eq.x",
		"name=like.a*":                        `there is no operator "like" here: there are eq, neq, gt`,
		"name=gtt.a":                          `no operator "gtt"`,
		"name=not.not.eq.a":                   `there is no operator "not"`,
		"id=eq.abc":                           `"abc" is no value of type integer: want a number`,
		"id=eq.":                              "is no value of type integer",
		"id=in.(1,x)":                         `"x" is no value of type integer`,
		"id=in.1":                             "a list is written in parentheses",
		"name=in.(\"a)":                       "a double quote is not closed",
		"name=in.(\"a\"b)":                    "a comma is missing",
		"name=in.(a\"b)":                      "has to stand in double quotes",
		"id=in.(1,)":                          `"" is no value`,
		"name=is.true":                        "is.true is for columns of type boolean",
		"name=is.empty":                       `is takes null, not_null`,
		"tags=gt.{a}":                         "values of type text[] are compared as text and have no order here",
		"ok=eq.maybe":                         "want true or false",
		"born=gt.2025-02-30":                  "want a date",
		"at=gt.2025-01-01T00:00:00Z":          "want a time without a zone",
		"at=gt.2025-01-01T00:00:00.123456789": "at most six digits",
		"atz=gt.2025-01-01T00:00:00 01:00":    "%2B in a URL",
		"ref=eq.12":                           "want a UUID",
		"ratio=eq.1e400":                      "is no value of type double precision",
		"name=eq.a%00":                        "zero bytes",
		"name=eq.%ff":                         "UTF-8",
		"price=gt.0x10":                       "is no value of type numeric",
		"price=%zz":                           "write it as in a URL",
	} {
		_, err := syncd.ParseSelector(filterInfo(), in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to say %q", in, err, want)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"postgres", "postgres_file", "slot", "tables", "manage", "userID"}
	for in, want := range map[string]string{"postgress": "postgres", "Postgres": "postgres", "table": "tables", "mangae": "manage", "slto": "slot",
		"zzz": "", "x": "", "": "", "userid": "userID", strings.Repeat("x", 1000): ""} {
		if got := syncd.Nearest(in, known); got != want {
			t.Errorf("%.20q: %q, want %q", in, got, want)
		}
	}
}

func FuzzFilter(f *testing.F) {
	f.Add("id=eq.1&name=in.(a,\"b,c\")", `{"id":1,"name":"a"}`)
	f.Add("price=gt.-1.5e3&at=lt.2025-01-01T00:00", `{"price":"NaN","at":"0044-03-15T00:00:00 BC"}`)
	f.Add("ok=not.is.true&doc=eq.{}", `{"ok":null,"doc": {"a":["\u00e9"]} }`)
	f.Add("atz=gte.infinity&ref=neq.6f1ed002ab594d3b9d5c0d5f2a1c9e11", `{"odd \"x\"":"\\\"","ref":"x"}`)
	f.Fuzz(func(t *testing.T, text, row string) {
		filter, err := syncd.ParseSelector(filterInfo(), text)
		if err != nil {
			return
		}
		again, err := syncd.ParseSelector(filterInfo(), filter.String())
		if err != nil || again.String() != filter.String() {
			t.Fatalf("%q is written %q, which reads as %q, %v", text, filter.String(), again.String(), err)
		}
		matches := filter.Match([]byte(row))
		if matches != again.Match([]byte(row)) {
			t.Fatalf("%q and %q differ over %q", text, filter.String(), row)
		}
		if !json.Valid([]byte(row)) || !strings.HasPrefix(strings.TrimSpace(row), "{") {
			return
		}
		for _, columns := range [][]string{{"id", "name"}, {"price", "at"}, {"ok", "doc", "ref"}, {"atz"}, {"born", "ratio"}, {"code", "r4"}} {
			x, err := syncd.NewIndex(filterInfo(), columns)
			if err != nil {
				t.Fatal(err)
			}
			plan, key := x.Plan(filter), x.AppendKey(nil, []byte(row))
			found := slices.ContainsFunc(plan.Ranges, func(r syncd.KeyRange) bool { return bytes.Compare(r.From, key) <= 0 && bytes.Compare(key, r.To) < 0 })
			if matches && plan.Rank > 0 && !found {
				t.Fatalf("%q matches %q, and the index by %q does not find it", text, row, columns)
			}
		}
		if selection, err := syncd.ParseSelect(filterInfo(), strings.Join(filter.Columns(), ",")); err == nil && !json.Valid(selection.Append(nil, []byte(row))) {
			t.Fatalf("%q of %q is %s", filter.Columns(), row, selection.Append(nil, []byte(row)))
		}
	})
}

// FuzzSelect checks that what is selected of a row is JSON, with no more columns than were asked for.
func FuzzSelect(f *testing.F) {
	f.Add("id,name", `{"id":1,"name":"a"}`)
	f.Add(`"odd \"x\"",doc`, `{"odd \"x\"":1,"doc": {"a":[]} }`)
	f.Fuzz(func(t *testing.T, text, row string) {
		s, err := syncd.ParseSelect(filterInfo(), text)
		if err != nil || !json.Valid([]byte(row)) {
			return
		}
		got := s.Append(nil, []byte(row))
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(got, &fields); !s.IsZero() && (err != nil || len(fields) > strings.Count(text, ",")+1) {
			t.Fatalf("%q of %q is %s: %v", text, row, got, err)
		}
	})
}

func BenchmarkFilterMatch(b *testing.B) {
	row := []byte(`{"id":123456,"name":"Some Body","price":1234.5600,"ratio":0.25,"ok":true,"born":"1999-12-31","at":"2025-11-30T20:00:00.123","atz":"2025-11-30T20:00:00.123+00:00","ref":"6f1ed002-ab59-4d3b-9d5c-0d5f2a1c9e11"}`)
	for _, text := range []string{"id=eq.123456", "name=eq.Some Body", "price=gt.1000", "atz=gt.2025-11-30T19:00:00Z", "ref=eq.6f1ed002-ab59-4d3b-9d5c-0d5f2a1c9e11", "ok=is.true&name=neq.x&price=lt.2000"} {
		f, err := syncd.ParseSelector(filterInfo(), text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !f.Match(row) {
					b.Fatal("it does not match")
				}
			}
		})
	}
}
