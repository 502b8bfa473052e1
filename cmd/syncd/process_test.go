package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/natsserver"
)

// process is a syncd that runs.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	logs *lockedBuffer
	done chan struct{} // closed when it has ended
}

// lockedBuffer takes what a process writes while the test reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start starts a command line. It is killed at the test's end where it still runs.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: command(context.Background(), args...), logs: &lockedBuffer{}, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.logs, p.logs
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.cmd.Wait() // the state says how it ended
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s:\n%s", strings.Join(args, " "), p.logs)
		}
	})
	return p
}

// kill ends it as kill -9 does.
func (p *process) kill() {
	p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// stop sends a signal and wants the process to end, with a status.
func (p *process) stop(s syscall.Signal, status int) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
	p.ends(status)
}

// ends waits for the end of the process and checks its status.
func (p *process) ends(status int) {
	p.t.Helper()
	harness.Receive(p.t, "the process to end", p.done)
	if got := p.cmd.ProcessState.ExitCode(); got != status {
		p.t.Fatalf("exit status %d, want %d", got, status)
	}
}

// says waits until the process has logged a text.
func (p *process) says(text string) {
	p.t.Helper()
	harness.Eventually(p.t, "the log to say "+text, func() error {
		select {
		case <-p.done:
			return fmt.Errorf("the process has ended: %v", p.cmd.ProcessState)
		default:
		}
		if !strings.Contains(p.logs.String(), text) {
			return errors.New("not yet")
		}
		return nil
	})
}

// freePort gives an address that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// underTest is one sync under test: its database, its configuration file and its sidecar's address.
type underTest struct {
	t    *testing.T
	db   *harness.DB
	dir  string
	file string
	addr string
}

const people = `CREATE TABLE people (id bigint PRIMARY KEY, name text);
CREATE TABLE pets ("Owner" bigint, name text, PRIMARY KEY ("Owner", name));
CREATE TABLE keyless (x int);
INSERT INTO people SELECT i, 'person ' || i FROM generate_series(1, 250) i;
INSERT INTO pets VALUES (1, 'Rex, the dog'), (2, '../..')`

// newSync makes a database and a configuration. url is the bus; empty: embedded.
func newSync(t *testing.T, url string) *underTest {
	t.Helper()
	s := &underTest{t: t, db: harness.Database(t), dir: t.TempDir()}
	s.db.Exec(people)
	s.file, s.addr = filepath.Join(s.dir, "syncd.yaml"), "unix:"+filepath.Join(s.dir, "api.sock")
	s.write(url, "public.people", "public.pets", "public.keyless")
	return s
}

