package resync

import (
	"context"
	"time"

	"github.com/syncd-io/syncd"
)

// Lister reads tables from the source's list service. Its errors wrap syncd.ErrBusy where as many lists run as the source
// allows, and syncd.ErrNoTable where the source does not sync the table. It is called from many goroutines. What it gives
// belongs to the caller.
type Lister interface {
	// Tables gives what the source syncs, refused tables too.
	Tables(ctx context.Context) ([]syncd.TableInfo, error)
	// List gives one page of a table, in the order of its key.
	List(ctx context.Context, r syncd.ListRequest) (*syncd.Page, error)
	// Digest gives the digest of a table in as many buckets as were asked for.
	Digest(ctx context.Context, r syncd.DigestRequest) (*syncd.Digest, error)
	// Get gives single keys as one snapshot shows them.
	Get(ctx context.Context, r syncd.GetRequest) (*syncd.Page, error)
}

// Marks asks the source to publish a marker at or past an LSN now, and returns when it is published.
type Marks interface {
	Mark(ctx context.Context, at syncd.LSN) (syncd.Position, error)
}

// State is what a cache knows of one table beside its rows, as far as a resync needs it. While a cache is being built
// beside the one that is read (a new epoch), it is the state in the one being built.
type State struct {
	Table syncd.Table
	// Refused says why the source can't sync the table; empty where it does.
	Refused string
	// Listed: a first complete list was applied, and the stream has passed it. Until then pages are applied as they come.
	Listed bool
	// Rows counts the rows; Served those that readers see now, which is another number while a cache is being built.
	Rows, Served int
	// Cause says why the table is to be listed at once; empty where no cause is open.
	Cause string
	// Changed: the cause is that the table itself changed, so that rows which the list lacks have gone with that, however
	// many they are.
	Changed bool
	// Loss is the open loss: the list has to be repeated until each page's Safe has reached it; 0: none.
	Loss syncd.LSN
	// Open counts the keys that are undecided or to be fetched, the parked among them; Parked those alone.
	Open, Parked int
	// Stopped says why the last run stopped before it deleted anything; empty where it did not.
	Stopped string
	// Resynced is when the last complete run ended; zero: never.
	Resynced time.Time
	// Floor is the oldest snapshot of the last complete run; nil: there was none. Pages that are not later prove nothing.
	Floor *syncd.Snapshot
}

// Held is what a cache holds under one key, as far as a resync needs it.
type Held struct {
	Row bool // a row; else a tombstone
	// Version and XID are those of the delta that set it; where a list did, Snap is the page's snapshot.
	Version syncd.Version
	XID     syncd.XID
	Snap    *syncd.Snapshot
}

// The kinds of difference between a cache and Postgres, as reports name them.
const (
	Missing = "missing" // in Postgres, not in the cache
	Stale   = "stale"   // an older state of the row
	Ghost   = "ghost"   // in the cache, not in Postgres
	Corrupt = "corrupt" // the right version and the wrong content
	// Unclear is the kind of a key whose page could not be ordered against what the cache holds: it is fetched singly.
	Unclear = "undecided"
)

// Finding is one key that a page shows otherwise than the cache held it.
type Finding struct {
	Key  syncd.Key
	Kind string // Missing, Stale, Ghost, Corrupt or Unclear
}

// How says how a page is to be judged.
type How struct {
	// Dry: nothing is changed.
	Dry bool
	// Early: the page is judged though the table is served and the stream, which stands still, has not passed the page's H.
	Early bool
}

// List is the account of a complete list of a table: all pages arrived and were judged, and so was the answer to a get of
// every key that the cache holds and no page returned. Where a digest was compared first, its equal buckets count as
// listed, and its snapshot as a page's.
type List struct {
	Table    syncd.Table
	Schema   uint64
	Selector string // of all pages and answers
	// Snapshots are those of the pages, all of one epoch.
	Snapshots []*syncd.Snapshot
	// Safe is the least Safe of all pages and answers. A loss or a cause that came since the first page was read lies
	// above it, and is not healed.
	Safe syncd.LSN
	// Early says that a page was judged early: nothing can be claimed of the list.
	Early bool
}

// Cache is the cache that a resync compares and repairs. All changes go through its gate. Methods may be called from many
// goroutines.
type Cache interface {
	// States gives the state of each table.
	States() []State
	// Changed gives a channel that is closed at a later change of what States and Through say.
	Changed() <-chan struct{}
	// Through is how far the stream was applied.
	Through() syncd.Position
	// Judge has the gate judge each row of a page, and each key that was asked for and is absent, and applies what wins as
	// one commit. It keeps nothing of the page but its snapshot. It refuses pages of another epoch, server or shape than its
	// own, and those that the stream has not passed unless the table serves nothing yet or How is Early. Of a table
	// that serves nothing yet it finds nothing.
	Judge(p *syncd.Page, how How) ([]Finding, error)
	// Compare compares a digest with the table as one commit holds it. It refuses what Judge would refuse of a page; its error
	// wraps ErrNoDigest where the table has to be listed whole. It changes nothing.
	Compare(d *syncd.Digest, how How) (*Comparison, error)
	// Digest gives the cache's own totals of a table in 2^bits hash buckets.
	Digest(t syncd.Table, bits int) ([]syncd.Totals, error)
	// Walk calls fn for what is held under each key of a table, tombstones too, in ascending order of the key's hash,
	// beginning with hash from, until fn gives false. fn must be quick and must not call the cache.
	Walk(t syncd.Table, from uint64, fn func(syncd.Key, Held) bool) error
	// Done hands over a complete list: the cache moves its floor, ends the loss and the cause that the list heals, serves
	// the table from now on, and claims what is proved. position is what the table is now verified through; claimed is false
	// where something stood in the way.
	Done(ctx context.Context, l *List) (position syncd.Position, claimed bool, err error)
	// Stop marks a table whose list would have deleted too much. Done takes the mark away.
	Stop(t syncd.Table, why string) error
}
