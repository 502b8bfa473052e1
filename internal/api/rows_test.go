package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

func TestRowIsTheBytesOfTheCache(t *testing.T) {
	r := newRig(t)
	w := r.do("GET", "/v1/tables/public.users/rows/42")
	wantStatus(t, w, 200)
	if got := w.Body.String(); got != `{"id":42,"name":"Ann"}` {
		t.Errorf("body %q", got)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Syncd-Version": "1764534000000-0/16B3748", "Syncd-Age": "0.250", "Syncd-Verified-Age": "", "Cache-Control": "no-cache",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	r.cache.commit(func(v *fakeView) { v.state.Tables[users].Verified.At = r.clock.Add(-90e9) })
	if got := r.do("GET", "/v1/tables/public.users/rows/42").Header().Get("Syncd-Verified-Age"); got != "90.000" {
		t.Errorf("Syncd-Verified-Age %q", got)
	}
}

func TestEntityTags(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/v1/tables/public.users/rows/42", "/v1/tables/public.users/rows"} {
		etag := r.do("GET", path).Header().Get("ETag")
		if etag == "" {
			t.Fatalf("%s: no ETag", path)
		}
		w := r.do("GET", path, "If-None-Match", `"other", `+etag)
		wantStatus(t, w, 304)
		if w.Body.Len() != 0 || w.Header().Get("Syncd-Version") == "" {
			t.Errorf("%s: a 304 with body %q and version %q", path, w.Body, w.Header().Get("Syncd-Version"))
		}
		wantStatus(t, r.do("GET", path, "If-None-Match", `*`), 304)
		r.cache.commit(func(v *fakeView) { v.put(users, "42", `{"id":42,"name":"Bob`+path+`"}`) })
		wantStatus(t, r.do("GET", path, "If-None-Match", etag), 200, "Bob")
	}
	// A marker alone moves the version of a page and not its rows.
	etag := r.do("GET", "/v1/tables/public.users/rows").Header().Get("ETag")
	r.cache.commit(func(v *fakeView) { v.through(0x16B4000, r.clock) })
	wantStatus(t, r.do("GET", "/v1/tables/public.users/rows", "If-None-Match", etag), 304)
}

func TestRefusals(t *testing.T) {
	r := newRig(t)
	r.cache.commit(func(v *fakeView) {
		v.table(syncd.Table{Schema: "public", Name: "logs"}, "id").Info.Error = "it has no key; ALTER TABLE public.logs ADD PRIMARY KEY (…)"
		v.table(syncd.Table{Schema: "public", Name: "late"}, "id").Listed = false
	})
	cases := []struct {
		method, target string
		status         int
		says           []string
	}{
		{"GET", "/v1/tables/public.users/rows/43", 404, []string{"no row 43 in public.users"}},
		{"GET", "/v1/tables/public.nobody/rows/43", 404, []string{"public.nobody", "public.users", `public.\"Odd Pairs\"`}},
		{"GET", "/v1/tables/users/rows/43", 400, []string{"schema.table"}},
		{"GET", "/v1/tables/public.users/rows/", 400, []string{"missing"}},
		{"GET", "/v1/tables/public.users/rows/1,2", 400, []string{"2 values", "(id)"}},
		{"GET", "/v1/tables/public.%22Odd%20Pairs%22/rows/1", 400, []string{"1 values", "(a, b)"}},
		{"GET", "/v1/tables/public.users/rows/1/2", 400, []string{"%2F"}},
		{"GET", "/v1/tables/public.users/rows/%00", 400, []string{"NUL"}},
		{"GET", "/v1/tables/public.logs/rows/1", 503, []string{"ALTER TABLE"}},
		{"GET", "/v1/tables/public.late/rows/1", 503, []string{"not listed yet"}},
		{"GET", "/v1/tables/public.late/rows", 503, []string{"not listed yet"}},
		{"GET", "/v1/tables/public.users/rows/42?min_version=yesterday", 400, []string{"min_version", "yesterday"}},
		{"GET", "/v1/tables/public.users/rows/42?minversion=0/1", 400, []string{"minversion", "min_version, timeout, max_age"}},
		{"GET", "/v1/tables/public.users/rows/42?timeout=6m", 400, []string{"timeout", "5m"}},
		{"GET", "/v1/tables/public.users/rows/42?timeout=5", 400, []string{"timeout"}},
		{"GET", "/v1/tables/public.users/rows/42?timeout=-1s", 400, []string{"negative"}},
		{"GET", "/v1/tables/public.users/rows/42?timeout=1s&timeout=2s", 400, []string{"2 times"}},
		{"GET", "/v1/tables/public.users/rows/42?limit=1", 400, []string{"limit"}},
		{"GET", "/v1/tables/public.users/rows/42?a;b", 400, []string{"query"}},
		{"GET", "/v1/tables/public.users/rows/42?max_age=100ms", 503, []string{"250ms old"}},
		{"GET", "/v1/tables/public.users/rows?limit=0", 400, []string{"limit"}},
		{"GET", "/v1/tables/public.users/rows?limit=-1", 400, []string{"limit"}},
		{"GET", "/v1/tables/public.users/rows?email=eq.a", 400, []string{"email", "key, select, limit, continue, min_version"}},
		{"GET", "/v1/tables/public.users/rows?continue=nonsense", 400, []string{"continue"}},
		{"POST", "/v1/tables/public.users/rows/42", 405, []string{"GET, HEAD"}},
		{"GET", "/v1/tables/public.users/resync", 405, []string{"POST"}},
		{"POST", "/v1/tables/public.users/resync?mode=quick", 400, []string{"digest or full"}},
		{"POST", "/v1/tables/public.users/resync?approve_prune=1", 400, []string{"true nor false"}},
		{"POST", "/v1/tables/public.nobody/resync", 404, []string{"public.users"}},
		{"POST", "/v1/tables/public.logs/resync", 503, []string{"ALTER TABLE"}},
		{"GET", "/v1/tables/public.users/diff?mode=full", 400, []string{"takes none"}},
		{"GET", "/v1/tables?limit=1", 400, []string{"takes none"}},
		{"GET", "/v1/nothing", 404, []string{"/v1/tables"}},
		{"GET", "//v1/tables", 404, nil},
		{"GET", "/v1/tables/", 404, nil},
		{"GET", "/v1/tables//rows", 404, nil},
		{"GET", "/v1/tables/public.users", 404, nil},
		{"DELETE", "/v1/tables", 405, []string{"GET"}},
	}
	for _, c := range cases {
		t.Run(c.method+" "+c.target, func(t *testing.T) {
			w := r.do(c.method, c.target)
			wantStatus(t, w, c.status, c.says...)
			var body struct{ Error string }
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Error == "" {
				t.Errorf("body %s: %v", w.Body, err)
			}
			if c.status == 405 && w.Header().Get("Allow") == "" {
				t.Error("a 405 without Allow")
			}
		})
	}
	if got := r.do("GET", "/v1/tables/public.late/rows").Header().Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After %q", got)
	}
}

