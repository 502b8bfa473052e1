package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/harness"
)

// running is a process of both roles within the test.
type running struct {
	t       *testing.T
	db      *harness.DB
	config  *config.Config
	client  *http.Client
	stopped chan error
	stop    context.CancelFunc
}

// newConfig is a configuration on a database with one published and one unpublished table.
func newConfig(t *testing.T, db *harness.DB) *config.Config {
	t.Helper()
	db.Exec("CREATE TABLE people (id int PRIMARY KEY, name text); INSERT INTO people VALUES (1, 'Ann'); CREATE TABLE other (id serial)")
	dir := t.TempDir()
	c := config.Default()
	c.Name = db.Name
	c.Source.Postgres = config.NewSecret(db.URL)
	c.Source.Tables = []config.SourceTable{{Table: "public.people"}}
	c.Bus.Embedded.Dir = filepath.Join(dir, "nats")
	c.Sidecar.Data = filepath.Join(dir, "sidecar")
	c.Sidecar.Listen = "unix:" + filepath.Join(dir, "api.sock")
	c.Defaults()
	return c
}

// startRunning runs a configuration until the test's end.
func startRunning(t *testing.T, c *config.Config, db *harness.DB, change func(*Options)) *running {
	t.Helper()
	r := &running{t: t, db: db, config: c, stopped: make(chan error, 1)}
	o := Options{Config: c, Roles: config.SourceRole | config.SidecarRole, Program: "test", Log: harness.Logger(t)}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.stopped <- Run(ctx, o) }()
	r.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", c.Sidecar.Listen[len("unix:"):])
	}}}
	t.Cleanup(func() {
		cancel()
		r.client.CloseIdleConnections()
	})
	return r
}

// ends stops the process and wants it to end well.
func (r *running) ends() {
	r.t.Helper()
	r.stop()
	if err := harness.Receive(r.t, "the process to stop", r.stopped); err != nil {
		r.t.Errorf("it ended with %v", err)
	}
}

func (r *running) get(path string) (int, string, http.Header) {
	resp, err := r.client.Get("http://syncd" + path)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error(), nil
	}
	return resp.StatusCode, string(b), resp.Header
}

func (r *running) want(path string, status int, body string) {
	r.t.Helper()
	if code, got, _ := r.get(path); code != status || body != "" && got != body {
		r.t.Fatalf("GET %s: %d %s, want %d %s", path, code, got, status, body)
	}
}

func (r *running) ready() {
	r.t.Helper()
	harness.Eventually(r.t, "the process to be ready", func() error {
		if code, body, _ := r.get("/readyz"); code != 200 {
			return errors.New(body)
		}
		return nil
	})
}

const row1 = "/v1/tables/public.people/rows/1"

func TestRunBothRoles(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	r := startRunning(t, newConfig(t, db), db, nil)
	r.ready()
	r.want(row1, 200, `{"id":1,"name":"Ann"}`)
	db.Exec("UPDATE people SET name = 'Bob' WHERE id = 1")
	r.want(row1+"?timeout=30s&min_version="+db.LSN().String(), 200, `{"id":1,"name":"Bob"}`)
	_, _, h := r.get(row1)
	r.want(row1+"?min_version="+h.Get("Syncd-Version"), 200, "")
	r.want(row1+"?timeout=10ms&min_version=FFFFFFFF/0", 504, "")
	r.ends()
}

// A read that waits for a place in the log which no published change will ever pass is answered because the source is
// asked to move on, and not because its idle markers come by once a second.
func TestReadsAskAnIdleSourceToMoveOn(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	r := startRunning(t, newConfig(t, db), db, nil)
	r.ready()
	var took []time.Duration
	for range 21 {
		db.Exec("INSERT INTO other DEFAULT VALUES")
		lsn := db.LSN()
		began := time.Now()
		r.want(row1+"?timeout=30s&min_version="+lsn.String(), 200, "")
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("median %s, longest %s", took[10], took[20])
	if _, body, _ := r.get("/metrics"); !strings.Contains(body, `syncd_source_requests_total{code="200",endpoint="mark"}`) {
		t.Error("no read has asked the source for a marker")
	}
	r.ends()
}

func TestStatusAndMetricsOfAProcess(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	r := startRunning(t, newConfig(t, db), db, nil)
	r.ready()
	db.Exec("UPDATE people SET name = 'Bob' WHERE id = 1")
	r.want(row1+"?timeout=30s&min_version="+db.LSN().String(), 200, "")
	_, body, _ := r.get("/v1/status")
	var s struct {
		Name, Program, Bus string
		Ready              bool
		Tables             []struct{ Table string }
		Reports            []struct {
			Table    string
			Complete bool
		}
	}
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatal(err)
	}
	if s.Name != db.Name || s.Program != "test" || s.Bus != "connected" || !s.Ready || len(s.Tables) != 1 || len(s.Reports) != 1 || !s.Reports[0].Complete {
		t.Errorf("status %s", body)
	}
	resp, err := r.client.Get("http://syncd/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	problems, err := promlint.New(resp.Body).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
	_, text, _ := r.get("/metrics")
	for _, part := range []string{
		"syncd_source_leader 1", `syncd_source_changes_total{op="upsert",table="public.people"} 1`, `syncd_sidecar_rows{table="public.people"} 1`,
		`syncd_build_info{commit="",goversion="go`, "go_goroutines", `syncd_bus_connected{role="sidecar"} 1`, `syncd_http_requests_total{code="200",endpoint="readyz"} `, `syncd_bus_connected{role="source"} 1`,
		"syncd_source_marker_age_seconds 0", `syncd_source_table_refused{table="public.people"} 0`, `syncd_source_list_rows_total{table="public.people"} 1`,
		`syncd_source_requests_total{code="200",endpoint="list"}`, "syncd_sidecar_pending_messages 0", `syncd_sidecar_refused{table="public.people"} 0`, "process_resident_memory_bytes",
	} {
		if !strings.Contains(text, "\n"+part) {
			t.Errorf("metrics lack %s", part)
		}
	}
	r.ends()
}

func TestTokenOfAProcess(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	c := newConfig(t, db)
	c.Sidecar.Token = config.NewSecret("s3cret")
	r := startRunning(t, c, db, nil)
	r.ready()
	r.want(row1, 401, "")
	req, _ := http.NewRequest("GET", "http://syncd"+row1, nil)
	req.Header.Set("Authorization", "Bearer s3cret")
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
	r.ends()
}

func TestStoppedBeforeItIsReady(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	c := newConfig(t, db)
	for i := range 5 {
		heard := make(chan string, 1)
		r := startRunning(t, c, db, func(o *Options) { o.Listening = func(a string) { heard <- a } })
		if i > 0 {
			harness.Receive(t, "the API to listen", heard)
		}
		r.ends()
	}
}
