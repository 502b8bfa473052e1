package syncd

import (
	"fmt"
	"time"
)

// Op is what a delta does to its key.
type Op uint8

// The operations of the wire form. Truncate is a delete for every key of the table, also for those not seen.
const (
	Upsert Op = iota + 1
	Delete
	Truncate
)

// String gives the operation's name on the wire.
func (o Op) String() string {
	switch o {
	case Upsert:
		return "upsert"
	case Delete:
		return "delete"
	case Truncate:
		return "truncate"
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// Delta is one change: the final state that one transaction gave one key (or, above the size of a transaction that the
// source keeps whole, one of several, in the order of their ordinals).
type Delta struct {
	Table Table
	Op    Op
	// Pointer marks an upsert whose row is too large for a message: Row is nil and has to be fetched.
	Pointer bool
	// Moved marks an upsert that came out of a change of key: From is the old key, which a delete of the same
	// transaction removes.
	Moved bool
	Key   Key // none for Truncate
	From  Key

	Version   Version
	XID       XID
	Committed time.Time // the commit's time by Postgres's clock; for people and delay metrics, never for order

	// Row is the row's JSON as row_to_json prints it, less the columns named in Absent. The receiver must not change it.
	Row []byte
	// Absent names the columns whose large values did not change and so are not in the stream (unchanged TOAST), in the
	// order of the row. They are filled from the row under the same key (Moved: under From) as it was just before.
	Absent []string
	// Schema is the hash of the table's shape that Row was made by.
	Schema uint64
}

// Marker ends a flush of the stream: everything up to Through is now published.
type Marker struct {
	Epoch    Epoch
	Previous LSN // Through of the marker before; 0 on an epoch's first
	Through  LSN
	// Part marks the end of a part of a transaction that is too large to be kept whole: Through stays where it was, and
	// what came since may be applied, so that readers may see the transaction in parts until the marker that passes it.
	Part bool
	// First is the stream sequence of the flush's first message; what lies before it and behind the previous marker is
	// the headless rest of a source that died, to be dropped. An empty flush has First equal to its own sequence.
	First uint64
	// Counts says how many distinct deltas of each table lie in (Previous, Through].
	Counts map[Table]int
	// Safe is the highest LSN such that every commit up to it is visible in a snapshot that the source took.
	Safe LSN
	// Commit and XID name the last commit up to Through that had deltas: what a restarted source must meet again. 0: none yet.
	Commit LSN
	XID    XID
	// Start is the consistent point of the epoch's slot.
	Start LSN
	// System and Timeline say whose LSNs these are.
	System   uint64
	Timeline uint32
	// Relist names tables that changed in a way the stream can't carry (a new shape, an attached partition), with the
	// reason: each is to be listed again at once.
	Relist map[Table]string
	// Catalog stands for what the source's last look at the catalog saw of its tables, in a form of the source's own. The
	// source that goes on from here finds by it what changed while nobody looked. Others have no use for it.
	Catalog string
	Sent    time.Time // by the source's clock
}

// Position is the marker's place: its epoch and Through.
func (m *Marker) Position() Position { return Position{m.Epoch, m.Through} }

// Flush is what a source publishes at a time: the deltas of one or more whole transactions in version order, and the
// marker that ends them. Whoever publishes it fills in the marker's First.
type Flush struct {
	Deltas []Delta
	Marker Marker
}

// Message is one message of the stream as a consumer gets it: the deltas of one table, or a marker.
type Message struct {
	Seq    uint64
	Deltas []Delta
	Marker *Marker
}

// Cursor is how far a consumer has come in the stream: the sequence of the last marker it applied, and what that marker
// said. The number alone proves nothing; the message under it must be that marker. The zero Cursor is "from the start".
type Cursor struct {
	Seq      uint64
	Position Position
}
