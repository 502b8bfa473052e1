package memory

import (
	"cmp"
	"maps"
	"slices"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// state writes everything of a sink.State. TestStateRoundTrip fails when a field is added there and forgotten here.
func (e *encoder) state(s *sink.State) {
	e.uint(s.Cursor.Seq)
	e.position(s.Cursor.Position)
	e.uint(s.System)
	e.uint(uint64(s.Timeline))
	e.uint(uint64(s.Start))
	e.uint(uint64(s.Safe))
	e.time(s.Sent)
	e.time(s.Applied)
	tables := slices.SortedFunc(maps.Keys(s.Tables), compareTables)
	e.uint(uint64(len(tables)))
	for _, t := range tables {
		e.table(t)
		e.tableState(s.Tables[t])
	}
}

func (d *decoder) state() *sink.State {
	s := &sink.State{Tables: make(map[syncd.Table]*sink.TableState)}
	s.Cursor = syncd.Cursor{Seq: d.uint(), Position: d.position()}
	s.System = d.uint()
	s.Timeline = uint32(d.number(1<<32-1, "the timeline"))
	s.Start, s.Safe = syncd.LSN(d.uint()), syncd.LSN(d.uint())
	s.Sent, s.Applied = d.time(), d.time()
	for range d.count() {
		t := d.table()
		s.Tables[t] = d.tableState()
	}
	return s
}

func (e *encoder) tableState(t *sink.TableState) {
	e.info(&t.Info)
	e.bool(t.Listed)
	e.snapshot(t.Floor)
	e.seen(t.Truncated)
	e.uint(uint64(t.Loss))
	e.uint(uint64(t.LastLoss))
	e.uint(uint64(t.Ahead))
	e.position(t.Through)
	e.uint(uint64(len(t.Open)))
	for _, k := range slices.Sorted(maps.Keys(t.Open)) {
		e.str(string(k))
		e.open(t.Open[k])
	}
	e.position(t.Verified.Position)
	e.time(t.Verified.At)
	e.time(t.Resynced)
	e.str(t.Relist)
	e.uint(uint64(t.RelistAt))
	e.bool(t.Changed)
	e.str(t.Stopped)
	e.uint(uint64(t.Rows))
}

func (d *decoder) tableState() *sink.TableState {
	t := &sink.TableState{Info: d.info(), Listed: d.bool(), Floor: d.snapshot(), Truncated: d.seen()}
	t.Loss, t.LastLoss, t.Ahead = syncd.LSN(d.uint()), syncd.LSN(d.uint()), syncd.LSN(d.uint())
	t.Through = d.position()
	for range d.count() {
		if t.Open == nil {
			t.Open = make(map[syncd.Key]sink.Open)
		}
		k := syncd.Key(d.str())
		t.Open[k] = d.open()
	}
	t.Verified = sink.Verified{Position: d.position(), At: d.time()}
	t.Resynced = d.time()
	t.Relist, t.RelistAt, t.Changed = d.str(), syncd.LSN(d.uint()), d.bool()
	t.Stopped = d.str()
	t.Rows = int(d.number(1<<62, "the number of rows"))
	return t
}

func (e *encoder) info(i *syncd.TableInfo) {
	e.table(i.Table)
	e.strs(i.Columns)
	e.strs(i.Types)
	e.strs(i.Key)
	e.uint(i.Schema)
	e.str(i.Error)
}

func (d *decoder) info() syncd.TableInfo {
	return syncd.TableInfo{Table: d.table(), Columns: d.strs(), Types: d.strs(), Key: d.strs(), Schema: d.uint(), Error: d.str()}
}

func (e *encoder) open(o sink.Open) {
	e.uint(uint64(len(o.Snaps)))
	for _, s := range o.Snaps {
		e.snapshot(s)
	}
	e.uint(uint64(len(o.Deltas)))
	for _, s := range o.Deltas {
		e.seen(s)
	}
	e.str(o.Reason)
	e.bool(o.Parked)
	e.time(o.Since)
}

func (d *decoder) open() sink.Open {
	var o sink.Open
	for range d.count() {
		o.Snaps = append(o.Snaps, d.snapshot())
	}
	for range d.count() {
		o.Deltas = append(o.Deltas, d.seen())
	}
	o.Reason, o.Parked, o.Since = d.str(), d.bool(), d.time()
	return o
}

func (e *encoder) seen(s sink.Seen) {
	e.position(s.Version.Position())
	e.uint(uint64(s.Version.Ordinal))
	e.uint(uint64(s.XID))
}

func (d *decoder) seen() sink.Seen {
	p := d.position()
	v := syncd.Version{Epoch: p.Epoch, LSN: p.LSN, Ordinal: uint32(d.number(1<<32-1, "an ordinal"))}
	return sink.Seen{Version: v, XID: syncd.XID(d.uint())}
}

func compareTables(a, b syncd.Table) int {
	return cmp.Or(cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Name, b.Name))
}
