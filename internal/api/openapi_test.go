package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/explain"
	"github.com/syncd-io/syncd/resync"
)

// served reads the document as a client gets it, and has it validated.
func served(t *testing.T, r *rig) *openapi3.T {
	t.Helper()
	w := r.do("GET", "/v1/openapi.json")
	wantStatus(t, w, 200)
	doc, err := openapi3.NewLoader().LoadFromData(w.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Fatalf("version %q", doc.OpenAPI)
	}
	return doc
}

func TestEveryEndpointIsDescribed(t *testing.T) {
	doc := served(t, newRig(t))
	described := map[endpoint]bool{}
	for path, item := range doc.Paths.Map() {
		at, err := parseRoute(strings.NewReplacer("{TABLE}", "public.users", "{KEY}", "42").Replace(path))
		if err != nil || at.endpoint == nowhere {
			t.Errorf("%s leads nowhere", path)
			continue
		}
		described[at.endpoint] = true
		for method := range item.Operations() {
			if !at.endpoint.allows(method) {
				t.Errorf("%s does not take %s", path, method)
			}
		}
	}
	for e := range methods {
		if endpoint(e) != nowhere && !described[endpoint(e)] {
			t.Errorf("%s is not described", paths[e])
		}
		if (paths[e] == "") != (endpoint(e) == nowhere) {
			t.Errorf("endpoint %d has no path", e)
		}
	}
}

// target is the path of an operation, of a table and a key that are there.
func (o *operation) target() string {
	return strings.NewReplacer("{TABLE}", "public.users", "{KEY}", "42").Replace(o.path())
}

// An unknown parameter is refused with the list of those that there are, so the list is what the document must hold.
func TestEveryParameterIsDescribed(t *testing.T) {
	r := newRig(t)
	doc := served(t, r)
	examples := map[string]string{"min_version": "0/1", "timeout": "1s", "max_age": "1h", "limit": "5", "continue": continueToken("1"), "key": "in.(1)", "select": "id", "since": "0/1", "list": "true", "mode": "full", "approve_prune": "true"}
	for i := range operations {
		o := &operations[i]
		var names []string
		for _, p := range doc.Paths.Find(o.path()).GetOperation(o.method()).Parameters {
			if p.Value.In == "query" && p.Value.Name != "filter" {
				names = append(names, p.Value.Name)
			}
		}
		_, list, _ := strings.Cut(knownParams(names), " ")
		w := r.ask(o, "?nonsense=1", `{"reads":[{"table":"public.users"}]}`)
		wantStatus(t, w, 400, "nonsense", list)
		r.cache.commit(func(v *fakeView) { v.state.Tables[users].Info.Columns = []string{"id", "name"} })
		if o.columns {
			wantStatus(t, r.ask(o, "?name=eq.Ann", ""), 200)
		}
		for _, name := range names {
			value, ok := examples[name]
			if !ok {
				t.Fatalf("%s: no example for the parameter %s", o.id, name)
			}
			wantStatus(t, r.ask(o, "?"+name+"="+value, `{"reads":[{"table":"public.users"}]}`), 200)
		}
	}
	for name := range parameters {
		if _, ok := examples[name]; !ok {
			t.Errorf("the parameter %s is described and no operation takes it", name)
		}
	}
}

func (r *rig) ask(o *operation, query, body string, header ...string) *httptest.ResponseRecorder {
	if o.body == "" {
		body = ""
	}
	ctx := context.Background()
	if o.endpoint == watchTable { // it lasts as long as its client
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
	}
	return r.serveOne(httptest.NewRequestWithContext(ctx, o.method(), o.target()+query, strings.NewReader(body)), header...)
}

type explained struct{}

func (explained) Explain(context.Context, syncd.Table, syncd.Key) (*explain.Explanation, error) {
	return &explain.Explanation{Stream: explain.Stream{Deltas: []explain.Delta{{}}}, Cache: explain.Cache{Open: &explain.Open{}}}, nil
}

type brokenGatherer struct{}

func (brokenGatherer) Gather() ([]*dto.MetricFamily, error) { return nil, errors.New("broken") }

