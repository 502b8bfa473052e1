package explain

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var users = syncd.Table{Schema: "public", Name: "users"}

const (
	epoch  = syncd.Epoch(7)
	schema = 5
)

// world is a table of Postgres, its stream and its cache. Each change is a transaction of its own.
type world struct {
	t     *testing.T
	cache *sink.Cache
	lsn   syncd.LSN
	xid   syncd.XID
	at    syncd.LSN // of the last marker
	rows  map[syncd.Key]string
	log   []bus.Change
	away  error // what the source answers
	lost  error // what the stream answers
}

// newWorld gives a cache that has listed the rows a and b.
func newWorld(t *testing.T) *world {
	w := &world{t: t, lsn: 100, xid: 10, rows: map[syncd.Key]string{"a": `{"id":"a"}`, "b": `{"id":"b"}`}}
	w.cache = sink.New(sink.Options{Store: memory.New(memory.Options{})})
	t.Cleanup(func() {
		if err := w.cache.Close(); err != nil {
			t.Error(err)
		}
	})
	w.tables(syncd.TableInfo{Table: users, Schema: schema, Key: []string{"id"}})
	w.mark()
	w.list()
	return w
}

func (w *world) tables(all ...syncd.TableInfo) {
	w.t.Helper()
	if err := w.cache.SetTables(all); err != nil {
		w.t.Fatal(err)
	}
}

// list lists the table.
func (w *world) list() {
	w.t.Helper()
	p := w.page()
	for k, row := range w.rows {
		p.Rows = append(p.Rows, syncd.Row{Key: k, JSON: []byte(row)})
	}
	if _, err := w.cache.Judge(p, sink.How{}); err != nil {
		w.t.Fatal(err)
	}
	_, claimed, err := w.cache.Done(w.t.Context(), &sink.List{Table: users, Schema: schema, Snapshots: []*syncd.Snapshot{p.Snapshot}, Safe: p.Safe})
	if err != nil || !claimed {
		w.t.Fatalf("claimed %v, %v", claimed, err)
	}
}

func (w *world) page() *syncd.Page {
	return &syncd.Page{
		Table: users, Schema: schema, System: 1, Timeline: 1, Safe: w.lsn,
		Snapshot: &syncd.Snapshot{Epoch: epoch, Xmin: w.xid + 1, Xmax: w.xid + 1, H: w.lsn},
	}
}

// change commits a row, or with an empty one its deletion, and publishes it; it gives the delta.
func (w *world) change(k syncd.Key, row string) syncd.Delta {
	w.lsn += 8
	w.xid++
	d := syncd.Delta{Table: users, Op: syncd.Upsert, Key: k, Row: []byte(row), XID: w.xid, Schema: schema, Version: syncd.Version{Epoch: epoch, LSN: w.lsn, Ordinal: 1}}
	if w.rows[k] = row; row == "" {
		d.Op, d.Row = syncd.Delete, nil
		delete(w.rows, k)
	}
	w.log = append(w.log, bus.Change{Seq: uint64(10 * len(w.log)), Delta: d})
	return d
}

// mark has a marker come, and the deltas before it, those that are not lost.
func (w *world) mark(deltas ...syncd.Delta) {
	w.t.Helper()
	f := &sink.Flush{Seq: uint64(w.lsn), Marker: &syncd.Marker{
		Epoch: epoch, Previous: w.at, Through: w.lsn, Safe: w.lsn, Start: 1, System: 1, Timeline: 1, Sent: time.Now()}}
	if len(deltas) > 0 {
		f.Deltas = map[syncd.Table][]syncd.Delta{users: deltas}
	}
	if err := w.cache.Flush(f); err != nil {
		w.t.Fatal(err)
	}
	w.at = w.lsn
}

