package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/sink"
)

// fates decide what goes wrong, each by the name and the number of what it happens to, so that the order in which goroutines
// run decides nothing.
type fates struct {
	seed uint64
	mu   sync.Mutex
	rate map[string]float64
}

func newFates(seed uint64) *fates { return &fates{seed: seed, rate: map[string]float64{}} }

func (f *fates) set(rates map[string]float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate = rates
}

// number gives a number from 0 to 1 for what happens.
func (f *fates) number(what string, n ...uint64) float64 {
	b := be(f.seed, what)
	for _, x := range n {
		b = append(b, be(x)...)
	}
	return float64(syncd.KeyHash(b)>>11) / (1 << 53)
}

func (f *fates) strikes(what string, n ...uint64) bool {
	f.mu.Lock()
	rate := f.rate[what]
	f.mu.Unlock()
	return rate > 0 && f.number(what, n...) < rate
}

const syncName = "shop"

// stored is a message of the stream.
type stored struct {
	bus.Encoded
	gone bool // it takes a number, and is no longer there
}

// jetstream is the stream.
type jetstream struct {
	fates *fates
	pg    *postgres // whose transactions are hurt by what is lost

	mu      sync.Mutex
	exists  bool
	all     []stored // sequence 1 first
	first   uint64   // the first that the limits have left
	breaks  int      // how often it lost its tail
	session *publisher
	moved   chan struct{}
	away    bool
}

func newJetstream(f *fates, pg *postgres) *jetstream {
	return &jetstream{fates: f, pg: pg, first: 1, moved: make(chan struct{})}
}

func (j *jetstream) wake() {
	close(j.moved)
	j.moved = make(chan struct{})
}

var errAway = errors.New("no connection to the stream")

// last gives the last marker. j.mu is held.
func (j *jetstream) last() (m syncd.Marker, seq uint64, ok bool) {
	for i := len(j.all); i >= int(j.first); i-- {
		if msg, err := j.decode(uint64(i)); err == nil && msg.Marker != nil {
			return *msg.Marker, uint64(i), true
		}
	}
	return syncd.Marker{}, 0, false
}

// decode reads a message as it came over the bus.
func (j *jetstream) decode(seq uint64) (syncd.Message, error) {
	s := j.all[seq-1]
	if s.gone || seq < j.first {
		return syncd.Message{}, errAway
	}
	return bus.Decode(syncName, seq, s.Encoded)
}

// hurt says of the transactions of some messages that the stream lost part of them.
func (j *jetstream) hurt(from, to uint64) {
	for seq := from; seq <= to; seq++ {
		m, err := bus.Decode(syncName, seq, j.all[seq-1].Encoded)
		if err != nil {
			panic(err)
		}
		for _, d := range m.Deltas {
			j.pg.hurt(d.Version.LSN, d.XID)
		}
	}
}

func (p *postgres) hurt(end syncd.LSN, xid syncd.XID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.eras {
		for _, t := range e.txs {
			if t.end == end && t.xid == xid {
				t.hurt = true
			}
		}
	}
}

// loseTail takes the last messages away, acknowledged or not, as a power loss does.
func (j *jetstream) loseTail(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n = min(n, len(j.all)-int(j.first)+1)
	j.hurt(uint64(len(j.all)-n+1), uint64(len(j.all)))
	j.all = j.all[:len(j.all)-n]
	j.breaks++
	if j.session != nil {
		j.session.fail(errAway)
	}
	j.wake()
}

// trim takes the oldest messages away, as the stream's limits do.
func (j *jetstream) trim(left int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if to := len(j.all) - left; to >= int(j.first) {
		j.hurt(j.first, uint64(to))
		j.first = uint64(to) + 1
	}
}

func (j *jetstream) setAway(away bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.away = away
	if j.session != nil && away {
		j.session.fail(errAway)
	}
	j.wake()
}

// --- the source's side

