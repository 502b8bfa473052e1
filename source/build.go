package source

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unsafe"

	"github.com/syncd-io/syncd"
)

// arena hands out memory for keys and rows. What it has handed out is never used again, so it may be kept; a chunk is freed
// when nobody keeps anything of it.
type arena struct{ chunk []byte }

const (
	arenaChunk = 256 << 10
	arenaSlack = 4 << 10 // what a chunk should still have room for
)

// tail gives an empty slice to append to; keep says what became of it.
func (a *arena) tail() []byte {
	if cap(a.chunk)-len(a.chunk) < arenaSlack {
		a.chunk = make([]byte, 0, arenaChunk)
	}
	return a.chunk[len(a.chunk):]
}

// keep takes what was appended to tail, and gives it in its final place.
func (a *arena) keep(b []byte) []byte {
	if n := len(b); n <= cap(a.chunk)-len(a.chunk) {
		a.chunk = a.chunk[:len(a.chunk)+n]
	} // else append has moved it into memory of its own
	return b[:len(b):len(b)]
}

// relation is a table as a Relation message describes it.
type relation struct {
	table syncd.Table
	shape *Shape // nil where rows can't be printed: they are sent as pointers
	key   []int  // places of the key columns, in key order
	hash  uint64
}

// builder makes transactions out of pgoutput messages: the deltas of one transaction, one final state for each key. It is
// used by one goroutine.
type builder struct {
	Epoch  syncd.Epoch
	Tables *roster
	// Types reads the types that a Relation names from the catalog.
	Types func(ctx context.Context, rel []RelationColumn) ([]Column, error)
	// Relist is told of a table whose changes could not be made deltas, why, and a position behind them.
	Relist func(t syncd.Table, why string, at syncd.LSN)
	// SpillBytes is how large an open transaction may grow in memory; 0 is 64 MiB.
	SpillBytes int
	// Disk makes the file for a larger one; nil is a temporary file.
	Disk func() (spillFile, error)

	relations map[uint32]*relation // nil for a table that is not synced
	strangers map[uint32]*Relation // those of tables that were not configured when they were described
	looks     uint64               // of Tables, when that was last looked at
	arena     arena
	deltas    []syncd.Delta // whole transactions, then the open one
	open      int           // where the open transaction begins
	inside    bool          // a transaction is open
	skipping  bool          // the stream holds the open transaction already
	begin     Begin
	number    uint32 // of the open transaction's last change, as the server sent them
	changed   bool   // the open transaction had a change of a synced table
	strange   bool   // and one of a stranger
	dead      int    // deltas of the open transaction that a later one has replaced
	index     keyIndex
	bytes     int    // of deltas, with what they take beside rows and keys
	before    int    // bytes before the open transaction
	spill     *spill // the open transaction's changes that are on disk
}

const (
	// deltaOverhead is what a delta takes beside its row and keys.
	deltaOverhead     = 256
	defaultSpillBytes = 64 << 20
)

// relate takes a Relation message.
func (b *builder) relate(ctx context.Context, m *Relation) error {
	if b.relations == nil {
		b.relations = map[uint32]*relation{}
	}
	t := syncd.Table{Schema: string(m.Namespace), Name: string(m.Name)}
	b.relations[m.OID] = nil
	delete(b.strangers, m.OID)
	for _, other := range b.Tables.misnamed(t, m.OID) {
		b.Relist(other, fmt.Sprintf("the relation %d was named %s", m.OID, t), b.begin.Final+1)
	}
	known := b.Tables.get(t)
	if known == nil {
		if b.strangers == nil {
			b.strangers = map[uint32]*Relation{}
		}
		b.strangers[m.OID] = m.clone()
		return nil
	}
	names := keyNames(m, known)
	if len(names) == 0 {
		b.Relist(t, "it was changed while it had no usable key", b.begin.Final+1)
		return nil
	}
	r := &relation{table: t}
	for _, n := range names {
		i := slices.IndexFunc(m.Columns, func(c RelationColumn) bool { return string(c.Name) == n })
		r.key = append(r.key, i)
	}
	b.relations[m.OID] = r
	if known.fetched() {
		r.hash = known.shape.Hash()
		return nil
	}
	if r.shape = known.shapeFor(m, names); r.shape == nil {
		var err error
		if r.shape, err = b.makeShape(ctx, t, m, names); err != nil {
			return err
		}
	}
	if r.shape != nil {
		r.hash = r.shape.Hash()
	}
	return nil
}

