package source

import (
	"time"

	"github.com/syncd-io/syncd"
)

// Observer is told what a source does, for metrics. Its methods are called from several goroutines and must not block.
type Observer interface {
	// Changed counts n changes of a table that were handed to the publisher.
	Changed(t syncd.Table, op syncd.Op, n int)
	// Published says how long a flush took from its last commit's arrival until JetStream acknowledged it.
	Published(d time.Duration)
	// Slot says how many bytes of log the slot holds back, and how far its confirmed position is behind the server's.
	Slot(retained, lag uint64)
	// Listed counts a page that was read for a list or a digest: its rows, and the bytes of JSON it sends, which a digest
	// does not.
	Listed(t syncd.Table, rows, bytes int)
	// Leader says whether this source is the one that publishes.
	Leader(is bool)
	// Reconnected counts a connection to Postgres or an attempt to publish that had to be made anew.
	Reconnected()
}

// Unobserved is the Observer that does nothing.
type Unobserved struct{}

// Changed does nothing.
func (Unobserved) Changed(syncd.Table, syncd.Op, int) {}

// Published does nothing.
func (Unobserved) Published(time.Duration) {}

// Slot does nothing.
func (Unobserved) Slot(uint64, uint64) {}

// Listed does nothing.
func (Unobserved) Listed(syncd.Table, int, int) {}

// Leader does nothing.
func (Unobserved) Leader(bool) {}

// Reconnected does nothing.
func (Unobserved) Reconnected() {}
