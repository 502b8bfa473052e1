package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/syncd-io/syncd"
)

// Encoder appends values to B. A snapshot is written in full the first time and by its number from then on.
type Encoder struct {
	B     []byte
	snaps map[*syncd.Snapshot]uint64
}

// Uint writes a number.
func (e *Encoder) Uint(x uint64) { e.B = binary.AppendUvarint(e.B, x) }

// Bool writes a flag.
func (e *Encoder) Bool(x bool) {
	if x {
		e.B = append(e.B, 1)
	} else {
		e.B = append(e.B, 0)
	}
}

// Str writes a text of any bytes.
func (e *Encoder) Str(s string) {
	e.Uint(uint64(len(s)))
	e.B = append(e.B, s...)
}

// Strs writes a list of texts.
func (e *Encoder) Strs(s []string) {
	e.Uint(uint64(len(s)))
	for _, x := range s {
		e.Str(x)
	}
}

// Table writes a table's name.
func (e *Encoder) Table(t syncd.Table) { e.Str(t.Schema); e.Str(t.Name) }

// Position writes a position.
func (e *Encoder) Position(p syncd.Position) { e.Uint(uint64(p.Epoch)); e.Uint(uint64(p.LSN)) }

// Time writes a time. It keeps the instant, not the zone.
func (e *Encoder) Time(t time.Time) {
	e.Bool(!t.IsZero())
	if !t.IsZero() {
		e.B = binary.AppendVarint(e.B, t.Unix())
		e.Uint(uint64(t.Nanosecond()))
	}
}

// Snapshot writes 0 for nil, the number of one written before, or the next number and the content.
func (e *Encoder) Snapshot(s *syncd.Snapshot) {
	if s == nil {
		e.Uint(0)
		return
	}
	if no, ok := e.snaps[s]; ok {
		e.Uint(no)
		return
	}
	if e.snaps == nil {
		e.snaps = make(map[*syncd.Snapshot]uint64)
	}
	no := uint64(len(e.snaps) + 1)
	e.snaps[s] = no
	e.Uint(no)
	e.SnapshotContent(s)
}

// SnapshotContent writes a snapshot in full, whatever was written before.
func (e *Encoder) SnapshotContent(s *syncd.Snapshot) {
	e.Uint(uint64(s.Epoch))
	e.Uint(uint64(s.Xmin))
	e.Uint(uint64(s.Xmax))
	e.Uint(uint64(len(s.Xip)))
	for _, x := range s.Xip {
		e.Uint(uint64(x))
	}
	e.Bool(s.Standby)
	e.Uint(uint64(s.R))
	e.Uint(uint64(s.R2))
	e.Uint(uint64(s.H))
}

// ErrShort says that what is read ends too early.
var ErrShort = errors.New("it ends too early")

// Decoder reads from the front of B what an Encoder wrote. After the first mistake, which Err names, it gives zeros. Snaps
// are the snapshots read so far, by number less one.
type Decoder struct {
	B     []byte
	Err   error
	Snaps []*syncd.Snapshot
}

// Fail records a mistake; the first one stays.
func (d *Decoder) Fail(err error) {
	if d.Err == nil {
		d.Err = err
	}
	d.B = nil
}

// Uint reads a number.
func (d *Decoder) Uint() uint64 {
	x, n := binary.Uvarint(d.B)
	if n <= 0 {
		d.Fail(ErrShort)
		return 0
	}
	d.B = d.B[n:]
	return x
}

// Number reads a uint that must be no more than limit.
func (d *Decoder) Number(limit uint64, what string) uint64 {
	x := d.Uint()
	if x > limit {
		d.Fail(fmt.Errorf("%s is %d, more than %d", what, x, limit))
		return 0
	}
	return x
}

// Count reads how many elements follow, each of which takes a byte or more.
func (d *Decoder) Count() int { return int(d.Number(uint64(len(d.B)), "a count")) }

// Bool reads a flag.
func (d *Decoder) Bool() bool { return d.Number(1, "a flag") == 1 }

// Str reads a text.
func (d *Decoder) Str() string {
	n := d.Count()
	if n > len(d.B) {
		d.Fail(ErrShort)
		return ""
	}
	s := string(d.B[:n])
	d.B = d.B[n:]
	return s
}

// Strs reads a list of texts.
func (d *Decoder) Strs() []string {
	var s []string
	for range d.Count() {
		s = append(s, d.Str())
	}
	return s
}

// Table reads a table's name.
func (d *Decoder) Table() syncd.Table { return syncd.Table{Schema: d.Str(), Name: d.Str()} }

// Position reads a position.
func (d *Decoder) Position() syncd.Position {
	return syncd.Position{Epoch: syncd.Epoch(d.Uint()), LSN: syncd.LSN(d.Uint())}
}

// Time reads a time, in UTC.
func (d *Decoder) Time() time.Time {
	if !d.Bool() {
		return time.Time{}
	}
	sec, n := binary.Varint(d.B)
	if n <= 0 {
		d.Fail(ErrShort)
		return time.Time{}
	}
	d.B = d.B[n:]
	return time.Unix(sec, int64(d.Number(1e9-1, "a part of a second"))).UTC()
}

// Snapshot reads a snapshot, or nil.
func (d *Decoder) Snapshot() *syncd.Snapshot {
	no := d.Number(uint64(len(d.Snaps)+1), "the number of a snapshot")
	switch {
	case no == 0:
		return nil
	case no <= uint64(len(d.Snaps)):
		return d.Snaps[no-1]
	}
	s := &syncd.Snapshot{Epoch: syncd.Epoch(d.Uint()), Xmin: syncd.XID(d.Uint()), Xmax: syncd.XID(d.Uint())}
	for range d.Count() {
		s.Xip = append(s.Xip, syncd.XID(d.Uint()))
	}
	s.Standby = d.Bool()
	s.R, s.R2, s.H = syncd.LSN(d.Uint()), syncd.LSN(d.Uint()), syncd.LSN(d.Uint())
	d.Snaps = append(d.Snaps, s)
	return s
}