// meet relates the strangers whose tables are configured by now: the server describes a relation once, and may have done so
// before the table was among those that are synced (a publication for all tables holds a table from its first row on).
func (b *builder) meet(ctx context.Context) error {
	looks := b.Tables.looks.Load()
	if looks == b.looks {
		return nil
	}
	b.looks = looks
	for _, m := range b.strangers {
		if b.Tables.get(syncd.Table{Schema: string(m.Namespace), Name: string(m.Name)}) != nil {
			if err := b.relate(ctx, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// keyNames gives the names of the key's columns, in key order. A Relation says which they were, but not their order, which
// is that of the catalog now where it is of the same columns; on REPLICA IDENTITY FULL it does not say either.
func keyNames(m *Relation, known *rosterTable) []string {
	var flagged []string
	for _, c := range m.Columns {
		if c.Key {
			flagged = append(flagged, string(c.Name))
		}
	}
	now := known.verdict.Key
	if m.Identity == 'f' {
		for _, n := range now {
			if !slices.Contains(flagged, n) {
				return nil
			}
		}
		return now
	}
	if sameSet(flagged, now) {
		return now
	}
	return flagged
}

// shapeFor gives the table's present shape where the Relation describes just that.
func (t *rosterTable) shapeFor(m *Relation, key []string) *Shape {
	if t.shape == nil || len(m.Columns) != len(t.verdict.Columns) || !slices.Equal(key, t.verdict.Key) {
		return nil
	}
	for i, c := range t.verdict.Columns {
		n := &m.Columns[i]
		if string(n.Name) != c.Name || n.Type != c.Type || n.Typmod != c.Typmod {
			return nil
		}
	}
	return t.shape
}

// makeShape makes the shape of a table as it was. It is nil where a type is gone since, or only the server can print it.
func (b *builder) makeShape(ctx context.Context, t syncd.Table, m *Relation, key []string) (*Shape, error) {
	cols, err := b.Types(ctx, m.Columns)
	var gone *NoTypeError
	if errors.As(err, &gone) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the types of table %s: %w", t, err)
	}
	s, err := NewShape(t, cols, key)
	if err != nil {
		return nil, nil //nolint:nilerr // its rows are sent as pointers
	}
	return s, nil
}

// start takes a Begin. skip says that the stream holds the transaction already, so that no deltas are to be made.
func (b *builder) start(m Begin, skip bool) error {
	if b.inside {
		return errors.New("a transaction begins within another")
	}
	b.inside, b.skipping, b.begin, b.changed, b.strange, b.dead = true, skip, m, false, false, 0
	b.open, b.before, b.number = len(b.deltas), b.bytes, 0
	b.index.reset()
	return nil
}

// place gives a change of the open transaction its ordinals, one or two, and gives the first: its place among all that the
// server sends of the transaction, those included that are no deltas or are replaced. So whoever reads the transaction
// again gives the same ordinals, whatever was configured or altered meanwhile: parts of it may have been applied.
func (b *builder) place(n uint32) (uint32, error) {
	if b.number > math.MaxUint32-n {
		return 0, errors.New("the transaction has more changes than there are ordinals")
	}
	b.number += n
	return b.number - n + 1, nil
}

// relationOf finds the table of a change; nil where it is not synced.
func (b *builder) relationOf(oid uint32) (*relation, error) {
	r, ok := b.relations[oid]
	switch {
	case !b.inside:
		return nil, errors.New("a change outside of a transaction")
	case !ok:
		return nil, fmt.Errorf("a change of relation %d, which no Relation message has described", oid)
	case r != nil:
		b.changed = true
	case b.strangers[oid] != nil:
		b.strange = true
	}
	return r, nil
}

// change takes an Insert, Update or Delete.
func (b *builder) change(m *Change) error {
	width := uint32(1)
	if m.OldTuple != OldNone && len(m.New) > 0 {
		width = 2 // it may be a change of key, which makes two deltas
	}
	at, err := b.place(width)
	if err != nil {
		return err
	}
	r, err := b.relationOf(m.Relation)
	if err != nil || r == nil || b.skipping {
		return err
	}
	if len(m.New) == 0 {
		key, err := b.keyOf(r, m.Old)
		if err != nil {
			return err
		}
		b.put(syncd.Delta{Table: r.table, Op: syncd.Delete, Key: key, Schema: r.hash}, at)
		return b.bound()
	}
	fillFromOld(m)
	d := syncd.Delta{Table: r.table, Op: syncd.Upsert, Schema: r.hash}
	if d.Key, err = b.keyOf(r, m.New); err != nil {
		return err
	}
	base := d.Key
	if m.OldTuple != OldNone {
		if base, err = b.keyOf(r, m.Old); err != nil {
			return err
		}
	}
	b.row(r, m.New, &d)
	if base != d.Key {
		d.Moved, d.From = true, base
	}
	if len(d.Absent) > 0 {
		b.resolve(r.shape, &d, base)
	}
	if base != d.Key {
		b.put(syncd.Delta{Table: r.table, Op: syncd.Delete, Key: base, Schema: r.hash}, at)
	}
	b.put(d, b.number)
	return b.bound()
}

// fillFromOld takes values that the update left alone from the old tuple, where it has them: all on REPLICA IDENTITY FULL,
// those of the key else.
func fillFromOld(m *Change) {
	for i := range m.New {
		if m.New[i].Kind == Unchanged && i < len(m.Old) && m.Old[i].Kind == Text {
			m.New[i] = m.Old[i]
		}
	}
}

func (b *builder) keyOf(r *relation, values []Value) (syncd.Key, error) {
	buf := b.arena.tail()
	var err error
	if r.shape != nil {
		buf, err = r.shape.AppendKey(buf, values)
	} else {
		buf, err = appendKey(buf, r, values)
	}
	if err != nil {
		return "", err
	}
	k := b.arena.keep(buf)
	b.bytes += len(k)
	return syncd.Key(unsafe.String(unsafe.SliceData(k), len(k))), nil
}

// appendKey is Shape.AppendKey for a table whose shape can't be made.
func appendKey(dst []byte, r *relation, values []Value) ([]byte, error) {
	for n, i := range r.key {
		if i >= len(values) || values[i].Kind != Text {
			return dst, fmt.Errorf("table %s: a change without its key", r.table)
		}
		if n > 0 {
			dst = append(dst, 0)
		}
		dst = append(dst, values[i].Data...)
	}
	return dst, nil
}

// row prints the row. One that can't be printed here, since its type changed after it was written, is sent as a pointer:
// the consumer fetches it as it is now.
func (b *builder) row(r *relation, values []Value, d *syncd.Delta) {
	if r.shape == nil {
		d.Pointer = true
		return
	}
	buf, err := r.shape.AppendRow(b.arena.tail(), values)
	if err != nil {
		d.Pointer = true
		return
	}
	d.Row = b.arena.keep(buf)
	d.Absent = r.shape.Absent(values)
	b.bytes += len(d.Row)
}

// resolve fills absent values from the change of the same transaction that they came from; base is the key that the row had
// before. What stays absent is to be filled from where that change's came from.
func (b *builder) resolve(s *Shape, d *syncd.Delta, base syncd.Key) {
	i := b.find(d.Table, base)
	if i < 0 || b.deltas[i].Op != syncd.Upsert {
		return
	}
	q := &b.deltas[i]
	if q.Pointer || q.Schema != d.Schema { // the row is not known, or the shape changed within the transaction
		d.Row, d.Absent, d.Moved, d.From, d.Pointer = nil, nil, false, "", true
		return
	}
	buf, absent := fillRow(b.arena.tail(), s, d, q)
	d.Row, d.Absent = b.arena.keep(buf), absent
	b.bytes += len(d.Row)
	from := q.Key
	if q.Moved {
		from = q.From
	}
	if d.Moved = len(absent) > 0 && from != d.Key; !d.Moved {
		from = ""
	}
	d.From = from
}

// put adds a change to the open transaction in place of an earlier one of the same key.
func (b *builder) put(d syncd.Delta, ordinal uint32) {
	d.Version.Ordinal = ordinal
	if i := b.find(d.Table, d.Key); i >= 0 {
		b.kill(i)
	}
	if b.dead > 1024 && b.dead > (len(b.deltas)-b.open)/2 {
		b.compact()
	}
	b.deltas = append(b.deltas, d)
	b.bytes += deltaOverhead
	b.index.add(b.deltas, b.open)
}

// bound keeps the open transaction below its limit. It is called between changes: the two deltas of one belong together.
func (b *builder) bound() error {
	limit := b.SpillBytes
	if limit == 0 {
		limit = defaultSpillBytes
	}
	if b.bytes-b.before > limit {
		return b.toDisk()
	}
	return nil
}

// toDisk writes the open transaction's changes into the file. What comes later does not replace them any more: of one key
// there may be several states then, in the order of their ordinals.
func (b *builder) toDisk() error {
	if b.spill == nil {
		create, err := b.Disk, error(nil)
		if create == nil {
			create = tempSpill
		}
		if b.spill, err = newSpill(create); err != nil {
			return &localError{err}
		}
	}
	if err := b.spill.add(b.deltas[b.open:]); err != nil {
		return &localError{err}
	}
	clear(b.deltas[b.open:])
	b.deltas, b.bytes, b.dead = b.deltas[:b.open], b.before, 0
	b.index.reset()
	return nil
}

// localError is trouble of this machine, as opposed to a replication stream that can't be understood.
type localError struct{ error }

// Unwrap gives the trouble.
func (e *localError) Unwrap() error { return e.error }

// compact takes the replaced deltas out of the open transaction.
func (b *builder) compact() {
	open := b.deltas[b.open:]
	live := slices.DeleteFunc(open, func(d syncd.Delta) bool { return d.Op == 0 })
	b.deltas, b.dead = b.deltas[:b.open+len(live)], 0
	b.index.rebuild(b.deltas, b.open)
}

func (b *builder) kill(i int) {
	b.bytes -= len(b.deltas[i].Row) + deltaOverhead
	b.deltas[i] = syncd.Delta{}
	b.dead++
}

// find gives the place of a key's change in the open transaction, or -1.
func (b *builder) find(t syncd.Table, k syncd.Key) int {
	return b.index.find(b.deltas, b.open, t, k)
}

// truncate takes a Truncate: it does away with what the transaction did before to its tables.
func (b *builder) truncate(m *Truncated) error {
	for _, oid := range m.Relations {
		at, err := b.place(1)
		if err != nil {
			return err
		}
		r, err := b.relationOf(oid)
		if err != nil {
			return err
		}
		if r == nil || b.skipping {
			continue
		}
		for i := b.open; i < len(b.deltas); i++ {
			if b.deltas[i].Op != 0 && b.deltas[i].Table == r.table {
				b.kill(i)
			}
		}
		b.Tables.noteTruncate(r.table)
		b.deltas = append(b.deltas, syncd.Delta{Table: r.table, Op: syncd.Truncate, Schema: r.hash, Version: syncd.Version{Ordinal: at}})
		b.bytes += deltaOverhead
		b.index.add(b.deltas, b.open)
	}
	return nil
}

// drop forgets the open transaction, which the stream holds already.
func (b *builder) drop() {
	clear(b.deltas[b.open:])
	b.deltas, b.bytes = b.deltas[:b.open], b.before
	b.inside = false
}

// commitSpilled ends an open transaction that is on disk, in part at least, and gives it.
func (b *builder) commitSpilled(end syncd.LSN, committed time.Time, xid syncd.XID) (*spill, error) {
	if err := b.toDisk(); err != nil {
		return nil, err
	}
	s := b.spill
	b.spill, b.inside = nil, false
	if err := s.finish(b.Epoch, end, xid, committed); err != nil {
		s.close()
		return nil, &localError{err}
	}
	return s, nil
}

// close gives up what is on disk of an open transaction.
func (b *builder) close() {
	if b.spill != nil {
		b.spill.close()
		b.spill = nil
	}
}

// commit ends the open transaction: its deltas get their versions. It gives how many they are.
func (b *builder) commit(end syncd.LSN, committed time.Time, xid syncd.XID) int {
	if b.dead > 0 {
		b.compact()
	}
	deltas := b.deltas[b.open:]
	for i := range deltas {
		d := &deltas[i]
		d.Version.Epoch, d.Version.LSN = b.Epoch, end
		d.XID, d.Committed = xid, committed
	}
	b.inside, b.open = false, len(b.deltas)
	return len(deltas)
}

// take hands out the deltas of the whole transactions, and their size.
func (b *builder) take() ([]syncd.Delta, int) {
	whole := len(b.deltas)
	if b.inside {
		whole = b.open
	}
	if whole == 0 {
		return nil, 0
	}
	out, bytes := b.deltas[:whole:whole], b.bytes
	if b.inside {
		rest := slices.Clone(b.deltas[whole:])
		out, bytes = b.deltas[:whole:whole], b.before
		b.deltas, b.open = rest, 0 // the index counts from open
		b.bytes, b.before = b.bytes-b.before, 0
		return out, bytes
	}
	b.deltas, b.open, b.bytes = nil, 0, 0
	return out, bytes
}
