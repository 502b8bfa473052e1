package harness

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/pgserver"
)

// DB is a database of one test's own. Its methods fail the test on an error; they may be called by any goroutine that
// may call t.Fatal.
type DB struct {
	// Name is the database's name, and a name for syncd that no other test has.
	Name string
	// URL is a superuser's URL of it; over the Unix socket where the server has one.
	URL string
	// TCPURL is the same over TCP; empty where the server does not listen.
	TCPURL string
	Server *pgserver.Server

	t    testing.TB
	mu   sync.Mutex
	conn *pgx.Conn
}

// Name gives a name that is valid for syncd and that no other test has.
func Name(t testing.TB) string {
	const longest = 30
	var b strings.Builder
	b.WriteString("t_")
	for _, r := range strings.ToLower(strings.TrimPrefix(t.Name(), "Test")) {
		if !('a' <= r && r <= 'z' || '0' <= r && r <= '9') {
			r = '_'
		}
		if b.Len() < longest {
			b.WriteRune(r)
		}
	}
	b.WriteByte('_')
	b.WriteString(strings.ToLower(rand.Text()[:10]))
	return b.String()
}

// Database makes a database on the shared server. At the test's end its replication slots and itself are dropped.
func Database(t testing.TB) *DB {
	t.Helper()
	return DatabaseOn(t, Postgres(t))
}

// DatabaseOn makes a database on a given server. At the test's end its replication slots and itself are dropped, where the
// server still runs.
func DatabaseOn(t testing.TB, s *pgserver.Server) *DB {
	t.Helper()
	name := Name(t)
	if err := admin(t.Context(), s, func(c *pgx.Conn) error {
		// template0 is the one that nobody connects to or changes: tests may copy it at the same time.
		_, err := c.Exec(t.Context(), "CREATE DATABASE "+syncd.QuoteIdent(name)+" TEMPLATE template0")
		return err
	}); err != nil {
		t.Fatalf("make a database: %v", err)
	}
	db := &DB{Name: name, URL: s.URL(name), TCPURL: s.TCPURL(name), Server: s, t: t}
	t.Cleanup(db.drop)
	return db
}

func admin(ctx context.Context, s *pgserver.Server, do func(*pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close(context.WithoutCancel(ctx)))
}

// drop removes the database. The test's context has ended by now.
func (db *DB) drop() {
	if db.conn != nil {
		_ = db.conn.Close(context.Background()) // the server may be gone; what matters is below
	}
	if db.Server.Dir() != "" && db.Server.PID() == 0 {
		return // its server was ended, and its files go
	}
	ctx, cancel := context.WithTimeout(context.Background(), HangGuard)
	defer cancel()
	err := admin(ctx, db.Server, func(c *pgx.Conn) error {
		if err := dropSlots(ctx, c, db.Name); err != nil {
			return err
		}
		_, err := c.Exec(ctx, "DROP DATABASE IF EXISTS "+syncd.QuoteIdent(db.Name)+" WITH (FORCE)")
		return err
	})
	if err != nil {
		db.t.Errorf("drop the test's database: %v", err)
	}
}

// dropSlots ends whoever uses a slot of the database, and drops it.
func dropSlots(ctx context.Context, c *pgx.Conn, database string) error {
	for {
		rows, err := c.Query(ctx, `SELECT slot_name, coalesce(active_pid, 0) FROM pg_catalog.pg_replication_slots WHERE database = $1`, database)
		if err != nil {
			return err
		}
		type slot struct {
			Name string
			PID  int32
		}
		slots, err := pgx.CollectRows(rows, pgx.RowToStructByPos[slot])
		if err != nil || len(slots) == 0 {
			return err
		}
		for _, s := range slots {
			if s.PID != 0 {
				_, err = c.Exec(ctx, "SELECT pg_catalog.pg_terminate_backend($1, 1000)", s.PID)
			} else {
				_, err = c.Exec(ctx, "SELECT pg_catalog.pg_drop_replication_slot($1)", s.Name)
			}
			var e *pgconn.PgError
			if errors.As(err, &e) && (e.Code == "55006" || e.Code == "42704") {
				continue // in use again, or gone: look again
			}
			if err != nil {
				return err
			}
		}
	}
}

// Conn opens a session of its own on the database, which is closed at the test's end.
func (db *DB) Conn() *pgx.Conn {
	db.t.Helper()
	c, err := pgx.Connect(db.t.Context(), db.URL)
	if err != nil {
		db.t.Fatalf("connect to the test's database: %v", err)
	}
	db.t.Cleanup(func() { _ = c.Close(context.Background()) }) // the server may be gone by then
	return c
}

// session gives the connection that Exec, Query and Text share, locked. It is opened again where it broke.
func (db *DB) session() (c *pgx.Conn, unlock func()) {
	db.t.Helper()
	db.mu.Lock()
	if db.conn == nil || db.conn.IsClosed() {
		c, err := pgx.Connect(db.t.Context(), db.URL)
		if err != nil {
			db.mu.Unlock()
			db.t.Fatalf("connect to the test's database: %v", err)
		}
		db.conn = c
	}
	return db.conn, db.mu.Unlock
}

// Exec runs a statement; several, parted by semicolons and in one transaction, where there are no arguments.
func (db *DB) Exec(sql string, args ...any) {
	db.t.Helper()
	db.Query(sql, args...)
}

// Query runs a statement as Exec does and gives the rows of the last one, each value in Postgres's text form; NULL is
// the empty string.
func (db *DB) Query(sql string, args ...any) [][]string {
	db.t.Helper()
	c, unlock := db.session()
	defer unlock()
	raw, err := query(db.t.Context(), c, sql, args)
	if err != nil {
		db.t.Fatalf("%s: %v", sql, err)
	}
	rows := make([][]string, len(raw))
	for i, r := range raw {
		for _, v := range r {
			rows[i] = append(rows[i], string(v))
		}
	}
	return rows
}

