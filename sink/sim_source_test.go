package sink_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// This file simulates the source, the stream and the list service, with their faults.

// mix says which faults and kinds of change a simulation has.
type mix struct {
	truncate, move, toast bool // of changes

	lose, duplicate, reorder, garble bool // of single messages, on their way
	rot                              bool // messages that are lost in the stream itself
	zombie                           bool // deltas that come again much later
	die                              bool // the source, in the middle of a flush
	parts                            bool // transactions in parts
	tail                             bool // the stream loses its end, which the source publishes again
	trim                             bool // the stream loses its beginning
	epochs, failover                 bool
	restart, rewind                  bool // of the consumer: with what it had, with an earlier cursor
	break_                           bool // of the connection, or of the store
	tables                           bool // that are left out and taken in again
	spoil                            bool // cached rows are changed behind the cache's back
	standby, shared                  bool // of list pages
	together                         bool // several lists of a table at a time
	small                            bool // the consumer holds back little
	selects, reselect                bool // one table has a selector; it changes
	memory                           bool // the store is sink/memory, not the plain one
	inPlace                          bool // a new epoch begins in the store that is read
	joins                            bool // flushes that have arrived are applied together
}

// message is a message of the stream. It keeps its place when a later one is taken away.
type message struct {
	syncd.Message
	rotten bool
}

// stream is a stream of messages with sequences first, first+1, …
type stream struct {
	first    uint64
	messages []message
	version  int // counts the times that its end was lost, which ends subscriptions
}

func (s *stream) end() uint64 { return s.first + uint64(len(s.messages)) }

func (s *stream) at(seq uint64) (message, bool) {
	if seq < s.first || seq >= s.end() {
		return message{}, false
	}
	return s.messages[seq-s.first], true
}

func (s *stream) append(m syncd.Message) uint64 {
	m.Seq = s.end()
	s.messages = append(s.messages, message{Message: m})
	return m.Seq
}

// tail gives the last marker, whole or not.
func (s *stream) tail(parts bool) (syncd.Message, bool) {
	for _, m := range slices.Backward(s.messages) {
		if m.Marker != nil && (parts || !m.Marker.Part) {
			return m.Message, true
		}
	}
	return syncd.Message{}, false
}

var errBroken = errors.New("connection broken")

// upstream is the server with a source that publishes its commits to a stream.
type upstream struct {
	*postgres
	stream  *stream
	epoch   syncd.Epoch
	start   syncd.LSN
	pub     int // commits published
	through syncd.LSN
	faults  bool
	pages   map[pageID]*syncd.Page // read for somebody else
	past    map[syncd.Epoch]*history
	old     []syncd.Message // deltas that were published, for zombies

	selector int // of the second table, in selectorForms

	bend         bend
	pendingError bool            // the next call of the stream fails
	late         []syncd.Message // held back on their way
}

type pageID struct {
	table, page int
	standby     bool
}

func newUpstream(d dice, m mix) *upstream {
	u := &upstream{postgres: newPostgres(d, m), stream: &stream{first: 1}, faults: true, pages: map[pageID]*syncd.Page{}, past: map[syncd.Epoch]*history{}}
	if m.selects {
		u.selector = 1 + u.roll(len(selectorForms)-1)
	}
	u.newEpoch()
	return u
}

// newEpoch begins an epoch at the present end of the log: making the slot has waited until all that is committed is visible.
func (u *upstream) newEpoch() {
	for _, t := range slices.Clone(u.active) {
		if t.lsn != 0 {
			u.show(t)
		}
	}
	u.epoch++
	u.lsn++
	u.pub, u.start, u.through = len(u.commits), u.lsn, u.lsn
	u.past[u.epoch] = u.history
	clear(u.pages)
	u.mark(syncd.Marker{Through: u.lsn}, u.stream.end())
}

// mark publishes a marker.
func (u *upstream) mark(m syncd.Marker, first uint64) {
	m.Epoch, m.First, m.Start, m.System, m.Timeline = u.epoch, first, u.start, simSystem, u.postgres.timeline
	u.stream.append(syncd.Message{Marker: &m})
}

// publish publishes a flush of some commits.
func (u *upstream) publish() {
	n := len(u.commits) - u.pub
	if n == 0 {
		return
	}
	batch := u.commits[u.pub : u.pub+1+u.roll(n)]
	first := u.stream.end()
	if u.mix.parts && len(batch[0].deltas) > 1 && chance(u, 2) {
		batch = batch[:1]
		u.send(batch[0].deltas[:len(batch[0].deltas)/2], 1)
		u.mark(syncd.Marker{Part: true, Previous: u.through, Through: u.through}, first)
		first = u.stream.end()
		u.send(batch[0].deltas[len(batch[0].deltas)/2:], 1)
	} else {
		var all []syncd.Delta
		for _, t := range batch {
			all = append(all, t.deltas...)
		}
		if u.faults && u.mix.die && chance(u, 5) {
			u.send(all, 3)
			return // dead before its marker
		}
		u.send(all, 1)
	}
	if u.faults && u.mix.zombie && len(u.old) > 0 && chance(u, 3) {
		u.stream.append(u.old[u.roll(len(u.old))])
	}
	counts := map[syncd.Table]int{}
	for _, t := range batch {
		for _, d := range t.deltas {
			counts[d.Table]++
		}
	}
	u.pub += len(batch)
	through := batch[len(batch)-1].lsn
	if u.pub == len(u.commits) && chance(u, 3) {
		through = u.lsn
	}
	u.mark(syncd.Marker{Previous: u.through, Through: through, Counts: counts, Safe: min(through, u.safe())}, first)
	u.through = through
}

