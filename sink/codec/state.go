package codec

import (
	"cmp"
	"maps"
	"slices"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// State writes everything of a sink.State. TestStateRoundTrip fails when a field is added there and forgotten here.
func (e *Encoder) State(s *sink.State) {
	e.Uint(s.Cursor.Seq)
	e.Position(s.Cursor.Position)
	e.Uint(s.System)
	e.Uint(uint64(s.Timeline))
	e.Uint(uint64(s.Start))
	e.Uint(uint64(s.Safe))
	e.Time(s.Sent)
	e.Time(s.Applied)
	tables := slices.SortedFunc(maps.Keys(s.Tables), CompareTables)
	e.Uint(uint64(len(tables)))
	for _, t := range tables {
		e.Table(t)
		e.tableState(s.Tables[t])
	}
}

// State reads a sink.State.
func (d *Decoder) State() *sink.State {
	s := &sink.State{Tables: make(map[syncd.Table]*sink.TableState)}
	s.Cursor = syncd.Cursor{Seq: d.Uint(), Position: d.Position()}
	s.System = d.Uint()
	s.Timeline = uint32(d.Number(1<<32-1, "the timeline"))
	s.Start, s.Safe = syncd.LSN(d.Uint()), syncd.LSN(d.Uint())
	s.Sent, s.Applied = d.Time(), d.Time()
	for range d.Count() {
		t := d.Table()
		s.Tables[t] = d.tableState()
	}
	return s
}

func (e *Encoder) tableState(t *sink.TableState) {
	e.info(&t.Info)
	e.Bool(t.Listed)
	e.Snapshot(t.Floor)
	e.seen(t.Truncated)
	e.Uint(uint64(t.Loss))
	e.Uint(uint64(t.LastLoss))
	e.Uint(uint64(t.Ahead))
	e.Position(t.Through)
	e.Time(t.Sent)
	e.Time(t.Applied)
	e.Uint(uint64(len(t.Open)))
	for _, k := range slices.Sorted(maps.Keys(t.Open)) {
		e.Str(string(k))
		e.open(t.Open[k])
	}
	e.Position(t.Verified.Position)
	e.Time(t.Verified.At)
	e.Time(t.Resynced)
	e.Str(t.Relist)
	e.Uint(uint64(t.RelistAt))
	e.Bool(t.Changed)
	e.Str(t.Stopped)
	e.Uint(uint64(t.Rows))
}

func (d *Decoder) tableState() *sink.TableState {
	t := &sink.TableState{Info: d.info(), Listed: d.Bool(), Floor: d.Snapshot(), Truncated: d.seen()}
	t.Loss, t.LastLoss, t.Ahead = syncd.LSN(d.Uint()), syncd.LSN(d.Uint()), syncd.LSN(d.Uint())
	t.Through, t.Sent, t.Applied = d.Position(), d.Time(), d.Time()
	for range d.Count() {
		if t.Open == nil {
			t.Open = make(map[syncd.Key]sink.Open)
		}
		k := syncd.Key(d.Str())
		t.Open[k] = d.open()
	}
	t.Verified = sink.Verified{Position: d.Position(), At: d.Time()}
	t.Resynced = d.Time()
	t.Relist, t.RelistAt, t.Changed = d.Str(), syncd.LSN(d.Uint()), d.Bool()
	t.Stopped = d.Str()
	t.Rows = int(d.Number(1<<62, "the number of rows"))
	return t
}

func (e *Encoder) info(i *syncd.TableInfo) {
	e.Table(i.Table)
	e.Strs(i.Columns)
	e.Strs(i.Types)
	e.Strs(i.Key)
	e.Uint(i.Schema)
	e.Str(i.Error)
	e.Str(i.Selector)
}

func (d *Decoder) info() syncd.TableInfo {
	return syncd.TableInfo{Table: d.Table(), Columns: d.Strs(), Types: d.Strs(), Key: d.Strs(), Schema: d.Uint(), Error: d.Str(), Selector: d.Str()}
}

func (e *Encoder) open(o sink.Open) {
	e.Uint(uint64(len(o.Snaps)))
	for _, s := range o.Snaps {
		e.Snapshot(s)
	}
	e.Uint(uint64(len(o.Deltas)))
	for _, s := range o.Deltas {
		e.seen(s)
	}
	e.Str(o.Reason)
	e.Bool(o.Parked)
	e.Time(o.Since)
}

func (d *Decoder) open() sink.Open {
	var o sink.Open
	for range d.Count() {
		o.Snaps = append(o.Snaps, d.Snapshot())
	}
	for range d.Count() {
		o.Deltas = append(o.Deltas, d.seen())
	}
	o.Reason, o.Parked, o.Since = d.Str(), d.Bool(), d.Time()
	return o
}

func (e *Encoder) seen(s sink.Seen) {
	e.Position(s.Version.Position())
	e.Uint(uint64(s.Version.Ordinal))
	e.Uint(uint64(s.XID))
}

func (d *Decoder) seen() sink.Seen {
	p := d.Position()
	v := syncd.Version{Epoch: p.Epoch, LSN: p.LSN, Ordinal: uint32(d.Number(1<<32-1, "an ordinal"))}
	return sink.Seen{Version: v, XID: syncd.XID(d.Uint())}
}

// CompareTables orders tables by schema, then by name.
func CompareTables(a, b syncd.Table) int {
	return cmp.Or(cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Name, b.Name))
}
