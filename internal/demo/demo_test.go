package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/syncd-io/syncd/internal/harness"
)

// story takes what a demonstration says while it runs.
type story struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *story) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *story) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// nothingLeft fails where the server keeps a database or slot of the demonstration.
func nothingLeft(t *testing.T, db *harness.DB) {
	t.Helper()
	left := db.Text("SELECT (SELECT count(*) FROM pg_database WHERE datname LIKE 'syncd_demo_%') + (SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'syncd_demo_%')")
	if left != "0" {
		t.Errorf("%s databases and slots are left", left)
	}
}

func TestDemoTellsItsStory(t *testing.T) {
	db := harness.Database(t)
	t.Setenv("TMPDIR", t.TempDir())
	out := &story{}
	d := Demo{Out: out, Postgres: db.Server.URL("postgres"), Listen: "127.0.0.1:0", Duration: 5 * time.Second, Log: harness.Logger(t)}
	err := d.Run(t.Context())
	t.Log(out)
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, part := range []string{
		"Postgres ", "status page http://127.0.0.1:", "the cache follows", "changes", "rows cached", "are lost on their way", "rows wrong", "The sidecar has noticed",
		"repairs them", "diff public.customers", ": equal", "diff public.products", ": equal", "diff public.orders", ": equal", "0 rows of the cache are wrong",
	} {
		i := strings.Index(out.String()[at:], part)
		if i < 0 {
			t.Fatalf("the story lacks %q, or has it too early", part)
		}
		at += i
	}
	nothingLeft(t, db)
	if left, _ := filepath.Glob(os.Getenv("TMPDIR") + "/*"); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
}

func TestDemoEndsWhenItIsTold(t *testing.T) {
	db := harness.Database(t)
	t.Setenv("TMPDIR", t.TempDir())
	for _, moment := range []string{"Postgres ", "status page", "changes", "are lost"} {
		out := &story{}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		d := Demo{Out: out, Postgres: db.Server.URL("postgres"), Listen: "127.0.0.1:0"}
		go func() { done <- d.Run(ctx) }()
		harness.Eventually(t, "the story to come to "+moment, func() error {
			if !strings.Contains(out.String(), moment) {
				return errors.New(out.String())
			}
			return nil
		})
		cancel()
		if err := harness.Receive(t, "the demonstration to end", done); err != nil {
			t.Errorf("told to end at %q: %v", moment, err)
		}
		nothingLeft(t, db)
		if left, _ := filepath.Glob(os.Getenv("TMPDIR") + "/*"); len(left) > 0 {
			t.Errorf("files are left: %v", left)
		}
	}
}

func TestDemoWithoutAServer(t *testing.T) {
	out := &story{}
	err := Demo{Out: out, Postgres: "postgres://127.0.0.1:1/postgres"}.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("%v", err)
	}
}