// send publishes deltas, table by table, in messages of one or several. Of every lossy messages only some are sent.
func (u *upstream) send(deltas []syncd.Delta, lossy int) {
	for table := range simTables {
		var run []syncd.Delta
		for _, d := range deltas {
			if d.Table == tableName(table) {
				d.Version.Epoch = u.epoch
				run = append(run, d)
			}
		}
		for len(run) > 0 {
			n := 1 + u.roll(len(run))
			if lossy == 1 || u.roll(lossy) > 0 {
				u.stream.append(syncd.Message{Deltas: run[:n]})
				u.old = append(u.old, syncd.Message{Deltas: run[:n]})
			}
			run = run[n:]
		}
	}
}

// idle publishes a marker of nothing.
func (u *upstream) idle() {
	if u.pub == len(u.commits) {
		u.mark(syncd.Marker{Previous: u.through, Through: u.lsn, Safe: u.safe()}, u.stream.end())
		u.through = u.lsn
	}
}

// loseTail takes the stream's end away, behind some marker of the epoch. The source goes on from there.
func (u *upstream) loseTail() {
	var markers []int
	for i, m := range u.stream.messages {
		if m.Marker != nil && m.Marker.Epoch == u.epoch && !m.Marker.Part {
			markers = append(markers, i)
		}
	}
	if len(markers) < 2 {
		return
	}
	i := markers[u.roll(len(markers)-1)]
	u.through = u.stream.messages[i].Marker.Through
	u.stream.messages = slices.Clone(u.stream.messages[:i+1])
	u.stream.version++
	u.late = nil
	for u.pub = 0; u.pub < len(u.commits) && u.commits[u.pub].lsn <= u.through; {
		u.pub++
	}
}

// trim takes the stream's beginning away.
func (u *upstream) trim() {
	if n := u.roll(len(u.stream.messages)); n > 0 {
		u.stream.messages = u.stream.messages[n:]
		u.stream.first += uint64(n)
	}
}

// pageKeys gives the keys of a page: half of a table.
func pageKeys(page int) (low, high int) { return page * simKeys / 2, (page + 1) * simKeys / 2 }

// page reads a page of a table.
func (u *upstream) page(id pageID) *syncd.Page {
	if p := u.pages[id]; p != nil && u.mix.shared && chance(u, 2) {
		c, snap := *p, *p.Snapshot // each reader gets its own copy
		c.Snapshot = &snap
		return &c
	}
	low, high := pageKeys(id.page)
	keys := make([]int, 0, high-low)
	for k := low; k < high; k++ {
		keys = append(keys, k)
	}
	p := u.readPage(id.table, keys, id.standby)
	p.Last = high == simKeys
	u.pages[id] = p
	return p
}

// get reads single keys.
func (u *upstream) get(table int, keys []int, standby bool) *syncd.Page {
	p := u.readPage(table, keys, standby)
	for _, k := range keys {
		p.Asked = append(p.Asked, keyOf(k))
	}
	return p
}

func (u *upstream) readPage(table int, keys []int, standby bool) *syncd.Page {
	p := &syncd.Page{Table: tableName(table), Selector: u.selectorOf(table), Schema: simShape, System: simSystem, Timeline: u.postgres.timeline}
	for _, m := range slices.Backward(u.stream.messages) {
		if m.Marker != nil && m.Marker.Epoch == u.epoch {
			p.Safe = m.Marker.Safe
			break
		}
	}
	var cut syncd.LSN
	if standby {
		p.Snapshot, cut = u.standbySnapshot(u.epoch)
		p.Safe = p.Snapshot.R
	} else {
		p.Snapshot = u.snapshot(u.epoch)
	}
	for _, k := range keys {
		if v := keep(p.Selector, u.read(place{table, k}, p.Snapshot, cut)); v.there {
			p.Rows = append(p.Rows, syncd.Row{Key: keyOf(k), JSON: v.row(k, false)})
		}
	}
	return p
}

// upstream is a sink.Stream.
var _ sink.Stream = (*upstream)(nil)

func (u *upstream) broken() error {
	if u.pendingError {
		u.pendingError = false
		return errBroken
	}
	return nil
}