// lose has the feed notice that deltas are missing.
func (w *world) lose() {
	w.t.Helper()
	m := &syncd.Marker{Epoch: epoch, Previous: w.at, Through: w.lsn, Safe: w.lsn, Start: 1, System: 1, Timeline: 1, Sent: time.Now()}
	if err := w.cache.Flush(&sink.Flush{Seq: uint64(w.lsn), Marker: m, Lost: []syncd.Table{users}}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) Get(_ context.Context, q syncd.GetRequest) (*syncd.Page, error) {
	if w.away != nil {
		return nil, w.away
	}
	p := w.page()
	p.Asked = q.Keys
	for _, k := range q.Keys {
		if row, ok := w.rows[k]; ok {
			p.Rows = append(p.Rows, syncd.Row{Key: k, JSON: []byte(row)})
		}
	}
	return p, nil
}

func (w *world) Mark(context.Context, syncd.LSN) (syncd.Position, error) {
	return syncd.Position{}, errors.New("nobody hears")
}

func (w *world) History(_ context.Context, _ syncd.Table, k syncd.Key, _ bus.HistoryLimits) (*bus.History, error) {
	if w.lost != nil {
		return nil, w.lost
	}
	h := &bus.History{From: 1, To: uint64(10*len(w.log) + 1), Whole: true}
	for _, c := range w.log {
		if c.Delta.Key == k {
			h.Changes = append(h.Changes, c)
		}
	}
	return h, nil
}

func (w *world) explain(k syncd.Key) *Explanation {
	w.t.Helper()
	e, err := (&Explainer{Cache: w.cache, Source: w, History: w}).Explain(w.t.Context(), users, k)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// TestVerdicts: what is said of a key after something has happened to it.
func TestVerdicts(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(w *world)
		code string
		says string // in the verdict's text or in what to do
	}{
		{"as listed", func(w *world) {}, Equal, "the very row"},
		{"as changed", func(w *world) { w.mark(w.change("a", `{"id":"a","n":1}`)) }, Equal, "the very row"},
		{"deleted", func(w *world) { w.mark(w.change("a", "")) }, Equal, "Neither"},
		{"a lost change", func(w *world) { w.change("a", `{"id":"a","n":1}`); w.lose(); w.mark() }, Stale, "up to 0/6C were lost"},
		{"a lost change that nobody noticed", func(w *world) { w.change("a", `{"id":"a","n":1}`); w.mark() }, Corrupt, "7-0/6C-1 (message 0), and the cache has not applied it"},
		{"a change that never came onto the stream", func(w *world) {
			w.mark(w.change("a", `{"id":"a","n":1}`))
			w.change("a", `{"id":"a","n":2}`)
			w.log = w.log[:1]
			w.mark()
		}, Corrupt, "never came onto the stream"},
		{"a lost deletion", func(w *world) { w.change("a", ""); w.mark() }, Ghost, "syncd resync public.users"},
		{"a lost row", func(w *world) {
			w.mark(w.change("a", ""))
			w.change("a", `{"id":"a","n":1}`)
			w.mark()
		}, Missing, "the cache lacks it"},
		{"applied wrongly", func(w *world) {
			d := w.change("a", `{"id":"a","n":1}`)
			d.Row = []byte(`{"id":"a","n":9}`)
			w.mark(d)
		}, Corrupt, "please report it"},
		{"a change on its way", func(w *world) { w.change("a", `{"id":"a","n":1}`) }, OnItsWay, "0/6C"},
		{"a commit that is not visible yet", func(w *world) {
			d := w.change("a", `{"id":"a","n":1}`)
			w.rows["a"] = `{"id":"a"}`
			w.mark(d)
			w.xid-- // no snapshot sees it
		}, Newer, "not visible yet"},
		{"a row too large for a message", func(w *world) {
			d := w.change("a", `{"id":"a","n":1}`)
			d.Pointer, d.Row = true, nil
			w.mark(d)
		}, Fetched, "too large"},
		{"a change that can't be applied", func(w *world) {
			d := w.change("a", `{"id":"a","n":1}`)
			d.Row = []byte(`[1]`)
			w.mark(d)
		}, Parked, "not a JSON object"},
		{"the source is away", func(w *world) { w.away = errors.New("no responders") }, Unknown, "no responders"},
		{"another shape", func(w *world) {
			w.tables(syncd.TableInfo{Table: users, Schema: schema + 1, Key: []string{"id"}})
		}, Unknown, "another shape"},
		{"refused", func(w *world) { w.tables(syncd.TableInfo{Table: users, Error: "it has no key"}) }, Refused, "it has no key"},
		{"a new epoch", func(w *world) {
			if err := w.cache.Flush(&sink.Flush{Seq: 900, Marker: &syncd.Marker{Epoch: epoch + 1, Through: 500, Start: 400, System: 1, Timeline: 2, Sent: time.Now()}}); err != nil {
				w.t.Fatal(err)
			}
		}, NotListed, "first list"},
		{"the stream is away", func(w *world) { w.lost = errors.New("no NATS"); w.change("a", ""); w.mark() }, Ghost, "no NATS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // waits for the stream take no time
				w := newWorld(t)
				tt.do(w)
				before := w.cache.State() // each commit makes another
				e := w.explain("a")
				v := e.Verdict
				if v.Code != tt.code || !strings.Contains(v.Text+v.Do, tt.says) {
					t.Errorf("verdict %q: %s / %s; want %q, saying %q", v.Code, v.Text, v.Do, tt.code, tt.says)
				}
				if v.Do == "" && !v.True() {
					t.Errorf("verdict %q: what to do is %q", v.Code, v.Do)
				}
				if after := w.cache.State(); after != before {
					t.Errorf("it changed the cache: %+v, before %+v", after, before)
				}
				if b, err := json.Marshal(e); err != nil {
					t.Errorf("%v: %s", err, b)
				}
			})
		})
	}
}

// TestOrigin: where the cache has a row from.
func TestOrigin(t *testing.T) {
	w := newWorld(t)
	if c := w.explain("a").Cache; c.Held != "row" || c.Origin != "list" || c.Snapshot != "11:11:" || c.H != "0/64" || string(c.Row) != `{"id":"a"}` {
		t.Errorf("listed: %+v", c)
	}
	w.mark(w.change("a", ""))
	e := w.explain("a")
	if c := e.Cache; c.Held != "tombstone" || c.Origin != "delta" || c.Version != "7-0/6C-1" || c.XID != 11 || c.Row != nil {
		t.Errorf("deleted: %+v", c)
	}
	if s := e.Stream; len(s.Deltas) != 1 || s.Deltas[0].Op != "delete" || s.Deltas[0].Version != "7-0/6C-1" || !s.Whole {
		t.Errorf("stream: %+v", s)
	}
	if c := w.explain("nobody").Cache; c.Held != "nothing" || c.Origin != "" {
		t.Errorf("never there: %+v", c)
	}
	if s := w.explain("a").State; !s.Listed || s.Rows != 1 || s.Through != "7-0/6C" || s.VerifiedThrough != "7-0/64" || s.VerifiedAt == nil {
		t.Errorf("table: %+v", s)
	}
}

// TestNoTable, and a row in the cache that is no JSON, which must not take the answer with it.
func TestNoTable(t *testing.T) {
	w := newWorld(t)
	x := &Explainer{Cache: w.cache, Source: w, History: w, Patience: time.Millisecond}
	if _, err := x.Explain(t.Context(), syncd.Table{Schema: "public", Name: "none"}, "a"); !errors.Is(err, syncd.ErrNoTable) {
		t.Errorf("of no table: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := x.Explain(over, users, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if got := string(raw([]byte(`{"id":`))); got != `"{\"id\":"` {
		t.Errorf("half a row is shown as %s", got)
	}
}
