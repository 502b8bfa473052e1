package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/daemon"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/source"
)

const program = "syncd e2e"

var roles = map[string]config.Role{"source": config.SourceRole, "sidecar": config.SidecarRole}

// fleet is one sync under test: a database, a place on NATS, a source and its sidecars. Its fields may be set until
// something is started.
type fleet struct {
	t   *testing.T
	db  *harness.DB
	bus *harness.Bus
	dir string // configurations, sockets and the caches' files

	// target is a superuser's URL of the database that is synced, and postgres the URL by which the source connects; empty:
	// db's.
	target, postgres string
	// publication is one that the test made, taken as it is; empty: syncd makes and keeps its own.
	publication string
	tables      []tableConfig
	// stream is bus.stream in the configuration. The server sets aside what a stream may grow to, and many tests share one.
	stream string
	// recreate is the source's --recreate.
	recreate bool
	// more is added to source: and to sidecar: in the configuration, as YAML of one line.
	more struct{ source, sidecar string }
}

// tableConfig is a table as the configuration names it.
type tableConfig struct {
	table     syncd.Table
	columns   []string
	where     string
	generated string // omit or fetch; empty: omit
}

// newFleet makes a fleet on the shared servers. Nothing of it runs.
func newFleet(t *testing.T, tables ...string) *fleet {
	t.Helper()
	return fleetOn(t, harness.Database(t), harness.NATS(t), tables...)
}

// fleetOn makes a fleet on given servers.
func fleetOn(t *testing.T, db *harness.DB, bus *harness.Bus, tables ...string) *fleet {
	t.Helper()
	dir, err := os.MkdirTemp("", "syncd-e2e-") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	f := &fleet{t: t, db: db, bus: bus, dir: dir, target: db.URL, stream: "{max_bytes: 256MiB}"}
	for _, name := range tables {
		f.tables = append(f.tables, tableConfig{table: table(t, name)})
	}
	return f
}

