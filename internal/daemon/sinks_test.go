package daemon

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/syncd-io/syncd/internal/api"
	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/resync"
)

// sqliteSink gives a sink in a file of its own, and a connection that reads the file as another process would.
func sqliteSink(t *testing.T) (config.Sink, *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cache.db")
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return config.Sink{Kind: "sqlite", SQLite: &config.SQLiteSink{Path: path}}, db
}

// wantName waits until others see a name in the SQLite file.
func wantName(t *testing.T, db *sql.DB, want string) {
	t.Helper()
	harness.Eventually(t, "the SQLite file to hold "+want, func() error {
		var name string
		if err := db.QueryRow(`SELECT name FROM "public.people" WHERE id = 1`).Scan(&name); err != nil {
			return err
		}
		if name != want {
			return fmt.Errorf("it holds %s", name)
		}
		return nil
	})
}

// TestSQLiteAlone keeps a cache in a SQLite file alone: HTTP reads it there, and a second process finds it there at once.
func TestSQLiteAlone(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	c := newConfig(t, db)
	one, file := sqliteSink(t)
	c.Sidecar.Sinks = []config.Sink{one}
	c.Sidecar.Tables = []config.SidecarTable{{Table: "public.people", Indexes: []config.Index{{"name"}}}}
	r := startRunning(t, c, db, nil)
	r.ready()
	r.want(row1, 200, `{"id":1,"name":"Ann"}`)
	db.Exec("UPDATE people SET name = 'Bob' WHERE id = 1")
	r.want(row1+"?timeout=30s&min_version="+db.LSN().String(), 200, `{"id":1,"name":"Bob"}`)
	wantName(t, file, "Bob")
	var indexes int
	if err := file.QueryRow(`SELECT count(*) FROM pragma_index_list('public.people') WHERE name LIKE '\_syncd\_index%' ESCAPE '\'`).Scan(&indexes); err != nil || indexes != 1 {
		t.Errorf("%d indexes: %v", indexes, err)
	}
	_, list, _ := r.get("/v1/tables/public.people/rows?name=eq.Bob")
	if !strings.Contains(list, `{"id":1,"name":"Bob"}`) {
		t.Errorf("a filtered list gives %s", list)
	}
	r.ends()
	wantName(t, file, "Bob")
	r = startRunning(t, c, db, nil)
	harness.Eventually(t, "the rows that are kept to be served", func() error {
		if code, body, _ := r.get(row1); code != 200 || body != `{"id":1,"name":"Bob"}` {
			return errors.New(body)
		}
		return nil
	})
	r.ends()
}

// TestSeveralSinks keeps a cache in memory and two in files: readiness, resyncs and metrics are of all.
func TestSeveralSinks(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	c := newConfig(t, db)
	one, first := sqliteSink(t)
	two, second := sqliteSink(t)
	c.Sidecar.Sinks = []config.Sink{{Kind: "memory"}, one, two}
	r := startRunning(t, c, db, nil)
	r.ready()
	wantName(t, first, "Ann") // ready is: all are
	wantName(t, second, "Ann")
	db.Exec("UPDATE people SET name = 'Bob' WHERE id = 1")
	wantName(t, first, "Bob")
	wantName(t, second, "Bob")
	r.want(row1+"?timeout=30s&min_version="+db.LSN().String(), 200, `{"id":1,"name":"Bob"}`)
	spoil(t, one.SQLite.Path, `UPDATE "public.people" SET name = 'Mallory'`)
	var report resync.Report
	harness.Eventually(t, "a resync to find what was spoilt", func() error { // the source may answer with a page from just before
		resp, err := r.client.Post("http://syncd/v1/tables/public.people/resync?mode=digest", "", nil)
		if err != nil {
			return err
		}
		report = resync.Report{}
		err = errors.Join(json.NewDecoder(resp.Body).Decode(&report), resp.Body.Close())
		if err == nil && report.Repaired == 0 {
			err = fmt.Errorf("%d %+v", resp.StatusCode, report)
		}
		return err
	})
	if !report.Complete || report.Corrupt != 1 || report.Repaired != 1 || len(report.Samples) != 1 {
		t.Errorf("the resync of all: %+v", report)
	}
	wantName(t, first, "Bob")
	_, text, _ := r.get("/metrics")
	for _, part := range []string{`syncd_sidecar_rows{sink="memory",table="public.people"} 1`, `syncd_sidecar_rows{sink="sqlite",table="public.people"} 1`, `syncd_sidecar_rows{sink="sqlite2",table="public.people"} 1`} {
		if !strings.Contains(text, "\n"+part) {
			t.Errorf("metrics lack %s", part)
		}
	}
	_, body, _ := r.get("/v1/status")
	var s api.Status
	if err := json.Unmarshal([]byte(body), &s); err != nil || len(s.Sinks) != 3 || s.Sinks[2].Sink != "sqlite2" || !s.Sinks[2].Ready || s.Sinks[2].Rows != 1 {
		t.Errorf("status %s %v", body, err)
	}
	r.ends()
}

// spoil changes a file behind the sidecar's back.
func spoil(t *testing.T, path, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(text)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestSinkFileInUse refuses a file that another process has, by name.
func TestSinkFileInUse(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	c := newConfig(t, db)
	one, _ := sqliteSink(t)
	c.Sidecar.Sinks = []config.Sink{{Kind: "memory"}, one}
	r := startRunning(t, c, db, nil)
	r.ready()
	other := *c
	other.Sidecar.Data, other.Bus.Embedded.Dir, other.Sidecar.Listen = t.TempDir(), t.TempDir(), "127.0.0.1:0"
	err := Run(context.Background(), Options{Config: &other, Roles: config.SidecarRole, Program: "test", Log: harness.Logger(t)})
	if err == nil || !strings.Contains(err.Error(), one.SQLite.Path) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a file in use: %v", err)
	}
	r.ends()
}

// TestJoinedReports gives the differences of all sinks as one report.
func TestJoinedReports(t *testing.T) {
	t.Parallel()
	samples := make([]resync.Sample, resync.MaxSamples)
	got := joined([]*resync.Report{nil, {Rows: 5, Missing: 1, Repaired: 1, Complete: true, Samples: samples}, {Rows: 5, Stale: 2, Repaired: 2, Seconds: 3, Samples: samples, Error: "away"}})
	if got.Rows != 5 || got.Missing != 1 || got.Stale != 2 || got.Repaired != 3 || got.Complete || got.Seconds != 3 || got.Error != "away" || len(got.Samples) != resync.MaxSamples {
		t.Errorf("%+v", got)
	}
	if joined([]*resync.Report{nil, nil}) != nil {
		t.Error("a report of nothing")
	}
}