func TestBeforeTheTablesAreKnown(t *testing.T) {
	r := newRig(t)
	r.cache.commit(func(v *fakeView) { *v.state = sink.State{} })
	w := r.do("GET", "/v1/tables/public.users/rows/1")
	wantStatus(t, w, 503, "not known yet")
	if w.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	wantStatus(t, r.do("GET", "/v1/tables"), 200, "[]")
}

func TestClosedCache(t *testing.T) {
	r := newRig(t)
	r.cache.now = nil
	for _, target := range []string{row42, "/v1/tables/public.users/rows", "/v1/tables", "/v1/status", "/v1/tables/public.users/diff"} {
		wantStatus(t, r.do("GET", target), 503, "stopping")
	}
}

// oddValues are key values that URLs, proxies and routers like to mangle.
var oddValues = []string{
	"", ".", "..", "/", "a/b", "//", ",", "a,b", "%", "%2F", "%252C", "+", "a b", `"`, `""`, `"""`, `a"b`, "é", "\u2028", "\x01", "\x7f", "?", "#", "a?b#c", "&=;", ":@", "~", "*", "日本", strings.Repeat("x", 4096), "\xff\xfe",
}

func TestOddKeysOverARealConnection(t *testing.T) {
	r := newRig(t)
	server := httptest.NewServer(r)
	defer server.Close()
	for i, v := range oddValues {
		one, two := syncd.MakeKey(v), syncd.MakeKey(v, oddValues[(i+7)%len(oddValues)])
		r.cache.commit(func(f *fakeView) {
			f.put(users, one, fmt.Sprintf(`{"one":%d}`, i))
			f.put(pairs, two, fmt.Sprintf(`{"two":%d}`, i))
		})
		wantBody(t, server.URL+"/v1/tables/public.users/rows/"+one.Path(), fmt.Sprintf(`{"one":%d}`, i))
		wantBody(t, server.URL+"/v1/tables/public.%22Odd%20Pairs%22/rows/"+two.Path(), fmt.Sprintf(`{"two":%d}`, i))
	}
}

