package remote

import (
	"context"
	"errors"
	"fmt"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// ErrMoved says that a place is at another mark than whoever changes it believes. Nothing was changed.
var ErrMoved = errors.New("the place is at another commit")

// InUseError says that another process has the place.
type InUseError struct {
	Place string // which one, in words for people
	By    string // who has it
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("%s is in use by %s: stop that one, or name another place here", e.Place, e.By)
}

// Mark names a commit of a place.
type Mark struct {
	// Gen is the generation: empty where the place was never begun. Of two generations of one place the later one's is greater.
	Gen string
	// Seq counts the generation's commits.
	Seq uint64
	// Nonce is drawn for each commit: it tells whether a commit of this Seq is one's own.
	Nonce string
}

// Found is what a place holds under a key.
type Found struct {
	sink.Entry
	Held bool // there is an entry
	// Counted says that the entry was written with a row. Where Entry.Row is nil nevertheless the row is gone, and the entry
	// stands for a tombstone of the same version, until a list brings the row back.
	Counted bool
}

// Item is an entry and its key.
type Item struct {
	Key syncd.Key
	Found
}

// Change is one commit of a place.
type Change struct {
	From, To Mark
	// Drop names tables whose entries all go, before the writes; New tables that the place did not have, of which nothing may
	// be left from earlier.
	Drop, New []syncd.Table
	// Writes are those of a sink.Batch. Before holds what was under their keys.
	Writes []sink.Write
	Before func(t syncd.Table, k syncd.Key) Found
	// State is the state behind the commit, complete.
	State *sink.State
}

// Place is a part of a server that holds one cache: its entries, and its state with them.
//
// Take, Begin and Apply are called by one goroutine at a time; Fetch and Scan by any number, at any time.
type Place interface {
	// Take makes the place this process's, or finds that it is, and finishes a commit that was decided and not yet carried
	// out in full. It gives what the place holds: the zero Mark and nil where nobody ever began it. Where another process has
	// it the error is an *InUseError.
	Take(ctx context.Context) (Mark, *sink.State, error)
	// Begin throws away what the place holds, of these tables too whatever is left of earlier, and begins a generation with a
	// state.
	Begin(ctx context.Context, gen string, s *sink.State) (Mark, error)
	// Apply makes a commit: all or nothing of it is there in the end, also when it is broken off. The error wraps ErrMoved, or is
	// an *InUseError, where nothing was done; after any other the outcome is unknown, and Take tells.
	Apply(ctx context.Context, c *Change) error
	// Fetch reads entries, as many as there are keys and in their order, and the place's mark in the same moment.
	Fetch(ctx context.Context, t syncd.Table, keys []syncd.Key) ([]Found, Mark, error)
	// Scan reads the entries of a table from a hash on, in the order of sink.Store.Walk, and the mark: some, and where to go
	// on; more is false where there are no others. A hash is given as a whole.
	Scan(ctx context.Context, t syncd.Table, from uint64) (s Stretch, m Mark, err error)
	// Release gives the place up for other processes.
	Release(ctx context.Context) error
	Close() error
}

// Stretch is a part of a table: its entries from one hash to below Next, and more says whether there may be others behind.
type Stretch struct {
	Items []Item
	Next  uint64
	More  bool
}
