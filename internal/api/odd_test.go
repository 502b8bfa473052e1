package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/explain"
)

// The endpoints of oddRig's table.
const (
	oddRow     = "/v1/tables/public.users/rows/42"
	oddRows    = "/v1/tables/public.users/rows"
	oddWatch   = "/v1/tables/public.users/watch"
	oddResync  = "/v1/tables/public.users/resync"
	oddDiff    = "/v1/tables/public.users/diff"
	oddExplain = "/v1/tables/public.users/explain/42"
)

type noExplainer struct{}

func (noExplainer) Explain(context.Context, syncd.Table, syncd.Key) (*explain.Explanation, error) {
	return &explain.Explanation{}, nil
}

// oddRig is an API of two tables with columns of many types.
func oddRig(t testing.TB) *rig {
	r := newRig(t)
	r.API.Explain = noExplainer{}
	r.cache.commit(func(v *fakeView) {
		v.state.Tables[users].Info.Columns = []string{"id", "name", "price", "active", "born", "ref", "tags"}
		v.state.Tables[users].Info.Types = []string{"integer", "text", "numeric(10,2)", "boolean", "timestamp with time zone", "uuid", "text[]"}
		v.state.Tables[pairs].Info.Columns, v.state.Tables[pairs].Info.Types = []string{"a", "b"}, []string{"bigint", "text"}
	})
	return r
}

// odd sends a request whose client waits for nothing that takes long, and gives status and error of the answer.
func (r *rig) odd(method, path, query, body string, header ...string) (int, string) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	if strings.HasSuffix(path, "/watch") {
		cancel() // one that begins lasts as long as its client
	}
	defer cancel()
	req := httptest.NewRequestWithContext(ctx, method, "/", strings.NewReader(body))
	u, err := url.ParseRequestURI(path)
	if err != nil {
		r.t.Fatalf("%s: %v", path, err)
	}
	req.URL, u.RawQuery = u, query
	w := r.serveOne(req, header...)
	var e struct{ Error string }
	if w.Code >= 400 {
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Error == "" {
			r.t.Errorf("%s %s?%s: %d with body %q", method, path, query, w.Code, w.Body)
		}
	}
	return w.Code, e.Error
}

var oddPositions = []string{"", "x", "0", "0/", "/1", "0/0/0", "-1", "0/1 ", "1-", "1-0", "1-0/1-x", "1-0/1-1-1", "999999999999999999999999-0/1", "0/FFFFFFFFFFFFFFFFF", "\x00", "é", "0x16/B", "16B3748",
	"latest", strings.Repeat("9", 1000)}

