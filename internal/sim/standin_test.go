package sim

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/source"
)

var _ source.Standin = (*postgres)(nil)

// State implements source.Standin.
func (p *postgres) State() (source.SlotState, uint64, uint32, syncd.LSN) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.slot, system, p.timeline, p.lsn
}

// DropSlot implements source.Standin.
func (p *postgres) DropSlot() { p.dropSlotByHand() }

// MakeSlot implements source.Standin: what was open is rolled back, what was hidden is shown.
func (p *postgres) MakeSlot() syncd.LSN {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.running {
		t.hidden = false
	}
	p.running = nil
	p.lsn += 56
	p.slot = source.SlotState{Exists: true, Plugin: "pgoutput", Restart: p.lsn, Confirmed: p.lsn}
	return p.lsn
}

// End implements source.Standin.
func (p *postgres) End() syncd.LSN {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lsn
}

// Flush implements source.Standin: all of the log is on disk at once.
func (p *postgres) Flush(syncd.LSN) {}

// Tables implements source.Standin.
func (p *postgres) Tables() []source.StandinTable {
	p.mu.Lock()
	defer p.mu.Unlock()
	return []source.StandinTable{{Table: things, OID: 16400, Files: string(rune('a' + p.files)), Columns: p.columns(), Key: []string{"k"}}}
}

// Replicate implements source.Standin.
func (p *postgres) Replicate() source.StandinConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangUp()
	c := &conn{p: p, at: p.slot.Confirmed, slot: p.slot.Restart, ended: make(chan struct{})}
	if !p.slot.Exists {
		c.end()
	}
	p.conn = c
	return c
}

// conn is a walsender and the connection to it.
type conn struct {
	p     *postgres
	at    syncd.LSN // sent up to here
	slot  syncd.LSN // where the slot was made: another one's status is not ours
	out   []byte
	rel   int  // columns of the table as it was last described; 0: not yet
	reply bool // a keepalive was asked for

	once  sync.Once
	ended chan struct{}
}

func (c *conn) end()         { c.once.Do(func() { close(c.ended) }) }
func (c *conn) Interrupt()   { c.end() }
func (c *conn) Close() error { c.end(); return nil }

// Read gives the next bytes, and waits where there are none.
func (c *conn) Read(b []byte) (int, error) {
	for {
		c.p.mu.Lock()
		moved := c.p.moved
		select {
		case <-c.ended:
			c.p.mu.Unlock()
			return 0, io.EOF
		default:
		}
		if len(c.out) == 0 {
			c.send()
		}
		if n := copy(b, c.out); n > 0 {
			c.out = c.out[n:]
			c.p.mu.Unlock()
			return n, nil
		}
		c.p.mu.Unlock()
		select {
		case <-c.ended:
		case <-moved:
		}
	}
}

// send puts the next transaction into the buffer, or says how far the log reaches. p.mu is held.
func (c *conn) send() {
	p := c.p
	for _, t := range p.era.txs {
		if t.start >= c.at { // as SnapBuildXactNeedsSkip has it
			c.transaction(t)
			c.at = t.end
			return
		}
	}
	if p.lsn > c.at || c.reply {
		c.at = p.lsn
		c.frame(be('k', c.at, micros(time.Now()), byte(0)))
		c.reply = false
	}
}

const oid = uint32(16400)

// transaction sends one as pgoutput does.
func (c *conn) transaction(t *tx) {
	c.data(t.start, be('B', t.start, micros(t.at), uint32(t.xid)))
	if c.rel != len(t.relations) {
		c.rel = len(t.relations)
		m := be('R', oid, things.Schema, things.Name, byte('d'), uint16(c.rel))
		for i, name := range t.relations {
			m = append(m, be(boolByte(i == 0), name, uint32(25), ^uint32(0))...)
		}
		c.data(0, m)
	}
	if t.truncate {
		c.data(t.start-16, be('T', uint32(1), byte(0), oid))
	}
	for _, ch := range t.changes {
		c.data(t.start-16, ch.message(c.rel))
	}
	c.data(t.start, be('C', byte(0), t.start, t.end, micros(t.at)))
}

// message is the change as pgoutput sends it of a table with so many columns.
func (c *change) message(columns int) []byte {
	absent := slices.Repeat([]byte{'n'}, columns-1)
	switch {
	case c.row == nil:
		return append(be('D', oid, byte('K'), uint16(columns)), append(textValue(c.key.Values()[0]), absent...)...)
	case c.fresh:
		return append(be('I', oid, byte('N')), c.tuple(columns)...)
	case c.from != "":
		m := append(be('U', oid, byte('K'), uint16(columns)), append(textValue(c.from.Values()[0]), absent...)...)
		return append(append(m, 'N'), c.tuple(columns)...)
	}
	return append(be('U', oid, byte('N')), c.tuple(columns)...)
}

func (c *change) tuple(columns int) []byte {
	b := be(uint16(columns))
	b = append(b, textValue(c.key.Values()[0])...)
	b = append(b, textValue(c.row.n)...)
	if c.keeps {
		b = append(b, 'u')
	} else {
		b = append(b, textValue(c.row.t)...)
	}
	for i := range columns - 3 {
		if i < len(c.row.x) {
			b = append(b, textValue(c.row.x[i])...)
		} else {
			b = append(b, 'n')
		}
	}
	return b
}

func textValue(s string) []byte { return append(be(byte('t'), uint32(len(s))), s...) }

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func micros(t time.Time) uint64 {
	return uint64(t.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).Microseconds())
}

// be puts fields together as the protocol does: numbers big endian, strings with a zero byte behind.
func be(fields ...any) (b []byte) {
	for _, f := range fields {
		switch f := f.(type) {
		case rune:
			b = append(b, byte(f))
		case byte:
			b = append(b, f)
		case uint16:
			b = binary.BigEndian.AppendUint16(b, f)
		case uint32:
			b = binary.BigEndian.AppendUint32(b, f)
		case uint64:
			b = binary.BigEndian.AppendUint64(b, f)
		case syncd.LSN:
			b = binary.BigEndian.AppendUint64(b, uint64(f))
		case string:
			b = append(append(b, f...), 0)
		default:
			panic(f)
		}
	}
	return b
}

func (c *conn) data(at syncd.LSN, msg []byte) {
	c.frame(append(be('w', at, at, micros(time.Now())), msg...))
}

func (c *conn) frame(body []byte) {
	c.out = append(c.out, be(byte('d'), uint32(len(body)+4))...)
	c.out = append(c.out, body...)
}

// Write takes a status update.
func (c *conn) Write(b []byte) (int, error) {
	const status = 1 + 4 + 1 + 4*8 + 1
	if len(b) != status || b[0] != 'd' || b[5] != 'r' {
		return 0, errors.New("that is no status update")
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	select {
	case <-c.ended:
		return 0, io.ErrClosedPipe
	default:
	}
	if s := &c.p.slot; s.Exists && s.Restart == c.slot {
		s.Confirmed = max(s.Confirmed, syncd.LSN(binary.BigEndian.Uint64(b[14:])))
	}
	if b[status-1] == 1 {
		c.reply = true
		c.p.wake()
	}
	return len(b), nil
}
