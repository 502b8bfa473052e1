package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/resync"
)

// fakeSidecar answers as a sidecar does, and remembers what it was asked.
type fakeSidecar struct {
	*httptest.Server
	answers map[string]answerOf // by method and request target
	asked   []string
	tokens  []string
}

type answerOf struct {
	status int
	body   string
}

func newFakeSidecar(t *testing.T, answers map[string]answerOf) *fakeSidecar {
	f := &fakeSidecar{answers: answers}
	f.Server = httptest.NewServer(f.handler())
	t.Cleanup(f.Close)
	return f
}

func (f *fakeSidecar) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		what := r.Method + " " + r.RequestURI
		f.asked = append(f.asked, what)
		f.tokens = append(f.tokens, r.Header.Get("Authorization"))
		a, ok := f.answers[what]
		if !ok {
			a = answerOf{404, fmt.Sprintf(`{"error":"nothing under %s"}`, what)}
		}
		w.WriteHeader(a.status)
		w.Write([]byte(a.body))
	})
}

// run runs a client command in this process.
func (f *fakeSidecar) run(t *testing.T, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	status := execute(t.Context(), append(args, "--addr", f.URL), strings.NewReader(""), &out, &errs)
	http.DefaultClient.CloseIdleConnections()
	return outcome{status, out.String(), errs.String()}
}

func TestGet(t *testing.T) {
	f := newFakeSidecar(t, map[string]answerOf{
		"GET /v1/tables/public.users/rows/42":                                                {200, `{"id":42}`},
		"GET /v1/tables/public.users/rows/42?max_age=30s&min_version=0%2F16B3748&timeout=1s": {200, `{"id":42,"fresh":true}`},
		"GET /v1/tables/public.%22Odd%20Name%22/rows/a%20b,%2C,%22%22,%2E%2E":                {200, `{"odd":1}`},
		"GET /v1/tables/public.users/rows/43":                                                {404, `{"error":"no row 43 in public.users"}`},
		"GET /v1/tables/public.users/rows/1,2":                                               {400, `{"error":"2 values"}`},
		"GET /v1/tables/public.users/rows/44":                                                {401, `{"error":"a token is required"}`},
		"GET /v1/tables/public.users/rows/45":                                                {503, `{"error":"not listed yet"}`},
		"GET /v1/tables/public.users/rows/46":                                                {502, "<html>\nbad gateway"},
	})
	f.run(t, "get", "public.users", "42").want(t, 0, "{\"id\":42}\n")
	f.run(t, "get", "PUBLIC.Users", "42", "--min-version", "0/16B3748", "--timeout", "1s", "--max-age", "30s").want(t, 0, "fresh")
	f.run(t, "get", `public."Odd Name"`, `a b,%2C,%22%22,..`).want(t, 0, "odd")
	f.run(t, "get", "public.users", "43").want(t, exitNo, "syncd: no row 43 in public.users\n")
	f.run(t, "get", "public.users", "1,2").want(t, exitUsage, "2 values")
	f.run(t, "get", "public.users", "44").want(t, exitUsage, "a token is required")
	f.run(t, "get", "public.users", "45").want(t, exitNo, "not listed yet")
	f.run(t, "get", "public.users", "46").want(t, exitUnreachable, "does not answer as a sidecar does")
}

func TestTokenAndSocket(t *testing.T) {
	f := &fakeSidecar{answers: map[string]answerOf{"GET /v1/tables/public.users/rows/42": {200, `{"id":42}`}}}
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	f.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: f.handler()}}
	f.Start()
	defer f.Close()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.URL = "unix:" + filepath.Join(dir, "s")
	f.run(t, "get", "public.users", "42", "--token-file", token).want(t, 0, `{"id":42}`)
	if f.tokens[0] != "Bearer s3cret" {
		t.Errorf("Authorization %q", f.tokens[0])
	}
}

