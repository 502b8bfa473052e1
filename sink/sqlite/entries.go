package sqlite

import (
	"database/sql/driver"
	"fmt"
	"strings"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/codec"
)

// An entry is a row of _syncd_entries_N: its hash first, so that the table is in the order of walks.
const (
	entryColumns = "hash, key, epoch, lsn, ordinal, xid, pending, snapshot, row"
	entryFields  = 9
)

func entriesOf(id int64) string { return fmt.Sprintf("_syncd_entries_%d", id) }

// createEntries gives the statement that makes the table of a source table's entries.
func createEntries(id int64) string {
	return fmt.Sprintf(`CREATE TABLE %s (hash INTEGER NOT NULL, key BLOB NOT NULL, epoch INTEGER NOT NULL, lsn INTEGER NOT NULL,
		ordinal INTEGER NOT NULL, xid INTEGER NOT NULL, pending INTEGER NOT NULL, snapshot BLOB, row BLOB, PRIMARY KEY (hash, key)) WITHOUT ROWID`, entriesOf(id))
}

// signed and unsigned keep the order of hashes in SQLite's integers, which have a sign.
func signed(hash uint64) int64 { return int64(hash ^ 1<<63) }

func appendEntry(args []any, k syncd.Key, e *sink.Entry) []any {
	var snap, row any
	if e.Snap != nil {
		snap = codec.AppendSnapshot(nil, e.Snap)
	}
	if e.Row != nil {
		row = e.Row
	}
	pending := int64(0)
	if e.Pending {
		pending = 1
	}
	return append(args, signed(k.Hash()), []byte(k), int64(e.Version.Epoch), int64(e.Version.LSN), int64(e.Version.Ordinal), int64(e.XID), pending, snap, row)
}

// entryReader makes entries of rows. Of equal snapshots that follow each other it makes one.
type entryReader struct {
	text string
	snap *syncd.Snapshot
}

// read reads the columns behind the hash.
func (r *entryReader) read(row []driver.Value) (syncd.Key, sink.Entry, error) {
	key, ok := row[0].([]byte)
	if !ok && row[0] != nil {
		return "", sink.Entry{}, fmt.Errorf("an entry's key is a %T", row[0])
	}
	n := func(i int) int64 { v, _ := row[i].(int64); return v }
	e := sink.Entry{
		Version: syncd.Version{Epoch: syncd.Epoch(n(1)), LSN: syncd.LSN(n(2)), Ordinal: uint32(n(3))},
		XID:     syncd.XID(n(4)), Pending: n(5) != 0,
	}
	switch v := row[7].(type) {
	case []byte:
		e.Row = v
		if v == nil {
			e.Row = []byte{}
		}
	case string: // somebody else wrote it
		e.Row = []byte(v)
	}
	if b, ok := row[6].([]byte); ok && len(b) > 0 {
		if string(b) != r.text {
			snap, err := codec.ParseSnapshot(b)
			if err != nil {
				return "", sink.Entry{}, fmt.Errorf("the entry of %s: %w", syncd.Key(key), err)
			}
			r.text, r.snap = string(b), snap
		}
		e.Snap = r.snap
	}
	return syncd.Key(key), e, nil
}

// walk calls fn for the entries of a table in the order of sink.Store.Walk, or for those alone that hold a row.
func walk(c *conn, id int64, from uint64, rows bool, fn func(syncd.Key, sink.Entry) bool) error {
	only := ""
	if rows {
		only = " AND row IS NOT NULL"
	}
	var r entryReader
	return c.query("SELECT key, epoch, lsn, ordinal, xid, pending, snapshot, row FROM "+entriesOf(id)+" WHERE hash >= ?"+only+" ORDER BY hash, key",
		func(row []driver.Value) error {
			k, e, err := r.read(row)
			if err == nil && !fn(k, e) {
				err = errStop
			}
			return err
		}, signed(from))
}

// get gives one entry.
func get(c *conn, id int64, k syncd.Key) (e sink.Entry, ok bool, err error) {
	var r entryReader
	err = c.query("SELECT key, epoch, lsn, ordinal, xid, pending, snapshot, row FROM "+entriesOf(id)+" WHERE hash = ? AND key = ?",
		func(row []driver.Value) (err error) {
			_, e, err = r.read(row)
			ok = err == nil
			return err
		}, signed(k.Hash()), []byte(k))
	return e, ok, err
}

// loaded is an entry as it is stored, or the fact that there is none.
type loaded struct {
	entry sink.Entry
	ok    bool
}

// loadAtOnce is how many keys are looked for with one statement.
const loadAtOnce = 64

// load reads the entries under keys into t.loaded.
func (t *table) load(c *conn, keys []syncd.Key) error {
	if t.loaded == nil {
		t.loaded = make(map[syncd.Key]loaded, len(keys))
	}
	var some []syncd.Key
	for _, k := range keys {
		if _, known := t.loaded[k]; known {
			continue
		}
		t.loaded[k] = loaded{}
		if some = append(some, k); len(some) == loadAtOnce {
			if err := t.loadSome(c, some); err != nil {
				return err
			}
			some = some[:0]
		}
	}
	for _, k := range some {
		e, ok, err := get(c, t.id, k)
		if err != nil {
			t.loaded = nil
			return err
		}
		t.loaded[k] = loaded{e, ok}
	}
	return nil
}

func (t *table) loadSome(c *conn, keys []syncd.Key) error {
	args := make([]any, 0, 2*len(keys))
	for _, k := range keys {
		args = append(args, signed(k.Hash()), []byte(k))
	}
	var r entryReader
	err := c.query(`WITH wanted(h, k) AS (VALUES `+places(2, len(keys))+`) SELECT key, epoch, lsn, ordinal, xid, pending, snapshot, row
		FROM wanted CROSS JOIN `+entriesOf(t.id)+` ON hash = h AND key = k`, func(row []driver.Value) error {
		k, e, err := r.read(row)
		if err == nil {
			t.loaded[k] = loaded{e, true}
		}
		return err
	}, args...)
	if err != nil {
		t.loaded = nil
	}
	return err
}

// places gives the places of arguments for so many rows of so many fields.
func places(fields, rows int) string {
	one := "(" + strings.Repeat("?,", fields-1) + "?)"
	return strings.Repeat(one+",", rows-1) + one
}

// batch collects rows, and writes many with one statement.
type batch struct {
	c      *conn
	prefix string
	fields int
	rows   int // with one statement
	args   []any
}

// newBatch begins to write rows of so many fields.
func newBatch(c *conn, into string, fields int) *batch {
	return &batch{c: c, prefix: "INSERT OR REPLACE INTO " + into + " VALUES ", fields: fields, rows: max(min(64, 8000/fields), 1)}
}

// wrote is called when args has one more row.
func (b *batch) wrote() error {
	if len(b.args) < b.fields*b.rows {
		return nil
	}
	err := b.c.exec(b.prefix+places(b.fields, b.rows), b.args...)
	b.args = b.args[:0]
	return err
}

// end writes what is left.
func (b *batch) end() error {
	one := b.prefix + places(b.fields, 1)
	for ; len(b.args) > 0; b.args = b.args[b.fields:] {
		if err := b.c.exec(one, b.args[:b.fields]...); err != nil {
			return err
		}
	}
	return nil
}