// provoke has an operation answer with a status.
func provoke(t *testing.T, o *operation, status int) *httptest.ResponseRecorder {
	r := newRig(t)
	r.Explain = explained{}
	r.resync.report.Samples = []resync.Sample{{Key: "1", Kind: "stale"}}
	const body = `{"reads":[{"table":"public.users","keys":[["42"],["43"]]},{"table":"public.users","limit":1}]}`
	switch status {
	case 304:
		return r.ask(o, "", body, "If-None-Match", "*")
	case 400:
		return r.ask(o, "?nonsense=1", body)
	case 401:
		r.Access.Token = &Token{}
		r.Access.Token.Set("secret")
	case 403:
		return r.ask(o, "", body, "Sec-Fetch-Site", "cross-site")
	case 404:
		r.cache.commit(func(v *fakeView) { delete(v.state.Tables, users) })
	case 410:
		r.history.gone = true
		return r.ask(o, "?since=0/1", body)
	case 409:
		r.resync.err = resync.ErrStopped
	case 413:
		return r.ask(o, "", strings.Repeat(" ", maxBody+1))
	case 415:
		return r.ask(o, "", body, "Content-Encoding", "gzip")
	case 421:
		r.Access.LocalOnly = true
	case 429:
		r.resync.err = syncd.ErrBusy
	case 500:
		r.API.metrics = New(Options{Gatherer: brokenGatherer{}}).metrics
	case 501:
		r.Explain, r.API.History = nil, nil
	case 502:
		r.resync.err = errors.New("the source is away")
	case 503:
		r.busy.n.Store(int64(r.Limits.Requests))
	case 504:
		return r.ask(o, "?timeout=0s&min_version=0/17B3748", body)
	}
	return r.ask(o, "", body)
}

func TestEveryStatusIsDescribedAndAnswered(t *testing.T) {
	doc := served(t, newRig(t))
	for i := range operations {
		o := &operations[i]
		for code, response := range doc.Paths.Find(o.path()).GetOperation(o.method()).Responses.Map() {
			if code == "default" {
				continue
			}
			t.Run(o.id+" "+code, func(t *testing.T) {
				status, err := strconv.Atoi(code)
				if err != nil {
					t.Fatal(err)
				}
				w := provoke(t, o, status)
				if w.Code != status {
					t.Fatalf("%d %s", w.Code, w.Body)
				}
				checkBody(t, response.Value, w)
			})
		}
	}
}

// checkBody holds an answer against its description.
func checkBody(t *testing.T, described *openapi3.Response, w *httptest.ResponseRecorder) {
	t.Helper()
	for name := range described.Headers {
		if w.Header().Get(name) == "" && name != "Retry-After" && name != "Syncd-Verified-Age" {
			t.Errorf("the header %s is missing", name)
		}
	}
	if len(described.Content) == 0 {
		if w.Body.Len() > 0 {
			t.Errorf("a body: %s", w.Body)
		}
		return
	}
	media := described.Content.Get(w.Header().Get("Content-Type"))
	if media == nil {
		if w.Code == http.StatusInternalServerError { // client_golang's own
			return
		}
		t.Fatalf("the media type %q is not described", w.Header().Get("Content-Type"))
	}
	if w.Header().Get("Content-Type") != "application/json" {
		return
	}
	var v any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	if err := media.Schema.Value.VisitJSON(v, openapi3.EnableJSONSchema2020()); err != nil {
		t.Errorf("%v in %s", err, w.Body)
	}
}

// checkDescribed holds every answer of every test of this package against the list of statuses.
func checkDescribed(t testing.TB, r *http.Request, status int) {
	at, err := parseRoute(rawPath(r.URL))
	if err != nil || at.endpoint == nowhere || !at.endpoint.allows(r.Method) {
		return
	}
	i := slices.IndexFunc(operations, func(o operation) bool { return o.endpoint == at.endpoint })
	if status == http.StatusInternalServerError { // the default: what went wrong inside
		return
	}
	if i < 0 || !slices.Contains(operations[i].all(), status) {
		t.Errorf("%s %s answers %d, which is not described", r.Method, r.URL, status)
	}
}

var _ prometheus.Gatherer = brokenGatherer{}
