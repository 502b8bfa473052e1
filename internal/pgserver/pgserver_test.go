package pgserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"
)

// childVariable makes the test binary a program that starts a server, says where, and waits to be killed.
const childVariable = "SYNCD_PGSERVER_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		child()
		return
	}
	goleak.VerifyTestMain(m)
}

func child() {
	s, err := Start(context.Background(), Options{Own: true})
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println(s.PID(), s.Dir())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// start starts a server that ends with the test.
func start(t *testing.T, o Options) *Server {
	t.Helper()
	o.Own = true
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// ask runs a statement that gives one text.
func ask(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	r, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	last := r[len(r)-1]
	if len(last.Rows) == 0 {
		return ""
	}
	return string(last.Rows[0][0])
}

func TestServer(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Epoch: 5, TCP: true, Settings: map[string]string{"wal_sender_timeout": "7s", "search_path": "o'brien, public"}})
	for _, c := range []struct{ sql, want string }{
		{"SHOW wal_level", "logical"},
		{"SHOW fsync", "off"},
		{"SHOW max_replication_slots", "50"},
		{"SHOW wal_sender_timeout", "7s"},
		{"SHOW search_path", "o'brien, public"},
		{"SELECT (pg_current_xact_id()::text::numeric / 4294967296)::int", epoch(t, 5)},
		{"SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = 'postgres'", "UTF8"},
		{"SELECT usesuper FROM pg_user WHERE usename = current_user", "t"},
		{"SHOW server_version_num", fmt.Sprint(s.Version())},
	} {
		if got := ask(t, s.URL("postgres"), c.sql); got != c.want {
			t.Errorf("%s: %s, want %s", c.sql, got, c.want)
		}
	}
	if got := ask(t, s.TCPURL("template1"), "SELECT host(inet_server_addr()) || current_database()"); got != "127.0.0.1template1" {
		t.Errorf("over TCP: %s", got)
	}
	if !strings.Contains(s.Origin(), s.Bin()) || !strings.Contains(s.Log(), "ready to accept connections") {
		t.Errorf("origin %q, log %q", s.Origin(), s.Log())
	}
}

// epoch is what an epoch asked for comes out as.
func epoch(t *testing.T, asked int) string {
	t.Helper()
	b, err := findBinaries(t.Context(), os.Getenv("SYNCD_TEST_PGBIN"))
	if err != nil {
		t.Fatal(err)
	}
	if !b.has("pg_resetwal") {
		asked = 0
	}
	return fmt.Sprint(asked)
}

func TestTCPNeedsThePassword(t *testing.T) {
	t.Parallel()
	s := start(t, Options{TCP: true})
	u := strings.Replace(s.TCPURL("postgres"), ":"+password(t, s)+"@", ":wrong@", 1)
	var e *pgconn.PgError
	if _, err := pgx.Connect(t.Context(), u); !errors.As(err, &e) || e.Code != "28P01" {
		t.Fatalf("with a wrong password: %v", err)
	}
}

func password(t *testing.T, s *Server) string {
	t.Helper()
	p, ok := s.tcp.User.Password()
	if !ok {
		t.Fatal("the URL has no password")
	}
	return p
}

func TestWithoutTCPNobodyListens(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	if s.TCPURL("postgres") != "" || ask(t, s.URL("postgres"), "SHOW listen_addresses") != "" {
		t.Fatal("it listens on TCP")
	}
}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		s := start(t, Options{})
		pid, dir := s.PID(), filepath.Dir(s.Dir())
		conn, err := pgx.Connect(t.Context(), s.URL("postgres")) // a session must not hold the end up
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		segment := sharedMemory(s.Dir())
		if killed {
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		if alive(pid) || s.PID() != 0 {
			t.Errorf("killed %v: the postmaster lives", killed)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("killed %v: %s is still there: %v", killed, dir, err)
		}
		if out, err := exec.Command("ipcs", "-m").Output(); err == nil && segment > 0 {
			for line := range strings.Lines(string(out)) {
				if f := strings.Fields(line); len(f) > 1 && f[1] == fmt.Sprint(segment) {
					t.Errorf("killed %v: a shared memory segment is left: %s", killed, line)
				}
			}
		}
		if err := s.Stop(); err != nil {
			t.Errorf("Stop again: %v", err)
		}
		if err := s.Start(t.Context()); err == nil {
			t.Error("it starts after Stop")
		}
	}
}

