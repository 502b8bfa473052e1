package source

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/syncd-io/syncd"
)

// settings are what every session of ours runs under, whatever the database, the role or the connection string has set.
// The first block decides how values are printed: it is a part of what a row is. They go into the startup packet, which
// beats ALTER ROLE and ALTER DATABASE, and are looked at again once the session stands.
var settings = map[string]string{
	"TimeZone":                    "UTC",
	"DateStyle":                   "ISO, YMD",
	"IntervalStyle":               "postgres",
	"extra_float_digits":          "1",
	"bytea_output":                "hex",
	"lc_monetary":                 "C",
	"xmlbinary":                   "base64",
	"xmloption":                   "content",
	"client_encoding":             "UTF8",
	"search_path":                 "",
	"quote_all_identifiers":       "off",
	"array_nulls":                 "on",
	"transform_null_equals":       "off",
	"standard_conforming_strings": "on",

	"row_security":                        "off", // an error instead of a short list
	"synchronous_commit":                  "local",
	"statement_timeout":                   "0",
	"lock_timeout":                        "10000",
	"idle_in_transaction_session_timeout": "0",
	"default_transaction_read_only":       "off",
	"default_transaction_isolation":       "read committed",
	"default_transaction_deferrable":      "off",
	"client_min_messages":                 "warning",
	"jit":                                 "off",
}

const (
	connectTimeout = 10 * time.Second
	// receiveBuffer is the kernel's buffer for the replication connection over TCP. At about this size messages pile up in
	// it well while we are behind; far from it, less or more, the rate falls to a third.
	receiveBuffer = 200 << 10
)

// server is what a session says of the server it is on.
type server struct {
	version       int // server_version_num
	encoding      string
	database      string
	user          string
	standby       bool
	block         syncd.LSN // bytes of a log page
	segment       syncd.LSN // bytes of a log file
	senderTimeout time.Duration
	keepSize      int64  // max_slot_wal_keep_size in bytes, -1 without limit
	system        uint64 // 0 where the role may not read it
	standbyNames  string // synchronous_standby_names
	application   string // our application_name
}

// session is an SQL session with our settings.
type session struct {
	*pgx.Conn
	server   server
	timeline uint32 // that a standby replayed when it was first asked
}

// errPooler says why nothing works through a connection pooler.
var errPooler = errors.New("a connection pooler such as pgbouncer stands in between; syncd needs sessions of its own: give the address of Postgres itself")

// openSession opens an SQL session. follow says that it is of a source, for which a standby does only as followable says.
func openSession(ctx context.Context, conn string, follow bool) (*session, error) {
	cfg, err := pgx.ParseConfig(conn)
	if err != nil {
		return nil, fmt.Errorf("read the connection string: %w", withoutPassword(err))
	}
	pin(&cfg.Config, follow)
	cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: 2 * time.Second}
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, connectError(err)
	}
	s := &session{Conn: c}
	err = inspect(ctx, c.PgConn(), &s.server)
	if err == nil && follow {
		err = s.server.followable()
	}
	if err != nil {
		c.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return s, nil
}

// close ends the session without waiting for long.
func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.Conn.Close(ctx)
}

// openReplication opens a replication connection to the database that a source follows.
func openReplication(ctx context.Context, conn string) (*pgconn.PgConn, server, error) {
	cfg, err := pgconn.ParseConfig(conn)
	if err != nil {
		return nil, server{}, fmt.Errorf("read the connection string: %w", withoutPassword(err))
	}
	pin(cfg, true)
	cfg.RuntimeParams["replication"] = "database"
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if tcp, ok := c.(*net.TCPConn); ok && err == nil {
			err = tcp.SetReadBuffer(receiveBuffer)
		}
		return c, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	c, err := pgconn.ConnectConfig(ctx, cfg)
	if sqlState(err) == stateInsufficientPrivilege {
		return nil, server{}, fmt.Errorf("%w: ALTER ROLE %s REPLICATION", connectError(err), syncd.QuoteIdent(cfg.User))
	}
	if err != nil {
		return nil, server{}, connectError(err)
	}
	var s server
	if err = inspect(ctx, c, &s); err == nil {
		err = s.followable()
	}
	if err != nil {
		c.Close(context.WithoutCancel(ctx))
		return nil, server{}, err
	}
	return c, s, nil
}

// pin puts our settings into the startup packet.
func pin(cfg *pgconn.Config, follow bool) {
	for name, value := range settings {
		for given := range cfg.RuntimeParams {
			if strings.EqualFold(given, name) {
				delete(cfg.RuntimeParams, given)
			}
		}
		cfg.RuntimeParams[name] = value
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "syncd"
	}
	if follow && cfg.ValidateConnect == nil {
		cfg.ValidateConnect = primaryOnly
	}
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	cfg.DialFunc = dialer.DialContext
}

// connectError says what stood in the way of a connection, and what mends it. It unwraps to err.
func connectError(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return &connectFailure{"connect to Postgres: " + attempts(withoutPassword(err)), err}
	}
	text := "connect to Postgres: " + pg.Message
	switch pg.Code {
	case stateInvalidPassword, stateInvalidAuthorization:
		text += "; mend the user or the password in the connection string, or pg_hba.conf on the server"
	case stateInvalidCatalogName:
		text += "; mend the database's name in the connection string"
	default:
		if strings.Contains(pg.Message, "unsupported startup parameter") {
			// Which one is a matter of chance: they have no order. One text for one trouble is logged once.
			return fmt.Errorf("connect: %w (it knows not all startup parameters)", errPooler)
		}
	}
	return &connectFailure{text, err}
}

