package source

import (
	"context"

	"github.com/syncd-io/syncd"
)

// Publisher takes what a Watch reads to the stream, in order, and is where a Watch finds its place again. It is used by one
// Watch; Publish is called by one goroutine at a time, Acked by another at any time.
type Publisher interface {
	// Last gives the stream's last marker as the stream's leader has it, and its sequence, and makes the publisher go on
	// behind it: it forgets every flush that was not acknowledged and is no longer fenced. ok is false where the stream
	// exists and holds no marker; the error wraps syncd.ErrNoStream where there is no stream.
	Last(ctx context.Context) (m syncd.Marker, seq uint64, ok bool, err error)
	// Create makes the stream. recreate says that it was deleted and that somebody asked for it to be made anew.
	Create(ctx context.Context, recreate bool) error
	// Publish hands over a flush, which is the publisher's from then on, and fills in its marker's First. It returns as
	// soon as the flush is on its way, and waits while too much is. Flushes reach the stream whole and in order, or not
	// at all: after an error nothing that was handed over later does. The error wraps syncd.ErrFenced where another
	// source has written to the stream.
	Publish(ctx context.Context, f *syncd.Flush) error
	// Acked gives the position of the last marker that the stream has acknowledged, with all before it. The channel is
	// closed when that moves, or when publishing broke.
	Acked() (syncd.Position, <-chan struct{})
	// Err says why publishing broke: nil while it goes on. It is for flushes that were handed over and failed since.
	Err() error
}
