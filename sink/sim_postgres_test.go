package sink_test

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/syncd-io/syncd"
)

// This file simulates the server: transactions that write, commit (their record is in the log) and some time later become
// visible; snapshots of a primary and of a standby; and the rows that each shows.

const (
	simTables = 2
	simKeys   = 4
	simSystem = 7001
)

// dice makes the choices of a simulation: a number from 0 to n-1.
type dice interface{ roll(n int) int }

func chance(d dice, oneIn int) bool { return d.roll(oneIn) == oneIn-1 }

func tableName(i int) syncd.Table { return syncd.Table{Schema: "sim", Name: fmt.Sprintf("t%d", i)} }

func tableIndex(t syncd.Table) int { return int(t.Name[1] - '0') }

func keyOf(i int) syncd.Key { return syncd.MakeKey(fmt.Sprint(i)) }

func keyIndex(k syncd.Key) int { return int(k[0] - '0') }

const simShape = 99

func tableInfo(i int) syncd.TableInfo {
	return syncd.TableInfo{Table: tableName(i), Columns: []string{"k", "a", "x"}, Types: []string{"integer", "integer", "text"}, Key: []string{"k"}, Schema: simShape}
}

// value is a row: a changes with every write, x is the large value that may stay as it was.
type value struct {
	there bool
	a, x  int
}

// columns is the form of a row on the wire.
type columns struct {
	K string  `json:"k"`
	A int     `json:"a"`
	X *string `json:"x,omitempty"`
}

func (v value) row(key int, absent bool) []byte {
	c := columns{K: fmt.Sprint(key), A: v.a}
	if !absent {
		x := fmt.Sprint(v.x)
		c.X = &x
	}
	b, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return b
}

// valueOf reads a cached row.
func valueOf(row []byte) (value, error) {
	if row == nil {
		return value{}, nil
	}
	var c columns
	v := value{there: true}
	if err := json.Unmarshal(row, &c); err != nil {
		return v, err
	}
	if c.X == nil {
		return v, fmt.Errorf("row %s lacks a column", row)
	}
	v.a = c.A
	_, err := fmt.Sscan(*c.X, &v.x)
	return v, err
}

// fact is one state of a row, and the commit that made it so.
type fact struct {
	value
	lsn syncd.LSN
	xid syncd.XID
}

// history are the states that each key of each table went through, oldest first.
type history [simTables][simKeys][]fact

func (h *history) clone() *history {
	c := *h
	for t := range c {
		for k := range c[t] {
			c[t][k] = slices.Clone(c[t][k])
		}
	}
	return &c
}

// at gives the state of a key after all commits up to an LSN.
func (h *history) at(table, key int, lsn syncd.LSN) int {
	n := 0
	for i, f := range h[table][key] {
		if f.lsn <= lsn {
			n = i
		}
	}
	return n
}

type place struct{ table, key int }

// touched is what a transaction did to a row so far.
type touched struct {
	value
	whole bool // x was written by this transaction
	from  int  // else the key whose x, from before the transaction, it has
}

type tx struct {
	xid       syncd.XID
	rows      map[place]touched
	order     []place // by last change
	truncated map[int]bool
	deltas    []syncd.Delta // once committed
	lsn       syncd.LSN
}

// postgres is the server.
type postgres struct {
	dice
	mix mix

	timeline uint32
	lsn      syncd.LSN // insert position
	next     syncd.XID
	lastDone syncd.XID
	active   []*tx // running, or committed and not visible yet
	commits  []*tx
	history  *history
	unique   int
	replayed syncd.LSN // by the standby
	visible  [simTables][simKeys]value
}

func newPostgres(d dice, m mix) *postgres {
	p := &postgres{dice: d, mix: m, timeline: 1, next: 5 << 32, lastDone: 5<<32 - 1, history: &history{}}
	for t := range p.history {
		for k := range p.history[t] {
			p.history[t][k] = []fact{{}}
		}
	}
	return p
}

func (p *postgres) locked(at place) bool {
	return slices.ContainsFunc(p.active, func(t *tx) bool {
		_, ok := t.rows[at]
		return ok || t.truncated[at.table]
	})
}

