package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/syncd-io/syncd"
)

// StreamObserver is told how reading goes.
type StreamObserver interface {
	// Resubscribed is called when a subscription has to make its consumer anew, with why.
	Resubscribed(err error)
	// Behind is called with each message: how many more the stream has by now.
	Behind(messages uint64)
}

// Stream reads a sync's stream.
type Stream struct {
	Conn *nats.Conn
	Name string // of the sync
	// Buffer bounds the bytes that a subscription has asked for and not yet handed out; 0 is 8 MiB. It is raised to twice
	// the server's largest message where it is less.
	Buffer int
	// Heartbeat is how often the server says that a quiet consumer is still there; after two missed ones the consumer is
	// made anew. 0 is 3 s.
	Heartbeat time.Duration
	Log       *slog.Logger   // nil is quiet
	Observer  StreamObserver // nil is none
}

// Subscription gives a stream's messages in their order. It is used by one goroutine.
//
// Next waits for the next message, which is the receiver's to keep and not to change. An error that wraps
// syncd.ErrMalformed or syncd.ErrFormat concerns one message, and the call after it gives the one behind; after any other
// error but that of ctx the subscription is of no more use. Close takes the consumer back.
type Subscription = interface {
	Next(ctx context.Context) (syncd.Message, error)
	Close() error
}

const (
	defaultBuffer    = 8 << 20
	defaultHeartbeat = 3 * time.Second
	// pullMessages and pullsOpen bound what is asked for by number; the bytes are split among the open pulls.
	pullMessages = 1024
	pullsOpen    = 2
	// pullExpires is how long the server keeps a pull that it can't fill.
	pullExpires = 30 * time.Second
	// consumerIdle is after how long without a pull the server takes a consumer away whose owner died.
	consumerIdle = 5 * time.Minute
	// goneFor is how long a stream has to be missing under a subscription before it counts as deleted.
	goneFor = 2 * time.Second
)

func (s *Stream) api() streamAPI { return streamAPI{s.Conn, StreamName(s.Name)} }

// Subscribe gives the messages behind the cursor. The message under the cursor has to be the marker that the cursor
// remembers, else the error wraps syncd.ErrTooOld: a consumer that starts beyond the end of a stream that was made anew,
// or before its first message, would skip without a word. The zero Cursor asks for all there is, which may be nothing
// yet. The error wraps syncd.ErrNoStream where there is no stream.
func (s *Stream) Subscribe(ctx context.Context, c syncd.Cursor) (Subscription, error) {
	sub := &subscription{s: s, cursor: c, dec: decoder{name: s.Name}}
	sub.timer = time.NewTimer(0)
	sub.status = s.Conn.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	if err := sub.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to stream %s behind %d: %w", StreamName(s.Name), c.Seq, err), sub.Close())
	}
	return sub, nil
}

// Tail gives the last marker of the stream and its sequence; ok is false where there is none.
func (s *Stream) Tail(ctx context.Context) (m syncd.Marker, seq uint64, ok bool, err error) {
	m, seq, ok, err = s.api().lastMarker(ctx, s.Name)
	if err != nil {
		return m, 0, false, fmt.Errorf("read the last marker: %w", err)
	}
	return m, seq, ok, nil
}

// Read gives the messages from..to once more, those that are still there, in the order of their sequence. Where some
// can't be read the error wraps syncd.ErrMalformed, and the others are given with it.
func (s *Stream) Read(ctx context.Context, from, to uint64) ([]syncd.Message, error) {
	dec := decoder{name: s.Name}
	var list []syncd.Message
	var bad error
	for seq := max(from, 1); seq <= to; {
		got, ok, err := s.api().get(ctx, messageRequest{Seq: seq, NextFor: ">"})
		if err != nil && !errors.Is(err, syncd.ErrMalformed) {
			return nil, fmt.Errorf("read messages %d to %d of stream %s: %w", from, to, StreamName(s.Name), err)
		}
		if !ok || got.Seq > to {
			break
		}
		seq = got.Seq
		var m syncd.Message
		if err == nil {
			m, err = dec.message(got.Subject, got.Seq, got.Header, got.Data)
		}
		if err != nil {
			bad = errors.Join(bad, err)
		} else {
			list = append(list, m)
		}
		seq++
	}
	return list, bad
}