// publisher is one source's session: source.Publisher.
type publisher struct {
	j *jetstream
	// spoil, where there is one, has the last word on a marker.
	spoil func(*syncd.Marker)

	mu     sync.Mutex
	ctx    context.Context // of the source's life
	queue  []bus.Encoded
	ends   map[int]syncd.Position // by the number of messages that went before, from the session's begin on
	next   uint64                 // sequence of the next message that is handed over
	sent   int
	err    error
	acked  syncd.Position
	moved  chan struct{}
	has    chan struct{}
	stored int
}

// connect begins a life of a source, which ends with ctx: what is on its way then is lost.
func (j *jetstream) connect(ctx context.Context) *publisher {
	return &publisher{j: j, ctx: ctx, moved: make(chan struct{}), err: errAway}
}

func (p *publisher) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	p.change()
}

func (p *publisher) change() {
	close(p.moved)
	p.moved = make(chan struct{})
}

// Last implements source.Publisher.
func (p *publisher) Last(context.Context) (syncd.Marker, uint64, bool, error) {
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	switch {
	case p.j.away:
		return syncd.Marker{}, 0, false, errAway
	case !p.j.exists:
		return syncd.Marker{}, 0, false, syncd.ErrNoStream
	}
	m, seq, ok := p.j.last()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.j.session != nil && p.j.session != p {
		p.j.session.fail(syncd.ErrFenced)
	}
	p.j.session = p
	p.err, p.queue, p.ends, p.sent, p.stored = nil, nil, map[int]syncd.Position{}, 0, 0
	p.next = uint64(len(p.j.all)) + 1
	p.acked = m.Position()
	p.has = make(chan struct{}, 1)
	go p.store(p.has, p.next)
	p.change()
	return m, seq, ok, nil
}

// Create implements source.Publisher.
func (p *publisher) Create(context.Context, bool) error {
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	p.j.exists = true
	return nil
}

// perMessage is how many deltas a message has at most: few, so that a flush has several.
const perMessage = 2

// Publish implements source.Publisher.
func (p *publisher) Publish(_ context.Context, f *syncd.Flush) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	if p.spoil != nil {
		p.spoil(&f.Marker)
	}
	all := bus.Encode(syncName, f, perMessage)
	var out []bus.Encoded
	for i, e := range all[:len(all)-1] {
		if out = append(out, e); p.j.fates.strikes("twice", p.next, uint64(i)) {
			out = append(out, e)
		}
	}
	for i := 1; i < len(out); i++ {
		if p.j.fates.strikes("swapped", p.next, uint64(i)) {
			out[i-1], out[i] = out[i], out[i-1]
		}
	}
	f.Marker.First = p.next
	out = append(out, bus.EncodeMarker(syncName, &f.Marker))
	p.next += uint64(len(out))
	p.queue = append(p.queue, out...)
	p.sent += len(out)
	p.ends[p.sent] = f.Marker.Position()
	select {
	case p.has <- struct{}{}:
	default:
	}
	return nil
}

// store stores the messages of a session one by one, until the session or the source's life ends. seq is that of the first.
func (p *publisher) store(has chan struct{}, seq uint64) {
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-has:
		}
		for p.storeOne(has, seq) {
			seq++
			f := p.j.fates
			if f.strikes("slow", seq) && p.wait(time.Duration(f.number("how slow", seq)*float64(20*time.Millisecond))) {
				return
			}
		}
	}
}

func (p *publisher) wait(d time.Duration) (ended bool) {
	select {
	case <-p.ctx.Done():
		return true
	case <-time.After(d):
		return p.ctx.Err() != nil
	}
}

