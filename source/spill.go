package source

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"time"
	"unsafe"

	"github.com/syncd-io/syncd"
)

// spill keeps the changes of a transaction that is too large for memory in a temporary file, until its commit says what
// their versions are. One goroutine writes it, and after commit another reads it, once, from the front.
type spill struct {
	file   spillFile
	w      *bufio.Writer
	r      *bufio.Reader
	buf    []byte
	tables []syncd.Table
	count  int   // of changes
	ends   []int // the counts at which what was in memory at a time ends
	read   int
	counts map[syncd.Table]int

	// set at commit
	epoch     syncd.Epoch
	end       syncd.LSN
	xid       syncd.XID
	committed time.Time
}

// spillFile is where a spill is kept: written once, then read once from the front. Close frees its room.
type spillFile interface {
	io.ReadWriteSeeker
	io.Closer
}

// newSpill makes a spill in a file of its own, which is made by create.
func newSpill(create func() (spillFile, error)) (*spill, error) {
	f, err := create()
	if err != nil {
		return nil, fullError(err)
	}
	return &spill{file: f, w: bufio.NewWriterSize(f, 256<<10), counts: map[syncd.Table]int{}}, nil
}

// tempSpill makes a temporary file. Where the system lets a file without a name live it has none: whatever ends this
// process, its room is free again.
func tempSpill() (spillFile, error) {
	f, err := os.CreateTemp("", "syncd-transaction-*")
	if err != nil || runtime.GOOS == "windows" {
		return namedFile{f}, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// namedFile is a file that goes when it is closed.
type namedFile struct{ *os.File }

func (f namedFile) Close() error {
	return errors.Join(f.File.Close(), os.Remove(f.Name()))
}

// fullError says what mends it that a transaction could not be kept on disk. Nothing of it was published, and the slot holds
// it still: with room it is read again.
func fullError(err error) error {
	return fmt.Errorf("keep a large transaction on disk: %w; it is tried again: free space in %s, or set TMPDIR to a directory with more", err, os.TempDir())
}

// close gives the file up.
func (s *spill) close() {
	s.file.Close() // what it held is not needed any more
}

// The flags of a change in the file.
const (
	spillPointer = 1 << iota
	spillMoved
)

// add appends the changes that are in memory, which have one state for each key. One that takes absent values from another
// key is kept as a pointer: those are to come from the row as it was before them all, and what is published before it may
// have changed that.
func (s *spill) add(deltas []syncd.Delta) error {
	for i := range deltas {
		d := deltas[i]
		if d.Op == 0 {
			continue
		}
		if d.Moved && len(d.Absent) > 0 {
			d.Pointer, d.Row, d.Absent = true, nil, nil
		}
		flags := byte(0)
		if d.Pointer {
			flags |= spillPointer
		}
		if d.Moved {
			flags |= spillMoved
		}
		b := append(s.buf[:0], byte(d.Op), flags)
		b = binary.AppendUvarint(b, uint64(d.Version.Ordinal))
		b = binary.AppendUvarint(b, uint64(s.table(d.Table)))
		b = binary.BigEndian.AppendUint64(b, d.Schema)
		b = appendCounted(b, d.Key)
		b = appendCounted(b, d.From)
		b = appendCounted(b, d.Row)
		b = binary.AppendUvarint(b, uint64(len(d.Absent)))
		for _, name := range d.Absent {
			b = appendCounted(b, name)
		}
		s.buf = b
		if _, err := s.w.Write(binary.AppendUvarint(nil, uint64(len(b)))); err != nil {
			return fullError(err)
		}
		if _, err := s.w.Write(b); err != nil {
			return fullError(err)
		}
		s.count++
		s.counts[d.Table]++
	}
	if n := len(s.ends); s.count > 0 && (n == 0 || s.ends[n-1] < s.count) {
		s.ends = append(s.ends, s.count)
	}
	return nil
}

func (s *spill) table(t syncd.Table) int {
	for i := range s.tables {
		if s.tables[i] == t {
			return i
		}
	}
	s.tables = append(s.tables, t)
	return len(s.tables) - 1
}

func appendCounted[T string | []byte | syncd.Key](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// finish ends the writing: the transaction has committed.
func (s *spill) finish(epoch syncd.Epoch, end syncd.LSN, xid syncd.XID, committed time.Time) error {
	s.epoch, s.end, s.xid, s.committed = epoch, end, xid, committed
	if err := s.w.Flush(); err != nil {
		return fullError(err)
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read a large transaction from disk: %w", err)
	}
	s.w, s.r = nil, bufio.NewReaderSize(s.file, 256<<10)
	return nil
}

// next gives further changes, about limit bytes of them, and whether they are the last. Of each key there is one state among
// them.
func (s *spill) next(limit int) (deltas []syncd.Delta, last bool, err error) {
	for size := 0; size < limit && len(s.ends) > 0 && s.read < s.ends[0]; {
		n, err := binary.ReadUvarint(s.r)
		if err != nil {
			return nil, false, fmt.Errorf("read a large transaction from disk: %w", err)
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(s.r, b); err != nil {
			return nil, false, fmt.Errorf("read a large transaction from disk: %w", err)
		}
		d, err := s.parse(b)
		if err != nil {
			return nil, false, err
		}
		s.read++
		d.Version.Epoch, d.Version.LSN = s.epoch, s.end
		d.XID, d.Committed = s.xid, s.committed
		deltas = append(deltas, d)
		size += len(b) + deltaOverhead
	}
	if len(s.ends) > 0 && s.read == s.ends[0] {
		s.ends = s.ends[1:]
	}
	return deltas, s.read == s.count, nil
}

// errSpill says that the file does not hold what was written. Rows lie in b from then on.
var errSpill = errors.New("read a large transaction from disk: the file does not hold what was written")

func (s *spill) parse(b []byte) (d syncd.Delta, err error) {
	p := spillParser{b: b}
	op, flags := p.byte(), p.byte()
	d.Op, d.Pointer, d.Moved = syncd.Op(op), flags&spillPointer != 0, flags&spillMoved != 0
	ordinal := p.uvarint()
	d.Version.Ordinal = uint32(ordinal)
	table := p.uvarint()
	d.Schema = p.uint64()
	d.Key, d.From = syncd.Key(p.text()), syncd.Key(p.text())
	if row := p.counted(); len(row) > 0 {
		d.Row = row
	}
	for n := p.uvarint(); n > 0 && !p.bad; n-- {
		d.Absent = append(d.Absent, p.text())
	}
	if p.bad || len(p.b) > 0 || ordinal > math.MaxUint32 || table >= uint64(len(s.tables)) {
		return d, errSpill
	}
	d.Table = s.tables[table]
	return d, nil
}

// spillParser takes the fields of a change in turn. After a fault it gives zeros.
type spillParser struct {
	b   []byte
	bad bool
}

func (p *spillParser) take(n uint64) []byte {
	if p.bad || n > uint64(len(p.b)) {
		p.bad = true
		return nil
	}
	v := p.b[:n:n]
	p.b = p.b[n:]
	return v
}

func (p *spillParser) byte() byte {
	if b := p.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (p *spillParser) uint64() uint64 {
	if b := p.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (p *spillParser) uvarint() uint64 {
	v, n := binary.Uvarint(p.b)
	if p.bad || n <= 0 {
		p.bad = true
		return 0
	}
	p.b = p.b[n:]
	return v
}

func (p *spillParser) counted() []byte { return p.take(p.uvarint()) }

func (p *spillParser) text() string {
	b := p.counted()
	return unsafe.String(unsafe.SliceData(b), len(b))
}
