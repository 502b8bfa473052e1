package sink

import (
	"context"

	"github.com/syncd-io/syncd"
)

// Stream is the stream of deltas and markers, as Feed follows it. Errors wrap syncd.ErrNoStream where there is no stream,
// and syncd.ErrFormat where a message needs a newer program.
type Stream interface {
	// Subscribe gives the messages behind the cursor. It proves that the message under the cursor is the marker that the
	// cursor remembers; where it is not, the error wraps syncd.ErrTooOld. The zero Cursor asks for all there is, which may be
	// nothing yet.
	Subscribe(ctx context.Context, c syncd.Cursor) (Subscription, error)
	// Tail gives the last marker of the stream and its sequence; ok is false where there is none.
	Tail(ctx context.Context) (m syncd.Marker, seq uint64, ok bool, err error)
	// Read gives the messages from..to once more, those that are still there, in the order of their sequence. Where some
	// can't be read the error wraps syncd.ErrMalformed, and the others may be given with it or not.
	Read(ctx context.Context, from, to uint64) ([]syncd.Message, error)
}

// Subscription gives a stream's messages in their order. It is used by one goroutine.
type Subscription = interface {
	// Next waits for the next message, which is the receiver's to keep and not to change. An error that wraps
	// syncd.ErrMalformed concerns one message, and the call after it gives the one behind; after any other error but that
	// of ctx the subscription is of no more use. It goes on by itself after the connection broke; where the stream no longer
	// has what comes next, the error wraps syncd.ErrTooOld.
	Next(ctx context.Context) (syncd.Message, error)
	Close() error
}
