package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/syncd-io/syncd"
)

// subscription reads a stream through a pull consumer without acks. It starts no goroutine: everything happens in Next.
//
// The client library's ordered consumer is not used, since it goes on by number alone after a reconnect.
type subscription struct {
	s      *Stream
	cursor syncd.Cursor
	dec    decoder

	// The last message handed out, by the server's clock: same sequence and time, same message.
	lastSeq  uint64
	lastTime time.Time

	consumer  string
	inbox     string
	sub       *nats.Subscription
	msgs      chan *nats.Msg
	pulls     []pull // open, oldest first: the server fills them in this order
	pullCount uint64
	delivered uint64    // the consumer's own count of messages, to notice one that the client dropped
	heard     time.Time // when the server last sent anything

	status chan nats.Status
	timer  *time.Timer
	broken error // why the consumer has to be made anew
	dead   error // why the subscription can't go on
}

// pull is a request for messages that is not yet filled.
type pull struct {
	subject  string
	messages int
	bytes    int
}

// Next implements Subscription.
func (b *subscription) Next(ctx context.Context) (syncd.Message, error) {
	for {
		if b.dead != nil {
			return syncd.Message{}, b.dead
		}
		if b.broken != nil {
			if err := b.restart(ctx); err != nil {
				return syncd.Message{}, err
			}
			continue
		}
		b.refill()
		m, err := b.receive(ctx)
		if err != nil {
			return syncd.Message{}, err
		}
		if m == nil {
			continue
		}
		if got, ok, err := b.take(m); ok {
			return got, err
		}
	}
}

// Poll is Next without the wait: ok is false where the next message has not arrived yet.
func (b *subscription) Poll(context.Context) (got syncd.Message, ok bool, err error) {
	for b.dead == nil && b.broken == nil {
		b.refill()
		select {
		case m := <-b.msgs:
			if got, ok, err := b.take(m); ok {
				return got, true, err
			}
		default:
			return got, false, nil
		}
	}
	return got, false, nil // Next says why, or mends it
}

// take gives the message that the server sent, ok where it is one of the stream, in its turn.
func (b *subscription) take(m *nats.Msg) (got syncd.Message, ok bool, err error) {
	meta, ok := b.accept(m)
	if !ok {
		return got, false, nil
	}
	b.lastSeq, b.lastTime = meta.Sequence.Stream, meta.Timestamp
	got, err = b.dec.message(m.Subject, meta.Sequence.Stream, m.Header, m.Data)
	return got, true, err
}

