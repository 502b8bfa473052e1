package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// searchRig has a table of orders whose columns are known.
func searchRig(t testing.TB) *rig {
	r := newRig(t)
	r.cache.commit(func(v *fakeView) {
		info := &v.state.Tables[users].Info
		info.Columns, info.Types = []string{"id", "name", "state", `a,"b`}, []string{"integer", "text", "text", "boolean"}
		for i, row := range []string{
			`{"id":1,"name":"Ann","state":"new","a,\"b":true}`, `{"id":2,"name":"Bo","state":"paid","a,\"b":null}`,
			`{"id":3,"name":null,"state":"new","a,\"b":false}`, `{"id":42,"name":"Cy","state":"sent","a,\"b":true}`,
		} {
			key := fmt.Sprint(i + 1)
			if i == 3 {
				key = "42"
			}
			v.put(users, syncd.MakeKey(key), row)
		}
	})
	return r
}

func TestSearch(t *testing.T) {
	t.Parallel()
	r := searchRig(t)
	for query, want := range map[string]string{
		"state=eq.new":                       "1 3",
		"state=eq.new&name=is.not_null":      "1",
		"state=in.(paid,sent)&id=gt.2":       "42",
		"id=gt.1&id=lt.42":                   "2 3",
		"name=not.eq.Ann":                    "2 42",
		url.QueryEscape(`a,"b`) + "=is.true": "1 42",
		"id=eq.7":                            "",
	} {
		var body struct{ Items []struct{ ID int } }
		w := r.do("GET", "/v1/tables/public.users/rows?"+query)
		wantStatus(t, w, 200)
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, item := range body.Items {
			got[fmt.Sprint(item.ID)] = true
		}
		for _, id := range strings.Fields(want) {
			if !got[id] {
				t.Errorf("%s: row %s is missing in %s", query, id, w.Body)
			}
		}
		if len(got) != len(strings.Fields(want)) {
			t.Errorf("%s: %s, want %s", query, w.Body, want)
		}
	}
	for query, want := range map[string]string{
		"id=eq.42&select=state,id":                                        `"items":[{"state":"sent","id":42}]`,
		"id=eq.1&select=*":                                                `"items":[{"id":1,"name":"Ann","state":"new","a,\"b":true}]`,
		"id=eq.2&select=" + url.QueryEscape(`"a,\"b",name`):               `"items":[{"a,\"b":null,"name":"Bo"}]`,
		"key=in.(42)&select=name":                                         `"items":[{"name":"Cy"}]`,
		"select=id&id=lt.2&min_version=0/1&timeout=1s&limit=5&max_age=1h": `"items":[{"id":1}]`,
	} {
		if w := r.do("GET", "/v1/tables/public.users/rows?"+query); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want %s", query, w.Code, w.Body, want)
		}
	}
	for query, want := range map[string]string{
		"nmae=eq.x":               `nor a column of public.users; did you mean name?: there are`,
		"limitt=5":                "did you mean limit?",
		"name=like.A*":            "there are eq, neq, gt, gte, lt, lte, in, is",
		"id=eq.x":                 "filter id=eq.x",
		"select=id,nmae":          "did you mean name?",
		"select=id,id":            "there twice",
		"select=":                 "names no columns",
		"select=x:id":             "renames, casts",
		"select=id&select=name":   "given 2 times",
		"key=in.(1)&state=eq.new": "conditions on columns",
	} {
		wantStatus(t, r.do("GET", "/v1/tables/public.users/rows?"+query), 400)
		var body struct{ Error string }
		_ = json.Unmarshal(r.do("GET", "/v1/tables/public.users/rows?"+query).Body.Bytes(), &body)
		if !strings.Contains(body.Error, want) {
			t.Errorf("%s: %q, want it to say %q", query, body.Error, want)
		}
	}
}

