package memory

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink/codec"
)

// ReadFrom fills the store with what WriteTo wrote, in place of what it held. It reads r to its end. After an error the
// store is as it was; the error wraps r's, is a *FullError, wraps syncd.ErrFormat, or says what is wrong with the content.
func (s *Store) ReadFrom(r io.Reader) (int64, error) {
	f := &fileReader{r: bufio.NewReaderSize(r, 64<<10), into: newStore(Options{MaxMemory: s.options.MaxMemory}, s.hash)}
	if err := f.read(); err != nil {
		return f.n, fmt.Errorf("read the memory store: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root.Load().closed {
		return f.n, fmt.Errorf("read the memory store: %w", errClosed)
	}
	s.writerState = f.into.writerState
	s.root.Store(f.into.root.Load())
	if len(s.indexes) > 0 {
		next := *s.root.Load()
		s.redeclare(&next)
	}
	return f.n, nil
}

// fileReader reads the form that file.go describes into a store of its own. It believes no length that the content does not
// bear out.
type fileReader struct {
	r     *bufio.Reader
	n     int64
	snaps []*syncd.Snapshot
	into  *Store
}

func (f *fileReader) read() error {
	if err := f.header(); err != nil {
		return err
	}
	d, err := f.section("the state")
	if err != nil {
		return err
	}
	state := d.State()
	if err := f.end(d, "the state"); err != nil {
		return err
	}
	tables, err := f.uint()
	if err != nil {
		return fmt.Errorf("the number of tables: %w", err)
	}
	for range tables {
		if err := f.table(); err != nil {
			return err
		}
	}
	if _, err := f.r.ReadByte(); err != io.EOF {
		return cmp.Or(err, errors.New("it goes on behind its end"))
	}
	f.into.publish(&root{}, nil, true, state)
	return nil
}

func (f *fileReader) header() error {
	magic := make([]byte, len(fileMagic))
	if err := f.full(magic); err != nil {
		return fmt.Errorf("the header: %w", err)
	}
	if string(magic) != fileMagic {
		return errors.New("the header: it was not written by a memory store")
	}
	format, err := f.uint()
	if err != nil {
		return fmt.Errorf("the header: %w", err)
	}
	if format != fileFormat {
		return fmt.Errorf("format %d, this program reads %d: %w", format, fileFormat, syncd.ErrFormat)
	}
	return nil
}

func (f *fileReader) table() error {
	d, err := f.section("the name of a table")
	if err != nil {
		return err
	}
	name := d.Table()
	where := "table " + name.String()
	w := newWriter(f.into.hash)
	var origins []origin
	for range d.Count() {
		origins = append(origins, origin{used: d.Bool(), epoch: syncd.Epoch(d.Uint()), snap: d.Snapshot()})
	}
	if err := f.end(d, where); err != nil {
		return err
	}
	if err := w.loadOrigins(origins); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if _, ok := f.into.writers[name]; ok {
		return fmt.Errorf("%s is there twice", where)
	}
	f.into.writers[name] = w
	if err := f.chunks(w); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	w.dropUnusedOrigins()
	w.keepDigest()
	f.into.settle(w)
	return f.totals(w, where)
}

func (f *fileReader) totals(w *writer, where string) error {
	d, err := f.section(where)
	if err != nil {
		return err
	}
	entries, rows := d.Uint(), d.Uint()
	if err := f.end(d, where); err != nil {
		return err
	}
	if entries != uint64(w.entries) || rows != uint64(w.rows) {
		return fmt.Errorf("%s holds %d entries, %d of them rows; its totals say %d and %d", where, w.entries, w.rows, entries, rows)
	}
	return nil
}

// chunks reads the records of a table. A chunk becomes a block as it is.
func (f *fileReader) chunks(w *writer) error {
	var last cursor
	for {
		n, err := f.uint()
		if err != nil || n == 0 {
			return err
		}
		if w.slab.count() == maxBlocks {
			return fmt.Errorf("more than %d chunks", maxBlocks)
		}
		b, err := f.bytes(n)
		if err != nil {
			return err
		}
		if err := f.admit(w, len(b)); err != nil {
			return err
		}
		if err := w.adopt(b, &last); err != nil {
			return err
		}
	}
}

// admit refuses a chunk that the store has no room for.
func (f *fileReader) admit(w *writer, size int) error {
	limit := f.into.options.MaxMemory
	if need := f.into.need(w.slab.live + size); limit > 0 && need > limit {
		return &FullError{Need: need, Max: limit}
	}
	return nil
}

// section reads a length and as many bytes.
func (f *fileReader) section(what string) (*codec.Decoder, error) {
	n, err := f.uint()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	b, err := f.bytes(n)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return &codec.Decoder{B: b, Snaps: f.snaps}, nil
}

// end checks that a section was read to its end without a mistake.
func (f *fileReader) end(d *codec.Decoder, what string) error {
	f.snaps = d.Snaps
	switch {
	case d.Err != nil:
		return fmt.Errorf("%s: %w", what, d.Err)
	case len(d.B) > 0:
		return fmt.Errorf("%s: %d bytes too many", what, len(d.B))
	}
	return nil
}

func (f *fileReader) uint() (uint64, error) {
	x, err := binary.ReadUvarint(countBytes{f})
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return x, err
}

// countBytes counts the bytes that binary.ReadUvarint takes.
type countBytes struct{ f *fileReader }

func (c countBytes) ReadByte() (byte, error) {
	b, err := c.f.r.ReadByte()
	if err == nil {
		c.f.n++
	}
	return b, err
}

// bytes reads n bytes, and takes memory for no more than twice as many as there are.
func (f *fileReader) bytes(n uint64) ([]byte, error) {
	if n <= maxBlock {
		b := make([]byte, n)
		return b, f.full(b)
	}
	var b []byte
	for uint64(len(b)) < n {
		b = slices.Grow(b, int(min(n-uint64(len(b)), uint64(max(maxBlock, len(b))))))
		more := b[len(b):min(uint64(cap(b)), n)]
		if err := f.full(more); err != nil {
			return nil, err
		}
		b = b[:len(b)+len(more)]
	}
	return slices.Clip(b), nil
}

func (f *fileReader) full(b []byte) error {
	n, err := io.ReadFull(f.r, b)
	f.n += int64(n)
	if err == io.EOF && len(b) > 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// cursor is the last entry read, to check that they ascend.
type cursor struct {
	any  bool
	hash uint64
	key  syncd.Key
}

func (c *cursor) before(hash uint64, key syncd.Key) bool {
	return !c.any || c.hash < hash || c.hash == hash && c.key < key
}

// adopt makes a chunk of records, which ascend from last on, a block of the table.
func (w *writer) adopt(b []byte, last *cursor) error {
	no := w.adoptBlock(b)
	items := make([]loaded, 0, len(b)/64)
	for at := 0; at < len(b); {
		r, ok := parseRecord(b[at:])
		if !ok {
			return fmt.Errorf("entry %d is not a record", w.entries+1)
		}
		if int(r.origin) >= w.origins.n || !w.origins.at(int(r.origin)).used {
			return fmt.Errorf("entry %d is of origin %d, which the table does not have", w.entries+1, r.origin)
		}
		if at > 0 && at+r.size > maxBlock {
			return fmt.Errorf("entry %d lies beyond the size of a block", w.entries+1)
		}
		key := keyOf(r.key)
		hash := w.hash(key)
		if !last.before(hash, key) {
			return fmt.Errorf("entry %d is not in the order of the hashes", w.entries+1)
		}
		*last = cursor{true, hash, key}
		w.countEntry(&r)
		items = append(items, loaded{hash, makeSlot(hash, makePlace(no, at))})
		at += r.size
	}
	w.appendSorted(items)
	return nil
}

func (w *writer) adoptBlock(b []byte) int {
	w.blocks.push(&w.blockOwner, b)
	w.slab.stats = append(w.slab.stats, blockStat{filled: len(b), live: len(b)})
	w.slab.size += len(b)
	w.slab.filled += len(b)
	w.slab.live += len(b)
	return w.blocks.n - 1
}

func (w *writer) countEntry(r *record) {
	w.keepOrigin(r.origin)
	w.entries++
	if r.row != nil {
		w.rows++
		if r.flags&flagPending == 0 {
			w.plain++
		}
	}
}

// loaded is a slot with the whole hash of its key.
type loaded struct {
	hash uint64
	slot slot
}

// appendSorted adds slots that come behind all the table has.
func (w *writer) appendSorted(items []loaded) {
	for len(items) > 0 {
		hash := items[0].hash
		l := w.leafOf(hash)
		shift := 64 - l.depth
		slots := append(w.scratch[:0], l.slots()...)
		n := 0
		for ; n < len(items) && items[n].hash>>shift == hash>>shift; n++ {
			slots = append(slots, items[n].slot)
		}
		w.scratch = slots
		w.replaceLeaf(hash, l, slots)
		items = items[n:]
	}
}