// begin runs a transaction up to before its commit.
func (p *postgres) begin() {
	if len(p.active) >= 3 {
		return
	}
	t := &tx{xid: p.next, rows: map[place]touched{}, truncated: map[int]bool{}}
	for range 1 + p.roll(4) {
		p.write(t)
	}
	if len(t.order) > 0 || len(t.truncated) > 0 {
		p.next++
		p.active = append(p.active, t)
	}
}

func (t *tx) set(at place, v touched) {
	t.rows[at] = v
	t.order = slices.DeleteFunc(t.order, func(p place) bool { return p == at })
	t.order = append(t.order, at)
}

// row is a row as the transaction sees it.
func (p *postgres) row(t *tx, at place) touched {
	if v, ok := t.rows[at]; ok {
		return v
	}
	if t.truncated[at.table] {
		return touched{}
	}
	return touched{value: p.visible[at.table][at.key], from: at.key}
}

// write makes one statement.
func (p *postgres) write(t *tx) {
	at := place{p.roll(simTables), p.roll(simKeys)}
	if p.mix.truncate && len(p.active) == 0 && chance(p, 12) {
		t.truncate(at.table)
		return
	}
	if _, mine := t.rows[at]; !mine && p.locked(at) {
		return
	}
	row := p.row(t, at)
	p.unique++
	if !row.there {
		t.set(at, touched{value{true, p.unique, p.unique}, true, at.key})
		return
	}
	switch what := p.roll(5); {
	case what == 0:
		t.set(at, touched{})
	case what == 1 && p.mix.move:
		p.move(t, at, row)
	case what == 2 || !p.mix.toast:
		t.set(at, touched{value{true, p.unique, p.unique}, true, at.key})
	default:
		row.a = p.unique
		t.set(at, row)
	}
}

func (t *tx) truncate(table int) {
	for at := range t.rows {
		if at.table == table {
			delete(t.rows, at)
		}
	}
	t.order = slices.DeleteFunc(t.order, func(p place) bool { return p.table == table })
	t.truncated[table] = true
}

// move changes a row's key.
func (p *postgres) move(t *tx, at place, row touched) {
	to := place{at.table, p.roll(simKeys)}
	if _, mine := t.rows[to]; to == at || !mine && p.locked(to) || p.row(t, to).there {
		return
	}
	row.a = p.unique
	t.set(at, touched{})
	t.set(to, row)
}

// commit writes the commit record of a running transaction. It becomes visible at once or, with slow commits, later.
func (p *postgres) commit() {
	var open []*tx
	for _, t := range p.active {
		if t.lsn == 0 {
			open = append(open, t)
		}
	}
	if len(open) == 0 {
		return
	}
	t := open[p.roll(len(open))]
	p.lsn += syncd.LSN(1 + p.roll(3))
	t.lsn = p.lsn
	t.deltas = t.changes()
	for table := range t.truncated {
		for k := range simKeys {
			p.record(place{table, k}, value{}, t)
		}
	}
	for at, row := range t.rows {
		p.record(at, row.value, t)
	}
	p.commits = append(p.commits, t)
	if chance(p, 2) {
		p.show(t)
	}
}

// record adds a state to the history. A transaction makes one at most of each key.
func (p *postgres) record(at place, v value, t *tx) {
	h := &p.history[at.table][at.key]
	if n := len(*h); (*h)[n-1].lsn == t.lsn {
		(*h)[n-1].value = v
		return
	}
	*h = append(*h, fact{v, t.lsn, t.xid})
}

// changes gives a transaction's deltas: one final state of each key, in the order of their last changes.
func (t *tx) changes() []syncd.Delta {
	var all []syncd.Delta
	add := func(d syncd.Delta) {
		d.Version = syncd.Version{LSN: t.lsn, Ordinal: uint32(len(all) + 1)}
		d.XID, d.Schema = t.xid, simShape
		all = append(all, d)
	}
	for table := range simTables {
		if t.truncated[table] {
			add(syncd.Delta{Table: tableName(table), Op: syncd.Truncate})
		}
	}
	for _, at := range t.order {
		row := t.rows[at]
		d := syncd.Delta{Table: tableName(at.table), Key: keyOf(at.key), Op: syncd.Delete}
		if row.there {
			d.Op, d.Row = syncd.Upsert, row.row(at.key, !row.whole)
			if !row.whole {
				d.Absent = []string{"x"}
				if row.from != at.key {
					d.Moved, d.From = true, keyOf(row.from)
				}
			}
		}
		add(d)
	}
	return all
}

