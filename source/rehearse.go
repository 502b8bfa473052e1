package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/syncd-io/syncd"
)

// Standin is a server that is not Postgres, for simulations of the whole: it keeps a history of its own, and gives it out in
// the bytes that a walsender sends. Its methods may be called from many goroutines, and answer at once.
type Standin interface {
	// State gives the slot and what IDENTIFY_SYSTEM says.
	State() (slot SlotState, system uint64, timeline uint32, flushed syncd.LSN)
	DropSlot()
	// MakeSlot waits for no transaction: none may be open when it returns. It gives where the slot starts.
	MakeSlot() syncd.LSN
	// Snapshot is pg_current_snapshot(), End where the log ends; Flush has it reach the disk up to at.
	Snapshot() *syncd.Snapshot
	End() syncd.LSN
	Flush(at syncd.LSN)
	// Tables is the catalog.
	Tables() []StandinTable
	// Replicate begins to stream behind what the slot has confirmed: CopyData messages, and status updates the other way.
	// Interrupt ends both at once.
	Replicate() StandinConn
}

// StandinConn is the replication connection of a Standin.
type StandinConn interface {
	io.ReadWriteCloser
	Interrupt()
}

// StandinTable is a table of a Standin. All of its columns are of type text.
type StandinTable struct {
	Table   syncd.Table
	OID     uint32
	Files   string // another one when it is rewritten
	Columns []string
	Key     []string
}

// Rehearse leads once, as Step does, on a server that stands in for Postgres: it finds its place by the same rules, and all of
// the stages from the bytes of the replication stream to the publisher are the same. What it can't rehearse are the
// statements: the slot, the publication and the catalog are the stand-in's.
func (w *Watch) Rehearse(ctx context.Context, s Standin) error {
	stream, err := w.readStream(ctx)
	if err != nil {
		return err
	}
	slot, system, timeline, flushed := s.State()
	if w.isOver() && slot.Exists {
		slot.Lost = true
	}
	plan := Decide(Facts{SlotName: w.Config.Slot, Database: slot.Database, Slot: slot, Stream: stream, System: system, Timeline: timeline, Flushed: flushed, Now: time.Now()})
	switch plan.Action {
	case Wait:
		return &errWait{plan.Why}
	case Stop:
		return &StopError{plan.Why}
	}
	w.LookAt(s)
	after := plan.After
	if plan.Action == NewEpoch {
		if after, err = w.rehearseEpoch(ctx, s, plan, system, timeline); err != nil {
			return err
		}
	}
	if after, err = w.goOn(ctx, plan, after); err != nil {
		return err
	}
	slot, _, _, _ = s.State()
	t := &term{stream: &walStream{conn: s.Replicate(), buf: make([]byte, streamBuffer)}, sql: standinSession{s}}
	w.assemble(t, plan, after, slot.Confirmed, s.Snapshot().Xmax)
	w.lead(t)
	defer w.lead(nil)
	err = t.run(ctx)
	var over *epochOverError
	if errors.As(err, &over) {
		w.setOver(over.why)
	}
	return err
}

// rehearseEpoch makes the slot of a new epoch, and gives the epoch's first marker.
func (w *Watch) rehearseEpoch(ctx context.Context, s Standin, p Plan, system uint64, timeline uint32) (syncd.Marker, error) {
	if p.MakeStream {
		if err := w.Publisher.Create(ctx, false); err != nil {
			return syncd.Marker{}, fmt.Errorf("make the stream: %w", err)
		}
		if _, _, _, err := w.Publisher.Last(ctx); err != nil {
			return syncd.Marker{}, fmt.Errorf("read the stream that was made: %w", err)
		}
	}
	if p.Drop {
		s.DropSlot()
	}
	start := s.MakeSlot()
	w.setOver("")
	return syncd.Marker{Epoch: p.Epoch, Through: start, Safe: start, Start: start, System: system, Timeline: timeline, Sent: time.Now()}, nil
}

// LookAt looks at the catalog of a stand-in, as Watch does once a second at that of Postgres.
func (w *Watch) LookAt(s Standin) {
	r := w.roster
	r.looking.Lock()
	defer r.looking.Unlock()
	r.mu.Lock()
	old, truncated := r.state, r.truncated
	r.truncated = map[syncd.Table]bool{}
	r.mu.Unlock()
	next := map[syncd.Table]*rosterTable{}
	var tables []TableConfig
	for _, t := range s.Tables() {
		c := TableConfig{Table: t.Table}
		tables = append(tables, c)
		next[t.Table] = t.roster(c)
	}
	r.take(tables, old, next, truncated, moment{s.Snapshot(), s.End()})
}

// roster gives what a look finds of a table.
func (t *StandinTable) roster(c TableConfig) *rosterTable {
	n := &rosterTable{config: c, facts: &tableFacts{OID: t.OID, Files: t.Files}, verdict: verdict{Key: t.Key}}
	var cols []Column
	for i, name := range t.Columns {
		n.verdict.Columns = append(n.verdict.Columns, columnFacts{Num: int16(i + 1), Name: name, Type: standinText.OID, Typmod: -1})
		cols = append(cols, Column{Name: name, Type: standinText, TypeName: standinText.Name})
	}
	n.verdict.Publish = n.verdict.Columns
	var err error
	if n.shape, err = NewShape(t.Table, cols, t.Key); err != nil {
		panic(err) // a stand-in's table has a key among its columns
	}
	n.info = n.shape.Info()
	return n
}

var standinText = &Type{OID: 25, Schema: "pg_catalog", Name: "text", Category: Quoted, Typmod: -1, Delim: ','}

// standinSession asks a stand-in as a session asks Postgres.
type standinSession struct{ s Standin }

func (s standinSession) columns(_ context.Context, _ *Catalog, rel []RelationColumn) (cols []Column, _ error) {
	for _, c := range rel {
		cols = append(cols, Column{Name: string(c.Name), Type: standinText, TypeName: standinText.Name})
	}
	return cols, nil
}

func (s standinSession) snapshot(context.Context) (*syncd.Snapshot, error) {
	return s.s.Snapshot(), nil
}
func (s standinSession) insertPosition(context.Context) (syncd.LSN, error) { return s.s.End(), nil }
func (s standinSession) flush(_ context.Context, at syncd.LSN) error       { s.s.Flush(at); return nil }
func (s standinSession) close()                                            {}
