package api

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/explain"
)

var _ Explainer = (*explain.Explainer)(nil)

// explains is an Explainer that says what it was asked.
type explains struct{ err error }

func (x explains) Explain(_ context.Context, t syncd.Table, k syncd.Key) (*explain.Explanation, error) {
	return &explain.Explanation{Table: t.String(), Key: k.Path(), Stream: explain.Stream{Deltas: []explain.Delta{}}, Verdict: explain.Verdict{Code: explain.Equal}}, x.err
}

func TestExplain(t *testing.T) {
	r := newRig(t)
	wantStatus(t, r.do("GET", "/v1/tables/public.users/explain/42"), 501)
	r.API.Explain = explains{}
	w := r.do("GET", "/v1/tables/public.%22Odd%20Pairs%22/explain/a%2Cb,%2E%2E")
	wantStatus(t, w, 200, `"deltas":[]`, `"row":null`)
	var e explain.Explanation
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Table != `public."Odd Pairs"` || e.Key != syncd.MakeKey("a,b", "..").Path() {
		t.Errorf("it was asked about %s %s: %v", e.Table, e.Key, err)
	}
	wantStatus(t, r.do("POST", "/v1/tables/public.users/explain/42"), 405)
	wantStatus(t, r.do("GET", "/v1/tables/public.users/explain/1,2"), 400, "has 2 values")
	wantStatus(t, r.do("GET", "/v1/tables/public.users/explain/1/2"), 400, "%2F")
	wantStatus(t, r.do("GET", "/v1/tables/public.users/explain/42?x=1"), 400)
	wantStatus(t, r.do("GET", "/v1/tables/public.nobody/explain/42"), 404, "public.users")
	r.API.Explain = explains{syncd.ErrNoTable}
	wantStatus(t, r.do("GET", "/v1/tables/public.users/explain/42"), 404)
	r.API.Explain = explains{errors.New("the cache is closed")}
	wantStatus(t, r.do("GET", "/v1/tables/public.users/explain/42"), 500)
}
