package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// post asks with a body.
func (r *rig) post(target, body string, header ...string) *httptest.ResponseRecorder {
	return r.serveOne(httptest.NewRequest("POST", target, strings.NewReader(body)), header...)
}

func TestKeyLists(t *testing.T) {
	for s, want := range map[string][][]string{
		"in.(1)": {{"1"}}, "in.(1,2)": {{"1"}, {"2"}}, "in.((1,a),(2,b))": {{"1", "a"}, {"2", "b"}}, `in.("a,b","")`: {{"a,b"}, {""}},
		`in.("a\"b\\c(")`: {{`a"b\c(`}}, "in.( a , b.c )": {{" a "}, {" b.c "}}, `in.(("x",""),y)`: {{"x", ""}, {"y"}},
	} {
		if got, err := parseKeyList(s); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, %v; want %q", s, got, err, want)
		}
	}
	for s, says := range map[string]string{
		"": "not a list", "eq.1": "not a list", "in.1": "not a list", "in.()": "missing", "in.(1,)": "key 2", "in.(1": "closing", "in.(1)x": `"x"`, "in.((1,2)": "closing",
		"in.((1,2": "closing", `in.("a`: "not closed", `in.("a\`: "not closed", `in.("a"b)`: "comma", "in.(a\x00)": "NUL", "in.((1),": "missing", "in.((1)(2))": "comma",
	} {
		if got, err := parseKeyList(s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %q, %v; want an error with %q", s, got, err, says)
		}
	}
	if _, err := parseKeyList("in.(1" + strings.Repeat(",1", maxKeys) + ")"); err == nil || !strings.Contains(err.Error(), "10000") {
		t.Errorf("too many keys: %v", err)
	}
}

// Whatever a key's values are, a list that quotes them gives them back.
func TestQuotedKeysComeBack(t *testing.T) {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.String().Filter(func(s string) bool { return !strings.Contains(s, "\x00") }), 1, 3)
		keys := rapid.SliceOfN(values, 1, 4).Draw(t, "keys")
		var items []string
		for _, k := range keys {
			var vs []string
			for _, v := range k {
				vs = append(vs, `"`+quote.Replace(v)+`"`)
			}
			items = append(items, "("+strings.Join(vs, ",")+")")
		}
		got, err := parseKeyList("in.(" + strings.Join(items, ",") + ")")
		if err != nil || !reflect.DeepEqual(got, keys) {
			t.Fatalf("%q gave %q, %v", keys, got, err)
		}
	})
}

func TestManyKeysOfOneTable(t *testing.T) {
	r := newRig(t)
	r.cache.commit(func(v *fakeView) {
		v.put(users, "7", `{"id":7}`)
		v.put(pairs, syncd.MakeKey("a,b", "("), `{"pair":1}`)
	})
	w := r.do("GET", "/v1/tables/public.users/rows?key=in.(7,42,9,7)")
	wantStatus(t, w, 200)
	if want := `{"version":"1764534000000-0/16B3748","items":[{"id":7},{"id":42,"name":"Ann"}],"missing":[["9"]]}` + "\n"; w.Body.String() != want {
		t.Errorf("%s, want %s", w.Body, want)
	}
	if w.Header().Get("Syncd-Version") != "1764534000000-0/16B3748" || w.Header().Get("Syncd-Age") == "" {
		t.Errorf("headers %v", w.Header())
	}
	wantStatus(t, r.do("GET", "/v1/tables/public.users/rows?key=in.(7,42,9,7)", "If-None-Match", w.Header().Get("ETag")), 304)
	r.cache.commit(func(v *fakeView) { v.put(users, "9", `{"id":9}`) })
	wantStatus(t, r.do("GET", "/v1/tables/public.users/rows?key=in.(7,42,9,7)", "If-None-Match", w.Header().Get("ETag")), 200, `"missing":[]`)
	wantStatus(t, r.do("GET", `/v1/tables/public.%22Odd%20Pairs%22/rows?key=in.(("a,b","("),(x,y))`), 200, `[{"pair":1}],"missing":[["x","y"]]`)

	for query, says := range map[string]string{
		"key=in.(1,2)&limit=5": "neither limit", "key=in.(1)&continue=1NDI": "neither limit", "key=eq.1": "not a list", "key=in.((1,2))": "2 values",
	} {
		wantStatus(t, r.do("GET", "/v1/tables/public.users/rows?"+query), 400, says)
	}
}

func TestReadsOfSeveralTablesAreOfOneCommit(t *testing.T) {
	r := newRig(t)
	r.cache.commit(func(v *fakeView) {
		v.put(pairs, syncd.MakeKey("1", "x"), `{"pair":1}`)
		v.put(pairs, syncd.MakeKey("2", "y"), `{"pair":2}`)
		v.state.Tables[users].Verified.At = r.clock.Add(-2e9)
		v.state.Tables[pairs].Verified.At = r.clock.Add(-5e9)
		v.state.Tables[pairs].Open["1\x00x"] = sink.Open{Deltas: []sink.Seen{{Version: syncd.Version{Epoch: epoch, LSN: 0x16B3700}}}}
	})
	body := `{"reads":[{"table":"public.users","keys":[["42"],["43"],[44]]},{"table":"public.\"Odd Pairs\"","limit":1},{"table":"public.\"Odd Pairs\"","keys":[["2","y"]]},{"table":"public.users","keys":[]}]}`
	w := r.post("/v1/read", body)
	wantStatus(t, w, 200)
	var got struct {
		Version string
		Results []struct {
			Table    string
			Items    []map[string]any
			Missing  [][]string
			Continue string
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	if w.Header().Get("Content-Length") != fmt.Sprint(w.Body.Len()) {
		t.Errorf("Content-Length %s of %d", w.Header().Get("Content-Length"), w.Body.Len())
	}
	if len(got.Results) != 4 || len(got.Results[0].Items) != 1 || !reflect.DeepEqual(got.Results[0].Missing, [][]string{{"43"}, {"44"}}) ||
		len(got.Results[1].Items) != 1 || got.Results[1].Continue == "" || got.Results[2].Items[0]["pair"] != 2.0 || got.Results[3].Items == nil {
		t.Fatalf("%s", w.Body)
	}
	// The answer claims no more than the least complete of its parts, and is as true as the least true.
	if got.Version != "1764534000000-0/16B36FF" || w.Header().Get("Syncd-Version") != got.Version || w.Header().Get("Syncd-Verified-Age") != "5.000" {
		t.Errorf("version %s, headers %v", got.Version, w.Header())
	}
	next := r.post("/v1/read", `{"reads":[{"table":"public.\"Odd Pairs\"","continue":"`+got.Results[1].Continue+`"}]}`)
	wantStatus(t, next, 200, `"items":[{"pair":`)
}

func TestReadsThatAreRefused(t *testing.T) {
	r := newRig(t)
	r.cache.commit(func(v *fakeView) {
		v.table(syncd.Table{Schema: "public", Name: "late"}, "id").Listed = false
		v.table(syncd.Table{Schema: "public", Name: "logs"}, "id").Info.Error = "it has no key"
	})
	one := func(s string) string { return `{"reads":[{"table":"public.users"},` + s + `]}` }
	for _, c := range []struct {
		query, body string
		status      int
		says        string
	}{
		{"", "", 400, "ends in the middle"},
		{"", "nonsense", 400, "byte 2"},
		{"", "[]", 400, "a JSON array"},
		{"", "{}", 400, "missing or empty"},
		{"", `{"reads":[]}`, 400, "missing or empty"},
		{"", `{"reads":{}}`, 400, "reads is a JSON object"},
		{"", `{"reeds":[]}`, 400, "reeds"},
		{"", `{"reads":[{"table":"public.users"}]} {}`, 400, "follows"},
		{"", "{\"reads\":[{\"table\":\"public.\xff\"}]}", 400, "UTF-8"},
		{"", one(`{"table":"users"}`), 400, "reads[1]"},
		{"", one(`{}`), 400, "reads[1]"},
		{"", one(`{"table":"public.users","limit":0}`), 400, "limit"},
		{"", one(`{"table":"public.users","limit":1.5}`), 400, "limit"},
		{"", one(`{"table":"public.users","continue":"zz"}`), 400, "continue"},
		{"", one(`{"table":"public.users","keys":[["1"]],"limit":1}`), 400, "neither filter"},
		{"", one(`{"table":"public.users","keys":[[]]}`), 400, "keys[0]"},
		{"", one(`{"table":"public.users","keys":["1"]}`), 400, "keys"},
		{"", one(`{"table":"public.users","keys":[[null]]}`), 400, "null"},
		{"", one(`{"table":"public.users","keys":[["a\u0000"]]}`), 400, "NUL"},
		{"", one(`{"table":"public.users","keys":[["1","2"]]}`), 400, "2 values"},
		{"", one(`{"table":"public.users","limit":10000}`), 400, "10100 rows"},
		{"", `{"reads":[` + strings.Repeat(`{"table":"public.users","limit":1},`, 100) + `{"table":"public.users"}]}`, 400, "101 reads"},
		{"", one(`{"table":"public.nobody"}`), 404, "reads[1]: no table public.nobody"},
		{"", one(`{"table":"public.late"}`), 503, "reads[1]: table public.late is not listed"},
		{"", one(`{"table":"public.logs"}`), 503, "no key"},
		{"?limit=1", one(`{"table":"public.users"}`), 400, "limit"},
		{"?max_age=1ms", `{"reads":[{"table":"public.users"}]}`, 503, "old"},
		{"?min_version=0/17B3748&timeout=0s", `{"reads":[{"table":"public.users"}]}`, 504, "behind"},
		{"", `{"reads":"` + strings.Repeat("x", maxBody) + `"}`, 413, "1048576"},
	} {
		wantStatus(t, r.post("/v1/read"+c.query, c.body), c.status, c.says)
	}
	wantStatus(t, r.post("/v1/read", one(`{"table":"public.users"}`), "Content-Encoding", "gzip"), 415, "gzip")
	wantStatus(t, r.do("GET", "/v1/read"), 405, "POST")
}

func TestSeveralTablesWaitForOneVersion(t *testing.T) {
	r := newRig(t)
	done := make(chan *httptest.ResponseRecorder)
	go func() {
		done <- r.post("/v1/read?min_version=0/16B3800&timeout=5m", `{"reads":[{"table":"public.users","keys":[["42"]]},{"table":"public.\"Odd Pairs\""}]}`)
	}()
	<-r.asker.hint
	r.cache.commit(func(v *fakeView) { v.state.Tables[users].Through.LSN = 0x16B3800 }) // one of the two alone
	r.cache.commit(func(v *fakeView) { v.through(0x16B3800, r.clock); v.put(users, "42", `{"id":42,"new":true}`) })
	w := <-done
	wantStatus(t, w, 200, `"new":true`, "0/16B3800")
}

// brokenView is a view whose store can't be read.
type brokenView struct{ sink.View }

func (brokenView) Err() error { return io.ErrUnexpectedEOF }

type brokenCache struct{ *fakeCache }

func (c brokenCache) View() sink.View { return brokenView{c.fakeCache.View()} }

func TestNothingIsAnsweredFromAStoreThatCantBeRead(t *testing.T) {
	r := newRig(t)
	r.Cache = brokenCache{r.cache}
	for _, target := range []string{row42, "/v1/tables/public.users/rows", "/v1/tables/public.users/rows?key=in.(42)"} {
		wantStatus(t, r.do("GET", target), 503, "can't be read")
	}
	wantStatus(t, r.post("/v1/read", `{"reads":[{"table":"public.users"}]}`), 503, "can't be read")
}

func TestKeysFitTheirTypes(t *testing.T) {
	const id = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
	for _, c := range []struct{ typ, value, want string }{
		{"integer", "42", "42"}, {"integer", "-0042", "-42"}, {"integer", "+7", "7"}, {"integer", "2147483647", "2147483647"}, {"integer", "2147483648", "!"},
		{"integer", "abc", "!"}, {"integer", "1.0", "!"}, {"integer", " 1", "!"}, {"integer", "1_0", "!"}, {"smallint", "32768", "!"}, {"bigint", "9223372036854775807", "9223372036854775807"},
		{"bigint", "9223372036854775808", "!"}, {"oid", "4294967295", "4294967295"}, {"oid", "-1", "!"},
		{"boolean", "t", "t"}, {"boolean", "True", "t"}, {"boolean", "false", "f"}, {"boolean", "yes", "!"}, {"boolean", "1", "!"},
		{"uuid", id, id}, {"uuid", strings.ToUpper(id), id}, {"uuid", "{" + id + "}", id}, {"uuid", strings.ReplaceAll(id, "-", ""), id}, {"uuid", id[1:], "!"}, {"uuid", "x" + id[1:], "!"},
		{"numeric", "1.00", "1.00"}, {"numeric(10,2)", "1.0", "1.0"}, {"numeric", "NaN", "NaN"}, {"numeric", "one", "!"}, {"double precision", "1e+20", "1e+20"}, {"real", "-Infinity", "-Infinity"}, {"real", "", "!"},
		{"text", "anything", "anything"}, {"character varying(3)", "longer", "longer"}, {"date", "yesterday", "yesterday"}, {"public.mood", "sad", "sad"},
	} {
		info := &syncd.TableInfo{Table: users, Columns: []string{"name", "id"}, Types: []string{"text", c.typ}, Key: []string{"id"}}
		k, err := fitKey(info, []string{c.value})
		if c.want == "!" {
			if err == nil || !strings.Contains(err.Error(), c.typ) || !strings.Contains(err.Error(), `"id"`) {
				t.Errorf("%s %q: %q, %v", c.typ, c.value, k, err)
			}
		} else if err != nil || string(k) != c.want {
			t.Errorf("%s %q: %q, %v; want %q", c.typ, c.value, k, err, c.want)
		}
	}
	r := newRig(t)
	r.cache.commit(func(v *fakeView) {
		v.state.Tables[users].Info.Columns, v.state.Tables[users].Info.Types = []string{"id", "name"}, []string{"integer", "text"}
	})
	wantStatus(t, r.do("GET", "/v1/tables/public.users/rows/abc"), 400, `\"id\"`, "integer", "abc")
	wantStatus(t, r.do("GET", "/v1/tables/public.users/rows/0042"), 200, "Ann")
	wantStatus(t, r.do("GET", "/v1/tables/public.users/rows?key=in.(1,x)"), 400, "integer")
	wantStatus(t, r.post("/v1/read", `{"reads":[{"table":"public.users","keys":[["x"]]}]}`), 400, "reads[0]", "integer")
}

// restlessCache commits behind each view that it gives.
type restlessCache struct {
	*fakeCache
	next func()
}

func (c restlessCache) View() sink.View {
	v := c.fakeCache.View()
	c.next()
	return v
}

func TestACommitAmidAReadOfSeveralTablesIsNotSeen(t *testing.T) {
	r := newRig(t)
	moved := 0
	move := func() {
		r.cache.commit(func(v *fakeView) {
			v.put(users, "1", fmt.Sprintf(`{"amount":%d}`, 1000-moved))
			v.put(pairs, syncd.MakeKey("1", "1"), fmt.Sprintf(`{"amount":%d}`, moved))
		})
		moved++
	}
	move()
	r.Cache = restlessCache{r.cache, move}
	for range 3 {
		w := r.post("/v1/read", `{"reads":[{"table":"public.users","keys":[["1"]]},{"table":"public.\"Odd Pairs\""}]}`)
		wantStatus(t, w, 200)
		var got struct {
			Results []struct{ Items []struct{ Amount int } }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if sum := got.Results[0].Items[0].Amount + got.Results[1].Items[0].Amount; sum != 1000 {
			t.Errorf("%d in all: %s", sum, w.Body)
		}
	}
}