func table(t *testing.T, name string) syncd.Table {
	t.Helper()
	n, err := syncd.ParseTable(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// text gives s as YAML reads it: a JSON string is one.
func text(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // no string fails
	}
	return string(b)
}

// configure writes the configuration of one process and gives its path.
func (f *fleet) configure(role, name string) string {
	f.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\nbus: {url: %s, stream: %s}\n", f.bus.Name, text(f.bus.URL), f.stream)
	switch role {
	case "source":
		f.configureSource(&b)
	case "sidecar":
		fmt.Fprintf(&b, "sidecar:\n  listen: %s\n  data: %s\n", text("unix:"+f.socket(name)), text(filepath.Join(f.dir, name)))
		if f.more.sidecar != "" {
			fmt.Fprintf(&b, "  %s\n", f.more.sidecar)
		}
	}
	path := filepath.Join(f.dir, name+".yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

func (f *fleet) configureSource(b *strings.Builder) {
	url := f.postgres
	if url == "" {
		url = f.target
	}
	fmt.Fprintf(b, "metrics: {listen: '127.0.0.1:0'}\nsource:\n  postgres: %s\n", text(url))
	if f.more.source != "" {
		fmt.Fprintf(b, "  %s\n", f.more.source)
	}
	if f.publication != "" {
		fmt.Fprintf(b, "  publication: %s\n  manage: false\n", text(f.publication))
	}
	if len(f.tables) > 0 {
		b.WriteString("  tables:\n")
	}
	for _, t := range f.tables {
		fmt.Fprintf(b, "  - table: %s\n", text(t.table.String()))
		if len(t.columns) > 0 {
			names, err := json.Marshal(t.columns)
			if err != nil {
				panic(err) // no list of strings fails
			}
			fmt.Fprintf(b, "    columns: %s\n", names)
		}
		if t.generated != "" {
			fmt.Fprintf(b, "    generated: %s\n", t.generated)
		}
		if t.where != "" {
			fmt.Fprintf(b, "    where: %s\n", text(t.where))
		}
	}
}

func (f *fleet) socket(name string) string { return filepath.Join(f.dir, name+".sock") }

// member is a process of a fleet that runs: in this process, or in one of its own that can be killed.
type member struct {
	t    *testing.T
	name string
	end  func()        // tells it to end
	done chan struct{} // closed when it has ended
	err  error         // why it ended; set before done is closed
	told bool          // it was told to end
	log  *safeBuffer   // what it has logged
	kill func()        // ends it as kill -9 does; nil in this process
}

// stop ends it as a signal would, and waits.
func (m *member) stop() {
	m.t.Helper()
	m.told = true
	m.end()
	harness.Receive(m.t, m.name+" to end", m.done)
	if m.err != nil {
		m.t.Errorf("%s: %v", m.name, m.err)
	}
}

// alive gives an error where it has ended by itself.
func (m *member) alive() error {
	select {
	case <-m.done:
		return fmt.Errorf("%s has ended: %v", m.name, m.err)
	default:
		return nil
	}
}

// says waits until it has logged a text.
func (m *member) says(f *fleet, text string) {
	m.t.Helper()
	f.eventually(m.name+" to say "+text, func() error {
		if err := m.alive(); err != nil {
			return err
		}
		if !strings.Contains(m.log.String(), text) {
			return errors.New("not yet")
		}
		return nil
	})
}

// source starts a source in this process. It ends with the test.
func (f *fleet) source() *member { f.t.Helper(); return f.start("source", "source") }

// start starts one process of the fleet in this process.
func (f *fleet) start(role, name string) *member {
	f.t.Helper()
	c, err := config.Load(config.Sources{File: f.configure(role, name)}, roles[role])
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{t: f.t, name: name, end: cancel, done: make(chan struct{}), log: &safeBuffer{}}
	log := slog.New(slog.NewTextHandler(io.MultiWriter(f.t.Output(), m.log), nil)).With("process", name)
	go func() {
		defer close(m.done)
		m.err = daemon.Run(ctx, daemon.Options{Config: c, Roles: roles[role], Recreate: f.recreate, Program: program, Log: log})
	}()
	f.t.Cleanup(func() {
		if !m.told {
			m.stop()
		}
	})
	return m
}

// process starts one process of the fleet as a process of its own, which can be killed. It is killed at the test's end
// where it still runs.
func (f *fleet) process(role, name string) *member {
	f.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"="+role, envConfig+"="+f.configure(role, name))
	in, err := cmd.StdinPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	m := &member{t: f.t, name: name, done: make(chan struct{}), log: &safeBuffer{}}
	cmd.Stdout, cmd.Stderr = m.log, m.log
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() {
		defer close(m.done)
		m.err = cmd.Wait()
	}()
	m.end = func() { _ = in.Close() }
	m.kill = func() {
		m.told = true
		_ = cmd.Process.Kill() // it may have ended
		<-m.done
	}
	f.t.Cleanup(func() {
		m.kill()
		if f.t.Failed() {
			f.t.Logf("process %s:\n%s", name, m.log)
		}
	})
	return m
}

// safeBuffer takes what a process writes while the test may read it.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// trailing runs the source's stages as daemon.Run assembles them, with what can't be configured. They end with the test.
func (f *fleet) trailing(c source.Config) {
	f.t.Helper()
	c.Name, c.Postgres, c.Manage, c.Logger = f.bus.Name, f.target, true, harness.Logger(f.t)
	for _, t := range f.tables {
		c.Tables = append(c.Tables, source.TableConfig{Table: t.table})
	}
	conn := f.bus.Conn()
	p := &bus.Publisher{Conn: conn, Name: c.Name, Limits: bus.Limits{MaxBytes: 256 << 20}, Log: c.Logger}
	w := source.NewWatch(c, p)
	l := source.NewLister(w)
	service := &bus.Service{Conn: conn, Name: c.Name, Lister: l, Marks: w, Version: program, Log: c.Logger}
	ctx, cancel := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{p.Run, w.Run, service.Run} {
		g.Go(func() error { return run(ctx) })
	}
	f.t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			f.t.Error(err)
		}
		l.Close()
	})
}