func wantBody(t *testing.T, url, want string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatalf("get %q: %v", url, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || string(b) != want {
		t.Fatalf("get %q: %d %s (%v), want %s", url, resp.StatusCode, b, err, want)
	}
}

// A raw double quote in a path makes net/url encode the whole path anew, and a comma of the key was lost by that.
func TestEncodedCommaBesideARawQuote(t *testing.T) {
	r := newRig(t)
	key := syncd.MakeKey(`"a,b`)
	r.cache.commit(func(v *fakeView) { v.put(users, key, `{"quoted":true}`) })
	wantStatus(t, r.do("GET", `/v1/tables/public.users/rows/"a%2Cb`), 200, "quoted")
	wantStatus(t, r.do("GET", `/v1/tables/public."users"/rows/%22a%2cb`), 200, "quoted")
	wantStatus(t, r.do("GET", `/v1/tables/PUBLIC.Users/rows/%22a%2cb`), 200, "quoted")
}

func TestAnyKeyIsFound(t *testing.T) {
	r := newRig(t)
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.StringN(0, 20, 80), rapid.StringMatching(`["%,./+ ]{0,5}`),
			rapid.Map(rapid.SliceOfN(rapid.ByteRange(1, 255), 0, 20), func(b []byte) string { return string(b) }))
		noNUL := value.Filter(func(s string) bool { return !strings.Contains(s, "\x00") })
		key := syncd.MakeKey(noNUL.Draw(t, "a"), noNUL.Draw(t, "b"))
		r.cache.commit(func(v *fakeView) { v.put(pairs, key, `{"found":true}`) })
		w := r.do("GET", "/v1/tables/public.%22Odd%20Pairs%22/rows/"+key.Path())
		if w.Code != 200 || w.Body.String() != `{"found":true}` {
			t.Fatalf("key %q: %d %s", key.Values(), w.Code, w.Body)
		}
	})
}

type pageBody struct {
	Version  string
	Items    []struct{ ID int }
	Continue string
}

func (r *rig) page(t *testing.T, query string) pageBody {
	t.Helper()
	w := r.do("GET", "/v1/tables/public.users/rows?"+query)
	wantStatus(t, w, 200)
	if n := w.Header().Get("Content-Length"); n != fmt.Sprint(w.Body.Len()) {
		t.Fatalf("Content-Length %s, body of %d", n, w.Body.Len())
	}
	var p pageBody
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	if p.Version != w.Header().Get("Syncd-Version") {
		t.Fatalf("version %q, header %q", p.Version, w.Header().Get("Syncd-Version"))
	}
	return p
}

func TestPagesHoldEveryRowThatStaysWhileOthersComeAndGo(t *testing.T) {
	for _, limit := range []int{1, 2, 7, 50, 100000} {
		r := newRig(t)
		r.cache.commit(func(v *fakeView) {
			for i := range 300 {
				v.put(users, syncd.MakeKey(fmt.Sprint(i)), fmt.Sprintf(`{"id":%d}`, i))
			}
		})
		seen := map[int]int{}
		next := ""
		for n := 0; ; n++ {
			p := r.page(t, fmt.Sprintf("limit=%d%s", limit, next))
			for _, item := range p.Items {
				seen[item.ID]++
			}
			if p.Continue == "" {
				break
			}
			if len(p.Items) != limit {
				t.Fatalf("a page of %d with limit %d is not the last", len(p.Items), limit)
			}
			next = "&continue=" + p.Continue
			last := p.Items[len(p.Items)-1].ID
			r.cache.commit(func(v *fakeView) { // the row that the token names goes, others come
				if last%2 == 1 {
					delete(v.rows[users], syncd.MakeKey(fmt.Sprint(last)))
				}
				v.put(users, syncd.MakeKey(fmt.Sprint(1000+n)), fmt.Sprintf(`{"id":%d}`, 1000+n))
			})
		}
		for i := range 300 {
			if seen[i] != 1 {
				t.Errorf("limit %d: row %d came %d times", limit, i, seen[i])
			}
		}
	}
}

func TestEmptyTableAndDefaultLimit(t *testing.T) {
	r := newRig(t)
	w := r.do("GET", "/v1/tables/public.%22Odd%20Pairs%22/rows")
	wantStatus(t, w, 200)
	if got := w.Body.String(); got != `{"version":"1764534000000-0/16B3748","items":[]}`+"\n" {
		t.Errorf("body %s", got)
	}
	r.cache.commit(func(v *fakeView) {
		for i := range 10100 {
			v.put(users, syncd.MakeKey(fmt.Sprint(i)), fmt.Sprintf(`{"id":%d}`, i))
		}
	})
	if n := len(r.page(t, "").Items); n != 100 {
		t.Errorf("%d rows without a limit", n)
	}
	for _, limit := range []string{"10001", "99999999999999999999999"} {
		if p := r.page(t, "limit="+limit); len(p.Items) != 10000 || p.Continue == "" {
			t.Errorf("%d rows with limit %s, continue %q", len(p.Items), limit, p.Continue)
		}
	}
}

func TestHead(t *testing.T) {
	r := newRig(t)
	server := httptest.NewServer(r)
	defer server.Close()
	resp, err := http.Head(server.URL + "/v1/tables/public.users/rows/42")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 || resp.ContentLength != 22 || resp.Header.Get("Syncd-Version") == "" {
		t.Errorf("%d, length %d, headers %v", resp.StatusCode, resp.ContentLength, resp.Header)
	}
}
