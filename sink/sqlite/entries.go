package sqlite

import (
	"cmp"
	"database/sql/driver"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/codec"
)

// The entries of a table are rows of _syncd_entries_N: under the number that is a key's hash, so that the table is in the order
// of walks and is found in by number, which SQLite does fastest, the entry as one value (appendEntry), for each value that is
// bound takes time. Where several keys have one hash their entries lie behind each other there, in ascending order of the key.
func entriesOf(id int64) string { return "_syncd_entries_" + strconv.FormatInt(id, 10) }

// createEntries gives the statement that makes the table of a source table's entries.
func createEntries(id int64) string {
	return "CREATE TABLE " + entriesOf(id) + " (hash INTEGER PRIMARY KEY, entry BLOB)"
}

// signed and unsigned keep the order of hashes in SQLite's integers, which have a sign.
func signed(hash uint64) int64   { return int64(hash ^ 1<<63) }
func unsigned(hash int64) uint64 { return uint64(hash) ^ 1<<63 }

// keyed is an entry and its key.
type keyed struct {
	key   syncd.Key
	entry sink.Entry
}

// What an entry has is said by bits behind its key.
const (
	hasRow = 1 << iota
	isPending
	hasSnapshot
)

// appendEntry writes an entry: the key and then the rest, texts behind their length, numbers as uvarints.
func appendEntry(b []byte, k syncd.Key, e *sink.Entry) []byte {
	b = append(binary.AppendUvarint(b, uint64(len(k))), k...)
	flags := byte(0)
	if e.Row != nil {
		flags |= hasRow
	}
	if e.Pending {
		flags |= isPending
	}
	if e.Snap != nil {
		flags |= hasSnapshot
	}
	b = append(b, flags)
	for _, n := range [...]uint64{uint64(e.Version.Epoch), uint64(e.Version.LSN), uint64(e.Version.Ordinal), uint64(e.XID)} {
		b = binary.AppendUvarint(b, n)
	}
	if e.Snap != nil {
		snap := codec.AppendSnapshot(nil, e.Snap)
		b = append(binary.AppendUvarint(b, uint64(len(snap))), snap...)
	}
	if e.Row != nil {
		b = append(binary.AppendUvarint(b, uint64(len(e.Row))), e.Row...)
	}
	return b
}

// entryReader makes entries of what appendEntry wrote. Of equal snapshots that follow each other it makes one.
type entryReader struct {
	text string
	snap *syncd.Snapshot
	all  []keyed
}

// read gives the entries of one hash until the next call; they share their rows with v. What can't be read, because somebody
// else wrote it, is as good as not there: the next resync finds the row missing.
func (r *entryReader) read(v driver.Value) []keyed {
	b, ok := v.([]byte)
	if text, is := v.(string); is {
		b, ok = []byte(text), true
	}
	r.all = r.all[:0]
	for ok && len(b) > 0 {
		var e keyed
		if e, b, ok = r.one(b); ok {
			r.all = append(r.all, e)
		}
	}
	if !ok {
		r.all = r.all[:0]
	}
	return r.all
}

func (r *entryReader) one(b []byte) (e keyed, rest []byte, ok bool) {
	n := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			b = nil
			return 0
		}
		b = b[n:]
		return v
	}
	bytes := func() []byte {
		length := n()
		if b == nil || length > uint64(len(b)) {
			b = nil
			return nil
		}
		v := b[:length:length]
		b = b[length:]
		return v
	}
	e.key = syncd.Key(bytes())
	if len(b) == 0 {
		return e, nil, false
	}
	flags := b[0]
	b = b[1:]
	e.entry.Version = syncd.Version{Epoch: syncd.Epoch(n()), LSN: syncd.LSN(n()), Ordinal: uint32(n())}
	e.entry.XID, e.entry.Pending = syncd.XID(n()), flags&isPending != 0
	if flags&hasSnapshot != 0 {
		if e.entry.Snap, ok = r.snapshot(bytes()); !ok {
			return e, nil, false
		}
	}
	if flags&hasRow != 0 {
		e.entry.Row = bytes()
	}
	return e, b, b != nil
}

func (r *entryReader) snapshot(b []byte) (*syncd.Snapshot, bool) {
	if r.snap == nil || string(b) != r.text {
		snap, err := codec.ParseSnapshot(b)
		if err != nil || snap == nil {
			return nil, false
		}
		r.text, r.snap = string(b), snap
	}
	return r.snap, true
}

