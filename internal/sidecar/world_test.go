package sidecar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// world is Postgres, the source, the stream and the list service of one table, in memory. Commits are published before they
// are visible, deltas are lost on their way, the service is away at times. It belongs to one bubble of fake time.
type world struct {
	mu       sync.Mutex
	dice     *rand.Rand
	info     syncd.TableInfo
	epoch    syncd.Epoch
	start    syncd.LSN
	lsn      syncd.LSN
	xid      syncd.XID // the last given out
	eras     map[syncd.Epoch]*era
	hidden   map[syncd.XID]commit // committed, not visible yet
	waiting  []commit             // not published yet
	messages []syncd.Message      // sequence 1 first
	moved    chan struct{}        // closed at the next message
	through  syncd.LSN
	n        int // counts rows written
	pageRows int

	lose     float64 // share of the deltas that are lost in the stream
	point    float64 // share that goes as a pointer
	refuse   float64 // share of the lists and gets that fail
	away     bool    // the service does not answer
	noTail   bool    // nor does the stream
	requests int
}

// era is what happened in one epoch: for each key its states, oldest first.
type era struct{ facts map[syncd.Key][]fact }

type fact struct {
	row string // empty: absent
	lsn syncd.LSN
	xid syncd.XID
}

type commit struct {
	key syncd.Key
	row string
	lsn syncd.LSN
	xid syncd.XID
}

var things = syncd.Table{Schema: "public", Name: "things"}

const system = 4711

func newWorld(seed uint64) *world {
	w := &world{
		dice: rand.New(rand.NewPCG(seed, 1)), epoch: 1, start: 1000, lsn: 1000, xid: 5 << 32, through: 1000, pageRows: 7,
		info:   syncd.TableInfo{Table: things, Columns: []string{"k", "n"}, Types: []string{"text", "integer"}, Key: []string{"k"}, Schema: 11},
		eras:   map[syncd.Epoch]*era{1: {map[syncd.Key][]fact{}}},
		hidden: map[syncd.XID]commit{}, moved: make(chan struct{}),
	}
	w.mark()
	return w
}

func (w *world) history(k syncd.Key) []fact { return w.eras[w.epoch].facts[k] }

// write commits a change of one key, a new row or none, unless an earlier one still holds its lock.
func (w *world) write(k syncd.Key, there bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.hidden {
		if c.key == k {
			return
		}
	}
	h := w.history(k)
	if len(h) == 0 && !there || len(h) > 0 && h[len(h)-1].row == "" && !there {
		return
	}
	w.lsn += 8
	w.xid++
	w.n++
	c := commit{key: k, lsn: w.lsn, xid: w.xid}
	if there {
		c.row = fmt.Sprintf(`{"k":%q,"n":%d}`, k.Values()[0], w.n)
	}
	w.eras[w.epoch].facts[k] = append(h, fact{c.row, c.lsn, c.xid})
	w.hidden[c.xid] = c
	w.waiting = append(w.waiting, c)
}

// show makes a commit visible.
func (w *world) show(x syncd.XID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.hidden, x)
}

func (w *world) unseen() []syncd.XID {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []syncd.XID
	for x := range w.hidden {
		all = append(all, x)
	}
	slices.Sort(all)
	return all
}

// publish sends what was committed, and a marker.
func (w *world) publish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mark()
}

func (w *world) mark() {
	first := uint64(len(w.messages) + 1)
	counts := map[syncd.Table]int{}
	for _, c := range w.waiting {
		counts[things]++
		if w.dice.Float64() < w.lose {
			continue
		}
		d := syncd.Delta{
			Table: things, Op: syncd.Upsert, Key: c.key, Row: []byte(c.row), Schema: w.info.Schema, XID: c.xid, Committed: time.Now(),
			Version: syncd.Version{Epoch: w.epoch, LSN: c.lsn, Ordinal: 1},
		}
		switch {
		case c.row == "":
			d.Op, d.Row = syncd.Delete, nil
		case w.dice.Float64() < w.point:
			d.Pointer, d.Row = true, nil
		}
		w.messages = append(w.messages, syncd.Message{Seq: uint64(len(w.messages) + 1), Deltas: []syncd.Delta{d}})
	}
	w.waiting = nil
	m := syncd.Marker{
		Epoch: w.epoch, Previous: w.through, Through: w.lsn, First: first, Counts: counts, Safe: w.safe(),
		Start: w.start, System: system, Timeline: 1, Sent: time.Now(),
	}
	if w.through == w.start && len(w.messages) == 0 {
		m.Previous = 0
	}
	w.through = w.lsn
	w.messages = append(w.messages, syncd.Message{Seq: uint64(len(w.messages) + 1), Marker: &m})
	close(w.moved)
	w.moved = make(chan struct{})
}