// receive waits for what the server sends; nil where the state has changed instead.
func (b *subscription) receive(ctx context.Context) (*nats.Msg, error) {
	select {
	case m := <-b.msgs:
		return m, nil
	default:
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.timer.Reset(time.Until(b.heard.Add(2*b.heartbeat() + b.heartbeat()/2)))
	select {
	case m := <-b.msgs:
		return m, nil
	case st := <-b.status:
		if st == nats.CLOSED {
			b.dead = fmt.Errorf("stream %s: %w", StreamName(b.s.Name), nats.ErrConnectionClosed)
		} else {
			b.broken = nats.ErrDisconnected
		}
	case <-b.timer.C:
		b.broken = errors.New("the consumer has fallen silent")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return nil, nil
}

func (b *subscription) heartbeat() time.Duration {
	if b.s.Heartbeat > 0 {
		return b.s.Heartbeat
	}
	return defaultHeartbeat
}

// accept takes a message of the server in: ok where it is one of the stream, in its turn.
func (b *subscription) accept(m *nats.Msg) (*nats.MsgMetadata, bool) {
	b.heard = time.Now()
	if m.Reply == "" || len(m.Data) == 0 && m.Header.Get("Status") != "" {
		b.statusMessage(m)
		return nil, false
	}
	b.charge(m.Size())
	meta, err := m.Metadata()
	switch {
	case err != nil:
		b.broken = fmt.Errorf("a delivery can't be read: %w", err)
	case meta.Sequence.Consumer != b.delivered+1:
		b.broken = fmt.Errorf("delivery %d followed %d: the client dropped some", meta.Sequence.Consumer, b.delivered)
	case meta.Sequence.Stream <= b.lastSeq:
		b.broken = fmt.Errorf("message %d followed %d", meta.Sequence.Stream, b.lastSeq)
	default:
		b.delivered++
		if b.s.Observer != nil {
			b.s.Observer.Behind(meta.NumPending)
		}
		return meta, true
	}
	return nil, false
}

// statusMessage takes in what the server says of a pull.
func (b *subscription) statusMessage(m *nats.Msg) {
	code, text := m.Header.Get("Status"), m.Header.Get("Description")
	switch code {
	case "100": // a heartbeat
	case "404", "408", "409":
		i := slices.IndexFunc(b.pulls, func(p pull) bool { return p.subject == m.Subject })
		if i >= 0 {
			b.pulls = slices.Delete(b.pulls, i, i+1)
		}
		switch text {
		case "Request Timeout", "No Messages", "Message Size Exceeds MaxBytes", "Batch Completed", "Interest Expired":
		default: // deleted, a change of leader, a limit of the server's
			b.broken = fmt.Errorf("the server says: %s %s", code, text)
		}
	default: // 503: nobody has the consumer
		b.broken = fmt.Errorf("the server says: %s %s", code, text)
	}
}

// charge counts a delivery of n bytes against the oldest pull, the way the server does.
func (b *subscription) charge(n int) {
	if len(b.pulls) == 0 {
		return
	}
	p := &b.pulls[0]
	p.messages--
	p.bytes -= n
	if p.messages <= 0 || p.bytes <= 0 {
		b.pulls = slices.Delete(b.pulls, 0, 1)
	}
}

// refill keeps pulls open. What the open pulls allow and what lies in the channel never exceeds the buffer.
func (b *subscription) refill() {
	for len(b.pulls) < pullsOpen {
		b.pullCount++
		p := pull{subject: b.inbox + "." + strconv.FormatUint(b.pullCount, 10), messages: pullMessages, bytes: b.pullBytes()}
		body, err := json.Marshal(struct {
			Expires   time.Duration `json:"expires"`
			Batch     int           `json:"batch"`
			MaxBytes  int           `json:"max_bytes"`
			Heartbeat time.Duration `json:"idle_heartbeat"`
		}{pullExpires, p.messages, p.bytes, b.heartbeat()})
		if err == nil {
			err = b.s.Conn.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+StreamName(b.s.Name)+"."+b.consumer, p.subject, body)
		}
		if err != nil {
			b.broken = fmt.Errorf("ask for messages: %w", err)
			return
		}
		b.pulls = append(b.pulls, p)
		b.heard = time.Now()
	}
}

func (b *subscription) pullBytes() int {
	size := b.s.Buffer
	if size <= 0 {
		size = defaultBuffer
	}
	// One message counts with its subjects and headers, which max_payload does not hold.
	return max(size/pullsOpen, int(b.s.Conn.MaxPayload())+8<<10)
}

// restart makes the consumer anew, again and again until it works, the stream is proved to be another, or ctx ends.
func (b *subscription) restart(ctx context.Context) error {
	why := b.broken
	if b.s.Observer != nil {
		b.s.Observer.Resubscribed(why)
	}
	quiet(b.s.Log).Warn("subscribing again", logStream, StreamName(b.s.Name), logError, why, logSeq, b.lastSeq)
	var gone time.Time
	for attempt := 0; ; attempt++ {
		b.stop()
		err := waitConnected(ctx, b.s.Conn)
		if err == nil {
			err = b.start(ctx)
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, syncd.ErrTooOld), errors.Is(err, syncd.ErrFormat):
			b.dead = fmt.Errorf("subscribe again to stream %s: %w", StreamName(b.s.Name), err)
			return b.dead
		case !errors.Is(err, syncd.ErrNoStream):
			gone = time.Time{}
		case gone.IsZero():
			gone = time.Now()
		case time.Since(gone) > goneFor:
			b.dead = fmt.Errorf("stream %s is gone: %w: %w", StreamName(b.s.Name), syncd.ErrTooOld, err)
			return b.dead
		}
		if err := pause(ctx, min(backoff(attempt), time.Second)); err != nil {
			return err
		}
	}
}