// bend puts a rule outside the gate out of force, by changing what comes to the consumer. nil fields change nothing.
type bend struct {
	page   func(p *syncd.Page) // changes a copy, with a snapshot of its own
	list   func(l *sink.List)  // changes it
	digest func(d *syncd.Digest, pages []*syncd.Page)
	proof  func(c *sink.Comparison)
	marker func(m *syncd.Marker) // changes a copy
	delta  func(d *syncd.Delta)  // changes a copy
}

// bent gives a message as the bend has it.
func (u *upstream) bent(m syncd.Message) syncd.Message {
	if m.Marker != nil && u.bend.marker != nil {
		c := *m.Marker
		u.bend.marker(&c)
		m.Marker = &c
	}
	if u.bend.delta != nil {
		m.Deltas = slices.Clone(m.Deltas)
		for i := range m.Deltas {
			u.bend.delta(&m.Deltas[i])
		}
	}
	return m
}

func (u *upstream) Tail(context.Context) (syncd.Marker, uint64, bool, error) {
	if err := u.broken(); err != nil {
		return syncd.Marker{}, 0, false, err
	}
	m, ok := u.stream.tail(false)
	if !ok {
		return syncd.Marker{}, 0, false, nil
	}
	return *m.Marker, m.Seq, true, nil
}

func (u *upstream) Subscribe(_ context.Context, c syncd.Cursor) (sink.Subscription, error) {
	if err := u.broken(); err != nil {
		return nil, err
	}
	if c.Seq == 0 {
		return &subscription{u: u, next: u.stream.first, version: u.stream.version}, nil
	}
	m, ok := u.stream.at(c.Seq)
	if !ok || m.Marker == nil || m.Marker.Position() != c.Position {
		return nil, fmt.Errorf("message %d is not the marker of %s: %w", c.Seq, c.Position, syncd.ErrTooOld)
	}
	return &subscription{u: u, next: c.Seq + 1, version: u.stream.version}, nil
}

func (u *upstream) Read(_ context.Context, from, to uint64) ([]syncd.Message, error) {
	if err := u.broken(); err != nil {
		return nil, err
	}
	var all []syncd.Message
	var err error
	for seq := from; seq <= to; seq++ {
		switch m, ok := u.stream.at(seq); {
		case ok && m.rotten:
			err = fmt.Errorf("message %d: %w", seq, syncd.ErrMalformed)
		case ok:
			all = append(all, u.bent(m.Message))
		}
	}
	return all, err
}

// subscription delivers what its stream holds, spoilt on the way.
type subscription struct {
	u       *upstream
	next    uint64
	version int
	again   *syncd.Message // to be delivered twice
}

func (s *subscription) Close() error { return nil }

// pending says whether Next would have to wait.
func (s *subscription) pending() bool {
	return s.version == s.u.stream.version && s.again == nil && len(s.u.late) == 0 && s.next >= s.u.stream.end()
}

// Next delivers a message. A held-back one is delivered by chance, and when nothing else is left.
func (s *subscription) Next(context.Context) (syncd.Message, error) {
	u := s.u
	if err := u.broken(); err != nil {
		return syncd.Message{}, err
	}
	if s.version != u.stream.version || s.next < u.stream.first {
		return syncd.Message{}, fmt.Errorf("message %d is gone: %w", s.next, syncd.ErrTooOld)
	}
	if s.again != nil {
		m := *s.again
		s.again = nil
		return m, nil
	}
	if len(u.late) > 0 && (s.next >= u.stream.end() || chance(u, 3)) {
		m := u.late[0]
		u.late = u.late[1:]
		return m, nil
	}
	m, ok := u.stream.at(s.next)
	if !ok {
		return syncd.Message{}, errors.New("the simulation asked for a message that is not there")
	}
	s.next++
	return s.deliver(m)
}

// Poll is Next where there is something, but now and then: so flushes are joined, and some are not.
func (s *subscription) Poll(ctx context.Context) (m syncd.Message, ok bool, err error) {
	if !s.u.mix.joins || s.pending() || s.next%5 == 0 {
		return m, false, nil
	}
	m, err = s.Next(ctx)
	return m, true, err
}

// deliver brings a message, or what the faults make of it.
func (s *subscription) deliver(m message) (syncd.Message, error) {
	u := s.u
	if m.rotten {
		return syncd.Message{}, fmt.Errorf("message %d: %w", m.Seq, syncd.ErrMalformed)
	}
	m.Message = u.bent(m.Message)
	if !u.faults {
		return m.Message, nil
	}
	switch what := u.roll(24); {
	case what == 0 && u.mix.lose:
		return syncd.Message{}, nil // as if it were another table's
	case what == 1 && u.mix.duplicate:
		s.again = &m.Message
	case what == 2 && u.mix.reorder:
		u.late = append(u.late, m.Message)
		return syncd.Message{}, nil
	case what == 3 && u.mix.garble:
		return syncd.Message{}, fmt.Errorf("message %d: %w", m.Seq, syncd.ErrMalformed)
	}
	return m.Message, nil
}
