package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/pgserver"
)

// psql is a session of psql that scripts are fed to, so that they mean what people mean who write them.
type psql struct {
	t    *testing.T
	in   io.WriteCloser
	out  chan string // lines; closed at the end
	errs *safeBuffer
	done chan struct{}
	n    int
	said []string // what the last script has printed
}

// psqlPath finds psql beside the server's binaries, or on the PATH.
func psqlPath(t *testing.T, s *pgserver.Server) string {
	t.Helper()
	if bin := s.Bin(); bin != "" {
		path := filepath.Join(bin, "psql")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	path, err := exec.LookPath("psql")
	if err != nil {
		t.Fatalf("the cases are scripts for psql: install Postgres's client (Debian, Ubuntu: apt-get install postgresql-client): %v", err)
	}
	return path
}

// startPSQL starts a session in a database. It ends with the test.
func startPSQL(t *testing.T, db *harness.DB) *psql {
	t.Helper()
	return startPSQLAt(t, db.Server, db.URL)
}

// startPSQLAt starts a session under a URL of a server.
func startPSQLAt(t *testing.T, s *pgserver.Server, url string) *psql {
	t.Helper()
	cmd := exec.Command(psqlPath(t, s), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align",
		"--set=ON_ERROR_STOP=on", "--dbname="+url, "--file=-")
	cmd.Env = []string{"PGCLIENTENCODING=UTF8", "PATH=" + os.Getenv("PATH"), "LANG=C"}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &psql{t: t, in: in, out: make(chan string), errs: &safeBuffer{}, done: make(chan struct{})}
	cmd.Stderr = p.errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			p.out <- lines.Text()
		}
		close(p.out)
		_ = cmd.Wait() // what went wrong is in errs
	}()
	t.Cleanup(p.quit)
	return p
}

// quit ends the session, which takes back what it has open.
func (p *psql) quit() {
	_ = p.in.Close()
	for range p.out { // what nobody reads any more
	}
	<-p.done
}

// run runs a script to its end, in the session as the scripts before have left it, and gives the database that the
// session is in. An error of the script fails the test.
func (p *psql) run(script string) (database string) {
	p.t.Helper()
	p.n++
	p.said = nil
	script, err := csvFromFiles(script, p.t.TempDir())
	if err != nil {
		p.t.Fatal(err)
	}
	mark := fmt.Sprintf("script %d is done|", p.n)
	go func() {
		_, _ = io.WriteString(p.in, script+"\nSELECT '"+mark+"' || pg_catalog.current_database();\n") // it may have ended
	}()
	guard := time.After(harness.HangGuard)
	for {
		select {
		case line, ok := <-p.out:
			if !ok {
				<-p.done
				p.t.Fatalf("psql: %s", p.errs)
			}
			if db, ok := strings.CutPrefix(line, mark); ok {
				return db
			}
			p.said = append(p.said, line)
		case <-guard:
			p.t.Fatalf("psql: the script has not ended after %v: %s", harness.HangGuard, p.errs)
		}
	}
}

// ask gives the one value that a query of the session gives.
func (p *psql) ask(query string) string {
	p.t.Helper()
	p.run(query + ";")
	if len(p.said) != 1 {
		p.t.Fatalf("%s: %d values, want one", query, len(p.said))
	}
	return p.said[0]
}