// Text runs a statement as Query does and gives the first value of the only row.
func (db *DB) Text(sql string, args ...any) string {
	db.t.Helper()
	rows := db.Query(sql, args...)
	if len(rows) != 1 || len(rows[0]) == 0 {
		db.t.Fatalf("%s: %d rows, want one", sql, len(rows))
	}
	return rows[0][0]
}

// LSN is the server's insert LSN: everything committed so far lies below it.
func (db *DB) LSN() syncd.LSN {
	db.t.Helper()
	l, err := syncd.ParseLSN(db.Text("SELECT pg_catalog.pg_current_wal_insert_lsn()"))
	if err != nil {
		db.t.Fatal(err)
	}
	return l
}

// query gives the last statement's rows as the bytes of the text format.
func query(ctx context.Context, c *pgx.Conn, sql string, args []any) ([][][]byte, error) {
	if len(args) == 0 {
		results, err := c.PgConn().Exec(ctx, sql).ReadAll()
		if err != nil || len(results) == 0 {
			return nil, err
		}
		return results[len(results)-1].Rows, nil
	}
	rows, err := c.Query(ctx, sql, append([]any{pgx.QueryResultFormats{pgx.TextFormatCode}}, args...)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all [][][]byte
	for rows.Next() {
		var row [][]byte
		for _, v := range rows.RawValues() {
			row = append(row, []byte(string(v)))
		}
		all = append(all, row)
	}
	return all, rows.Err()
}

// pinned are the settings under which rows and keys have their one form.
var pinned = map[string]string{
	"TimeZone":           "UTC",
	"DateStyle":          "ISO",
	"IntervalStyle":      "postgres",
	"extra_float_digits": "1",
	"bytea_output":       "hex",
	"lc_monetary":        "C",
	"search_path":        "",
}

// Oracle asks Postgres what a cache of the table must hold: each row as row_to_json prints it, under its key, in a
// session of its own with syncd's settings. Where columns are named, the rows have those alone, in the order given.
func Oracle(t testing.TB, db *DB, table syncd.Table, columns ...string) map[syncd.Key]string {
	t.Helper()
	m, err := oracle(t.Context(), db, table, columns)
	if err != nil {
		t.Fatalf("ask Postgres for the rows of %s: %v", table, err)
	}
	return m
}

func oracle(ctx context.Context, db *DB, table syncd.Table, columns []string) (map[syncd.Key]string, error) {
	config, err := pgx.ParseConfig(db.URL)
	if err != nil {
		return nil, err
	}
	for k, v := range pinned {
		config.RuntimeParams[k] = v
	}
	c, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	defer c.Close(context.WithoutCancel(ctx))
	key, err := keyColumns(ctx, c, table)
	if err != nil {
		return nil, err
	}
	rows, err := query(ctx, c, oracleSQL(table, key, columns), nil)
	if err != nil {
		return nil, err
	}
	m := make(map[syncd.Key]string, len(rows))
	for _, r := range rows {
		values := make([]string, len(key))
		for i := range key {
			values[i] = string(r[i])
		}
		m[syncd.MakeKey(values...)] = string(r[len(key)])
	}
	if len(m) != len(rows) {
		return nil, fmt.Errorf("%d rows have %d keys", len(rows), len(m))
	}
	return m, nil
}

// keyColumns gives the columns of the replica identity, in the index's order.
func keyColumns(ctx context.Context, c *pgx.Conn, table syncd.Table) ([]string, error) {
	rows, err := c.Query(ctx, `SELECT a.attname::text FROM pg_catalog.pg_class r
		JOIN pg_catalog.pg_index i ON i.indrelid = r.oid AND CASE r.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
		CROSS JOIN unnest(i.indkey[0:i.indnkeyatts-1]) WITH ORDINALITY k (attnum, n)
		JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum = k.attnum
		WHERE r.oid = $1::text::pg_catalog.regclass ORDER BY k.n`, table.SQL())
	if err != nil {
		return nil, err
	}
	key, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil && len(key) == 0 {
		err = errors.New("the table has no key")
	}
	return key, err
}

// oracleSQL selects the key's columns and the row. The values come in the text format, which is what the columns' output
// functions print; a cast to text is not that for every type.
func oracleSQL(table syncd.Table, key, columns []string) string {
	var b strings.Builder
	b.WriteString("SELECT ")
	for _, k := range key {
		b.WriteString("o." + syncd.QuoteIdent(k) + ", ")
	}
	if len(columns) == 0 {
		// A partitioned table has no rows of its own, and a plain one's children are other tables.
		fmt.Fprintf(&b, "pg_catalog.row_to_json(o.*) FROM %s o WHERE o.tableoid = %s::pg_catalog.regclass OR EXISTS (SELECT FROM pg_catalog.pg_class r WHERE r.oid = %[2]s::pg_catalog.regclass AND r.relkind = 'p')",
			table.SQL(), literal(table.SQL()))
		return b.String()
	}
	quoted := make([]string, len(columns))
	for i, c := range columns {
		quoted[i] = "o." + syncd.QuoteIdent(c)
	}
	fmt.Fprintf(&b, "(SELECT pg_catalog.row_to_json(p.*) FROM (SELECT %s) p) FROM %s o WHERE o.tableoid = %s::pg_catalog.regclass OR EXISTS (SELECT FROM pg_catalog.pg_class r WHERE r.oid = %[3]s::pg_catalog.regclass AND r.relkind = 'p')",
		strings.Join(quoted, ", "), table.SQL(), literal(table.SQL()))
	return b.String()
}

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
