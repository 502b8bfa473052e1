package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
)

// conn is one connection to the file, used by one goroutine at a time. It speaks to the driver without database/sql, whose
// pool and conversions would take most of the time of a small statement.
type conn struct {
	raw   driver.Conn
	stmts map[string]*stmt
}

// stmt is a prepared statement. busy says that rows of it are being read.
type stmt struct {
	driver.Stmt
	busy bool
}

// openConn opens a file; mode is ro, rw or rwc.
func openConn(path, mode string, pragmas ...string) (*conn, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(abs), RawQuery: "mode=" + mode}
	raw, err := new(sqlite.Driver).Open(u.String())
	if err != nil {
		return nil, err
	}
	c := &conn{raw: raw, stmts: map[string]*stmt{}}
	for _, p := range pragmas {
		if err := c.exec("PRAGMA " + p); err != nil {
			return nil, errors.Join(fmt.Errorf("PRAGMA %s: %w", p, err), c.close())
		}
	}
	return c, nil
}

func (c *conn) close() error {
	err := c.forget()
	return errors.Join(err, c.raw.Close())
}

// forget gives up the prepared statements.
func (c *conn) forget() (err error) {
	for text, s := range c.stmts {
		err = errors.Join(err, s.Close())
		delete(c.stmts, text)
	}
	return err
}

// maxStatements is how many statements a connection keeps prepared.
const maxStatements = 512

// prepare gives a statement that is free, and done, which is called when it was used.
func (c *conn) prepare(text string) (s *stmt, done func() error, err error) {
	s, kept := c.stmts[text]
	if kept && !s.busy {
		s.busy = true
		return s, func() error { s.busy = false; return nil }, nil
	}
	raw, err := c.raw.(driver.ConnPrepareContext).PrepareContext(context.Background(), text)
	if err != nil {
		return nil, nil, err
	}
	s = &stmt{Stmt: raw, busy: true}
	if kept || len(c.stmts) >= maxStatements {
		return s, s.Close, nil
	}
	c.stmts[text] = s
	return s, func() error { s.busy = false; return nil }, nil
}

// exec runs a statement. Arguments are nil, int64, float64, string or []byte, and are not kept.
func (c *conn) exec(text string, args ...any) error {
	s, done, err := c.prepare(text)
	if err != nil {
		return err
	}
	_, err = s.Stmt.(driver.StmtExecContext).ExecContext(context.Background(), named(args))
	return errors.Join(err, done())
}

// once runs a statement that won't come again.
func (c *conn) once(text string, args ...any) error {
	_, err := c.raw.(driver.ExecerContext).ExecContext(context.Background(), text, named(args))
	return err
}

func named(args []any) []driver.NamedValue {
	all := make([]driver.NamedValue, len(args))
	for i, a := range args {
		all[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
	}
	return all
}

// query calls fn for each row, until fn gives an error: errStop ends it without one. What is in the row is fn's to keep, the
// slice is not.
func (c *conn) query(text string, fn func(row []driver.Value) error, args ...any) (err error) {
	s, done, err := c.prepare(text)
	if err != nil {
		return err
	}
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(context.Background(), named(args))
	if err != nil {
		return errors.Join(err, done())
	}
	row := make([]driver.Value, len(rows.Columns()))
	for {
		if err = rows.Next(row); err != nil {
			break
		}
		if err = fn(row); err != nil {
			break
		}
	}
	if err == io.EOF || err == errStop {
		err = nil
	}
	return errors.Join(err, rows.Close(), done())
}

// errStop ends a query.
var errStop = errors.New("stop")

// one reads one value; nil where there is no row.
func (c *conn) one(text string, args ...any) (v driver.Value, err error) {
	err = c.query(text, func(row []driver.Value) error { v = row[0]; return errStop }, args...)
	return v, err
}

func (c *conn) oneInt(text string, args ...any) (int64, error) {
	v, err := c.one(text, args...)
	n, _ := v.(int64)
	return n, err
}

// transaction runs fn in a transaction that writes. After an error nothing of it is left.
func (c *conn) transaction(fn func() error) error {
	if err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := fn()
	if err == nil {
		err = c.exec("COMMIT")
	}
	if err != nil {
		// Some errors have rolled it back already, and then this one says so: that is nothing to tell.
		_ = c.exec("ROLLBACK")
	}
	return err
}

// quote quotes an identifier.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// code gives SQLite's primary result code of an error; 0 where it is none of SQLite's.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// The codes that matter here.
const (
	codeBusy    = 5
	codeCorrupt = 11
	codeNotADB  = 26
)

// damaged says whether an error tells that the file is no good.
func damaged(err error) bool {
	n := code(err)
	return n == codeCorrupt || n == codeNotADB
}
