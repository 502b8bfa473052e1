package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

func TestTables(t *testing.T) {
	r := newRig(t)
	r.cache.commit(func(v *fakeView) {
		users := v.state.Tables[users]
		users.Verified = sink.Verified{Position: syncd.Position{Epoch: epoch, LSN: 0x16B3000}, At: r.clock.Add(-time.Minute)}
		users.Resynced = r.clock.Add(-time.Minute)
		users.Open["42"] = sink.Open{Parked: true}
		users.Open["43"] = sink.Open{}
		v.table(syncd.Table{Schema: "public", Name: "logs"}).Info.Error = "no key"
	})
	const want = `[{"table":"public.\"Odd Pairs\"","rows":0,"version":"1764534000000-0/16B3748","through":"0/16B3748","verified_through":null,` +
		`"verified_age_seconds":null,"lag_seconds":0.25,"ready":true,"error":"","open_keys":0,"parked_keys":0,"resynced":null},` +
		`{"table":"public.logs","rows":0,"version":"1764534000000-0/16B3748","through":"0/16B3748","verified_through":null,` +
		`"verified_age_seconds":null,"lag_seconds":0.25,"ready":false,"error":"no key","open_keys":0,"parked_keys":0,"resynced":null},` +
		`{"table":"public.users","rows":1,"version":"1764534000000-0/16B3748","through":"0/16B3748","verified_through":"1764534000000-0/16B3000",` +
		`"verified_age_seconds":60,"lag_seconds":0.25,"ready":true,"error":"","open_keys":1,"parked_keys":1,"resynced":"2026-01-02T03:03:05Z"}]`
	w := r.do("GET", "/v1/tables")
	wantStatus(t, w, 200)
	if got := strings.TrimSpace(w.Body.String()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTablesWhileANewEpochIsListed(t *testing.T) {
	r := newRig(t)
	r.cache.newest = &sink.State{Cursor: syncd.Cursor{Position: syncd.Position{Epoch: epoch + 1, LSN: 7}}, Tables: map[syncd.Table]*sink.TableState{
		users: {Stopped: "it would delete 9 of 10 rows"}, pairs: {Listed: true},
	}}
	w := r.do("GET", "/v1/tables")
	wantStatus(t, w, 200, `"version":"1764534000000-0/16B3748"`, `"stopped":"it would delete 9 of 10 rows","relist":"a new epoch has begun`)
	if n := strings.Count(w.Body.String(), "a new epoch"); n != 1 {
		t.Errorf("%d tables are said to be listed: %s", n, w.Body)
	}
}

func TestProbes(t *testing.T) {
	r := newRig(t)
	wantStatus(t, r.do("GET", "/healthz"), 200, "ok")
	wantStatus(t, r.do("GET", "/readyz"), 200, "ok")
	r.node.notReady = "public.users is being listed"
	wantStatus(t, r.do("GET", "/readyz"), 503, "being listed")
	wantStatus(t, r.do("GET", "/healthz"), 200)
	wantStatus(t, r.do("GET", row42), 200) // reads go on
}

func TestStatus(t *testing.T) {
	r := newRig(t)
	r.node.notReady = "the bus is away"
	w := r.do("GET", "/v1/status")
	wantStatus(t, w, 200)
	var s Status
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if s.Name != "shop" || s.Ready || s.WaitsFor != "the bus is away" || s.Version != "1764534000000-0/16B3748" || *s.LagSeconds != 0.25 || len(s.Tables) != 2 {
		t.Errorf("status %s", w.Body)
	}
	r.cache.commit(func(v *fakeView) { *v.state = sink.State{} })
	wantStatus(t, r.do("GET", "/v1/status"), 200, `"running":[],"reports":[]`, `"version":""`, `"lag_seconds":null`, `"tables":[]`)
}

func TestMetrics(t *testing.T) {
	r := newRig(t)
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "syncd_gaps_total", Help: "x"})
	reg.MustRegister(c)
	r.API = New(Options{Cache: r.cache, Resync: r.resync, Node: r.node, Marks: r.marks, Gatherer: reg})
	wantStatus(t, r.do("GET", "/metrics"), 200, "syncd_gaps_total 0")
}

// TestPage: the status page holds no data and nothing from elsewhere, and its policy lets its own script run and ask this
// server, nothing else. What it asks for is guarded by the token as ever.
func TestPage(t *testing.T) {
	r := newRig(t)
	token := &Token{}
	token.Set("s3cret")
	r.API.Access.Token = token
	w := r.do("GET", "/")
	wantStatus(t, w, 200, "<title>syncd</title>")
	policy := w.Header().Get("Content-Security-Policy")
	script := regexp.MustCompile(`(?s)<script>(.*)</script>`).FindStringSubmatch(w.Body.String())
	if len(script) != 2 || strings.Count(w.Body.String(), "<script") != 1 {
		t.Fatal("the page has other scripts than one")
	}
	sum := sha256.Sum256([]byte(script[1]))
	for _, want := range []string{"default-src 'none'", "connect-src 'self'", "script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy is %s, without %s", policy, want)
		}
	}
	for _, foreign := range regexp.MustCompile(`(?:src|href|url)\s*[=(]\s*["']?(?:https?:)?//[^"')\s]+`).FindAllString(w.Body.String(), -1) {
		t.Errorf("the page asks elsewhere: %s", foreign)
	}
	wantStatus(t, r.do("GET", "/v1/status"), 401, "a token is required")
	wantStatus(t, r.do("GET", "/?x=1"), 400, "x")
}
