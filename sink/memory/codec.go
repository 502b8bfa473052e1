package memory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/syncd-io/syncd"
)

// encoder appends values to b. A snapshot is written in full the first time and by its number from then on.
type encoder struct {
	b     []byte
	snaps map[*syncd.Snapshot]uint64
}

func (e *encoder) uint(x uint64) { e.b = binary.AppendUvarint(e.b, x) }

func (e *encoder) bool(x bool) {
	if x {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

func (e *encoder) str(s string) {
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) strs(s []string) {
	e.uint(uint64(len(s)))
	for _, x := range s {
		e.str(x)
	}
}

func (e *encoder) table(t syncd.Table) { e.str(t.Schema); e.str(t.Name) }

func (e *encoder) position(p syncd.Position) { e.uint(uint64(p.Epoch)); e.uint(uint64(p.LSN)) }

// time keeps the instant, not the zone.
func (e *encoder) time(t time.Time) {
	e.bool(!t.IsZero())
	if !t.IsZero() {
		e.b = binary.AppendVarint(e.b, t.Unix())
		e.uint(uint64(t.Nanosecond()))
	}
}

// snapshot writes 0 for nil, the number of one written before, or the next number and the content.
func (e *encoder) snapshot(s *syncd.Snapshot) {
	if s == nil {
		e.uint(0)
		return
	}
	if no, ok := e.snaps[s]; ok {
		e.uint(no)
		return
	}
	if e.snaps == nil {
		e.snaps = make(map[*syncd.Snapshot]uint64)
	}
	no := uint64(len(e.snaps) + 1)
	e.snaps[s] = no
	e.uint(no)
	e.snapshotContent(s)
}

func (e *encoder) snapshotContent(s *syncd.Snapshot) {
	e.uint(uint64(s.Epoch))
	e.uint(uint64(s.Xmin))
	e.uint(uint64(s.Xmax))
	e.uint(uint64(len(s.Xip)))
	for _, x := range s.Xip {
		e.uint(uint64(x))
	}
	e.bool(s.Standby)
	e.uint(uint64(s.R))
	e.uint(uint64(s.R2))
	e.uint(uint64(s.H))
}

var errShort = errors.New("it ends too early")

// decoder reads from the front of b what an encoder wrote. After the first mistake, which err names, it gives zeros.
type decoder struct {
	b     []byte
	err   error
	snaps []*syncd.Snapshot
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

func (d *decoder) uint() uint64 {
	x, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.b = d.b[n:]
	return x
}

// number reads a uint that must be no more than limit.
func (d *decoder) number(limit uint64, what string) uint64 {
	x := d.uint()
	if x > limit {
		d.fail(fmt.Errorf("%s is %d, more than %d", what, x, limit))
		return 0
	}
	return x
}

// count reads how many elements follow, each of which takes a byte or more.
func (d *decoder) count() int { return int(d.number(uint64(len(d.b)), "a count")) }

func (d *decoder) bool() bool { return d.number(1, "a flag") == 1 }

func (d *decoder) str() string {
	n := d.count()
	if n > len(d.b) {
		d.fail(errShort)
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) strs() []string {
	var s []string
	for range d.count() {
		s = append(s, d.str())
	}
	return s
}

func (d *decoder) table() syncd.Table { return syncd.Table{Schema: d.str(), Name: d.str()} }

func (d *decoder) position() syncd.Position {
	return syncd.Position{Epoch: syncd.Epoch(d.uint()), LSN: syncd.LSN(d.uint())}
}

func (d *decoder) time() time.Time {
	if !d.bool() {
		return time.Time{}
	}
	sec, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail(errShort)
		return time.Time{}
	}
	d.b = d.b[n:]
	return time.Unix(sec, int64(d.number(1e9-1, "a part of a second"))).UTC()
}

func (d *decoder) snapshot() *syncd.Snapshot {
	no := d.number(uint64(len(d.snaps)+1), "the number of a snapshot")
	switch {
	case no == 0:
		return nil
	case no <= uint64(len(d.snaps)):
		return d.snaps[no-1]
	}
	s := &syncd.Snapshot{Epoch: syncd.Epoch(d.uint()), Xmin: syncd.XID(d.uint()), Xmax: syncd.XID(d.uint())}
	for range d.count() {
		s.Xip = append(s.Xip, syncd.XID(d.uint()))
	}
	s.Standby = d.bool()
	s.R, s.R2, s.H = syncd.LSN(d.uint()), syncd.LSN(d.uint()), syncd.LSN(d.uint())
	d.snaps = append(d.snaps, s)
	return s
}
