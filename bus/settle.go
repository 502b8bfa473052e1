package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/syncd-io/syncd"
)

// Run takes acks, and settles the tail when the outcome of a message is not known. It returns nil when ctx ends; what is
// not acknowledged by then stays unknown. Errors end a session, not Run: see Err.
func (p *Publisher) Run(ctx context.Context) error {
	status := p.Conn.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	defer p.Conn.RemoveStatusListener(status)
	p.mu.Lock()
	p.wake = make(chan struct{}, 1)
	p.inbox = p.Conn.NewInbox()
	p.mu.Unlock()
	acks, err := p.Conn.Subscribe(p.inbox+".*.*", p.ack)
	if err != nil {
		return fmt.Errorf("listen for acks: %w", err)
	}
	defer func() {
		_ = acks.Unsubscribe() // fails where the connection is closed, and then there is nothing to take back
		p.listen(false)
	}()
	p.listen(true)
	tick := time.NewTicker(p.ackTimeout() / 5)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-tick.C:
			p.checkAge()
		case st := <-status:
			p.connectionLost(st)
		}
		p.settle(ctx)
	}
}

func (p *Publisher) ackTimeout() time.Duration {
	if p.AckTimeout > 0 {
		return p.AckTimeout
	}
	return defaultAckTimeout
}

func (p *Publisher) listen(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listening = on
	if s := p.session; !on && s != nil {
		p.end(s, errors.New("the publisher has been stopped"))
	}
	p.broadcast()
}

// checkAge stops sending when the oldest ack is overdue.
func (p *Publisher) checkAge() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.session; s != nil && len(s.tail) > 0 && time.Since(s.tail[0].sent) > p.ackTimeout() {
		err := fmt.Errorf("no ack of message %d within %v", s.tail[0].seq, p.ackTimeout())
		if last := p.Conn.LastError(); last != nil {
			err = fmt.Errorf("%w; NATS last reported: %w", err, last)
		}
		p.stop(s, err)
	}
}

func (p *Publisher) connectionLost(st nats.Status) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.session
	switch {
	case s == nil:
	case st == nats.CLOSED:
		p.end(s, nats.ErrConnectionClosed)
	case len(s.tail) > 0:
		p.stop(s, nats.ErrDisconnected)
	}
}

// settle finds out, where sending has stopped, what is stored, and sends the rest; again and again until it flows, the
// session ends or another begins, or ctx ends.
func (p *Publisher) settle(ctx context.Context) {
	for {
		p.mu.Lock()
		s := p.session
		if s == nil || s.stopped == nil || s.err != nil {
			p.mu.Unlock()
			return
		}
		failures, cause := s.failures, s.stopped
		s.failures++
		tail := slices.Clone(s.tail)
		p.mu.Unlock()
		quiet(p.Log).Warn("publishing stopped; reading back what is stored", logStream, StreamName(p.Name), logError, cause, logWait, settlePause(failures))
		if waitConnected(ctx, p.Conn) != nil || pause(ctx, settlePause(failures)) != nil {
			return
		}
		last, err := p.settleTail(ctx, s, tail)
		if ctx.Err() != nil {
			return
		}
		if fatal(cause) {
			err = cause
		}
		p.mu.Lock()
		switch {
		case err == nil:
			p.resend(s, last)
		case fatal(err) || errors.Is(err, syncd.ErrNoStream) && failures >= sureAfter:
			p.end(s, err)
		default:
			s.stopped = err
		}
		p.mu.Unlock()
	}
}

// settlePause is the pause before a settlement: none before the first.
func settlePause(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	return backoff(failures)
}

// errUnsettled ends a session that reading back can't save.
var errUnsettled = errors.New("the stream is not what was acknowledged")

func fatal(err error) bool {
	return errors.Is(err, syncd.ErrFenced) || errors.Is(err, errUnsettled) ||
		errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrMaxPayload)
}

// sureAfter is how many times in a row a stream has to be missing: a cluster that comes up may not know it yet.
const sureAfter = 3

// settleTail reads which messages of the tail are stored, and gives the last sequence that is. Each one has to be the
// very message that was sent: the expected sequences alone don't prove it where somebody else wrote in between.
func (p *Publisher) settleTail(ctx context.Context, s *session, tail []outgoing) (last uint64, err error) {
	info, err := p.api().info(ctx)
	if err != nil {
		return 0, err
	}
	last = info.State.LastSeq
	if len(tail) == 0 {
		return last, nil
	}
	first, next := tail[0].seq, tail[len(tail)-1].seq+1
	if last+1 < first {
		return 0, fmt.Errorf("%w: it ends at %d, and %d was acknowledged", errUnsettled, last, first-1)
	}
	if last >= next {
		return 0, fmt.Errorf("%w: the stream ends at %d, and %d was the last message sent", syncd.ErrFenced, last, next-1)
	}
	for i := range tail {
		if tail[i].seq > last {
			break
		}
		if tail[i].acked {
			continue
		}
		if err := p.settleMessage(ctx, s, &tail[i]); err != nil {
			return 0, err
		}
	}
	return last, nil
}

func (p *Publisher) settleMessage(ctx context.Context, s *session, o *outgoing) error {
	m, ok, err := p.api().get(ctx, messageRequest{Seq: o.seq})
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%w: message %d is gone before its outcome was known", errUnsettled, o.seq)
	}
	if m.Header.Get(headerPublisher) != s.id || m.Subject != o.subject || !bytes.Equal(m.Data, o.data) {
		return fmt.Errorf("%w: message %d on %s is not the one sent", syncd.ErrFenced, o.seq, m.Subject)
	}
	return nil
}

// resend lets go of the tail up to last and sends the rest again, in order. The lock is held.
func (p *Publisher) resend(s *session, last uint64) {
	if p.session != s || s.err != nil {
		return
	}
	failures := s.failures
	for len(s.tail) > 0 && s.tail[0].seq <= last {
		p.stored(s, s.tail[0].seq)
	}
	s.failures = failures // only an ack proves that it flows again
	s.attempt++
	s.stopped = nil
	s.heard = time.Now()
	for i := range s.tail {
		s.tail[i].acked = false
		if err := p.transmit(s, &s.tail[i]); err != nil {
			p.stop(s, err)
			break
		}
	}
	p.broadcast()
}
