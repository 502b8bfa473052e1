package syncd_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/syncd-io/syncd"
)

func TestParseTable(t *testing.T) {
	for text, want := range map[string]syncd.Table{
		"public.users":            {Schema: "public", Name: "users"},
		"Public.USERS":            {Schema: "public", Name: "users"},
		`public."Order"`:          {Schema: "public", Name: "Order"},
		`"my.schema"."a ""b"" c"`: {Schema: "my.schema", Name: `a "b" c`},
		`"a"."."`:                 {Schema: "a", Name: "."},
		`s._x$1`:                  {Schema: "s", Name: "_x$1"},
		`"é"."日本"`:                {Schema: "é", Name: "日本"},
		`É.Straße`:                {Schema: "É", Name: "straße"},
		`" "."'"`:                 {Schema: " ", Name: "'"},
		"\"a\"\"\"\"b\".\"\"\"\"": {Schema: `a""b`, Name: `"`},
	} {
		if got, err := syncd.ParseTable(text); err != nil || got != want {
			t.Errorf("%s reads as %+v, %v", text, got, err)
		}
	}
	for text, why := range map[string]string{
		"":                 "empty",
		"users":            "schema is missing",
		"a.b.c":            "3 parts",
		".users":           "empty",
		"public.":          "empty",
		`public.""`:        "empty",
		`public."users`:    "no end",
		`public."a""`:      "no end",
		`public.us"ers"`:   "in the middle",
		`"public"users`:    "in the middle",
		"public.my table":  "quoted",
		"public.users;":    "quoted",
		"public.a*":        "quoted",
		"public.users ":    "quoted",
		"public.\"a\x00\"": "NUL",
		"public.\"\xff\"":  "UTF-8",
	} {
		_, err := syncd.ParseTable(text)
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: error %v, want one that says %q", text, err, why)
		}
	}
}

func TestTableRoundTrip(t *testing.T) {
	part := rapid.OneOf(rapid.String(), rapid.StringMatching(`["A-Za-z0-9_$. ]{1,8}`)).
		Filter(func(s string) bool { return s != "" && !strings.Contains(s, "\x00") })
	rapid.Check(t, func(t *rapid.T) {
		table := syncd.Table{Schema: part.Draw(t, "schema"), Name: part.Draw(t, "name")}
		for _, text := range []string{table.String(), table.SQL()} {
			if got, err := syncd.ParseTable(text); err != nil || got != table {
				t.Errorf("%+v prints %s, which reads as %+v, %v", table, text, got, err)
			}
		}
	})
}

func FuzzParseTable(f *testing.F) {
	f.Add(`public."Odd ""Name"""`)
	f.Add("a.b")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := syncd.ParseTable(text)
		if err != nil {
			return
		}
		if again, err := syncd.ParseTable(table.String()); err != nil || again != table {
			t.Errorf("%q reads as %+v, which prints %s and reads as %+v, %v", text, table, table, again, err)
		}
	})
}

func TestOpNames(t *testing.T) {
	for op, want := range map[syncd.Op]string{syncd.Upsert: "upsert", syncd.Delete: "delete", syncd.Truncate: "truncate", 0: "op(0)", 9: "op(9)"} {
		if got := op.String(); got != want {
			t.Errorf("%d is called %q, want %q", op, got, want)
		}
	}
}