// write writes the configuration file.
func (s *underTest) write(url string, tables ...string) {
	bus := fmt.Sprintf("embedded: {dir: %s/nats}", s.dir)
	if url != "" {
		bus = "url: " + url
	}
	text := fmt.Sprintf(`name: %s
source:
  postgres: ${TEST_POSTGRES:-%s}
  tables: [%s]
bus: {%s}
sidecar: {listen: %q, data: %s/sidecar}
metrics: {listen: %s}
`, s.db.Name, s.db.URL, strings.Join(tables, ", "), bus, s.addr, s.dir, freePort(s.t))
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// ask runs a client command.
func (s *underTest) ask(args ...string) outcome {
	s.t.Helper()
	return invoke(s.t, append(args, "--addr", s.addr)...)
}

// ready waits until the sidecar is ready.
func (s *underTest) ready() {
	s.t.Helper()
	harness.Eventually(s.t, "the sidecar to be ready", func() error {
		if o := s.ask("status"); o.status != 0 {
			return fmt.Errorf("%s%s", o.out, o.errs)
		}
		return nil
	})
}

// readsOwnWrites writes and reads the write from the cache.
func (s *underTest) readsOwnWrites(id int) {
	s.t.Helper()
	s.db.Exec("INSERT INTO people VALUES ($1, 'new')", id)
	s.ask("get", "public.people", fmt.Sprint(id), "--min-version", s.db.LSN().String(), "--timeout", "30s").
		want(s.t, 0, fmt.Sprintf(`{"id":%d,"name":"new"}`, id))
}

func TestRun(t *testing.T) {
	t.Parallel()
	s := newSync(t, "")
	p := start(t, "run", "-c", s.file)
	s.ready()
	s.ask("get", "public.people", "7").want(t, 0, `{"id":7,"name":"person 7"}`)
	s.ask("get", "public.pets", "1,Rex%2C the dog").want(t, 0, `{"Owner":1,"name":"Rex, the dog"}`)
	s.ask("get", "public.pets", "2,..%2F..").want(t, 0, `"../.."`)
	s.ask("get", "public.people", "777").want(t, exitNo, "no row 777 in public.people")
	s.ask("get", "public.persons", "7").want(t, exitNo, "public.people")
	s.ask("get", "public.people", "7,8").want(t, exitUsage, "(id)")
	s.ask("get", "public.keyless", "7").want(t, exitNo, "is not synced", "PRIMARY KEY")
	s.readsOwnWrites(1000)
	if rows := strings.Count(s.ask("list", "public.people", "--limit", "0").out, "\n"); rows != 251 {
		t.Errorf("%d rows", rows)
	}
	s.ask("status").want(t, 0, "public.keyless", "refused")
	s.ask("resync", "--mode", "full").want(t, 0, "public.people", "public.pets", "yes")
	s.ask("diff").want(t, 0, "public.keyless is not synced", "public.pets")
	s.ask("diff", "public.keyless").want(t, exitNo, "PRIMARY KEY")
	p.stop(syscall.SIGTERM, 0)
	s.ask("status").want(t, exitUnreachable)

	s.db.Exec("DELETE FROM people WHERE id > 100") // while it is away
	p = start(t, "run", "-c", s.file)
	s.ready()
	s.ask("diff").want(t, 0)
	s.readsOwnWrites(1001)
	p.kill()
	start(t, "run", "-c", s.file)
	s.ready()
	s.readsOwnWrites(1002)
	s.ask("diff").want(t, 0)
}

func TestSourceAndSidecarsApart(t *testing.T) {
	t.Parallel()
	n, err := natsserver.Start(natsserver.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	s := newSync(t, n.URL())
	source := start(t, "source", "-c", s.file)
	first := start(t, "sidecar", "-c", s.file, "--set", "metrics.listen=")
	second := *s
	second.addr = "unix:" + filepath.Join(s.dir, "second.sock")
	start(t, "sidecar", "-c", s.file, "--set", "metrics.listen=", "--set", "sidecar.listen="+second.addr, "--set", "sidecar.data="+s.dir+"/second")
	s.ready()
	second.ready()
	s.readsOwnWrites(1000)
	second.readsOwnWrites(1001)
	source.kill() // between two writes
	s.db.Exec("UPDATE people SET name = 'changed' WHERE id <= 100")
	start(t, "source", "-c", s.file, "--set", "metrics.listen="+freePort(t))
	s.readsOwnWrites(1002)
	second.readsOwnWrites(1003)
	first.stop(syscall.SIGINT, 0)
	second.ask("get", "public.people", "100").want(t, 0, "changed")
	second.ask("diff").want(t, 0)
}

func TestSIGHUPTakesTablesOver(t *testing.T) {
	t.Parallel()
	s := newSync(t, "")
	s.write("", "public.people")
	p := start(t, "run", "-c", s.file)
	s.ready()
	s.ask("get", "public.pets", "1,Rex").want(t, exitNo, "there are public.people")
	s.write("", "public.people", "public.pets")
	hup := func() {
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	hup()
	harness.Eventually(t, "the new table to be listed", func() error {
		if o := s.ask("get", "public.pets", "1,Rex%2C the dog"); o.status != 0 {
			return errors.New(o.errs)
		}
		return nil
	})
	s.readsOwnWrites(1000)
	s.write("", "public.pets")
	hup()
	harness.Eventually(t, "the old table to go", func() error {
		if o := s.ask("get", "public.people", "1"); o.status != exitNo || !strings.Contains(o.errs, "no table public.people") {
			return fmt.Errorf("%d %s", o.status, o.errs)
		}
		return nil
	})
	s.write("", "public.pets", "nonsense")
	hup()
	p.says("has mistakes and was not taken over")
	s.ask("get", "public.pets", "1,Rex%2C the dog").want(t, 0)
	p.stop(syscall.SIGTERM, 0)
}

func TestServersThatAreAwayAreWaitedFor(t *testing.T) {
	t.Parallel()
	address := freePort(t)
	s := newSync(t, "nats://"+address)
	t.Run("NATS", func(t *testing.T) {
		source := start(t, "source", "-c", s.file)
		sidecar := start(t, "sidecar", "-c", s.file, "--set", "metrics.listen=")
		source.says("NATS can't be used yet")
		sidecar.says("NATS can't be used yet")
		s.ask("status").want(t, exitNo, "not ready", "never reached")
		n, err := natsserver.Start(natsserver.Config{Dir: s.dir + "/nats", Listen: address})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		s.ready()
		n.Stop()
		harness.Eventually(t, "the sidecar to say that NATS is away", func() error {
			if o := s.ask("status"); !strings.Contains(o.out, "bus away") {
				return errors.New(o.out)
			}
			return nil
		})
		s.ask("get", "public.people", "7").want(t, 0) // reads go on
		sidecar.stop(syscall.SIGTERM, 0)
		sidecar = start(t, "sidecar", "-c", s.file, "--set", "metrics.listen=")
		sidecar.says("reads are answered")
		s.ask("get", "public.people", "7").want(t, 0, `{"id":7,"name":"person 7"}`) // from disk
		s.ask("get", "public.people", "7", "--max-age", "1ms").want(t, exitNo, "old")
		s.ask("status").want(t, exitNo, "not ready", "never reached")
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		s.readsOwnWrites(1000)
		source.stop(syscall.SIGTERM, 0)
		sidecar.stop(syscall.SIGTERM, 0)
	})
	t.Run("Postgres", func(t *testing.T) {
		p := start(t, "run", "-c", s.file, "--set", "bus.url=", "--set", "source.postgres=postgres://nobody:s3cret@127.0.0.1:1/none", "--set", "bus.embedded.dir="+s.dir+"/other", "--set", "sidecar.data="+s.dir+"/none")
		p.says("127.0.0.1")
		s.ask("get", "public.people", "7").want(t, exitNo)
		p.stop(syscall.SIGTERM, 0)
		if strings.Contains(p.logs.String(), "s3cret") {
			t.Error("a password was logged")
		}
	})
}

func TestWhatIsWrongHereIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	s := newSync(t, "")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := start(t, "run", "-c", s.file, "--set", "sidecar.listen="+l.Addr().String())
	p.ends(exitNo)
	p = start(t, "run", "-c", s.file)
	s.ready()
	start(t, "run", "-c", s.file, "--set", "sidecar.listen=127.0.0.1:0", "--set", "metrics.listen=").ends(exitNo) // NATS's directory is taken
	p.stop(syscall.SIGINT, 0)
}

func TestMetricsOfASource(t *testing.T) {
	t.Parallel()
	n, err := natsserver.Start(natsserver.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	s := newSync(t, n.URL())
	address := freePort(t)
	start(t, "source", "-c", s.file, "--set", "metrics.listen="+address)
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + address + path)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		var b bytes.Buffer
		b.ReadFrom(resp.Body)
		return resp.StatusCode, b.String()
	}
	defer http.DefaultClient.CloseIdleConnections()
	harness.Eventually(t, "the source to be ready", func() error {
		if code, body := get("/readyz"); code != 200 {
			return errors.New(body)
		}
		return nil
	})
	s.db.Exec("INSERT INTO people VALUES (1000, 'x')")
	harness.Eventually(t, "the change to be counted", func() error {
		_, body := get("/metrics")
		if !strings.Contains(body, `syncd_source_changes_total{op="upsert",table="public.people"} 1`) || !strings.Contains(body, "syncd_source_leader 1") {
			return errors.New(body)
		}
		return nil
	})
	if code, _ := get("/v1/tables"); code != 404 {
		t.Errorf("a source answers reads: %d", code)
	}
}

func TestTeardown(t *testing.T) {
	t.Parallel()
	s := newSync(t, "")
	p := start(t, "run", "-c", s.file)
	s.ready()
	invoke(t, "teardown", "-c", s.file, "--yes").want(t, exitNo, "is in use", "stop the source first")
	p.stop(syscall.SIGTERM, 0)
	invoke(t, "teardown", "-c", s.file).want(t, exitNo, "replication slot syncd_"+s.db.Name, "stream SYNCD_", "nothing was dropped")
	invoke(t, "teardown", "-c", s.file, "--yes").want(t, 0, "dropped replication slot", "dropped publication", "dropped stream")
	invoke(t, "teardown", "-c", s.file, "--yes").want(t, 0, "nothing of")
	if n := s.db.Text("SELECT (SELECT count(*) FROM pg_replication_slots WHERE database = current_database()) + (SELECT count(*) FROM pg_publication)"); n != "0" {
		t.Errorf("%s are left", n)
	}
	invoke(t, "teardown", "-c", s.file, "--yes", "--set", "source.postgres=postgres://127.0.0.1:1/x").want(t, exitUnreachable)
}

func TestConfigCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "syncd.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("name: shop\nsource:\n  postgres: postgres://x\n  tabels: [public.users]\n")
	invoke(t, "config", "validate", "-c", file).want(t, exitUsage, file+" line 4, column 3: source: unknown key", "did you mean tables?")
	for _, command := range []string{"run", "source", "teardown"} {
		invoke(t, command, "-c", file).want(t, exitUsage, "line 4, column 3")
	}
	write("name: shop\nsource:\n  postgres: postgres://x\n  tables: [public.users]\n")
	invoke(t, "config", "validate", "-c", file).want(t, 0, file+": ok")
	invoke(t, "config", "validate", "-c", file, "--set", "log.level=loud").want(t, exitUsage, "--set", "log.level")
	invoke(t, "config", "validate", "-c", file, "--set", "log.level").want(t, exitUsage, "KEY=VALUE")
	invoke(t, "config", "validate").want(t, exitUsage, "config")
	invoke(t, "config", "validate", "-c", "/no/such/file").want(t, exitUsage, "/no/such/file")
	invoke(t, "config").want(t, exitUsage)
	invoke(t, "config", "schema").want(t, 0, `"$schema"`, "max_slot_wal")
	invoke(t, "source", "-c", file).want(t, exitUsage, "bus.url: is missing")
	invoke(t, "sidecar", "-c", file).want(t, exitUsage, "bus.url: is missing")
	invoke(t, "run").want(t, exitUsage, "config")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	n, err := natsserver.Start(natsserver.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	s := newSync(t, n.URL())
	o := invoke(t, "check", "-c", s.file)
	o.want(t, exitNo, "public.keyless", "ADD PRIMARY KEY", "not met", "JetStream is enabled")
	invoke(t, "check", "-c", s.file, "--json").want(t, exitNo, `"part":"nats"`, `"ok":false`)
	s.write(n.URL(), "public.people", "public.pets")
	invoke(t, "check", "-c", s.file).want(t, 0, "preconditions are met")
	s.write("", "public.people")
	invoke(t, "check", "-c", s.file).want(t, 0, "directory of the embedded NATS", "directory of the persisted cache")
	if _, err := os.Stat(s.dir + "/nats"); err == nil {
		t.Error("check has made a directory")
	}
	invoke(t, "check", "-c", s.file, "--set", "bus.embedded.dir="+s.file+"/x").want(t, exitNo, "no directory")
	invoke(t, "check", "-c", s.file, "--set", "bus.url=nats://127.0.0.1:1").want(t, exitUnreachable, "NATS can be reached", "bus.url")
	invoke(t, "check", "-c", s.file, "--set", "source.postgres=postgres://nobody:s3cret@127.0.0.1:1/x").want(t, exitUnreachable, "FAIL  postgres")
	if strings.Contains(o.out+o.errs, "s3cret") {
		t.Error("a password was printed")
	}
}

func TestDeletedStreamIsMadeAnewOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	n, err := natsserver.Start(natsserver.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	s := newSync(t, n.URL())
	source := start(t, "source", "-c", s.file)
	start(t, "sidecar", "-c", s.file, "--set", "metrics.listen=")
	s.ready()
	conn, err := nats.Connect(n.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), bus.StreamName(s.db.Name)); err != nil {
		t.Fatal(err)
	}
	s.db.Exec("UPDATE people SET name = 'after' WHERE id <= 10")
	source.ends(exitNo)
	if !strings.Contains(source.logs.String(), "--recreate") {
		t.Error("the source does not say what to do")
	}
	s.ask("get", "public.people", "100").want(t, 0) // what is cached is served on
	start(t, "source", "-c", s.file).ends(exitNo)
	start(t, "source", "-c", s.file, "--recreate")
	harness.Eventually(t, "the sidecar to have listed anew", func() error {
		if o := s.ask("get", "public.people", "7"); !strings.Contains(o.out, "after") {
			return fmt.Errorf("%s%s", o.out, o.errs)
		}
		return nil
	})
	s.readsOwnWrites(1000)
	s.ask("diff").want(t, 0)
}