// odd are values that parameters can't have, by the paths that take them.
var odd = []struct {
	paths  []string
	param  string
	values []string
}{
	{[]string{oddRow, oddRows, oddWatch}, "min_version", oddPositions},
	{[]string{oddRow, oddRows, oddWatch}, "timeout", []string{"", "5", "-1s", "6m", "1h", "x", "1e3s", "5 s", "99999999999999h", "\x00", "s"}},
	{[]string{oddRow, oddRows, oddWatch}, "max_age", []string{"", "-1s", "5", "x", "1 s", "99999999999999h", "1d"}},
	{[]string{oddRows}, "limit", []string{"", "0", "-1", "1.5", "1e3", "x", " 1", "0x10", "١", "1,2", "all"}},
	{[]string{oddRows}, "continue", []string{"", "x", "2", "!!", "AAAA", "1NDI=", "1 NDI", "2NDI", strings.Repeat("A", 5000), "\x00"}},
	{[]string{oddRows, oddWatch}, "select", []string{"", ",", "id,", ",id", "nope", "**", "id as x", "id::text", "name:id", "a(b)", `"`, "id;name", "ID", "id name", "count()", "\x00"}},
	{[]string{oddRows}, "key", []string{"", "1", "42,43", "in", "in.", "in.(", "in.()", "in.(1", "in.(1,)", "in.(,1)", "in.((1,2))", "in.(1)x", `in.("1)`, "in.(x)", "in.(1.5)", "in.(99999999999)", "eq.1",
		"in.((1),(2)", "in.(1 2)", "in.(())", "in.((1)", `in.("1"2)`, "in.(\x00)", "in.(null)"}},
	{[]string{oddRows, oddWatch}, "id", []string{"", "5", "eq", "eq.", "eq.x", "like.x", "ilike.*", "match.^a", "imatch.a", "fts.x", "cs.{1}", "cd.{1}", "ov.{1}", "in.1", "in.(1", "in.(1,x)", "in.1)", "is.x", "is.NULLL", "is.true",
		"not", "not.", "not.like.x", "not.x", "gt.", "gt.x", "isdistinct.1", ".1", "=1", "eq(any).{1}", "EQ.1", "eq.1,2", "in.(1,2)x", `in.("1)`, "\x00", "eq.\x00"}},
	{[]string{oddRows, oddWatch}, "price", []string{"eq.1,2", "gt.--1", "eq.", "lt.abc", "in.(1,,2)", "eq.0x1", "eq.1_000"}},
	{[]string{oddRows, oddWatch}, "active", []string{"eq.maybe", "is.maybe", "gt.x", "eq."}},
	{[]string{oddRows, oddWatch}, "born", []string{"gt.yesterday", "eq.2026-13-01T00:00:00Z", "gt.2026-02-30", "eq.", "lt.now()", "eq.12:00"}},
	{[]string{oddRows, oddWatch}, "ref", []string{"eq.nouuid", "eq.", "in.(x)", "gt.1"}},
	{[]string{oddRows, oddWatch}, "tags", []string{"gt.a", "lt.{a}", "lte.x", "gte.x", "like.x", "is.true"}},
	{[]string{oddRow, oddRows, oddWatch, oddDiff, oddExplain, "/v1/tables", "/v1/status", "/healthz", "/readyz", "/metrics", "/v1/openapi.json"}, "nope", []string{"", "1", "eq.1"}},
	{[]string{oddRows, oddWatch}, "or", []string{"(id.eq.1,id.eq.2)"}},
	{[]string{oddRows, oddWatch}, "order", []string{"id", "id.desc"}},
	{[]string{oddRows, oddWatch}, "offset", []string{"1"}},
	{[]string{oddRow, oddRows, oddWatch}, "min_versoin", []string{"0/1"}},
	{[]string{oddRow, oddRows, oddWatch}, "Limit", []string{"1"}},
	{[]string{oddRow, oddDiff}, "limit", []string{"1"}},
	{[]string{oddRow}, "id", []string{"eq.1"}},
	{[]string{oddWatch}, "since", oddPositions},
	{[]string{oddWatch}, "list", []string{"", "yes", "1", "TRUE", "t", "\x00"}},
	{[]string{oddWatch}, "limit", []string{"1"}},
	{[]string{oddResync}, "mode", []string{"", "x", "FULL", "fulll", "digest,full", "\x00"}},
	{[]string{oddResync}, "approve_prune", []string{"", "yes", "1", "True"}},
	{[]string{oddResync}, "table", []string{"public.users"}},
}

// TestOddParameters: a value that a parameter can't have is a 400 that names the parameter.
func TestOddParameters(t *testing.T) {
	r := oddRig(t)
	n := 0
	for _, o := range odd {
		for _, path := range o.paths {
			method := http.MethodGet
			if path == oddResync {
				method = http.MethodPost
			}
			for _, v := range o.values {
				n++
				code, text := r.odd(method, path, url.Values{o.param: {v}}.Encode(), "")
				if code != http.StatusBadRequest || !strings.Contains(text, o.param) {
					t.Errorf("%s?%s=%.40q: %d %q", path, o.param, v, code, text)
				}
			}
			n++
			again := url.Values{o.param: {"1", "1"}}.Encode() // and given twice
			if code, text := r.odd(method, path, again, ""); code != http.StatusBadRequest || !strings.Contains(text, o.param) {
				t.Errorf("%s?%s: %d %q", path, again, code, text)
			}
		}
	}
	t.Logf("%d requests", n)
}