func (w *world) safe() syncd.LSN {
	at := w.lsn
	for _, c := range w.hidden {
		at = min(at, c.lsn-1)
	}
	return at
}

// restore begins a new epoch from what was visible some time ago: what came since is gone.
func (w *world) restore() {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.eras[w.epoch]
	w.epoch++
	fresh := &era{map[syncd.Key][]fact{}}
	w.lsn += 100
	w.start = w.lsn
	for k, facts := range old.facts {
		if n := len(facts) - 1 - w.dice.IntN(2); n >= 0 {
			fresh.facts[k] = []fact{{facts[n].row, w.start, 0}}
		}
	}
	w.eras[w.epoch], w.hidden, w.waiting = fresh, map[syncd.XID]commit{}, nil
	w.through = w.start
	first := uint64(len(w.messages) + 1)
	w.messages = append(w.messages, syncd.Message{Seq: first, Marker: &syncd.Marker{
		Epoch: w.epoch, Through: w.start, First: first, Safe: w.start, Start: w.start, System: system, Timeline: 1, Sent: time.Now()}})
	close(w.moved)
	w.moved = make(chan struct{})
}

// --- the list service

var errAway = errors.New("no responders")

// asked counts the lists and gets.
func (w *world) asked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests
}

func (w *world) answer() error {
	w.requests++
	switch {
	case w.away:
		return errAway
	case w.dice.Float64() < w.refuse:
		return fmt.Errorf("list: %w", syncd.ErrBusy)
	}
	return nil
}

func (w *world) Tables(context.Context) ([]syncd.TableInfo, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		return nil, errAway
	}
	return []syncd.TableInfo{w.info}, nil
}

func (w *world) page() *syncd.Page {
	s := &syncd.Snapshot{Epoch: w.epoch, Xmin: w.xid + 1, Xmax: w.xid + 1, H: w.lsn}
	for x := range w.hidden {
		s.Xip = append(s.Xip, x)
		s.Xmin = min(s.Xmin, x)
	}
	slices.Sort(s.Xip)
	p := &syncd.Page{Table: things, Schema: w.info.Schema, System: system, Timeline: 1, Snapshot: s}
	for _, m := range slices.Backward(w.messages) {
		if m.Marker != nil {
			p.Safe = m.Marker.Safe
			break
		}
	}
	return p
}

// visible gives a row as a snapshot shows it.
func (w *world) visible(k syncd.Key, s *syncd.Snapshot) string {
	for _, f := range slices.Backward(w.history(k)) {
		if s.Visible(f.xid, f.lsn) == syncd.Visible {
			return f.row
		}
	}
	return ""
}

func (w *world) List(_ context.Context, q syncd.ListRequest) (*syncd.Page, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.answer(); err != nil {
		return nil, err
	}
	p := w.page()
	p.Sent, p.Last = q.Sent, true
	for _, k := range w.keys() {
		if q.Started && k <= q.After || !q.Buckets.Holds(k.Hash()) {
			continue
		}
		if row := w.visible(k, p.Snapshot); row != "" {
			if len(p.Rows) == w.pageRows {
				p.Last = false
				break
			}
			p.Rows = append(p.Rows, syncd.Row{Key: k, JSON: []byte(row)})
			p.Sent.Add(k, []byte(row))
			p.After = k
		}
	}
	return p, nil
}

