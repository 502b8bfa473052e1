package sink_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/syncd-io/syncd/sink"
)

func TestFill(t *testing.T) {
	for _, c := range []struct {
		name, base, row string
		absent          []string
		want            string // empty: they don't fit
	}{
		{"one in the middle", `{"id":1,"x":"large","n":2}`, `{"id":1,"n":3}`, []string{"x"}, `{"id":1,"x":"large","n":3}`},
		{"the first", `{"x":"large","n":2}`, `{"n":3}`, []string{"x"}, `{"x":"large","n":3}`},
		{"the last", `{"n":2,"x":"large"}`, `{"n":3}`, []string{"x"}, `{"n":3,"x":"large"}`},
		{"two", `{"x":null,"n":2,"y":[1, {"a":"}"}]}`, `{"n":3}`, []string{"x", "y"}, `{"x":null,"n":3,"y":[1, {"a":"}"}]}`},
		{"all", `{"x":1}`, `{}`, []string{"x"}, `{"x":1}`},
		{"braces and quotes in strings", `{"id":"}\"{","x":"a\\\"b,\\\\"}`, `{"id":"},{\\"}`, []string{"x"}, `{"id":"},{\\","x":"a\\\"b,\\\\"}`},
		{"json as it was written, with spaces", "{\"j\":{ \"a\" : [ 1,\n2 ] },\"x\":1}", `{"x":2}`, []string{"j"}, "{\"j\":{ \"a\" : [ 1,\n2 ] },\"x\":2}"},
		{"a name that JSON escapes", `{"a\"b":1,"n":2}`, `{"n":3}`, []string{`a"b`}, `{"a\"b":1,"n":3}`},
		{"a name that holds the other's", `{"x":1,"xx":2}`, `{"x":3}`, []string{"xx"}, `{"x":3,"xx":2}`},
		{"numbers as written", `{"n":1.10,"x":-0,"y":1e400}`, `{"n":2.00}`, []string{"x", "y"}, `{"n":2.00,"x":-0,"y":1e400}`},

		{"the base lacks the column", `{"id":1,"n":2}`, `{"id":1,"n":3}`, []string{"x"}, ""},
		{"the base has a column more", `{"id":1,"old":0,"x":"large"}`, `{"id":1}`, []string{"x"}, ""},
		{"the row has a column more", `{"id":1,"x":"large"}`, `{"id":1,"new":0}`, []string{"x"}, ""},
		{"the columns were renamed", `{"id":1,"x":"large"}`, `{"key":1}`, []string{"x"}, ""},
		{"another order", `{"a":1,"b":2,"x":3}`, `{"b":2,"a":1}`, []string{"x"}, ""},
		{"the row has the absent column", `{"id":1,"x":"large"}`, `{"id":1,"x":"new"}`, []string{"x"}, ""},
		{"cut off", `{"id":1,"x":"lar`, `{"id":1}`, []string{"x"}, ""},
		{"a comma too many", `{"id":1,"x":2,}`, `{"id":1}`, []string{"x"}, ""},
		{"a brace too many", `{"id":1,"x":[2]]}`, `{"id":1}`, []string{"x"}, ""},
		{"something behind", `{"id":1,"x":2}x`, `{"id":1}`, []string{"x"}, ""},
		{"something behind the row", `{"id":1,"x":2}`, `{"id":1} `, []string{"x"}, ""},
		{"not an object", `[1]`, `{}`, []string{"x"}, ""},
		{"an empty base", ``, `{}`, []string{"x"}, ""},
		{"an empty value", `{"x":,"y":1}`, `{"y":1}`, []string{"x"}, ""},
		{"a name without quotes", `{x:1}`, `{}`, []string{"x"}, ""},
	} {
		if got := sink.Fill([]byte(c.base), []byte(c.row), c.absent); string(got) != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Whatever columns are left out of a row, filling gives it back, with the other columns as the delta has them.
func TestFillGivesBack(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[{}\[\]",:\\ ]{0,6}`))
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(text, 1, 6, rapid.ID).Draw(t, "names")
		var base, row, want []string
		absent := []string{}
		for i, name := range names {
			n, old := encode(t, name), encode(t, text.Draw(t, "old"))
			if i%2 == 0 {
				old = "[" + old + `,{"a":` + old + "}]"
			}
			base = append(base, n+":"+old)
			if rapid.Bool().Draw(t, "absent") {
				absent = append(absent, name)
				want = append(want, n+":"+old)
				continue
			}
			next := n + ":" + encode(t, text.Draw(t, "new"))
			row, want = append(row, next), append(want, next)
		}
		object := func(members []string) []byte { return []byte("{" + strings.Join(members, ",") + "}") }
		if got := sink.Fill(object(base), object(row), absent); !bytes.Equal(got, object(want)) {
			t.Errorf("%s filled from %s without %q is %s", object(row), object(base), absent, got)
		}
	})
}

func encode(t *rapid.T, s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func FuzzFill(f *testing.F) {
	f.Add([]byte(`{"id":1,"x":"large","n":2}`), []byte(`{"id":1,"n":3}`), "x")
	f.Add([]byte(`{"x":[{"a":"\\"}]}`), []byte(`{}`), "x")
	f.Add([]byte(`{"a\"":1}`), []byte(`{}`), `a"`)
	f.Fuzz(func(t *testing.T, base, row []byte, absent string) {
		got := sink.Fill(base, row, []string{absent})
		if got == nil || !json.Valid(base) || !json.Valid(row) {
			return // it only has to survive what Postgres did not print
		}
		if !json.Valid(got) {
			t.Errorf("%s filled from %s without %q is %s, which is not JSON", row, base, absent, got)
		}
		var want, have map[string]json.RawMessage
		if json.Unmarshal(row, &want) != nil || json.Unmarshal(got, &have) != nil {
			t.Errorf("%s and %s are not both objects", row, got)
		}
		for name, v := range want {
			if name != absent && fmt.Sprint(have[name]) != fmt.Sprint(v) {
				t.Errorf("column %q is %s in %s, and was %s", name, have[name], got, v)
			}
		}
	})
}
