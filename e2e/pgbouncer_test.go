package e2e

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/syncd-io/syncd/internal/harness"
)

// pgbouncer starts a pgbouncer in front of a database, with further settings, and gives the URL by which it is reached. It
// ends with the test.
func pgbouncer(t *testing.T, db *harness.DB, settings string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // where Debian has it, which is not on everybody's PATH
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("pgbouncer is missing: install it (Debian: apt-get install pgbouncer): %v", err)
	}
	server, err := url.Parse(db.TCPURL)
	if err != nil || server.Port() == "" {
		t.Fatalf("the server listens on no port: %v", err)
	}
	password, _ := server.User.Password()
	for range 5 { // somebody may be quicker to listen on a free port
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := free.Addr().(*net.TCPAddr)
		if err := free.Close(); err != nil {
			t.Fatal(err)
		}
		config := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%s user=%s password=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
			"unix_socket_dir =\nauth_type = any\n%s\n", server.Port(), server.User.Username(), password, address.Port, settings)
		path := filepath.Join(t.TempDir(), "pgbouncer.ini")
		if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		if startPgbouncer(t, program, path, address.String()) {
			return fmt.Sprintf("postgres://somebody@%s/%s?sslmode=disable", address, db.Name)
		}
	}
	t.Fatal("pgbouncer ends at its start")
	return ""
}

// startPgbouncer says whether it listens; it may not where somebody else took the port.
func startPgbouncer(t *testing.T, program, config, address string) bool {
	t.Helper()
	args := []string{program, config}
	if os.Geteuid() == 0 { // as which it refuses to run
		name := "nobody"
		if _, err := user.Lookup("postgres"); err == nil {
			name = "postgres"
		}
		args = []string{program, "-u", name, config}
	}
	// However the test's process ends, its end of the pipe is closed then.
	const script = `"$@" </dev/null & read -r _; kill -KILL $! 2>/dev/null; wait`
	cmd := exec.Command("sh", append([]string{"-c", script, "sh"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out safeBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // it was killed
	})
	listens := false
	harness.Eventually(t, "pgbouncer to listen", func() error {
		c, err := net.Dial("tcp", address)
		if err == nil {
			listens = true
			return c.Close()
		}
		if said := out.String(); strings.Contains(said, "FATAL") {
			t.Logf("pgbouncer has ended: %s", said)
			return nil
		}
		return err
	})
	return listens
}

// TestPgbouncerIsRefused: through a pooler nothing can be relied on, neither the session's settings nor replication. Check and
// the source say so, also where the pooler is told to let all settings pass unheard; and at Postgres itself all is well.
func TestPgbouncerIsRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "public.t")
	f.db.Exec("CREATE TABLE t (id int PRIMARY KEY)")
	const startup = "ignore_startup_parameters = replication, xmlbinary, xmloption, search_path, bytea_output, IntervalStyle, extra_float_digits, lc_monetary, " +
		"quote_all_identifiers, array_nulls, transform_null_equals, row_security, synchronous_commit, statement_timeout, lock_timeout, " +
		"idle_in_transaction_session_timeout, default_transaction_read_only, default_transaction_isolation, default_transaction_deferrable, " +
		"client_min_messages, jit"
	for name, settings := range map[string]string{
		"session": "pool_mode = session", "transaction": "pool_mode = transaction\n" + startup, "all_ignored": "pool_mode = session\n" + startup,
	} {
		f.postgres = pgbouncer(t, f.db, settings)
		if said := f.check(); !strings.Contains(said, "a connection pooler such as pgbouncer stands in between") || !strings.Contains(said, "give the address of Postgres itself") {
			t.Errorf("%s: check says %q", name, said)
		}
		m := f.start("source", name)
		m.says(f, "a connection pooler such as pgbouncer stands in between")
		m.stop()
	}
	if n := f.db.Text("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"); n != "0" {
		t.Errorf("%s slots were made", n)
	}
	f.postgres = ""
	f.source()
	s := f.sidecar()
	f.converges(s)
}