func TestList(t *testing.T) {
	f := newFakeSidecar(t, map[string]answerOf{
		"GET /v1/tables/public.users/rows?limit=100":                                                              {200, `{"version":"1-0/1","items":[{"id":1}, {"id":2}]}`},
		"GET /v1/tables/public.users/rows?limit=2":                                                                {200, `{"version":"1-0/1","items":[{"id":1},{"id":2}],"continue":"1Mg"}`},
		"GET /v1/tables/public.users/rows?limit=10000":                                                            {200, `{"version":"1-0/1","items":[{"id":1},{"id":2}],"continue":"1Mg"}`},
		"GET /v1/tables/public.users/rows?continue=1Mg&limit=10000":                                               {200, `{"version":"1-0/2","items":[{"id":3}]}`},
		"GET /v1/tables/public.loop/rows?limit=10000":                                                             {200, `{"version":"1-0/1","items":[],"continue":"1Mg"}`},
		"GET /v1/tables/public.loop/rows?continue=1Mg&limit=10000":                                                {200, `{"version":"1-0/1","items":[],"continue":"1Mg"}`},
		"GET /v1/tables/public.odd/rows?limit=100":                                                                {200, `hello`},
		"GET /v1/tables/public.users/rows?limit=100&price=gt.1&price=lt.5&select=id%2Cprice&state=in.%28a%2Cb%29": {200, `{"version":"1-0/1","items":[{"id":7}]}`},
		"GET /v1/tables/public.users/rows?limit=100&stat=eq.a":                                                    {400, `{"error":"parameter stat: did you mean state?"}`},
	})
	o := f.run(t, "list", "public.users")
	o.want(t, 0)
	if o.out != "{\"id\":1}\n{\"id\":2}\n" || o.errs != "" {
		t.Errorf("out %q, errs %q", o.out, o.errs)
	}
	o = f.run(t, "list", "public.users", "--limit", "2")
	o.want(t, 0, "--continue 1Mg")
	if o.out != "{\"id\":1}\n{\"id\":2}\n" {
		t.Errorf("out %q", o.out)
	}
	o = f.run(t, "list", "public.users", "--limit", "0")
	o.want(t, 0)
	if o.out != "{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n" {
		t.Errorf("out %q", o.out)
	}
	f.run(t, "list", "public.users", "--limit", "2", "--json").want(t, 0, `"continue":"1Mg"`)
	f.run(t, "list", "public.loop", "--limit", "0").want(t, exitNo, "does not move on")
	f.run(t, "list", "public.odd").want(t, exitUnreachable, "does not answer as a sidecar does")
	f.run(t, "list", "public.none").want(t, exitNo, "nothing under")
	f.run(t, "list", "public.users", "--filter", "price=gt.1", "--filter", "price=lt.5", "--filter", "state=in.(a,b)", "--select", "id,price").want(t, 0, `{"id":7}`)
	f.run(t, "list", "public.users", "--filter", "stat=eq.a").want(t, exitUsage, "did you mean state?")
	f.run(t, "list", "public.users", "--filter", "state").want(t, exitUsage, "COLUMN=CONDITION")
	f.run(t, "list", "public.users", "--filter", "limit=eq.1").want(t, exitUsage, "no filter can name it")
}

const twoTables = `[{"table":"public.orders","ready":true,"error":""},{"table":"public.logs","error":"no key"},{"table":"public.users","ready":true,"error":""}]`