// TestSearchPages: whatever changes between two pages, a row that was there and matched throughout is on exactly one page,
// and no row is on two.
func TestSearchPages(t *testing.T) {
	t.Parallel()
	r := searchRig(t)
	rapid.Check(t, func(t *rapid.T) {
		states := []string{"new", "paid", "sent"}
		put := func(v *fakeView, id int, state string) {
			v.put(users, syncd.MakeKey(fmt.Sprint(id)), fmt.Sprintf(`{"id":%d,"state":"%s"}`, id, state))
		}
		throughout := map[int]bool{}
		r.cache.commit(func(v *fakeView) {
			clear(v.rows[users])
			for id := range rapid.IntRange(0, 40).Draw(t, "rows") {
				state := rapid.SampledFrom(states).Draw(t, "state")
				throughout[id] = state != "sent"
				put(v, id, state)
			}
		})
		seen := map[int]int{}
		for next := ""; ; {
			w := r.do("GET", "/v1/tables/public.users/rows?select=id&state=in.(new,paid)&limit=3"+next)
			var body struct {
				Items    []struct{ ID int }
				Continue string
			}
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != 200 {
				t.Fatalf("%d %s: %v", w.Code, w.Body, err)
			}
			for _, item := range body.Items {
				seen[item.ID]++
			}
			if body.Continue == "" {
				break
			}
			next = "&continue=" + body.Continue
			r.cache.commit(func(v *fakeView) {
				id, state := rapid.IntRange(0, 50).Draw(t, "changed"), rapid.SampledFrom(append(states, "gone")).Draw(t, "to")
				if state == "gone" || state == "sent" {
					delete(throughout, id)
				}
				if state == "gone" {
					delete(v.rows[users], syncd.MakeKey(fmt.Sprint(id)))
					return
				}
				put(v, id, state)
			})
		}
		for id, matched := range throughout {
			if matched && seen[id] != 1 {
				t.Fatalf("row %d was there throughout and came %d times", id, seen[id])
			}
		}
		for id, n := range seen {
			if n > 1 {
				t.Fatalf("row %d came %d times", id, n)
			}
		}
	})
}

func TestReadManyFiltered(t *testing.T) {
	t.Parallel()
	r := searchRig(t)
	w := r.post("/v1/read", `{"reads":[{"table":"public.users","filter":{"state":"eq.new","id":["gt.0","lt.3"]},"select":"id"},{"table":"public.users","keys":[[42]],"select":"name"}]}`)
	wantStatus(t, w, 200, `"items":[{"id":1}]`, `"items":[{"name":"Cy"}]`)
	wantStatus(t, r.post("/v1/read", `{"reads":[{"table":"public.users","filter":{"stat":"eq.new"}}]}`), 400, "reads[0]", "did you mean state?")
	wantStatus(t, r.post("/v1/read", `{"reads":[{"table":"public.users","filter":{"state":7}}]}`), 400, "no condition on a column")
	wantStatus(t, r.post("/v1/read", `{"reads":[{"table":"public.users","keys":[[1]],"filter":{"state":"eq.new"}}]}`), 400, "neither filter")
}

// TestFaultIsSaid: what keeps a table's first list from coming to its end is in the answer of its reads, and in the status.
func TestFaultIsSaid(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.node.fault = "raise sidecar.max_memory"
	r.cache.commit(func(v *fakeView) { v.table(syncd.Table{Schema: "public", Name: "late"}, "id").Listed = false })
	for _, target := range []string{"/v1/tables/public.late/rows", "/v1/tables/public.late/rows/1", "/v1/tables/public.late/rows?key=in.(1)"} {
		wantStatus(t, r.do("GET", target), 503, "not listed yet", "raise sidecar.max_memory")
	}
	wantStatus(t, r.do("GET", "/v1/status"), 200, `"fault":"raise sidecar.max_memory"`)
	wantStatus(t, r.do("GET", "/v1/tables/public.users/rows"), 200)
}

func TestIndexErrorsAreSaid(t *testing.T) {
	t.Parallel()
	r := searchRig(t)
	r.Indexes = func() map[syncd.Table][][]string {
		return map[syncd.Table][][]string{users: {{"name"}, {"state", "nmae"}}}
	}
	wantStatus(t, r.do("GET", "/v1/tables"), 200, `"index_errors":["table public.users has no column`, "did you mean name?")
}

// TestSearchForAClientThatHasGone: nobody looks at a whole table for it.
func TestSearchForAClientThatHasGone(t *testing.T) {
	t.Parallel()
	r := searchRig(t)
	const rows = 5000
	r.cache.commit(func(v *fakeView) {
		for i := range rows {
			v.put(users, syncd.MakeKey(fmt.Sprint(i)), fmt.Sprintf(`{"id":%d,"state":"new"}`, i))
		}
	})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	view := r.cache.View()
	defer view.Close()
	v, looked := &attended{View: view, client: gone}, 0
	v.Rows(users, 0, func(syncd.Key, sink.Entry) bool { looked++; return true })
	if looked > 2000 || v.Err() == nil {
		t.Errorf("%d of %d rows were looked at: %v", looked, rows, v.Err())
	}
	if w := r.doContext(gone, "GET", "/v1/tables/public.users/rows?state=eq.sent"); w.Code == 200 {
		t.Errorf("it was answered: %s", w.Body)
	}
}