func TestKillAndShutdownKeepWhatWasCommitted(t *testing.T) {
	t.Parallel()
	s := start(t, Options{TCP: true})
	ask(t, s.URL("postgres"), "CREATE TABLE t AS SELECT 1 AS n")
	before := s.TCPURL("postgres")
	for i, end := range []func() error{
		s.Kill,
		func() error { return s.Shutdown(t.Context()) },
	} {
		pid := s.PID()
		children, err := childrenOf(pid)
		if err != nil || len(children) < 3 {
			t.Fatalf("children of the postmaster: %v, %v", children, err)
		}
		ask(t, s.URL("postgres"), "INSERT INTO t VALUES (1)")
		if err := end(); err != nil {
			t.Fatal(err)
		}
		for _, p := range append(children, pid) {
			if alive(p) {
				t.Errorf("end %d: process %d lives", i, p)
			}
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := ask(t, before, "SELECT count(*) FROM t"), fmt.Sprint(i+2); got != want {
			t.Errorf("end %d: %s rows, want %s", i, got, want)
		}
		if err := s.Start(t.Context()); err == nil {
			t.Error("it starts twice")
		}
	}
	if !strings.Contains(s.Log(), "was not properly shut down") {
		t.Errorf("Kill was no crash: %s", s.Log())
	}
}

func TestALTERSYSTEMHasTheLastWord(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Settings: map[string]string{"work_mem": "1MB"}})
	ask(t, s.URL("postgres"), "ALTER SYSTEM SET work_mem = '2MB'")
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, s.URL("postgres"), "SHOW work_mem"); got != "2MB" {
		t.Errorf("work_mem %s", got)
	}
}

func TestStandbyAndPromote(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Epoch: 5})
	ask(t, s.URL("postgres"), "CREATE TABLE t (n int)")
	b, err := s.NewStandby(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	if got := ask(t, b.URL("postgres"), "SELECT pg_is_in_recovery()"); got != "t" {
		t.Fatal("the standby is not in recovery")
	}
	lsn := ask(t, s.URL("postgres"), "INSERT INTO t VALUES (1); SELECT pg_current_wal_insert_lsn()")
	for ask(t, b.URL("postgres"), "SELECT pg_last_wal_replay_lsn() >= '"+lsn+"'") != "t" {
	}
	if got := ask(t, b.URL("postgres"), "SELECT count(*) FROM t"); got != "1" {
		t.Errorf("the standby has %s rows", got)
	}
	if err := b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, b.URL("postgres"), "INSERT INTO t VALUES (2); CHECKPOINT; SELECT timeline_id FROM pg_control_checkpoint()"); got != "2" {
		t.Errorf("the promoted standby is on timeline %s", got)
	}
}

func TestCopyIsARestoredBackup(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	ask(t, s.URL("postgres"), "CREATE TABLE t AS SELECT 1 AS n; CREATE TABLE busy (n serial PRIMARY KEY, v text)")
	c := copyUnderWrites(t, s)
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	const identity = "SELECT system_identifier || '/' || timeline_id FROM pg_control_system(), pg_control_checkpoint()"
	if a, b := ask(t, s.URL("postgres"), identity), ask(t, c.URL("postgres"), identity); a != b {
		t.Errorf("the copy is %s, the origin %s", b, a)
	}
	ask(t, s.URL("postgres"), "INSERT INTO t VALUES (2)")
	if got := ask(t, c.URL("postgres"), "INSERT INTO t VALUES (7); SELECT sum(n) FROM t"); got != "8" {
		t.Errorf("the copy has no life of its own: sum %s", got)
	}
}

