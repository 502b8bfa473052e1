package explain

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/sink"
)

// Source reads single keys from Postgres, and has markers sent. bus.Client implements it.
type Source interface {
	Get(ctx context.Context, q syncd.GetRequest) (*syncd.Page, error)
	Mark(ctx context.Context, at syncd.LSN) (syncd.Position, error)
}

// History reads a key's last changes back from the stream. bus.Stream implements it.
type History interface {
	History(ctx context.Context, t syncd.Table, k syncd.Key, l bus.HistoryLimits) (*bus.History, error)
}

// Explainer explains keys. It may be asked from many goroutines.
type Explainer struct {
	Cache   *sink.Cache
	Source  Source
	History History
	// Patience is how long the source is waited for, and then the stream; default 5 s each.
	Patience time.Duration
}

// Explanation is what is known of one key.
type Explanation struct {
	Table    string   `json:"table"`
	Key      string   `json:"key"` // as URLs carry it
	Postgres Postgres `json:"postgres"`
	Stream   Stream   `json:"stream"`
	Cache    Cache    `json:"cache"`
	State    State    `json:"state"`
	Verdict  Verdict  `json:"verdict"`
}

// Postgres is the row as it was there when it was asked for.
type Postgres struct {
	Error    string          `json:"error,omitempty"` // why it could not be asked; the rest is empty then
	Exists   bool            `json:"exists"`
	Row      json.RawMessage `json:"row"`                // null where there is none
	Snapshot string          `json:"snapshot,omitempty"` // pg_current_snapshot()
	H        string          `json:"h,omitempty"`        // no commit that the snapshot sees lies behind this LSN
	Standby  bool            `json:"standby,omitempty"`
	// Passed says that the cache has taken the stream in up to H, so that what differs is not on its way.
	Passed bool `json:"passed"`
}

// Stream is what the stream holds of the key.
type Stream struct {
	Error  string  `json:"error,omitempty"`
	Deltas []Delta `json:"deltas"` // the last ones, oldest first
	// From and To are the messages that were looked at, by sequence; Whole says that the stream holds none before.
	From   uint64 `json:"from"`
	To     uint64 `json:"to"`
	Whole  bool   `json:"whole"`
	Unread int    `json:"unread,omitempty"` // messages of the table that can't be read
}

// Delta is a change on the stream.
type Delta struct {
	Seq       uint64          `json:"seq"`
	Op        string          `json:"op"`
	Version   string          `json:"version"`
	XID       uint64          `json:"xid"`
	Committed time.Time       `json:"committed"`
	Row       json.RawMessage `json:"row,omitempty"`
	Pointer   bool            `json:"pointer,omitempty"`
	Absent    []string        `json:"absent,omitempty"`
	From      string          `json:"from,omitempty"` // the key that it moved from
}

// Cache is what the cache holds under the key.
type Cache struct {
	// Held is "row", "tombstone" (the key is known to be gone) or "nothing".
	Held string          `json:"held"`
	Row  json.RawMessage `json:"row"`
	// Origin is "delta" or "list"; empty where nothing is held. Version is the delta's; of a list's the epoch alone counts, and
	// Snapshot is that of its page.
	Origin   string `json:"origin,omitempty"`
	Version  string `json:"version,omitempty"`
	XID      uint64 `json:"xid,omitempty"`
	Snapshot string `json:"snapshot,omitempty"`
	H        string `json:"h,omitempty"`
	// Pending says that a delta left the row unknown: Row is the one before, until the key was fetched.
	Pending bool  `json:"pending,omitempty"`
	Open    *Open `json:"open,omitempty"` // nil: nothing is open
}

// Open is why the key is to be fetched.
type Open struct {
	Reason string    `json:"reason"`
	Parked bool      `json:"parked"`
	Since  time.Time `json:"since"`
}

// State is what the cache knows of the table.
type State struct {
	Refused string `json:"refused,omitempty"`
	// Selector says which rows the cache keeps; empty: all. A row that it leaves out is not asked for, and counts as not there.
	Selector        string     `json:"selector,omitempty"`
	Listed          bool       `json:"listed"`
	Rows            int        `json:"rows"`
	Through         string     `json:"through"`
	Loss            string     `json:"loss,omitempty"` // the LSN up to which deltas are known to be missing
	Relist          string     `json:"relist,omitempty"`
	Stopped         string     `json:"stopped,omitempty"`
	VerifiedThrough string     `json:"verified_through,omitempty"`
	VerifiedAt      *time.Time `json:"verified_at"`
	// Building says that a new epoch has begun, and what is read is of the one before.
	Building bool `json:"building,omitempty"`
}

// Explain explains a key of a table that the cache knows; of another the error wraps syncd.ErrNoTable.
func (x *Explainer) Explain(ctx context.Context, t syncd.Table, k syncd.Key) (*Explanation, error) {
	e := &Explanation{Table: t.String(), Key: k.Path()}
	page := x.postgres(ctx, t, k, &e.Postgres)
	finding := x.judge(ctx, page, &e.Postgres)
	x.stream(ctx, t, k, &e.Stream)
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := x.cache(t, k, e); err != nil {
		return nil, err
	}
	e.Verdict = judge(e, finding)
	return e, nil
}

func (x *Explainer) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	d := x.Patience
	if d == 0 {
		d = 5 * time.Second
	}
	return context.WithTimeout(ctx, d)
}

