package redis

import (
	"errors"
	"fmt"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/codec"
)

// What an entry is, beside its row.
const (
	hasRow = 1 << iota
	isPending
	hasSnap
	asHash // the row is a hash of columns, whose form follows
	knownFlags
)

// entry is what is kept of a row beside it.
type entry struct {
	sink.Entry // without Row
	row        bool
	form       string // of a hash of columns; see columns
}

// appendEntry writes an entry, less its row. form is empty where the row is one JSON text.
func appendEntry(b []byte, e *sink.Entry, form string) []byte {
	var flags uint64
	if e.Row != nil {
		flags |= hasRow
	}
	if e.Pending {
		flags |= isPending
	}
	if e.Snap != nil {
		flags |= hasSnap
	}
	if form != "" {
		flags |= asHash
	}
	c := codec.Encoder{B: b}
	c.Uint(flags)
	c.Position(e.Version.Position())
	c.Uint(uint64(e.Version.Ordinal))
	c.Uint(uint64(e.XID))
	if e.Snap != nil {
		c.Snapshot(e.Snap)
	}
	if form != "" {
		c.Str(form)
	}
	return c.B
}

// parseEntry reads what appendEntry wrote.
func parseEntry(b []byte) (entry, error) {
	d := codec.Decoder{B: b}
	flags := d.Number(knownFlags-1, "the flags")
	p := d.Position()
	e := entry{row: flags&hasRow != 0}
	e.Pending = flags&isPending != 0
	e.Version = syncd.Version{Epoch: p.Epoch, LSN: p.LSN, Ordinal: uint32(d.Number(1<<32-1, "an ordinal"))}
	e.XID = syncd.XID(d.Uint())
	if flags&hasSnap != 0 {
		if e.Snap = d.Snapshot(); e.Snap == nil && d.Err == nil {
			d.Fail(errors.New("the snapshot is missing"))
		}
	}
	if flags&asHash != 0 {
		e.form = d.Str()
	}
	if err := d.End(); err != nil {
		return entry{}, fmt.Errorf("an entry: %w", err)
	}
	return e, nil
}
