package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/remote"
)

// Options say where a cache is kept.
type Options struct {
	// URL is the connection string. Required.
	URL string
	// Schema is where the tables are made; it is made where there is none. Two caches need two. Required.
	Schema string
	Log    *slog.Logger // nil: quiet
}

// New makes a store in a Postgres. A server that is away is no error: see package remote.
func New(ctx context.Context, o Options) (*remote.Store, error) {
	p, err := newPlace(o)
	if err != nil {
		return nil, err
	}
	return remote.New(ctx, p, p.log)
}

// place is a remote.Place in a schema.
type place struct {
	schema string
	log    *slog.Logger
	config *pgxpool.Config
	pool   *pgxpool.Pool // for reads

	// What follows is of the goroutine that writes.
	conn   *pgx.Conn                       // holds the lock; nil: there is none
	shapes map[syncd.Table]syncd.TableInfo // as the tables were found or made

	mu    sync.Mutex
	large map[syncd.Table]int // bytes of an entry of a table, at the last look
}

// settings make values print and read as in the source's rows, whatever the server's and the role's are.
var settings = map[string]string{
	"TimeZone": "UTC", "DateStyle": "ISO", "IntervalStyle": "postgres", "extra_float_digits": "1", "bytea_output": "hex",
	"lc_monetary": "C", "search_path": "", "statement_timeout": "0", "idle_in_transaction_session_timeout": "0",
	"lock_timeout": "10s", // of DDL, which waits for whoever reads the table
}

func newPlace(o Options) (*place, error) {
	c, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, &unusableError{errors.New("postgres: the url can't be read: write postgres://user:password@host:5432/database, or key=value pairs as for psql")}
	}
	if o.Schema == "" || strings.HasPrefix(o.Schema, "pg_") || len(o.Schema) > maxName {
		return nil, &unusableError{fmt.Errorf("postgres: schema %q can't be used: name one of 1 to 63 bytes that does not begin with pg_", o.Schema)}
	}
	cc := c.ConnConfig
	for k, v := range settings {
		cc.RuntimeParams[k] = v
	}
	cc.RuntimeParams["application_name"] = name()
	cc.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	cc.DialFunc = dialer.DialContext
	cc.ConnectTimeout = 10 * time.Second
	c.MinConns, c.MaxConns = 0, max(c.MaxConns, 4)
	p := &place{schema: o.Schema, log: o.Log, config: c, shapes: map[syncd.Table]syncd.TableInfo{}, large: map[syncd.Table]int{}}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if p.pool, err = pgxpool.NewWithConfig(context.Background(), c); err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	return p, nil
}

// name names this process for people, in at most as many bytes as the server keeps.
func name() string {
	host, err := os.Hostname()
	if err != nil {
		host = "a host without a name"
	}
	n := fmt.Sprintf("syncd, process %d on %s", os.Getpid(), host)
	return n[:min(len(n), maxName)]
}

// unusableError is an error that does not pass by waiting.
type unusableError struct{ error }

// Unusable says so to package remote.
func (e *unusableError) Unusable() bool { return true }
func (e *unusableError) Unwrap() error  { return e.error }

// String names the place for people.
func (p *place) String() string {
	c := p.config.ConnConfig
	return fmt.Sprintf("postgres at %s:%d, database %s, schema %s", c.Host, c.Port, c.Database, p.schema)
}

// say says of an error what was being done, and what mends it where that is known.
func (p *place) say(what string, err error) error {
	mend := ""
	switch code := code(err); {
	case code == "":
		mend = ": is the server running, and is the url right?"
	case code == "42501":
		mend = fmt.Sprintf(": GRANT CREATE ON DATABASE %s TO %s, or make it the owner of schema %s",
			syncd.QuoteIdent(p.config.ConnConfig.Database), syncd.QuoteIdent(p.config.ConnConfig.User), p.schema)
	case code == "25006":
		mend = ": the server can only be read: name the primary in the url"
	case code == "55P03":
		mend = ": some session has the table locked; it is tried again"
	case code == "2BP01":
		mend = ": drop what depends on it, or make it depend on columns that stay"
	case code == "42P07" || code == "42809":
		mend = ": something of that name is there already: move it away, or name another schema"
	}
	return fmt.Errorf("%s: %s: %w%s", p, what, err, mend)
}

// code gives the SQLSTATE of an error; empty where it is none of the server's.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// Release gives the lock up, with its session.
func (p *place) Release(ctx context.Context) error {
	if p.conn == nil {
		return nil
	}
	conn := p.conn
	p.conn = nil
	_, err := conn.Exec(ctx, "SELECT pg_catalog.pg_advisory_unlock_all()")
	if conn.IsClosed() {
		return nil // with the session the lock has gone
	}
	return errors.Join(err, conn.Close(ctx))
}

// Close closes all connections.
func (p *place) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	err := p.Release(ctx)
	p.pool.Close()
	return err
}

var (
	_ remote.Place = (*place)(nil)
	_ sink.Store   = (*remote.Store)(nil)
)
