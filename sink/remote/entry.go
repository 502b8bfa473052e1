package remote

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
	hasForm // the row is stored otherwise than as JSON, in a form that follows
	knownFlags
)

// Head is what is kept of an entry beside its row.
type Head struct {
	sink.Entry        // without Row
	HasRow     bool   // it was written with a row
	Form       string // what the place needs to print the row, where it stores it otherwise than as JSON
}

// AppendHead writes an entry, less its row. form is empty where the row is stored as JSON.
func AppendHead(b []byte, e *sink.Entry, form string) []byte {
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
		flags |= hasForm
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

// ParseHead reads what AppendHead wrote.
func ParseHead(b []byte) (Head, error) {
	d := codec.Decoder{B: b}
	flags := d.Number(knownFlags-1, "the flags")
	p := d.Position()
	e := Head{HasRow: flags&hasRow != 0}
	e.Pending = flags&isPending != 0
	e.Version = syncd.Version{Epoch: p.Epoch, LSN: p.LSN, Ordinal: uint32(d.Number(1<<32-1, "an ordinal"))}
	e.XID = syncd.XID(d.Uint())
	if flags&hasSnap != 0 {
		if e.Snap = d.Snapshot(); e.Snap == nil && d.Err == nil {
			d.Fail(errors.New("the snapshot is missing"))
		}
	}
	if flags&hasForm != 0 {
		e.Form = d.Str()
	}
	if err := d.End(); err != nil {
		return Head{}, fmt.Errorf("an entry: %w", err)
	}
	return e, nil
}
