package api

import (
	"context"
	"log/slog"
	"time"

	"github.com/syncd-io/syncd"
)

// Marks asks the source to publish a marker now. It returns when the marker is published, at or past lsn; 0 is the
// server's current insert LSN. bus.Client implements it.
type Marks interface {
	Mark(ctx context.Context, at syncd.LSN) (syncd.Position, error)
}

// asker asks the source for a marker on behalf of all reads that wait: at most one request runs, and all that arrive
// meanwhile are served by the next. The LSN asked for is always the server's current one, which is no lower than any that
// a client can have got from it; one that is made up holds nobody else up.
type asker struct {
	hint chan struct{} // of one
}

func newAsker() asker { return asker{make(chan struct{}, 1)} }

// ask returns at once. An ask that the source does not hear is made good by the markers of an idle source.
func (a asker) ask() {
	select {
	case a.hint <- struct{}{}:
	default:
	}
}

// askTimeout bounds one request for a marker, so that a source that went away in the middle holds up no later ask.
const askTimeout = 2 * time.Second

// run passes asks on to the source until ctx ends.
func (a asker) run(ctx context.Context, m Marks, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.hint:
		}
		one, cancel := context.WithTimeout(ctx, askTimeout)
		if _, err := m.Mark(one, 0); err != nil && ctx.Err() == nil {
			log.Debug("ask the source for a marker", "error", err)
		}
		cancel()
	}
}
