package sink

import (
	"time"

	"github.com/syncd-io/syncd"
)

// Entry is what a cache holds under one key: a row, or the fact that there is none, and where that came from.
type Entry struct {
	// Row is the row's JSON; nil where the key is absent (a tombstone). It is never changed once stored, so readers may
	// keep it.
	Row []byte
	// Version and XID are those of the delta that set the entry. Version.Epoch is always set; the rest is zero where a
	// list set it.
	Version syncd.Version
	XID     syncd.XID
	// Snap is the snapshot of the list page, or of the fetched row, that set the entry; nil where a delta did.
	Snap *syncd.Snapshot
	// Pending says that the delta of Version left the row unknown (its absent columns could not be filled, or it was a
	// pointer): Row is still the one before, and the key is to be fetched.
	Pending bool
}

// Seen names a delta that an answer must see before it may settle an open key.
type Seen struct {
	Version syncd.Version
	XID     syncd.XID
}

// Open is a key that could not be decided, or has to be fetched. It stays marked, across restarts, until an answer sees
// every delta of Deltas and is later than every snapshot of Snaps.
type Open struct {
	// Snaps are the snapshots that could not be ordered against what is held; less those that another one of them
	// contains.
	Snaps []*syncd.Snapshot
	// Deltas are the oldest and the newest of the deltas in question. Those between need no mention: along one key
	// whoever sees a change sees all before it.
	Deltas []Seen
	// Reason says why, in words for people; Parked marks a key whose delta could not be applied.
	Reason string
	Parked bool
	Since  time.Time
}

// Verified says through which version a whole table has been proved equal to Postgres, and when.
type Verified struct {
	Position syncd.Position
	At       time.Time
}

// TableState is what a cache knows of one table beside its entries. It is stored with them.
type TableState struct {
	Info syncd.TableInfo
	// Listed says that a first complete list was applied and the stream has passed it: the table may be served.
	Listed bool
	// Floor is the oldest snapshot of the last complete list; it never moves back. A delta that it sees is dropped for
	// every key.
	Floor *syncd.Snapshot
	// Truncated is the last TRUNCATE: a delete for every key, also for those without an entry.
	Truncated Seen
	// Loss is the Through of the last marker at which deltas of the table were found missing; 0 where no loss is open.
	// While it is open, Through stands still and nothing is filled from the table's rows.
	Loss syncd.LSN
	// LastLoss keeps Loss after it was closed, to tell a stale row from a corrupt one.
	LastLoss syncd.LSN
	// Ahead is how far rows may be ahead of Through until the stream has passed it: the highest H of the pages that were
	// applied before the stream had passed them, or where the cache was before the stream lost its end.
	Ahead syncd.LSN
	// Through is how far the table is complete: the cache's, or where it stood when a loss opened.
	Through syncd.Position
	// Sent and Applied are the times, as State's, of the last marker that moved Through: the table was all of Postgres then.
	Sent, Applied time.Time
	// Open are the undecided, pending and parked keys.
	Open map[syncd.Key]Open
	// Verified is moved by complete comparisons only.
	Verified Verified
	// Resynced is when the last complete list or comparison ended, kept across restarts.
	Resynced time.Time
	// Relist says why the table is to be listed at once; empty where no cause is open. RelistAt is where the stream stood
	// when it came: the cause ends with a complete list whose least Safe has reached that.
	Relist   string
	RelistAt syncd.LSN
	// Changed says that the table itself is why: it was made anew, its partitions, its shape or what the publication holds of
	// it changed. Rows that the list lacks have gone with that, however many they are.
	Changed bool
	// Stopped says that a list would have deleted more than max_prune allows; empty where none did.
	Stopped string
	// Rows counts the entries that hold a row. The store keeps it.
	Rows int
}

// Complete says how far all rows of a table are complete: its Through, or just below the first change whose row is not known yet.
func (t *TableState) Complete() syncd.Position {
	p := t.Through
	for _, o := range t.Open {
		p = o.below(p)
	}
	return p
}

// CompleteAt says the same of the row under a key.
func (t *TableState) CompleteAt(k syncd.Key) syncd.Position {
	if len(t.Open) == 0 {
		return t.Through
	}
	o := t.Open[k]
	return o.below(t.Through)
}

// below gives p, or what lies just below the first change in question.
func (o *Open) below(p syncd.Position) syncd.Position {
	for _, d := range o.Deltas {
		before := syncd.Position{Epoch: d.Version.Epoch, LSN: d.Version.LSN - 1}
		if d.Version.LSN > 0 && before.Compare(p) < 0 {
			p = before
		}
	}
	return p
}

// State is what a cache knows beside its entries. It is stored with them, in one commit.
type State struct {
	// Cursor is the last marker applied; Cursor.Position is through where everything is in.
	Cursor syncd.Cursor
	// System, Timeline and Start are those of the epoch's markers.
	System   uint64
	Timeline uint32
	Start    syncd.LSN
	// Safe is the highest Safe of the epoch's markers so far.
	Safe syncd.LSN
	// Sent is the source's clock at the last marker; Applied is ours when it was applied.
	Sent, Applied time.Time
	Tables        map[syncd.Table]*TableState
}

// Write sets or removes one entry.
type Write struct {
	Table  syncd.Table
	Key    syncd.Key
	Entry  Entry
	Remove bool // take the entry away without a trace (a collected tombstone)
}

// Batch is what one commit changes: Drop first, then Writes, then State.
type Batch struct {
	// Writes hold no key of a table twice.
	Writes []Write
	// State replaces the store's. It and all its TableStates are fresh ones, that nobody else reads before the commit is
	// visible, so the store copies nothing but sets the Rows of each. nil leaves the state as it is, but for Rows.
	State *State
	// Drop names tables whose entries all go, without tombstones.
	Drop []syncd.Table
}

// Store keeps the entries of one cache in memory or in a server. It decides nothing: Cache asks the gate and is the only
// caller of Commit.
//
// Load, Commit and Walk are called by one goroutine at a time; View by any number, at any time. A Store copies the keys and
// rows it is given; what it gives out stays valid and unchanged. An error that wraps ErrReset says that State is another than
// before.
type Store interface {
	// Load gives the entry under a key, tombstones too.
	Load(t syncd.Table, k syncd.Key) (Entry, bool, error)
	// Commit makes all of b visible at once: a View taken before sees none of it, one taken after sees all. After an
	// error nothing of b is visible.
	Commit(b *Batch) error
	// Walk calls fn for each entry of a table, tombstones too, in ascending order of the key's hash (keys of one hash in
	// ascending order of the key), beginning with hash from, until fn gives false. fn must not call the store.
	Walk(t syncd.Table, from uint64, fn func(syncd.Key, Entry) bool) error
	// State gives what the last commit set, before the first an empty State; never nil. The caller must not change it.
	State() *State
	// View gives one commit's state to read from. It must be closed soon: it may hold up commits.
	View() View
	// Close gives up what the store holds.
	Close() error
}

// View is one commit of a store, for readers.
type View interface {
	State() *State
	// Get gives the entry under a key, tombstones too.
	Get(t syncd.Table, k syncd.Key) (Entry, bool)
	// Rows calls fn for each entry that holds a row, in the order of Store.Walk, until fn gives false.
	Rows(t syncd.Table, from uint64, fn func(syncd.Key, Entry) bool)
	// Err gives what kept Get or Rows from reading, where the store is not in this process's memory: what they gave then is
	// no answer. nil: everything was read.
	Err() error
	Close()
}
