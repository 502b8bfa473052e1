package api

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/syncd-io/syncd"
)

// Whatever the path and the query, the answer is well formed, and an error says something.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{row42, "/v1/tables", "/v1/tables/public.users/rows", "/v1/tables/public.%22Odd%20Pairs%22/rows/a,%2C", "/v1/tables/%/rows/%", `/v1/tables/a."b/rows/"`, "/v1//", "/v1/tables/public.users/diff", "/v1/tables/public.users/watch", "*"} {
		for _, q := range []string{"", "min_version=0/0", "limit=5&continue=1NDI", "timeout=0s&max_age=1h", "%", "a=b;c", "continue=1", "limit=99999999999999999999", "id=in.(1,42)&select=name", "name=not.is.null&id=gt.1e9", "id=like.x", "since=1764534000000-0/1-7", "list=true&id=eq.42"} {
			f.Add(s, q)
		}
	}
	f.Fuzz(func(t *testing.T, path, query string) {
		u, err := url.ParseRequestURI("/" + strings.TrimPrefix(path, "/"))
		if err != nil || strings.Contains(query, "timeout") || strings.Contains(query, "%") {
			return // refused before it gets here; or might wait
		}
		r := newRig(t)
		w := r.doURL("GET", u, query+"&timeout=0s")
		if w.Code >= 400 {
			var body struct{ Error string }
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Error == "" {
				t.Fatalf("%d with body %q: %v", w.Code, w.Body, err)
			}
		}
		if w.Code >= 500 && w.Code != 503 && w.Code != 504 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}

// A parsed query holds only what the documentation allows.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{"", "limit=1", "limit=10001", "min_version=0/1&timeout=5m", "min_version=1-0/1-1", "continue=1NDI", "max_age=1ns", "timeout=1.5h", "limit=+1", "a;b", "%zz", "key=in.(1,2)", `key=in.((1,a),("b,c","\\""))`, "key=in.(", `key=in.("`, "key=in.()", "a=eq.1&a=gt.2&select=a,b&limit=3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		p, err := parseSearch(query)
		if err != nil {
			if err.Error() == "" {
				t.Fatal("an error without words")
			}
			return
		}
		if p.limit < 1 || p.limit > maxLimit || p.timeout < 0 || p.timeout > maxTimeout {
			t.Fatalf("%q gave %+v", query, p)
		}
		for _, key := range p.keys {
			if len(key) == 0 || strings.Contains(strings.Join(key, ""), "\x00") {
				t.Fatalf("%q gave the key %q", query, key)
			}
		}
		if p.started {
			if again, err := parseContinue(continueToken(p.after)); err != nil || again != p.after {
				t.Fatalf("token of %q: %q, %v", p.after, again, err)
			}
		}
	})
}

// A body that is taken asks for something, and for no more than is allowed.
func FuzzReads(f *testing.F) {
	for _, s := range []string{`{"reads":[{"table":"public.users","keys":[["1"],[2],[true]]},{"table":"public.\"Odd Pairs\"","limit":3,"continue":"1NDI"}]}`,
		`{"reads":[]}`, `{"reads":[{"table":"a.b","keys":[[]]}]}`, `{"reads":[{"table":"a.b","keys":[[null]]}]}`, `[]`, ``, `{"reads":[{"table":"a.b","limit":1e9}]} x`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		parts, err := parseReads(body)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "body: ") {
				t.Fatalf("%q: %v", body, err)
			}
			return
		}
		rows := 0
		for _, p := range parts {
			if rows += len(p.keys); p.keys == nil {
				rows += p.page.limit
			}
		}
		if len(parts) == 0 || len(parts) > maxReads || rows > maxKeys {
			t.Fatalf("%q gave %d reads of %d rows", body, len(parts), rows)
		}
	})
}

// A path taken apart gives its table and key as they were sent, whatever they hold.
func FuzzRoute(f *testing.F) {
	f.Add("public", "users", "42")
	f.Add("Odd.Schema", `a"b/c`, "")
	f.Add("ä", "%2F", "..")
	f.Fuzz(func(t *testing.T, schema, name, value string) {
		if schema == "" || name == "" || strings.Contains(schema+name+value, "\x00") || !utf8.ValidString(schema) || !utf8.ValidString(name) {
			return
		}
		table, key := syncd.Table{Schema: schema, Name: name}, syncd.MakeKey(value)
		u, err := url.ParseRequestURI("/v1/tables/" + url.PathEscape(table.String()) + "/rows/" + key.Path())
		if err != nil {
			t.Fatal(err)
		}
		at, err := parseRoute(rawPath(u))
		if err != nil || at.endpoint != row {
			t.Fatalf("%s: %+v, %v", u, at, err)
		}
		gotTable, err := parseTable(at.table)
		if err != nil || gotTable != table {
			t.Fatalf("table %v, want %v: %v", gotTable, table, err)
		}
		gotKey, err := parseKey(at.key, &syncd.TableInfo{Key: []string{"id"}})
		if err != nil || gotKey != key {
			t.Fatalf("key %q, want %q: %v", gotKey, key, err)
		}
	})
}
