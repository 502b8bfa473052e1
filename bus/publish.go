package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/syncd-io/syncd"
)

// Publish hands over a flush: its deltas packed by table and shape, then its marker, whose First it fills in. It returns
// when everything is handed to the client, and waits while the window is full or the tail is being settled. It takes
// ownership of f. Its error is that of Err, or ctx's; after ctx's the flush is on the stream in part, or will be: begin a
// new session with Last.
func (p *Publisher) Publish(ctx context.Context, f *syncd.Flush) error {
	s, err := p.ready(ctx)
	if err != nil {
		return fmt.Errorf("publish up to %v: %w", f.Marker.Position(), err)
	}
	f.Marker.First = s.next // moved by this goroutine only
	b := packer{p: p, s: s, ctx: ctx, most: s.limit - headerRoom, full: min(p.messageBytes(), s.limit-headerRoom)}
	if err := b.pack(f.Deltas); err != nil {
		return fmt.Errorf("publish up to %v: %w", f.Marker.Position(), err)
	}
	if err := b.marker(&f.Marker); err != nil {
		return fmt.Errorf("publish the marker of %v: %w", f.Marker.Position(), err)
	}
	return nil
}

func (p *Publisher) messageBytes() int {
	if p.MessageBytes > 0 {
		return p.MessageBytes
	}
	return defaultMessageBytes
}

func (p *Publisher) window() int {
	if p.Window > 0 {
		return p.Window
	}
	return defaultWindow
}

// ready waits until Run listens for acks, and gives the session.
func (p *Publisher) ready(ctx context.Context) (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session == nil {
		return nil, errors.New("no session: Last was not called")
	}
	s := p.session
	return s, p.await(ctx, func() bool { return s.err != nil || p.listening }, s)
}

// await waits until done, which looks at the state under the lock, or ctx ends. The lock is held.
func (p *Publisher) await(ctx context.Context, done func() bool, s *session) error {
	for !done() {
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		p.mu.Lock()
		if ctx.Err() != nil && !done() {
			return ctx.Err()
		}
	}
	return s.err
}

// send puts a message behind the tail and hands it to the client, once there is room.
func (p *Publisher) send(ctx context.Context, s *session, o outgoing) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	size := len(o.data) + headerRoom
	err := p.await(ctx, func() bool { return s.err != nil || s.stopped == nil && p.listening && s.room(size, p.window()) }, s)
	if err != nil {
		return err
	}
	o.seq = s.next
	o.header[nats.ExpectedLastSeqHdr] = []string{strconv.FormatUint(o.seq-1, 10)}
	s.next++
	s.bytes += size
	s.tail = append(s.tail, o)
	p.observeInFlight(s)
	if err := p.transmit(s, &s.tail[len(s.tail)-1]); err != nil {
		p.stop(s, err)
	}
	return nil
}

// room says whether one more message may be in flight.
func (s *session) room(size, window int) bool {
	if len(s.tail) == 0 {
		return true
	}
	return s.bytes+size <= window && len(s.tail) < mostInFlight && time.Since(s.heard) < silence
}

func (p *Publisher) transmit(s *session, o *outgoing) error {
	o.sent = time.Now()
	return p.Conn.PublishMsg(&nats.Msg{
		Subject: o.subject,
		Reply:   p.inbox + "." + strconv.FormatUint(s.attempt, 10) + "." + strconv.FormatUint(o.seq, 10),
		Header:  o.header,
		Data:    o.data,
	})
}

func (p *Publisher) observeInFlight(s *session) {
	if p.Observer != nil {
		p.Observer.InFlight(len(s.tail), s.bytes)
	}
}

// ack takes JetStream's answer to one message.
func (p *Publisher) ack(m *nats.Msg) {
	attempt, seq, ok := p.replySubject(m.Subject)
	if !ok {
		return
	}
	stream, stored, err := readAck(m)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.session
	if s == nil || s.err != nil || len(s.tail) == 0 || seq < s.tail[0].seq || seq >= s.next {
		return
	}
	switch {
	case apiCode(err) == codeExpectedStream:
		p.end(s, fmt.Errorf("message %d: its subject is captured by a stream other than %s: %w", seq, StreamName(p.Name), err))
	case err != nil:
		if attempt == s.attempt { // a refusal of an earlier sending says nothing of this one
			p.stop(s, fmt.Errorf("message %d: %w", seq, err))
		}
	case stream != StreamName(p.Name):
		p.end(s, fmt.Errorf("message %d was stored by stream %s, not %s: a subject is captured by both", seq, stream, StreamName(p.Name)))
	case stored != seq:
		p.stop(s, fmt.Errorf("message %d was stored as %d", seq, stored))
	default:
		p.stored(s, seq)
	}
}

func (p *Publisher) replySubject(subject string) (attempt, seq uint64, ok bool) {
	rest, ok := strings.CutPrefix(subject, p.inbox+".")
	a, n, two := strings.Cut(rest, ".")
	attempt, err1 := strconv.ParseUint(a, 10, 64)
	seq, err2 := strconv.ParseUint(n, 10, 64)
	return attempt, seq, ok && two && err1 == nil && err2 == nil
}

func readAck(m *nats.Msg) (stream string, seq uint64, err error) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return "", 0, nats.ErrNoResponders
	}
	var a struct {
		Error  *apiError `json:"error"`
		Stream string    `json:"stream"`
		Seq    uint64    `json:"seq"`
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return "", 0, fmt.Errorf("an ack can't be read: %w", err)
	}
	if a.Error != nil {
		return "", 0, a.Error
	}
	return a.Stream, a.Seq, nil
}