func (p *publisher) storeOne(has chan struct{}, seq uint64) bool {
	p.j.mu.Lock()
	defer p.j.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.has != has || p.err != nil || len(p.queue) == 0 || p.ctx.Err() != nil {
		return false
	}
	if uint64(len(p.j.all))+1 != seq {
		p.err = syncd.ErrFenced
		p.change()
		return false
	}
	e := p.queue[0]
	p.queue = p.queue[1:]
	s := stored{Encoded: e}
	p.stored++
	end, marker := p.ends[p.stored]
	p.j.all = append(p.j.all, s)
	if !marker && p.j.fates.strikes("lost", seq) {
		p.j.hurt(seq, seq)
		p.j.all[seq-1].gone = true
	}
	if marker {
		p.acked = end
		p.change()
	}
	p.j.wake()
	return true
}

// Acked implements source.Publisher.
func (p *publisher) Acked() (syncd.Position, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acked, p.moved
}

// Err implements source.Publisher.
func (p *publisher) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// --- the sidecar's side

// Tail implements sink.Stream.
func (j *jetstream) Tail(context.Context) (syncd.Marker, uint64, bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.away:
		return syncd.Marker{}, 0, false, errAway
	case !j.exists:
		return syncd.Marker{}, 0, false, syncd.ErrNoStream
	}
	m, seq, ok := j.last()
	return m, seq, ok, nil
}

// Subscribe implements sink.Stream.
func (j *jetstream) Subscribe(_ context.Context, c syncd.Cursor) (sink.Subscription, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.away:
		return nil, errAway
	case !j.exists:
		return nil, syncd.ErrNoStream
	}
	if c.Seq > 0 {
		if c.Seq > uint64(len(j.all)) {
			return nil, fmt.Errorf("message %d: %w", c.Seq, syncd.ErrTooOld)
		}
		m, err := j.decode(c.Seq)
		if err != nil || m.Marker == nil || m.Marker.Position() != c.Position {
			return nil, fmt.Errorf("message %d: %w", c.Seq, syncd.ErrTooOld)
		}
	}
	return &subscription{j: j, seq: max(c.Seq, j.first-1), breaks: j.breaks}, nil
}

// Read implements sink.Stream.
func (j *jetstream) Read(_ context.Context, from, to uint64) (all []syncd.Message, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.away {
		return nil, errAway
	}
	for seq := max(from, j.first); seq <= min(to, uint64(len(j.all))); seq++ {
		if m, err := j.decode(seq); err == nil {
			all = append(all, m)
		}
	}
	return all, nil
}

// subscription gives messages, and spoils some of them: those can be read again.
type subscription struct {
	j      *jetstream
	seq    uint64
	breaks int
	again  []syncd.Message
}

// Close implements sink.Subscription.
func (s *subscription) Close() error { return nil }

// Next implements sink.Subscription.
func (s *subscription) Next(ctx context.Context) (syncd.Message, error) {
	f := s.j.fates
	for {
		if len(s.again) > 0 {
			m := s.again[0]
			s.again = s.again[1:]
			return m, nil
		}
		m, ok, moved, err := s.take()
		switch {
		case err != nil:
			return m, err
		case !ok:
			select {
			case <-ctx.Done():
				return m, context.Cause(ctx)
			case <-moved:
			}
			continue
		}
		if f.strikes("late", s.seq) {
			select {
			case <-ctx.Done():
				return m, context.Cause(ctx)
			case <-time.After(time.Duration(f.number("how late", s.seq) * float64(300*time.Millisecond))):
			}
		}
		if m.Marker == nil && f.strikes("not delivered", s.seq) {
			continue
		}
		if f.strikes("delivered twice", s.seq) {
			s.again = slices.Repeat([]syncd.Message{m}, 1)
		}
		return m, nil
	}
}

func (s *subscription) take() (m syncd.Message, ok bool, moved chan struct{}, err error) {
	j := s.j
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.away || s.breaks != j.breaks:
		return m, false, nil, errAway
	case s.seq+1 < j.first:
		return m, false, nil, fmt.Errorf("message %d is gone: %w", s.seq+1, syncd.ErrTooOld)
	}
	for s.seq < uint64(len(j.all)) {
		s.seq++
		if m, err := j.decode(s.seq); err == nil {
			return m, true, nil, nil
		}
	}
	return m, false, j.moved, nil
}