// show makes a commit visible.
func (p *postgres) show(t *tx) {
	p.active = slices.DeleteFunc(p.active, func(o *tx) bool { return o == t })
	p.lastDone = max(p.lastDone, t.xid)
	for table := range t.truncated {
		p.visible[table] = [simKeys]value{}
	}
	for at, row := range t.rows {
		p.visible[at.table][at.key] = row.value
	}
}

// showOne makes one of the committed transactions visible.
func (p *postgres) showOne() {
	var done []*tx
	for _, t := range p.active {
		if t.lsn != 0 {
			done = append(done, t)
		}
	}
	if len(done) > 0 {
		p.show(done[p.roll(len(done))])
	}
}

// safe is the highest LSN up to which every commit is visible now.
func (p *postgres) safe() syncd.LSN {
	at := p.lsn
	for _, t := range p.active {
		if t.lsn != 0 {
			at = min(at, t.lsn-1)
		}
	}
	return at
}

// snapshot takes a snapshot on the primary.
func (p *postgres) snapshot(e syncd.Epoch) *syncd.Snapshot {
	s := &syncd.Snapshot{Epoch: e, Xmax: p.lastDone + 1, H: p.lsn}
	s.Xmin = s.Xmax
	for _, t := range p.active {
		if t.xid < s.Xmax {
			s.Xip = append(s.Xip, t.xid)
			s.Xmin = min(s.Xmin, t.xid)
		}
	}
	slices.Sort(s.Xip)
	return s
}

// replay moves the standby on.
func (p *postgres) replay() {
	if p.replayed < p.lsn {
		p.replayed += syncd.LSN(1 + p.roll(int(p.lsn-p.replayed)))
	}
}

// standbySnapshot takes a snapshot on the standby: it shows exactly the commits up to cut.
func (p *postgres) standbySnapshot(e syncd.Epoch) (s *syncd.Snapshot, cut syncd.LSN) {
	s = &syncd.Snapshot{Epoch: e, Standby: true, R: p.replayed}
	if chance(p, 2) {
		p.replay()
	}
	cut = p.replayed
	for _, t := range p.commits {
		if t.lsn <= cut {
			s.Xmax = max(s.Xmax, t.xid+1)
		}
	}
	s.Xmin = s.Xmax
	for _, t := range append(slices.Clone(p.commits), p.active...) {
		if t.lsn == 0 || t.lsn > cut {
			s.Xmin = min(s.Xmin, t.xid)
		}
	}
	if chance(p, 2) {
		p.replay()
	}
	s.R2, s.H = p.replayed, p.replayed
	return s, cut
}

// read gives a row as a snapshot shows it.
func (p *postgres) read(at place, s *syncd.Snapshot, cut syncd.LSN) value {
	v := value{}
	for _, f := range p.history[at.table][at.key][1:] {
		if s.Standby && f.lsn <= cut || !s.Standby && s.Visible(f.xid, f.lsn) == syncd.Visible {
			v = f.value
		}
	}
	return v
}

// failover loses the commits behind an LSN, on a new timeline that uses their LSNs and transaction ids again.
func (p *postgres) failover(back syncd.LSN) {
	p.timeline++
	p.active = nil
	kept := p.commits[:0:0]
	for _, t := range p.commits {
		if t.lsn <= back {
			kept = append(kept, t)
		}
	}
	p.commits = kept
	p.next = 5 << 32
	for _, t := range kept {
		p.next = max(p.next, t.xid+1)
	}
	p.lastDone, p.lsn, p.replayed = p.next-1, back, min(p.replayed, back)
	p.history = p.history.clone()
	for t := range p.history {
		for k := range p.history[t] {
			h := &p.history[t][k]
			*h = slices.DeleteFunc(*h, func(f fact) bool { return f.lsn > back })
			p.visible[t][k] = (*h)[len(*h)-1].value
		}
	}
}
