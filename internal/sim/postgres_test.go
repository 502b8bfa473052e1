package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/source"
)

var things = syncd.Table{Schema: "public", Name: "things"}

const system = 4711

// row is one row of things (k, n, t, x1 …): t is a large value that most updates leave alone, the x are columns that ALTER
// TABLE added since.
type row struct {
	n, t string
	x    []string
}

// json gives the row as row_to_json prints it while the table has so many added columns.
func (r *row) json(k syncd.Key, added int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"k":%q,"n":%q,"t":%q`, k.Values()[0], r.n, r.t)
	for i := range added {
		if i < len(r.x) {
			fmt.Fprintf(&b, `,"x%d":%q`, i+1, r.x[i])
		} else {
			fmt.Fprintf(&b, `,"x%d":null`, i+1)
		}
	}
	return b.String() + "}"
}

// fact is a state that a key had from a commit on.
type fact struct {
	row *row // nil: absent
	tx  *tx
}

// change is one change of a transaction.
type change struct {
	key, from syncd.Key // from: the key that the row had before, where it moved
	row       *row      // nil: deleted
	keeps     bool      // t is as it was, and is not sent
	fresh     bool      // an insert
}

// tx is a transaction: open, then in the log, then visible.
type tx struct {
	xid        syncd.XID
	start, end syncd.LSN // of its commit record; 0 while it is open
	changes    []change
	truncate   bool
	relations  []string // the columns that the table had
	at         time.Time
	hidden     bool // committed and not visible yet
	late       int  // turns until it may be shown
	hurt       bool // the stream has lost something of it, so that a repair may show one half before the other
}

// era is the history of one timeline.
type era struct {
	facts map[syncd.Key][]fact
	txs   []*tx // in the order of the log
}

// postgres is a server with one table and one slot.
type postgres struct {
	mu       sync.Mutex
	dice     *rand.Rand
	timeline uint32
	lsn      syncd.LSN
	xid      syncd.XID // the last given out
	added    int       // columns
	files    int
	n        int // counts values
	era      *era
	eras     map[uint32]*era // by timeline
	running  []*tx           // open and hidden ones: they hold locks
	slot     source.SlotState
	conn     *conn
	moved    chan struct{} // closed when the log grows

	replayed syncd.LSN // by the standby
}

func newPostgres(dice *rand.Rand) *postgres {
	e := &era{facts: map[syncd.Key][]fact{}}
	return &postgres{dice: dice, timeline: 1, lsn: 1 << 20, xid: 5<<32 + 700, era: e, eras: map[uint32]*era{1: e}, moved: make(chan struct{})}
}

func (p *postgres) columns() []string {
	cols := []string{"k", "n", "t"}
	for i := range p.added {
		cols = append(cols, fmt.Sprintf("x%d", i+1))
	}
	return cols
}

func key(i int) syncd.Key { return syncd.MakeKey(fmt.Sprintf("k%02d", i)) }

// --- what applications do

// locked says whether a transaction that is not visible yet has changed a key.
func (p *postgres) locked(k syncd.Key) bool {
	for _, t := range p.running {
		for _, c := range t.changes {
			if c.key == k || c.from == k {
				return true
			}
		}
	}
	return false
}

func (p *postgres) now(k syncd.Key) *row {
	if f := p.era.facts[k]; len(f) > 0 {
		return f[len(f)-1].row
	}
	return nil
}

func (p *postgres) value(what string) string {
	p.n++
	return fmt.Sprintf("%s%d", what, p.n)
}

// begin opens a transaction that changes up to three keys.
func (p *postgres) begin(keys int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.xid += 1 + syncd.XID(p.dice.IntN(2))
	t := &tx{xid: p.xid, relations: p.columns()}
	p.running = append(p.running, t)
	for range 1 + p.dice.IntN(3) {
		p.alter(t, key(p.dice.IntN(keys)), key(p.dice.IntN(keys)))
	}
}

// alter makes one change in a transaction: of k, or of the row of k, which gets the key other.
func (p *postgres) alter(t *tx, k, other syncd.Key) {
	if p.locked(k) || p.locked(other) {
		return
	}
	c := change{key: k}
	old := p.now(k)
	switch what := p.dice.IntN(8); {
	case old == nil:
		c.row, c.fresh = &row{n: p.value("n"), t: p.value("t")}, true
	case what == 0:
		// deleted
	case what == 1 && other != k && p.now(other) == nil:
		c.row, c.key, c.from, c.keeps = &row{n: p.value("n"), t: old.t, x: old.x}, other, k, true
	case what == 2:
		c.row = &row{n: p.value("n"), t: p.value("t"), x: old.x}
	default:
		c.row, c.keeps = &row{n: p.value("n"), t: old.t, x: old.x}, true
	}
	if c.row != nil && p.added > 0 && p.dice.IntN(2) == 0 {
		c.row.x = slices.Clone(c.row.x)
		for len(c.row.x) < p.added {
			c.row.x = append(c.row.x, p.value("x"))
		}
	}
	t.changes = append(t.changes, c)
}

// commit puts one of the open transactions into the log. It becomes visible so many turns later.
func (p *postgres) commit(late int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var open []*tx
	for _, t := range p.running {
		if t.end == 0 {
			open = append(open, t)
		}
	}
	if len(open) > 0 {
		p.commitLocked(open[p.dice.IntN(len(open))], late)
	}
}

func (p *postgres) commitLocked(t *tx, late int) {
	t.start = p.lsn + 24
	p.lsn += 64
	t.end, t.at, t.hidden, t.late = p.lsn, time.Now(), true, late
	for _, c := range t.changes {
		if c.from != "" {
			p.era.facts[c.from] = append(p.era.facts[c.from], fact{nil, t})
		}
		p.era.facts[c.key] = append(p.era.facts[c.key], fact{c.row, t})
	}
	p.era.txs = append(p.era.txs, t)
	p.wake()
}

// wake tells the walsender that the log has grown. p.mu is held.
func (p *postgres) wake() {
	close(p.moved)
	p.moved = make(chan struct{})
}

// rest rolls back what is open, and shows what is hidden.
func (p *postgres) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.running {
		t.hidden = false
	}
	p.running = nil
}

// show makes visible what has waited long enough.
func (p *postgres) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = slices.DeleteFunc(p.running, func(t *tx) bool {
		t.late--
		if t.hidden && t.late < 0 {
			t.hidden = false
			return true
		}
		return false
	})
}

// alone runs f where no transaction is open or hidden: with a lock on the table that nobody shares.
func (p *postgres) alone(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.running) == 0 {
		f()
	}
}

// truncate empties the table in a transaction of its own, visible at once since it keeps readers out.
func (p *postgres) truncate() {
	p.alone(func() {
		p.xid++
		t := &tx{xid: p.xid, truncate: true, relations: p.columns()}
		for k, f := range p.era.facts {
			if f[len(f)-1].row != nil {
				p.era.facts[k] = append(f, fact{nil, t})
			}
		}
		p.commitLocked(t, 0)
		t.hidden = false
		p.files++
	})
}

// addColumn is ALTER TABLE … ADD COLUMN: no row is written.
func (p *postgres) addColumn() {
	p.alone(func() {
		p.xid++
		p.lsn += 200
		p.added++
		p.wake()
	})
}

// idle lets the log grow by what has nothing to do with the table.
func (p *postgres) idle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lsn += 8 * (1 + syncd.LSN(p.dice.IntN(20)))
	p.wake()
}

// replay lets the standby follow up to some commit, or to the end.
func (p *postgres) replay(all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to := p.lsn
	if n := len(p.era.txs); n > 0 && !all {
		to = p.era.txs[n-1-p.dice.IntN(min(n, 4))].end
	}
	p.replayed = max(p.replayed, to)
}

// restore puts the server back to where it was a while ago, on another timeline: what came since is gone, and positions and
// transaction ids are given out once more.
func (p *postgres) restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timeline++
	p.running = nil
	keep := max(0, len(p.era.txs)-p.dice.IntN(6))
	gone := map[*tx]bool{}
	for _, t := range p.era.txs[keep:] {
		gone[t] = true
	}
	next := &era{facts: map[syncd.Key][]fact{}, txs: slices.Clone(p.era.txs[:keep])}
	for k, facts := range p.era.facts {
		for _, f := range facts {
			if !gone[f.tx] {
				next.facts[k] = append(next.facts[k], f)
			}
		}
	}
	p.era, p.eras[p.timeline], p.slot = next, next, source.SlotState{}
	for _, t := range next.txs {
		t.hidden = false
		p.xid, p.lsn = t.xid, t.end+100
	}
	for _, t := range next.txs {
		p.xid = max(p.xid, t.xid)
	}
	p.replayed = p.lsn
	p.hangUp()
}

func (p *postgres) hangUp() {
	if p.conn != nil {
		p.conn.end()
		p.conn = nil
	}
	p.wake()
}

// dropSlotByHand is what an operator should not do.
func (p *postgres) dropSlotByHand() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slot = source.SlotState{}
	p.hangUp()
}

// breakConnection ends the replication connection.
func (p *postgres) breakConnection() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangUp()
}

// rows gives the table as it is when all is visible.
func (p *postgres) rows() map[syncd.Key]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := map[syncd.Key]string{}
	for k := range p.era.facts {
		if r := p.now(k); r != nil {
			m[k] = r.json(k, p.added)
		}
	}
	return m
}

// --- what sees it

// Snapshot is pg_current_snapshot, on the primary.
func (p *postgres) Snapshot() *syncd.Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snapshot()
}

func (p *postgres) snapshot() *syncd.Snapshot {
	s := &syncd.Snapshot{Xmax: p.xid + 1, H: p.lsn}
	s.Xmin = s.Xmax
	for _, t := range p.running {
		s.Xip = append(s.Xip, t.xid)
		s.Xmin = min(s.Xmin, t.xid)
	}
	slices.Sort(s.Xip)
	return s
}

// standby is a snapshot on the standby: what was replayed is visible, and the running ones are left out.
func (p *postgres) standby() *syncd.Snapshot {
	s := &syncd.Snapshot{Standby: true, R: p.replayed, R2: p.replayed, H: p.replayed, Xmin: p.xid + 1}
	for _, t := range p.era.txs {
		if t.end > p.replayed {
			s.Xmin = min(s.Xmin, t.xid)
		} else {
			s.Xmax = max(s.Xmax, t.xid+1)
		}
	}
	for _, t := range p.running {
		s.Xmin = min(s.Xmin, t.xid)
	}
	s.Xmax = max(s.Xmax, s.Xmin)
	return s
}

// read gives the state of a key that a snapshot shows.
func (p *postgres) read(k syncd.Key, s *syncd.Snapshot) *row {
	facts := p.era.facts[k]
	for _, f := range slices.Backward(facts) {
		if s.Standby && f.tx.end <= s.R || !s.Standby && !f.tx.hidden {
			return f.row
		}
	}
	return nil
}

func (p *postgres) keys() []syncd.Key {
	var all []syncd.Key
	for k := range p.era.facts {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}
