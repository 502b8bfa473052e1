package memory

import (
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink/codec"
)

// The form of a stored store, which WriteTo writes and ReadFrom reads:
//
//	magic, format     16 bytes, uvarint
//	state             a section: uvarint length, bytes (codec.Encoder.State)
//	tables            uvarint, how many follow, by schema and name
//	each table:
//	    name          a section: the table, the number of its origins, the origins
//	    chunks        uvarint length, records in the order of Walk; a chunk above 1 MiB is one record. 0 ends them
//	    totals        a section: entries, rows
//
// It has no checksums: whoever stores it adds them.
const (
	fileMagic  = "syncd memory\r\n\x00\n"
	fileFormat = 2
)

// WriteTo writes the last commit to w while reads and commits go on. Nothing is locked; what the commits made meanwhile
// replace stays in memory until it is done.
func (s *Store) WriteTo(w io.Writer) (int64, error) {
	r := s.root.Load()
	if r.closed {
		return 0, fmt.Errorf("write the memory store: %w", errClosed)
	}
	f := &fileWriter{w: w}
	f.write(binary.AppendUvarint([]byte(fileMagic), fileFormat))
	f.enc.State(r.state)
	f.section()
	f.enc.Uint(uint64(len(r.numbers)))
	f.plain()
	for _, t := range slices.SortedFunc(maps.Keys(r.numbers), codec.CompareTables) {
		f.table(t, r.table(t))
	}
	if f.err != nil {
		return f.n, fmt.Errorf("write the memory store: %w", f.err)
	}
	return f.n, nil
}

// fileWriter writes sections that its encoder made. After the first error it writes nothing.
type fileWriter struct {
	w   io.Writer
	n   int64
	err error
	enc codec.Encoder
}

func (f *fileWriter) write(b []byte) {
	if f.err != nil {
		return
	}
	n, err := f.w.Write(b)
	f.n += int64(n)
	f.err = err
}

// plain writes what was encoded; section writes its length before it.
func (f *fileWriter) plain() {
	f.write(f.enc.B)
	f.enc.B = f.enc.B[:0]
}

func (f *fileWriter) section() {
	f.write(binary.AppendUvarint(nil, uint64(len(f.enc.B))))
	f.plain()
}

func (f *fileWriter) table(name syncd.Table, t *table) {
	f.enc.Table(name)
	f.enc.Uint(uint64(t.origins.n))
	for i := range t.origins.n {
		o := t.origins.at(i)
		f.enc.Bool(o.used)
		f.enc.Uint(uint64(o.epoch))
		f.enc.Snapshot(o.snap)
	}
	f.section()
	t.walk(0, func(r *record) bool {
		if n := len(f.enc.B); n > 0 && n+r.size > maxBlock {
			f.section()
		}
		e := t.entry(r)
		f.enc.B = appendRecord(f.enc.B, keyOf(r.key), &e, r.origin)
		for len(f.enc.B)%unit != 0 {
			f.enc.B = append(f.enc.B, 0)
		}
		return f.err == nil
	})
	if len(f.enc.B) > 0 {
		f.section()
	}
	f.enc.Uint(0)
	f.plain()
	f.enc.Uint(uint64(t.entries))
	f.enc.Uint(uint64(t.rows))
	f.section()
}