func TestServerThatWontStartSaysWhy(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), Options{Own: true, Settings: map[string]string{"max_connections": "many"}})
	if err == nil {
		t.Fatal(s.Stop())
	}
	if !strings.Contains(err.Error(), "max_connections") {
		t.Errorf("the error has no word of the cause: %v", err)
	}
}

func TestGivenServer(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	ask(t, s.URL("postgres"), "CREATE ROLE ordinary LOGIN")
	g, err := Start(t.Context(), Options{Postgres: s.URL("template1")})
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, g.URL("postgres"), "SELECT current_database()"); got != "postgres" || g.Version() != s.Version() || g.Dir() != "" {
		t.Errorf("database %s, version %d, directory %q", got, g.Version(), g.Dir())
	}
	if err := errors.Join(g.Stop(), g.Stop()); err != nil || s.PID() == 0 {
		t.Errorf("Stop of a given server: %v", err)
	}
	_, errStandby := g.NewStandby(t.Context(), Options{})
	for _, err := range []error{g.Kill(), g.Restart(t.Context()), g.Start(t.Context()), errStandby} {
		if !errors.Is(err, ErrUnsupported) {
			t.Errorf("want ErrUnsupported, got %v", err)
		}
	}
	replica := start(t, Options{})
	ask(t, replica.URL("postgres"), "ALTER SYSTEM SET wal_level = replica")
	if err := replica.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ url, want string }{
		{strings.Replace(s.URL("postgres"), "postgres@", "ordinary@", 1), "not a superuser"},
		{replica.URL("postgres"), "ALTER SYSTEM SET wal_level = logical"},
		{"host=127.0.0.1 password=hush", "is not a URL"},
		{"postgres://postgres:hush@[::1", "is not a URL"},
	} {
		_, err := Start(t.Context(), Options{Postgres: c.url})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: want %q, got %v", c.url, c.want, err)
		}
	}
}

// copyUnderWrites makes a copy while somebody writes and checkpoints.
func copyUnderWrites(t *testing.T, s *Server) *Server {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan error, 1)
	go func() {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		for err == nil {
			_, err = conn.Exec(ctx, "INSERT INTO busy (v) SELECT repeat('x', 500) FROM generate_series(1, 100)")
			if err == nil {
				_, err = conn.Exec(ctx, "CHECKPOINT")
			}
		}
		if ctx.Err() != nil {
			err = nil
		}
		written <- err
	}()
	c, err := s.NewCopy(t.Context(), Options{TCP: true})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-written; err != nil {
		t.Error(err)
	}
	// Every row of a committed statement or none of it, and the index agrees with the table.
	if got := ask(t, c.URL("postgres"), "SELECT count(*) % 100 FROM busy WHERE v = repeat('x', 500)"); got != "0" {
		t.Errorf("the copy has a part of a statement: %s rows too many", got)
	}
	if got := ask(t, c.URL("postgres"), "SET enable_seqscan = off; SELECT count(*) = (SELECT max(n) FROM busy) FROM busy WHERE n > 0"); got != "t" {
		t.Error("the copy's table and index don't agree")
	}
	return c
}

// TestKilledProgramLeavesNoServer kills a program that has a server: the server must end by itself, and the next start
// must remove its files.
func TestKilledProgramLeavesNoServer(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the child said %q: %v", line, err)
	}
	var pid int
	var data string
	if _, err := fmt.Sscan(line, &pid, &data); err != nil {
		t.Fatalf("the child said %q: %v", line, err)
	}
	if !alive(pid) {
		t.Fatal("the child's server does not run")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, as it should be
	hang := time.After(time.Minute)
	for alive(pid) {
		select {
		case <-hang:
			t.Fatal("the server outlived its program")
		case <-time.After(5 * time.Millisecond):
		}
	}
	sweep(filepath.Dir(filepath.Dir(data)))
	if _, err := os.Stat(filepath.Dir(data)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its files were not removed: %v", err)
	}
}