// TestOddRequests: what else can be wrong with a request, and what its answer says.
func TestOddRequests(t *testing.T) {
	r := oddRig(t)
	const read = "/v1/read"
	for _, c := range []struct {
		method, path, query, body string
		status                    int
		says                      string
	}{
		{"GET", oddRows, "%", "", 400, "percent"}, {"GET", oddRows, "%zz=1", "", 400, "percent"}, {"GET", oddRows, "id=eq.%", "", 400, "percent"}, {"GET", oddRows, "a;b", "", 400, "semicolon"},
		{"GET", oddRow, "%", "", 400, "percent"}, {"GET", oddWatch, "%", "", 400, "percent"}, {"POST", oddResync, "%", "", 400, "percent"},
		{"GET", oddRows, "=", "", 400, `""`}, {"GET", oddRows, "=x", "", 400, `""`}, {"GET", oddRow, "=x", "", 400, `""`},
		{"GET", oddRows, "key=in.(1)&limit=3", "", 400, "key"}, {"GET", oddRows, "key=in.(1)&name=eq.x", "", 400, "key"}, {"GET", oddRows, "key=in.(1)&continue=1NDI", "", 400, "key"},
		{"GET", oddRows, "id=like.1", "", 400, "eq, neq, gt, gte, lt, lte, in, is"}, {"GET", oddRows, "nam=eq.x", "", 400, "did you mean name?"},
		{"GET", oddWatch, "list=true&since=0/1", "", 400, "since"},
		{"GET", "/v1/tables/users/rows", "", "", 400, "schema"}, {"GET", "/v1/tables/.users/rows", "", "", 400, ".users"}, {"GET", "/v1/tables/public./rows", "", "", 400, "public."},
		{"GET", "/v1/tables/public.a.b/rows", "", "", 400, "public.a.b"}, {"GET", "/v1/tables/public.%22x/rows", "", "", 400, "public."},
		{"GET", "/v1/tables/public.%22Users%22/rows", "", "", 404, "public.users"}, {"GET", "/v1/tables/public.nope/rows", "", "", 404, "public.nope"}, {"GET", "/v1/tables/public.us%00ers/rows", "", "", 400, "NUL"},
		{"GET", "/v1/tables/public.%FF/rows", "", "", 400, "UTF-8"}, {"GET", "/v1/tables//rows", "", "", 404, "{TABLE}"}, {"GET", "/v1/tables/public.users", "", "", 404, "/rows"}, {"GET", "/v1/tables/public.users/", "", "", 404, "/rows"},
		{"GET", "/v1/tables/public.users/row/42", "", "", 404, "/rows"}, {"GET", "/v1/tables/public.users/rows/", "", "", 400, "key"}, {"GET", "/v1/tables/public.users/rows/1,2", "", "", 400, "2 values"},
		{"GET", "/v1/tables/public.users/rows/x", "", "", 400, "integer"}, {"GET", "/v1/tables/public.users/rows/1.5", "", "", 400, "integer"}, {"GET", "/v1/tables/public.users/rows/99999999999", "", "", 400, "integer"},
		{"GET", "/v1/tables/public.users/rows/%00", "", "", 400, "NUL"}, {"GET", "/v1/tables/public.users/rows/%ff", "", "", 400, ""}, {"GET", "/v1/tables/public.users/rows/1/2", "", "", 400, "%2F"},
		{"GET", "/v1/tables/public.users/rows/7", "", "", 404, "no row"}, {"GET", "/v1/tables/public.%22Odd%20Pairs%22/rows/1", "", "", 400, "(a, b)"}, {"GET", "/v1/tables/public.%22Odd%20Pairs%22/rows/x,1", "", "", 400, "bigint"},
		{"GET", "/v1/tables/public.users/explain/x", "", "", 400, "integer"}, {"GET", "/v1/tables/public.users/explain/", "", "", 400, "key"}, {"GET", "/v1/tables/public.nope/explain/1", "", "", 404, "public.nope"},
		{"GET", "/v1/tables/public.nope/watch", "", "", 404, "public.nope"}, {"POST", "/v1/tables/public.nope/resync", "", "", 404, "public.nope"}, {"GET", "/v1/tables/public.nope/diff", "", "", 404, "public.nope"},
		{"GET", "/v1", "", "", 404, "/v1/tables"}, {"GET", "/v2/tables", "", "", 404, "/v1/tables"}, {"GET", "/tables", "", "", 404, "/v1/tables"}, {"GET", "/v1/table", "", "", 404, "/v1/tables"}, {"GET", "/etc/passwd", "", "", 404, ""},
		{"GET", "/V1/TABLES", "", "", 404, "/v1/tables"}, {"GET", "//v1/tables", "", "", 404, ""}, {"GET", "/v1/../etc/passwd", "", "", 404, ""}, {"GET", "/favicon.ico", "", "", 404, ""},
		{"POST", oddRows, "", "", 405, "GET"}, {"DELETE", oddRow, "", "", 405, "GET"}, {"PUT", oddRow, "", "{}", 405, "GET"}, {"PATCH", oddRow, "", "{}", 405, "GET"}, {"GET", oddResync, "", "", 405, "POST"}, {"GET", read, "", "", 405, "POST"},
		{"TRACE", oddRow, "", "", 405, "GET"}, {"BREW", "/v1/tables", "", "", 405, "GET"}, {"GET", oddRows, "", "{}", 400, "body"}, {"POST", oddResync, "", `{"mode":"full"}`, 400, "body"},

		{"POST", read, "", "", 400, "body"}, {"POST", read, "", "x", 400, "byte 1"}, {"POST", read, "", "[]", 400, "body"}, {"POST", read, "", "{}", 400, `"reads"`}, {"POST", read, "", "null", 400, `"reads"`},
		{"POST", read, "", `{"reads":null}`, 400, `"reads"`}, {"POST", read, "", `{"reads":{}}`, 400, "reads"}, {"POST", read, "", `{"reads":[1]}`, 400, "reads"}, {"POST", read, "", `{"reads":[{}]}`, 400, "reads[0]"},
		{"POST", read, "", `{"reads":[{"table":"users"}]}`, 400, "reads[0]"}, {"POST", read, "", `{"reads":[{"table":5}]}`, 400, "table"}, {"POST", read, "", `{"reads":[null]}`, 400, "reads[0]"},
		{"POST", read, "", `{"reads":[{"table":"public.users"},{"table":"public.nope"}]}`, 404, "public.nope"}, {"POST", read, "", `{"reads":[{"table":"public.users","key":[["1"]]}]}`, 400, "key"},
		{"POST", read, "", `{"reads":[{"table":"public.users","keys":["1"]}]}`, 400, "keys"}, {"POST", read, "", `{"reads":[{"table":"public.users","keys":[[]]}]}`, 400, "keys[0]"},
		{"POST", read, "", `{"reads":[{"table":"public.users","keys":[["x"]]}]}`, 400, "integer"}, {"POST", read, "", `{"reads":[{"table":"public.users","keys":[["1","2"]]}]}`, 400, "2 values"},
		{"POST", read, "", `{"reads":[{"table":"public.users","keys":[[null]]}]}`, 400, "null"}, {"POST", read, "", `{"reads":[{"table":"public.users","keys":[["\u0000"]]}]}`, 400, "NUL"},
		{"POST", read, "", `{"reads":[{"table":"public.users","keys":[["1"]],"limit":1}]}`, 400, "limit"}, {"POST", read, "", `{"reads":[{"table":"public.users","limit":0}]}`, 400, "limit"},
		{"POST", read, "", `{"reads":[{"table":"public.users","limit":"5"}]}`, 400, "limit"}, {"POST", read, "", `{"reads":[{"table":"public.users","limit":1.5}]}`, 400, "limit"}, {"POST", read, "", `{"reads":[{"table":"public.users","limit":1e99}]}`, 400, "limit"},
		{"POST", read, "", `{"reads":[{"table":"public.users","continue":"x"}]}`, 400, "continue"}, {"POST", read, "", `{"reads":[{"table":"public.users","select":"nope"}]}`, 400, "nope"}, {"POST", read, "", `{"reads":[{"table":"public.users","select":["id"]}]}`, 400, "select"},
		{"POST", read, "", `{"reads":[{"table":"public.users","filter":{"id":"5"}}]}`, 400, "id"}, {"POST", read, "", `{"reads":[{"table":"public.users","filter":{"id":5}}]}`, 400, "5"}, {"POST", read, "", `{"reads":[{"table":"public.users","filter":{"id":[]}}]}`, 400, "condition"},
		{"POST", read, "", `{"reads":[{"table":"public.users","filter":{"nope":"eq.1"}}]}`, 400, "nope"}, {"POST", read, "", `{"reads":[{"table":"public.users","filter":{"name":"like.a"}}]}`, 400, "eq, neq, gt, gte, lt, lte, in, is"},
		{"POST", read, "", `{"reads":[{"table":"public.users","filter":"id=eq.1"}]}`, 400, "filter"}, {"POST", read, "", `{"reads":[{"table":"public.users"}]} x`, 400, "follows"}, {"POST", read, "", `{"reads":[{"table":"public.users"}]}{}`, 400, "follows"},
		{"POST", read, "", `{"reads":[{"table":"public.users"}`, 400, "ends"}, {"POST", read, "", `{"read":[{"table":"public.users"}]}`, 400, "read"}, {"POST", read, "", "{\"reads\":[{\"table\":\"public.\xff\"}]}", 400, "UTF-8"},
		{"POST", read, "", `{"reads":[{"table":"public.users","limit":9999},{"table":"public.users"}]}`, 400, "10000"}, {"POST", read, "", `{"reads":[` + strings.Repeat(`{"table":"public.users","limit":1},`, 100) + `{"table":"public.users"}]}`, 400, "at most 100"},
		{"POST", read, "limit=5", `{"reads":[{"table":"public.users"}]}`, 400, "limit"}, {"POST", read, "min_version=x", `{"reads":[{"table":"public.users"}]}`, 400, "min_version"}, {"POST", read, "", `{"reads":` + strings.Repeat("[", 100_000) + `}`, 400, "body"},
		{"POST", read, "", strings.Repeat(" ", 1<<20+1), 413, "1048576"},
	} {
		code, text := r.odd(c.method, c.path, c.query, c.body)
		if code != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s %s?%s %.80s: %d %.300q, want %d that says %q", c.method, c.path, c.query, c.body, code, text, c.status, c.says)
		}
	}
	for _, h := range [][]string{{"Last-Event-ID", "x"}, {"Last-Event-ID", "0/"}, {"Last-Event-ID", "1-0/1-"}} {
		if code, text := r.odd("GET", oddWatch, "", "", h...); code != http.StatusBadRequest || !strings.Contains(text, h[0]) {
			t.Errorf("%v: %d %s", h, code, text)
		}
	}
	// What looks odd and is right.
	for _, q := range []string{"limit=99999999999999999999", "select=*", "id=eq.1e9999999999", "id=not.in.(1,2)", "name=eq.", "name=in.(\"\")", "price=gt.NaN", "active=is.not_null", "%69d=eq.%34%32", "id=gt.-1e400&id=lt.1e400"} {
		if code, text := r.odd("GET", oddRows, q, ""); code != http.StatusOK {
			t.Errorf("%s: %d %s", q, code, text)
		}
	}
	if code, text := r.odd("GET", "/v1/tables/Public.USERS/rows", "", ""); code != http.StatusOK { // as SQL reads it
		t.Errorf("a name in capitals: %d %s", code, text)
	}
	if code, text := r.odd("POST", read, "", "x", "Content-Encoding", "gzip"); code != http.StatusUnsupportedMediaType || !strings.Contains(text, "Content-Encoding") {
		t.Errorf("a body in gzip: %d %s", code, text)
	}
}