// stored notes a message as acknowledged and lets go of every one up to the first that is not. The lock is held.
func (p *Publisher) stored(s *session, seq uint64) {
	now := time.Now()
	o := &s.tail[seq-s.tail[0].seq]
	if o.acked {
		return
	}
	o.acked = true
	s.heard, s.failures = now, 0
	if p.Observer != nil {
		p.Observer.Acknowledged(len(o.data), now.Sub(o.sent))
	}
	n, moved := 0, false
	for ; n < len(s.tail) && s.tail[n].acked; n++ {
		d := &s.tail[n]
		s.bytes -= len(d.data) + headerRoom
		if d.marker {
			s.acked, moved = d.through, true
		}
		if s.stopped == nil { // else the tail is being compared with what is stored
			p.recycle(d.data)
		}
		*d = outgoing{}
	}
	if n == 0 {
		return
	}
	s.tail = s.tail[n:]
	p.observeInFlight(s)
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
	if moved {
		p.signalAcked()
	}
}

// recycle keeps a large buffer for the next message. The client has copied it.
func (p *Publisher) recycle(b []byte) {
	if cap(b) >= p.messageBytes() && cap(b) <= 2*p.messageBytes() && len(p.free)*p.messageBytes() < p.window() {
		p.free = append(p.free, b[:0])
	}
}

// buffer gives an empty buffer for about size bytes.
func (p *Publisher) buffer(size int) []byte {
	if size < p.messageBytes()/2 {
		return make([]byte, 0, size)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free = p.free[:n-1]
		return b
	}
	return make([]byte, 0, p.messageBytes()+p.messageBytes()/8)
}

// packer makes the messages of one flush.
type packer struct {
	p    *Publisher
	s    *session
	ctx  context.Context
	most int // the largest body that can be sent
	full int // the size that a body is filled to

	packs []*pack // in the order of their first deltas
	at    map[shape]*pack
}

// pack is one message in the making, of one table and shape.
type pack struct {
	shape
	size int // about what is still to come of it
	body []byte
}

type shape struct {
	table  syncd.Table
	schema uint64
}

// pack sends deltas: those of one table and shape stay in their order; each message goes out when it is full.
func (b *packer) pack(deltas []syncd.Delta) error {
	var k *pack
	for i := range deltas {
		k = b.find(k, &deltas[i])
		k.size += lineBytes(&deltas[i])
	}
	for i := range deltas {
		k = b.find(k, &deltas[i])
		if err := b.add(k, &deltas[i]); err != nil {
			return err
		}
	}
	for _, k := range b.packs {
		if err := b.flush(k); err != nil {
			return err
		}
	}
	return nil
}

// find gives the pack that a delta belongs to; last is the one of the delta before.
func (b *packer) find(last *pack, d *syncd.Delta) *pack {
	is := shape{d.Table, d.Schema}
	if last != nil && last.shape == is {
		return last
	}
	k := b.at[is]
	if k == nil {
		if b.at == nil {
			b.at = make(map[shape]*pack)
		}
		k = &pack{shape: is}
		b.at[is] = k
		b.packs = append(b.packs, k)
	}
	return k
}

// lineBytes is about how long a delta's line is.
func lineBytes(d *syncd.Delta) int {
	return len(d.Row) + len(d.Key) + len(d.From) + 160
}

// add appends a delta's line. A line that no message could hold is written as a pointer.
func (b *packer) add(k *pack, d *syncd.Delta) error {
	line := lineBytes(d)
	if len(k.body) > 0 && len(k.body)+line > b.full {
		if err := b.flush(k); err != nil {
			return err
		}
	}
	k.size -= line
	if k.body == nil {
		k.body = b.p.buffer(min(line+max(k.size, 0), b.full))
	}
	from := len(k.body)
	if len(d.Row) <= b.most {
		k.body = AppendDelta(k.body, d)
	}
	if len(d.Row) > b.most || len(k.body)-from > b.most {
		d.Pointer, d.Row, d.Absent = true, nil, nil
		k.body = AppendDelta(k.body[:from], d)
	}
	if from > 0 && len(k.body) > b.most { // escapes made it longer than expected: it goes into a message of its own
		last := append([]byte(nil), k.body[from:]...)
		k.body = k.body[:from]
		if err := b.flush(k); err != nil {
			return err
		}
		k.body = last
	}
	if len(k.body) > b.most {
		return fmt.Errorf("%s: the key of %v has %d bytes and fits no message of %d bytes: raise the server's max_payload",
			d.Table, d.Version, len(d.Key), b.s.limit)
	}
	return nil
}

// flush sends what a pack holds.
func (b *packer) flush(k *pack) error {
	if len(k.body) == 0 {
		return nil
	}
	o := outgoing{subject: DeltaSubject(b.p.Name, k.table), data: k.body, header: b.header(3)}
	o.header[headerTable] = []string{tableHeader(k.table)}
	o.header[headerSchema] = []string{schemaText(k.schema)}
	k.body = nil
	return b.p.send(b.ctx, b.s, o)
}

func (b *packer) marker(m *syncd.Marker) error {
	data := AppendMarker(make([]byte, 0, 512), m)
	if len(data) > b.most {
		return fmt.Errorf("it has %d bytes, since it names %d tables, and fits no message of %d bytes: raise the server's max_payload",
			len(data), len(m.Counts)+len(m.Relist), b.s.limit)
	}
	return b.p.send(b.ctx, b.s, outgoing{subject: CommitSubject(b.p.Name), data: data, header: b.header(1), marker: true, through: m.Position()})
}

// header gives the headers that every message has, with room for more.
func (b *packer) header(more int) nats.Header {
	h := make(nats.Header, 3+more)
	h[headerFormat] = []string{strconv.Itoa(Format)}
	h[headerPublisher] = []string{b.s.id}
	h[nats.ExpectedStreamHdr] = []string{StreamName(b.p.Name)}
	return h
}