func TestSweepSparesLivingPrograms(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	sweep(filepath.Dir(filepath.Dir(s.Dir())))
	if _, err := os.Stat(s.Dir()); err != nil {
		t.Fatal(err)
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	good, err := findBinaries(t.Context(), os.Getenv("SYNCD_TEST_PGBIN"))
	if err != nil {
		t.Fatal(err)
	}
	script := func(text string) string { return "#!/bin/sh\n" + text + "\n" }
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"nothing", nil, "initdb is not there"},
		{"clients only", map[string]string{"pg_ctl": script(""), "initdb": script("")}, "postgres is not there"},
		{"a wrapper that only prints a hint", map[string]string{"pg_ctl": script(""), "initdb": script(""), "postgres": script("echo please install; exit 1")}, "exit status 1"},
		{"a wrapper that prints something else", map[string]string{"pg_ctl": script(""), "initdb": script(""), "postgres": script("echo hello")}, `printed "hello`},
		{"too old", map[string]string{"pg_ctl": script(""), "initdb": script(""), "postgres": script("echo 'postgres (PostgreSQL) 9.6.24'")}, "syncd needs 14"},
		{"beta", map[string]string{"pg_ctl": script(""), "initdb": script(""), "postgres": script("echo 'postgres (PostgreSQL) 19beta1'")}, ""},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		b, err := inspect(t.Context(), dir)
		if c.want == "" {
			if err != nil || b.major != 19 {
				t.Errorf("%s: %v, %v", c.name, b, err)
			}
			// The newest of several is taken, whatever their order.
			if n, err := newest(t.Context(), []string{good.dir, dir, t.TempDir()}); err != nil || n.dir != dir {
				t.Errorf("newest: %v, %v", n, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want %q, got %v", c.name, c.want, err)
		}
	}
	if _, err := newest(t.Context(), []string{t.TempDir()}); err == nil {
		t.Error("newest of nothing")
	}
}

func TestGivenBinariesMustWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Start(t.Context(), Options{Own: true, Bin: dir}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("want an error that names %s, got %v", dir, err)
	}
}

// TestWithoutDocker asks for a container where the engine can't be reached: an error, never a panic or another server.
func TestWithoutDocker(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
	s, err := Start(t.Context(), Options{Postgres: Container})
	if err == nil {
		t.Fatal(s.Stop())
	}
	if !strings.Contains(err.Error(), "Docker") {
		t.Errorf("the error does not speak of Docker: %v", err)
	}
}

func TestEnterable(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if enterable(dir) {
		t.Errorf("%s lies below a directory of mode 0700", dir)
	}
	if !enterable("/") {
		t.Error("/ is not enterable")
	}
}

func TestEnvironmentSendsNobodyElsewhere(t *testing.T) {
	t.Setenv("PGHOST", "elsewhere")
	t.Setenv("LC_MESSAGES", "de_DE")
	for _, kv := range environment("/home/x") {
		if strings.HasPrefix(kv, "PGHOST=") || strings.HasPrefix(kv, "LC_MESSAGES=") || strings.HasPrefix(kv, "HOME=") && kv != "HOME=/home/x" {
			t.Errorf("environment has %s", kv)
		}
	}
}

// TestBinariesOutOfReach gives binaries in a directory that only this user may enter. As root the server runs as another
// user, who can't: the error has to say so. Everybody else may use them.
func TestBinariesOutOfReach(t *testing.T) {
	t.Parallel()
	b, err := findBinaries(t.Context(), os.Getenv("SYNCD_TEST_PGBIN"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, program := range []string{"initdb", "pg_ctl", "postgres"} {
		if err := os.Symlink(b.path(program), filepath.Join(dir, program)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), Options{Own: true, Bin: dir})
	if os.Geteuid() != 0 {
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		return
	}
	if err == nil || !strings.Contains(err.Error(), "chmod a+rx") {
		t.Errorf("the error does not say what to do: %v", err)
	}
}
