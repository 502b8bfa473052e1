// Package examples holds small clients of a sidecar in several languages. Its test runs each against a real one.
package examples

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/daemon"
	"github.com/syncd-io/syncd/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// clients are the commands that run the examples. Where one is missing the test fails: CI installs all of them.
var clients = []struct {
	name, program, install string
	args                   []string
}{
	{"curl", "curl", "Debian's package curl", []string{"sh", "curl/syncd.sh"}},
	{"go", "go", "Go", nil},
	{"python", "python3", "Debian's package python3", []string{"python3", "python/syncd.py"}},
	{"node", "node", "Node 18 or newer (Debian's package nodejs)", []string{"node", "node/syncd.mjs"}},
}

// shop is a running syncd: its database, its sidecar's address, the file of its SQLite sink.
type shop struct {
	t    *testing.T
	db   *harness.DB
	addr string
	file string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, db: harness.Database(t)}
	s.db.Exec(`CREATE TABLE orders (id bigint PRIMARY KEY, state text); INSERT INTO orders SELECT i, 'open' FROM generate_series(1, 3) i`)
	dir := t.TempDir()
	s.file = filepath.Join(dir, "cache.db")
	file := filepath.Join(dir, "syncd.yaml")
	text := fmt.Sprintf(`name: %s
source: {postgres: %q, tables: [public.orders]}
bus: {embedded: {dir: %q}}
sidecar: {listen: "127.0.0.1:0", data: %q, sinks: [memory, {sqlite: {path: %q}}]}
`, s.db.Name, s.db.URL, filepath.Join(dir, "nats"), filepath.Join(dir, "sidecar"), s.file)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	roles := config.SourceRole | config.SidecarRole
	c, err := config.Load(config.Sources{File: file}, roles)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done, listening := make(chan error, 1), make(chan string, 1)
	go func() {
		done <- daemon.Run(ctx, daemon.Options{Config: c, Roles: roles, Program: "test", Log: harness.Logger(t), Listening: func(a string) { listening <- a }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("syncd: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	s.addr = harness.Receive(t, "the sidecar to listen", listening)
	harness.Eventually(t, "the sidecar to be ready", func() error {
		resp, err := http.Get(s.addr + "/readyz")
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
	return s
}

// version gives what a read of the table answers as Syncd-Version.
func (s *shop) version() string {
	s.t.Helper()
	resp, err := http.Get(s.addr + "/v1/tables/public.orders/rows?timeout=30s&min_version=" + s.db.LSN().String())
	if err != nil {
		s.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		s.t.Fatal(resp.Status)
	}
	return resp.Header.Get("Syncd-Version")
}

// invoke runs a client, and gives what it prints, without spaces, and its exit status.
func invoke(t *testing.T, command []string, args ...string) (out string, status int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], args...)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	b, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		status = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if errs.Len() > 0 {
		t.Logf("%s: %s", strings.Join(cmd.Args, " "), &errs)
	}
	return strings.ReplaceAll(string(b), `": `, `":`), status
}

func TestClients(t *testing.T) {
	t.Parallel()
	for i, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.program); err != nil {
				t.Fatalf("%v: install %s", err, c.install)
			}
			command := c.args
			if command == nil {
				command = []string{build(t)}
			}
			s := newShop(t)
			id := 100 + i

			// It reads its own write.
			before := s.version()
			s.db.Exec("INSERT INTO orders VALUES ($1, 'new')", id)
			row := fmt.Sprintf(`{"id":%d,"state":"new"}`, id)
			if out, status := invoke(t, command, s.addr, "read", "public.orders", fmt.Sprint(id), s.db.LSN().String()); status != 0 || noSpace(out) != row {
				t.Errorf("read gave %d %q", status, out)
			}
			if out, status := invoke(t, command, s.addr, "read", "public.orders", "99"); status != 1 || strings.Contains(out, `"id"`) {
				t.Errorf("a read of no row gave %d %q", status, out)
			}

			// Many keys in one request.
			out, status := invoke(t, command, s.addr, "many", "public.orders", "1", "99", fmt.Sprint(id))
			for _, want := range []string{`{"id":1,"state":"open"}`, row, "missing", "99"} {
				if status != 0 || !strings.Contains(noSpace(out), want) {
					t.Errorf("many gave %d %q, want %s in it", status, out, want)
				}
			}

			// Changes behind a version, and the rows.
			s.db.Exec("DELETE FROM orders WHERE id = 1")
			s.version()
			out, status = invoke(t, command, s.addr, "watch", "public.orders", "2", before)
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if status != 0 || len(lines) != 2 || !strings.HasPrefix(lines[0], "upsert ") || !strings.Contains(noSpace(lines[0]), row) || !strings.HasPrefix(lines[1], "delete ") {
				t.Errorf("watch gave %d %q", status, out)
			}
			if out, status = invoke(t, command, s.addr, "watch", "public.orders", "3"); status != 0 || strings.Count(out, "upsert ") != 3 {
				t.Errorf("a watch with the rows gave %d %q", status, out)
			}
			for _, wrong := range [][]string{{"nonsense", "public.orders", "1"}, {"watch", "public.orders", "x"}, {"watch", "public.orders", "0"}, {"read"}} {
				if out, status := invoke(t, command, append([]string{s.addr}, wrong...)...); status != 2 || out != "" {
					t.Errorf("%q gave %d %q", wrong, status, out)
				}
			}
			if out, status := invoke(t, command, "http://127.0.0.1:1", "read", "public.orders", "1"); status != 1 || out != "" {
				t.Errorf("a sidecar that is away gave %d %q", status, out)
			}
		})
	}
}

func noSpace(s string) string { return strings.Join(strings.Fields(s), "") }

func build(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "client")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./go").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// The SQLite sink's file is queried by another process while it is written.
func TestSQLiteFile(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatalf("%v: install Debian's package python3", err)
	}
	s := newShop(t)
	s.db.Exec("UPDATE orders SET state = 'paid' WHERE id = 2")
	if out, status := invoke(t, []string{"python3", "sqlite/query.py"}, s.file+".nowhere", "SELECT 1"); status != 1 || out != "" {
		t.Errorf("a file that is not there gave %d %q", status, out)
	}
	harness.Eventually(t, "the file to have the change", func() error {
		out, status := invoke(t, []string{"python3", "sqlite/query.py"}, s.file, `SELECT id, state FROM "public.orders" ORDER BY id`)
		if want := `{"id":1,"state":"open"}{"id":2,"state":"paid"}{"id":3,"state":"open"}`; status != 0 || noSpace(out) != want {
			return fmt.Errorf("%d %q", status, out)
		}
		return nil
	})
}