// connectFailure is an error of the driver in words of ours.
type connectFailure struct {
	text string
	err  error
}

func (e *connectFailure) Error() string { return e.text }
func (e *connectFailure) Unwrap() error { return e.err }

// Is says that nothing can be asked of Postgres from here, whatever the reason.
func (e *connectFailure) Is(target error) bool { return target == syncd.ErrAway }

// attempts puts what the driver says of each address on one line. It tries most twice, with and without TLS.
func attempts(err error) string {
	var said []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(said, line) {
			said = append(said, line)
		}
	}
	if len(said) < 2 {
		return strings.Join(said, "")
	}
	return said[0] + " " + strings.Join(said[1:], "; ")
}

// withoutPassword keeps connection strings, which pgx quotes in its errors, out of ours.
func withoutPassword(err error) error {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		return errors.New("it is malformed: want a URL such as postgres://user@host/database, or keywords such as host=… dbname=…")
	}
	return err
}

const inspectQuery = `SELECT name, setting FROM pg_catalog.pg_settings;
SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery(), pg_catalog.current_database(), current_user`

// inspect reads what server it is, and asserts that the session has our settings and is a session of our own.
func inspect(ctx context.Context, c *pgconn.PgConn, s *server) error {
	results, err := c.Exec(ctx, inspectQuery).ReadAll()
	if err != nil {
		return fmt.Errorf("read the session's settings: %w", err)
	}
	got := map[string]string{}
	for _, row := range results[0].Rows {
		got[strings.ToLower(string(row[0]))] = string(row[1])
	}
	if err := assertSettings(got); err != nil {
		return err
	}
	row := results[1].Rows[0]
	if string(row[0]) != strconv.FormatUint(uint64(c.PID()), 10) {
		return fmt.Errorf("the server process is %s where the connection says %d: %w", row[0], c.PID(), errPooler)
	}
	s.standby, s.database, s.user = string(row[1]) == "t", string(row[2]), string(row[3])
	if err := s.fill(got); err != nil {
		return err
	}
	s.system = readSystem(ctx, c)
	return nil
}

func assertSettings(got map[string]string) error {
	var wrong []string
	for name, want := range settings {
		if have := got[strings.ToLower(name)]; have != want {
			wrong = append(wrong, fmt.Sprintf("%s is %q, not %q", name, have, want))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("the session does not have the settings that were asked for (%s): %w", strings.Join(wrong, "; "), errPooler)
}

func (s *server) fill(got map[string]string) error {
	s.encoding, s.standbyNames, s.application = got["server_encoding"], got["synchronous_standby_names"], got["application_name"]
	for name, to := range map[string]func(int64){
		"server_version_num":     func(n int64) { s.version = int(n) },
		"wal_block_size":         func(n int64) { s.block = syncd.LSN(n) },
		"wal_segment_size":       func(n int64) { s.segment = syncd.LSN(n) },
		"wal_sender_timeout":     func(n int64) { s.senderTimeout = time.Duration(n) * time.Millisecond },
		"max_slot_wal_keep_size": func(n int64) { s.keepSize = max(n<<20, -1) },
	} {
		n, err := strconv.ParseInt(got[name], 10, 64)
		if err != nil {
			return fmt.Errorf("the server says %s is %q", name, got[name])
		}
		to(n)
	}
	switch {
	case s.version < minVersion:
		return fmt.Errorf("the server is Postgres %s, syncd needs 14 or later: upgrade it", got["server_version"])
	case s.encoding == "SQL_ASCII":
		return fmt.Errorf("database %s has the encoding SQL_ASCII, so that its texts may be in any encoding and can't be made JSON: make a database with another encoding, such as UTF8, and move the data", s.database)
	}
	return nil
}

// minVersion is the oldest server that is served: pgoutput has had the option messages since 14.
const minVersion = 140000

// readSystem gives the server's system identifier, or 0 where the role may not read it.
func readSystem(ctx context.Context, c *pgconn.PgConn) uint64 {
	results, err := c.Exec(ctx, "SELECT system_identifier FROM pg_catalog.pg_control_system()").ReadAll()
	if err != nil || len(results) == 0 || len(results[0].Rows) == 0 {
		return 0
	}
	id, err := strconv.ParseUint(string(results[0].Rows[0][0]), 10, 64)
	if err != nil {
		return 0
	}
	return id
}

// pageStart gives the place in the log that an insert position means: just behind a page's header it means the page's
// start, where the record before it ended.
func (s *server) pageStart(l syncd.LSN) syncd.LSN {
	const short, long = 24, 40 // SizeOfXLogShortPHD, SizeOfXLogLongPHD
	switch {
	case l%s.segment == long:
		return l - long
	case l%s.block == short:
		return l - short
	}
	return l
}

// sqlState is the SQLSTATE of an error from the server; empty where it is from elsewhere.
func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// The SQLSTATEs that are told apart.
const (
	stateObjectInUse           = "55006"
	stateUndefinedObject       = "42704"
	stateDuplicateObject       = "42710"
	stateUndefinedTable        = "42P01"
	stateLockNotAvailable      = "55P03"
	stateInsufficientPrivilege = "42501"
	stateInvalidPassword       = "28P01"
	stateInvalidAuthorization  = "28000"
	stateInvalidCatalogName    = "3D000"
	stateDataException         = "22" // a class
)

// quoteLiteral quotes a text for use in a statement that can't have parameters.
func quoteLiteral(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