// start makes a consumer behind the last message, and proves that the stream is still the same.
func (b *subscription) start(ctx context.Context) error {
	b.drainStatus()
	js, err := jetstream.New(b.s.Conn)
	if err != nil {
		return err
	}
	b.consumer, b.inbox = "syncd_"+newID(), b.s.Conn.NewInbox()
	b.msgs = make(chan *nats.Msg, 2*pullsOpen*pullMessages)
	if b.sub, err = b.s.Conn.ChanSubscribe(b.inbox+".*", b.msgs); err != nil {
		return err
	}
	create, cancel := whileConnected(ctx, b.s.Conn, apiTimeout)
	defer cancel()
	_, err = js.CreateConsumer(create, StreamName(b.s.Name), jetstream.ConsumerConfig{
		Name:              b.consumer,
		Description:       "syncd: " + b.s.Conn.Opts.Name,
		AckPolicy:         jetstream.AckNonePolicy,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       max(b.lastSeq, b.cursor.Seq) + 1,
		InactiveThreshold: consumerIdle,
		MemoryStorage:     true,
		Replicas:          1,
	})
	if err != nil {
		return b.s.api().explain(ctx, err)
	}
	b.pulls, b.delivered, b.heard, b.broken = b.pulls[:0], 0, time.Now(), nil
	return b.verify(ctx)
}

// drainStatus forgets what happened to the connection before this attempt.
func (b *subscription) drainStatus() {
	for {
		select {
		case _, open := <-b.status:
			if !open {
				return
			}
		default:
			return
		}
	}
}

// verify proves that the message before the first to come is the one it was. It is asked after the consumer was made, so
// that a stream that was deleted in between has taken the consumer with it.
func (b *subscription) verify(ctx context.Context) error {
	seq := max(b.lastSeq, b.cursor.Seq)
	if seq == 0 {
		return nil
	}
	m, ok, err := b.s.api().get(ctx, messageRequest{Seq: seq})
	if err != nil && !errors.Is(err, syncd.ErrMalformed) {
		return err
	}
	if !ok {
		return fmt.Errorf("%w: message %d is not on the stream (it was dropped by the stream's limits, purged, or the stream is another)", syncd.ErrTooOld, seq)
	}
	if b.lastSeq > 0 {
		if !m.Time.Equal(b.lastTime) {
			return fmt.Errorf("%w: message %d is of %v, the one received was of %v: the stream is another, or lost its tail", syncd.ErrTooOld, seq, m.Time, b.lastTime)
		}
		return nil
	}
	dec := decoder{name: b.s.Name}
	got, err := dec.message(m.Subject, m.Seq, m.Header, m.Data)
	if errors.Is(err, syncd.ErrFormat) {
		return err
	}
	if err != nil || got.Marker == nil || got.Marker.Position() != b.cursor.Position {
		return fmt.Errorf("%w: message %d is not the marker of %v", syncd.ErrTooOld, seq, b.cursor.Position)
	}
	return nil
}

// stop takes the consumer back without waiting for the answer.
func (b *subscription) stop() {
	if b.sub == nil {
		return
	}
	_ = b.sub.Unsubscribe() // fails only where the connection is closed or the subscription gone already
	b.sub = nil
	// Without an answer to wait for: a consumer that this does not reach is taken away by the server when it has been idle.
	_ = b.s.Conn.Publish("$JS.API.CONSUMER.DELETE."+StreamName(b.s.Name)+"."+b.consumer, nil)
}

// Close implements Subscription. It waits for nothing but the client's buffer.
func (b *subscription) Close() error {
	b.stop()
	b.timer.Stop()
	b.s.Conn.RemoveStatusListener(b.status)
	if b.dead == nil {
		b.dead = errors.New("the subscription is closed")
	}
	return nil
}