// Digest reads the table in pages, each of another moment.
func (w *world) Digest(ctx context.Context, q syncd.DigestRequest) (*syncd.Digest, error) {
	d := &syncd.Digest{Table: things, Form: syncd.DigestForm, Bits: q.Bits, Buckets: make([]syncd.Totals, 1<<q.Bits)}
	var snaps []*syncd.Snapshot
	var high syncd.LSN
	r := syncd.ListRequest{Table: things}
	for last := false; !last; {
		p, err := w.List(ctx, r)
		if err != nil {
			return nil, err
		}
		for _, row := range p.Rows {
			d.Buckets[syncd.BucketOf(row.Key.Hash(), q.Bits)].Add(row.Key, row.JSON)
		}
		if len(snaps) == 0 {
			d.Schema, d.System, d.Timeline, d.Safe = p.Schema, p.System, p.Timeline, p.Safe
		}
		snaps = append(snaps, p.Snapshot)
		high, d.Safe = max(high, p.Snapshot.H), min(d.Safe, p.Safe)
		last, r.Started, r.After = p.Last, true, p.After
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	oldest := syncd.Oldest(snaps)
	if oldest == nil || oldest.Epoch != snaps[len(snaps)-1].Epoch {
		return nil, errors.New("the epoch changed while the table was read")
	}
	snap := *oldest
	snap.H = high
	d.Snapshot = &snap
	return d, nil
}

func (w *world) keys() []syncd.Key {
	var keys []syncd.Key
	for k := range w.eras[w.epoch].facts {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (w *world) Get(_ context.Context, q syncd.GetRequest) (*syncd.Page, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.answer(); err != nil {
		return nil, err
	}
	p := w.page()
	p.Asked = q.Keys
	for _, k := range q.Keys {
		if row := w.visible(k, p.Snapshot); row != "" {
			p.Rows = append(p.Rows, syncd.Row{Key: k, JSON: []byte(row)})
		}
	}
	return p, nil
}

func (w *world) Mark(context.Context, syncd.LSN) (syncd.Position, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		return syncd.Position{}, errAway
	}
	w.mark()
	return syncd.Position{Epoch: w.epoch, LSN: w.through}, nil
}

// --- the stream

func (w *world) Tail(context.Context) (syncd.Marker, uint64, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.noTail {
		return syncd.Marker{}, 0, false, errAway
	}
	m := w.messages[len(w.messages)-1]
	return *m.Marker, m.Seq, true, nil
}

func (w *world) Subscribe(_ context.Context, c syncd.Cursor) (sink.Subscription, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.Seq > uint64(len(w.messages)) || c.Seq > 0 && w.messages[c.Seq-1].Marker == nil {
		return nil, fmt.Errorf("message %d: %w", c.Seq, syncd.ErrTooOld)
	}
	return &subscription{w, c.Seq}, nil
}

func (w *world) Read(_ context.Context, from, to uint64) ([]syncd.Message, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.messages[from-1 : to]), nil
}

type subscription struct {
	w   *world
	seq uint64
}

func (s *subscription) Close() error { return nil }

func (s *subscription) Next(ctx context.Context) (syncd.Message, error) {
	for {
		s.w.mu.Lock()
		moved := s.w.moved
		if s.seq < uint64(len(s.w.messages)) {
			m := s.w.messages[s.seq]
			s.w.mu.Unlock()
			s.seq++
			return m, nil
		}
		s.w.mu.Unlock()
		select {
		case <-ctx.Done():
			return syncd.Message{}, ctx.Err()
		case <-moved:
		}
	}
}

// --- the witness

// witness watches what readers see, and holds it against what happened.
type witness struct {
	w       *world
	epoch   syncd.Epoch
	reached map[syncd.Key]int // the state that was seen of each key
	claimed syncd.Position
	claims  int
	bad     []string
}

// look checks one commit of the cache: no key has gone back, and what is verified is true.
func (o *witness) look(c *sink.Cache) {
	v := c.View()
	defer v.Close()
	st := v.State()
	t := st.Tables[things]
	if t == nil || !t.Listed {
		return
	}
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	if e := st.Cursor.Position.Epoch; e != o.epoch {
		o.epoch, o.reached = e, map[syncd.Key]int{}
	}
	e := o.w.eras[o.epoch]
	news := t.Verified.Position != o.claimed
	if news {
		o.claimed = t.Verified.Position
		o.claims++
	}
	for k, facts := range e.facts {
		entry, _ := v.Get(things, k)
		o.check(k, facts, string(entry.Row), news)
	}
	v.Rows(things, 0, func(k syncd.Key, _ sink.Entry) bool {
		if e.facts[k] == nil {
			o.fail("epoch %d: %s is cached and never was", o.epoch, k)
		}
		return true
	})
}

// check places what is seen of a key among its states. State 0 is "not there yet".
func (o *witness) check(k syncd.Key, facts []fact, row string, claim bool) {
	low := o.reached[k]
	if claim && o.claimed.Epoch == o.epoch {
		for i, f := range facts {
			if f.lsn <= o.claimed.LSN && i+1 > low {
				low = i + 1
			}
		}
	}
	for i := low; i <= len(facts); i++ {
		if i == 0 && row == "" || i > 0 && facts[i-1].row == row {
			o.reached[k] = i
			return
		}
	}
	o.fail("epoch %d: %s shows %s, and was at state %d of %v (verified: %v at %v)", o.epoch, k, cmp.Or(row, "nothing"), low, facts, claim, o.claimed)
}

func (o *witness) fail(format string, args ...any) {
	if len(o.bad) < 3 {
		o.bad = append(o.bad, fmt.Sprintf(format, args...))
	}
}

// rows gives the table as it is when all is visible.
func (w *world) rows() map[syncd.Key]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := map[syncd.Key]string{}
	for k, facts := range w.eras[w.epoch].facts {
		if row := facts[len(facts)-1].row; row != "" {
			m[k] = row
		}
	}
	return m
}