// postgres asks for the row; the page is nil where that can't be had.
func (x *Explainer) postgres(ctx context.Context, t syncd.Table, k syncd.Key, out *Postgres) *syncd.Page {
	ctx, cancel := x.patience(ctx)
	defer cancel()
	p, err := x.Source.Get(ctx, syncd.GetRequest{Table: t, Keys: []syncd.Key{k}})
	switch {
	case err != nil:
		out.Error = err.Error()
		return nil
	case p.Snapshot == nil || !slices.Equal(p.Asked, []syncd.Key{k}):
		out.Error = "the source answered another question"
		return nil
	}
	for _, r := range p.Rows {
		if r.Key == k {
			out.Exists, out.Row = true, raw(r.JSON)
		}
	}
	out.Snapshot, out.H, out.Standby = p.Snapshot.Text(), p.Snapshot.H.String(), p.Snapshot.Standby
	return p
}

// finding is what the cache's gate says of Postgres's row.
type finding struct {
	asked   bool // the gate was asked; else discard says why not
	differs bool
	kind    sink.Kind // empty though it differs: the order of the two can't be proved
	discard string
}

// judge waits until the stream has passed a page, and asks the gate.
func (x *Explainer) judge(ctx context.Context, p *syncd.Page, out *Postgres) (f finding) {
	if p == nil {
		return f
	}
	h := syncd.Position{Epoch: p.Snapshot.Epoch, LSN: p.Snapshot.H}
	wait, cancel := x.patience(ctx)
	defer cancel()
	if x.Cache.Through().Compare(h) < 0 {
		_, _ = x.Source.Mark(wait, h.LSN) // the markers of an idle source will do
	}
	out.Passed = x.reach(wait, h)
	found, err := x.Cache.Judge(p, sink.How{Dry: true, Early: !out.Passed})
	if err != nil {
		f.discard = err.Error()
		return f
	}
	f.asked = true
	for _, d := range found {
		f.differs, f.kind = true, d.Kind
	}
	return f
}

// reach says whether the cache comes to a position before ctx ends.
func (x *Explainer) reach(ctx context.Context, p syncd.Position) bool {
	for {
		changed := x.Cache.Changed()
		if x.Cache.Through().Compare(p) >= 0 {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// raw gives a row to be put into JSON as it is; one that is none, which should not be, as a text.
func raw(row []byte) json.RawMessage {
	if len(row) == 0 || json.Valid(row) {
		return row
	}
	text, err := json.Marshal(string(row))
	if err != nil {
		return nil
	}
	return text
}

func (x *Explainer) stream(ctx context.Context, t syncd.Table, k syncd.Key, out *Stream) {
	out.Deltas = []Delta{}
	ctx, cancel := x.patience(ctx)
	defer cancel()
	h, err := x.History.History(ctx, t, k, bus.HistoryLimits{})
	if err != nil {
		out.Error = err.Error()
		return
	}
	out.From, out.To, out.Whole, out.Unread = h.From, h.To, h.Whole, h.Unread
	for _, c := range h.Changes {
		d := Delta{
			Seq: c.Seq, Op: c.Delta.Op.String(), Version: c.Delta.Version.String(), XID: uint64(c.Delta.XID), Committed: c.Delta.Committed,
			Row: raw(c.Delta.Row), Pointer: c.Delta.Pointer, Absent: c.Delta.Absent,
		}
		if c.Delta.Moved {
			d.From = c.Delta.From.Path()
		}
		out.Deltas = append(out.Deltas, d)
	}
}

var errClosed = errors.New("the cache is closed")

// cache reads what is held, of one commit.
func (x *Explainer) cache(t syncd.Table, k syncd.Key, e *Explanation) error {
	v := x.Cache.View()
	if v == nil {
		return errClosed
	}
	defer v.Close()
	st := v.State()
	ts := st.Tables[t]
	if ts == nil {
		return syncd.ErrNoTable
	}
	e.State = State{
		Refused: ts.Info.Error, Selector: ts.Info.Selector, Listed: ts.Listed, Rows: ts.Rows, Through: ts.Through.String(), Relist: ts.Relist, Stopped: ts.Stopped,
		Building: x.Cache.State().Cursor.Position.Epoch != st.Cursor.Position.Epoch,
	}
	if ts.Loss != 0 {
		e.State.Loss = ts.Loss.String()
	}
	if at := ts.Verified.At; !at.IsZero() {
		e.State.VerifiedThrough, e.State.VerifiedAt = ts.Verified.Position.String(), &at
	}
	entry, has := v.Get(t, k)
	if err := v.Err(); err != nil {
		return err
	}
	e.Cache = cacheOf(entry, has)
	if o, open := ts.Open[k]; open {
		e.Cache.Open = &Open{Reason: o.Reason, Parked: o.Parked, Since: o.Since}
	}
	return nil
}

func cacheOf(e sink.Entry, has bool) Cache {
	switch {
	case !has:
		return Cache{Held: "nothing"}
	case e.Row == nil:
		c := originOf(e)
		c.Held = "tombstone"
		return c
	}
	c := originOf(e)
	c.Held, c.Row = "row", raw(e.Row)
	return c
}

func originOf(e sink.Entry) Cache {
	c := Cache{Origin: "delta", Version: e.Version.String(), XID: uint64(e.XID), Pending: e.Pending}
	if e.Snap != nil {
		c.Origin, c.XID, c.Snapshot, c.H = "list", 0, e.Snap.Text(), e.Snap.H.String()
	}
	return c
}