func reportText(t *testing.T, r resync.Report) string {
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestResyncAndDiff(t *testing.T) {
	equal := reportText(t, resync.Report{Table: "public.orders", Mode: "full", Rows: 3, Complete: true})
	differs := reportText(t, resync.Report{Table: "public.users", Mode: "full", Rows: 12345, Missing: 11, Stale: 1, Complete: true,
		Samples: []resync.Sample{{Key: "7", Kind: "missing"}}, Note: "as seen at night"})
	failed := reportText(t, resync.Report{Table: "public.users", Mode: "full", Rows: 5, Error: "Postgres is away"})
	f := newFakeSidecar(t, map[string]answerOf{
		"GET /v1/tables":                                                       {200, twoTables},
		"GET /v1/tables/public.orders/diff":                                    {200, equal},
		"GET /v1/tables/public.users/diff":                                     {200, differs},
		"POST /v1/tables/public.orders/resync":                                 {200, equal},
		"POST /v1/tables/public.users/resync":                                  {200, differs},
		"POST /v1/tables/public.users/resync?mode=full":                        {502, failed},
		"POST /v1/tables/public.orders/resync?mode=full":                       {200, equal},
		"POST /v1/tables/public.users/resync?approve_prune=true&mode=digest":   {200, equal},
		"POST /v1/tables/public.busy/resync":                                   {429, `{"error":"too many lists at a time"}`},
		"POST /v1/tables/public.users/resync?approve_prune=true&mode=nonsense": {200, equal},
		"GET /v1/tables/public.empty/diff":                                     {200, `{}`},
	})
	f.run(t, "diff", "public.orders").want(t, 0, "public.orders  full")
	o := f.run(t, "diff")
	o.want(t, exitNo, "public.logs is not synced: no key", "  public.users 7: missing", "and 11 more", "as seen at night")
	if want := "TABLE          MODE   ROWS  MISSING"; !strings.HasPrefix(o.out, want) {
		t.Errorf("out %s", o.out)
	}
	f.run(t, "diff", "--json").want(t, exitNo, `"missing":11`)
	f.run(t, "resync").want(t, 0, "12345")
	f.run(t, "resync", "--mode", "full", "public.users", "public.orders").want(t, exitUnreachable, "syncd: Postgres is away", "public.orders")
	f.run(t, "resync", "--mode", "digest", "--approve-prune", "public.users").want(t, 0)
	f.run(t, "resync", "public.busy").want(t, exitNo, "too many lists")
	f.run(t, "diff", "public.empty").want(t, exitUnreachable, "does not answer as a sidecar does")
}

func TestDiffWithNothingToCompare(t *testing.T) {
	refused := newFakeSidecar(t, map[string]answerOf{
		"GET /v1/tables": {200, `[{"table":"public.logs","error":"it has no key: ALTER TABLE public.logs ADD PRIMARY KEY (…)"},{"table":"public.gone","error":"there is no such table"}]`},
	})
	for _, command := range []string{"diff", "resync"} {
		refused.run(t, command).want(t, exitNo, "no table is synced", "public.logs: it has no key", "public.gone: there is no such table")
	}
	newFakeSidecar(t, map[string]answerOf{"GET /v1/tables": {200, `[]`}}).run(t, "diff").want(t, exitNo, "no table yet")
}

func TestStatus(t *testing.T) {
	const ready = `{"name":"shop","bus":"connected","ready":true,"version":"1-0/16B3748","lag_seconds":0.25,"tables":[
		{"table":"public.users","rows":7,"through":"0/16B3748","verified_age_seconds":61,"ready":true},
		{"table":"public.logs","error":"no key"},{"table":"public.late"},{"table":"public.halt","ready":true,"stopped":"would delete 9"}]}`
	f := newFakeSidecar(t, map[string]answerOf{"GET /v1/status": {200, ready}})
	f.run(t, "status").want(t, 0, "shop: ready", "0.2 s behind", "61.0 s ago", "never", "refused: no key", "being listed", "stopped: would delete 9")
	f.run(t, "status", "--json").want(t, 0, ready)
	f.answers["GET /v1/status"] = answerOf{200, `{"name":"shop","bus":"away","waits_for":"the first list"}`}
	f.run(t, "status").want(t, exitNo, "not ready: the first list", "no marker yet")
}

func TestProgress(t *testing.T) {
	f := newFakeSidecar(t, map[string]answerOf{
		"GET /v1/status": {200, `{"running":[{"table":"public.other","rows":1},{"table":"public.users","mode":"full","rows":1200,"expected":4000}]}`},
	})
	c := &comparer{client: client{addr: f.URL}}
	if err := c.open(); err != nil {
		t.Fatal(err)
	}
	defer c.close()
	ctx, cancel := context.WithCancel(t.Context())
	out := &lockedBuffer{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.poll(ctx, out, "public.users")
	}()
	harness.Eventually(t, "the bar to show", func() error {
		if !strings.Contains(out.String(), "1200/4000") {
			return errors.New(out.String())
		}
		return nil
	})
	cancel()
	<-done
}