// walk calls fn for the entries of a table in the order of sink.Store.Walk, or for those alone that hold a row.
func walk(c *conn, id int64, from uint64, rows bool, fn func(syncd.Key, sink.Entry) bool) error {
	var r entryReader
	return c.query("SELECT entry FROM "+entriesOf(id)+" WHERE hash >= ? ORDER BY hash", func(row []driver.Value) error {
		for _, e := range r.read(row[0]) {
			if (e.entry.Row != nil || !rows) && !fn(e.key, e.entry) {
				return errStop
			}
		}
		return nil
	}, signed(from))
}

// get gives one entry, under a key of that hash.
func get(c *conn, id int64, k syncd.Key, hash uint64) (l loaded, err error) {
	var r entryReader
	err = c.query("SELECT entry FROM "+entriesOf(id)+" WHERE hash = ?", func(row []driver.Value) error {
		l = found(r.read(row[0]), k)
		return errStop
	}, signed(hash))
	return l, err
}

// loaded is an entry as it is stored, or the fact that there is none. others are all entries of its hash, where another key's
// is among them.
type loaded struct {
	entry  sink.Entry
	ok     bool
	others []keyed
}

// found looks for a key among the entries of its hash.
func found(all []keyed, k syncd.Key) (l loaded) {
	for _, e := range all {
		if e.key == k {
			l.entry, l.ok = e.entry, true
		} else {
			l.others = all
		}
	}
	l.others = slices.Clone(l.others)
	return l
}

// loadAtOnce is how many keys are looked for with one statement.
const loadAtOnce = 64

// load reads the entries under keys into t.loaded.
func (t *table) load(f *file, keys []syncd.Key) (err error) {
	defer func() {
		if err != nil {
			t.loaded = nil
		}
	}()
	if t.loaded == nil {
		t.loaded = make(map[syncd.Key]loaded, len(keys))
	}
	some := make([]wanted, 0, len(keys))
	for _, k := range keys {
		if _, known := t.loaded[k]; !known {
			t.loaded[k] = loaded{}
			some = append(some, wanted{k, f.hash(k)})
		}
	}
	slices.SortFunc(some, func(a, b wanted) int { return cmp.Compare(a.hash, b.hash) })
	for ; len(some) >= loadAtOnce; some = some[loadAtOnce:] {
		if err := t.loadSome(f.w, some[:loadAtOnce]); err != nil {
			return err
		}
	}
	for _, w := range some {
		l, err := get(f.w, t.id, w.key, w.hash)
		if err != nil {
			return err
		}
		t.loaded[w.key] = l
	}
	return nil
}

// wanted is a key that is looked for.
type wanted struct {
	key  syncd.Key
	hash uint64
}

// loadSome reads the entries under keys, which are in the order of their hashes.
func (t *table) loadSome(c *conn, keys []wanted) error {
	args := make([]any, 0, len(keys))
	for _, k := range keys {
		args = append(args, signed(k.hash))
	}
	var r entryReader
	return c.query("SELECT hash, entry FROM "+entriesOf(t.id)+" WHERE hash IN "+places(len(keys), 1)+" ORDER BY hash", func(row []driver.Value) error {
		n, _ := row[0].(int64)
		all := r.read(row[1])
		for len(keys) > 0 && keys[0].hash < unsigned(n) {
			keys = keys[1:]
		}
		for ; len(keys) > 0 && keys[0].hash == unsigned(n); keys = keys[1:] {
			t.loaded[keys[0].key] = found(all, keys[0].key)
		}
		return nil
	}, args...)
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
	suffix string
	fields int
	rows   int // with one statement
	args   []any
}

// newBatch begins to write rows of so many fields. A row that is there already is replaced, or, where or says so, that is done
// with it.
func newBatch(c *conn, into string, fields int, or string) *batch {
	b := &batch{c: c, prefix: "INSERT OR REPLACE INTO " + into + " VALUES ", fields: fields, rows: max(min(64, 8000/fields), 1)}
	if or != "" {
		b.prefix, b.suffix = "INSERT INTO "+into+" VALUES ", or
	}
	return b
}

// wrote is called when args has one more row.
func (b *batch) wrote() error {
	if len(b.args) < b.fields*b.rows {
		return nil
	}
	err := b.c.exec(b.prefix+places(b.fields, b.rows)+b.suffix, b.args...)
	b.args = b.args[:0]
	return err
}

// end writes what is left.
func (b *batch) end() error {
	one := b.prefix + places(b.fields, 1) + b.suffix
	for ; len(b.args) > 0; b.args = b.args[b.fields:] {
		if err := b.c.exec(one, b.args[:b.fields]...); err != nil {
			return err
		}
	}
	return nil
}
