package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/resync"
	"github.com/syncd-io/syncd/sink"
)

var (
	users = syncd.Table{Schema: "public", Name: "users"}
	pairs = syncd.Table{Schema: "public", Name: "Odd Pairs"}
)

const epoch = syncd.Epoch(1764534000000)

// What the API is made of in a sidecar.
var (
	_ Cache    = (*sink.Cache)(nil)
	_ Resyncer = (*resync.Runner)(nil)
)

// fakeCache is a Cache of commits made by hand: each is a whole copy, so a view never changes.
type fakeCache struct {
	mu      sync.Mutex
	now     *fakeView
	changed chan struct{}
	open    int         // views not yet closed
	newest  *sink.State // of a new epoch's cache; nil: none is being built
}

type fakeView struct {
	cache *fakeCache
	state *sink.State
	rows  map[syncd.Table]map[syncd.Key]sink.Entry
}

func newFakeCache() *fakeCache {
	c := &fakeCache{changed: make(chan struct{})}
	c.now = &fakeView{cache: c, state: &sink.State{}, rows: map[syncd.Table]map[syncd.Key]sink.Entry{}}
	return c
}

// commit makes the next commit: change gets a copy of what is there.
func (c *fakeCache) commit(change func(v *fakeView)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := &fakeView{cache: c, rows: map[syncd.Table]map[syncd.Key]sink.Entry{}}
	st := *c.now.state
	st.Tables = map[syncd.Table]*sink.TableState{}
	for t, ts := range c.now.state.Tables {
		copied := *ts
		copied.Open = maps.Clone(ts.Open)
		st.Tables[t] = &copied
	}
	for t, rows := range c.now.rows {
		next.rows[t] = maps.Clone(rows)
	}
	next.state = &st
	change(next)
	c.now = next
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *fakeCache) View() sink.View {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil {
		return nil
	}
	c.open++
	return c.now
}

func (c *fakeCache) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

func (c *fakeCache) State() *sink.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newest != nil {
		return c.newest
	}
	return c.now.state
}

func (v *fakeView) State() *sink.State { return v.state }

func (v *fakeView) Get(t syncd.Table, k syncd.Key) (sink.Entry, bool) {
	e, ok := v.rows[t][k]
	return e, ok
}

func (v *fakeView) Rows(t syncd.Table, from uint64, fn func(syncd.Key, sink.Entry) bool) {
	keys := slices.SortedFunc(maps.Keys(v.rows[t]), func(a, b syncd.Key) int {
		return cmp.Or(cmp.Compare(a.Hash(), b.Hash()), cmp.Compare(a, b))
	})
	for _, k := range keys {
		if e := v.rows[t][k]; k.Hash() >= from && e.Row != nil && !fn(k, e) {
			return
		}
	}
}

func (v *fakeView) Err() error { return nil }

func (v *fakeView) Close() {
	v.cache.mu.Lock()
	defer v.cache.mu.Unlock()
	v.cache.open--
}

// table adds a listed table.
func (v *fakeView) table(t syncd.Table, key ...string) *sink.TableState {
	if v.state.Tables == nil {
		v.state.Tables = map[syncd.Table]*sink.TableState{}
	}
	ts := &sink.TableState{Info: syncd.TableInfo{Table: t, Key: key}, Listed: true, Through: v.state.Cursor.Position, Open: map[syncd.Key]sink.Open{}}
	v.state.Tables[t], v.rows[t] = ts, map[syncd.Key]sink.Entry{}
	return ts
}

// through moves the cache, and all its tables, to an LSN.
func (v *fakeView) through(at syncd.LSN, sent time.Time) {
	v.state.Cursor = sink.State{}.Cursor
	v.state.Cursor.Position = syncd.Position{Epoch: epoch, LSN: at}
	v.state.Sent, v.state.Applied = sent, sent
	for _, ts := range v.state.Tables {
		ts.Through = v.state.Cursor.Position
	}
}

func (v *fakeView) put(t syncd.Table, k syncd.Key, row string) {
	v.rows[t][k] = sink.Entry{Row: []byte(row), Version: syncd.Version{Epoch: epoch}}
	v.state.Tables[t].Rows = len(v.rows[t])
}

// fakeMarks counts asks, and answers each by a call of publish.
type fakeMarks struct {
	publish func()
	err     error
	mu      sync.Mutex
	asked   int
}

func (m *fakeMarks) Mark(context.Context, syncd.LSN) (syncd.Position, error) {
	m.mu.Lock()
	m.asked++
	m.mu.Unlock()
	if m.publish != nil {
		m.publish()
	}
	return syncd.Position{}, m.err
}

type fakeResync struct {
	options resync.Options
	report  *resync.Report
	err     error
}

func (f *fakeResync) Request(_ context.Context, _ syncd.Table, o resync.Options) (*resync.Report, error) {
	f.options = o
	return f.report, f.err
}

type fakeNode struct{ notReady, fault string }

func (n *fakeNode) Ready() error {
	if n.notReady != "" {
		return errors.New(n.notReady)
	}
	return nil
}

func (n *fakeNode) Status() Status { return Status{Name: "shop", Bus: "connected", Fault: n.fault} }

// rig is an API over fakes, with two tables listed.
type rig struct {
	*API
	cache   *fakeCache
	history *fakeHistory
	marks   *fakeMarks
	resync  *fakeResync
	node    *fakeNode
	clock   time.Time
	t       testing.TB
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, cache: newFakeCache(), marks: &fakeMarks{}, resync: &fakeResync{report: &resync.Report{Table: "public.users"}}, node: &fakeNode{}, clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	r.history = &fakeHistory{fakeCache: r.cache}
	r.API = New(Options{Cache: r.cache, History: r.history, Resync: r.resync, Node: r.node, Marks: r.marks, Gatherer: prometheus.NewRegistry()})
	r.API.now = func() time.Time { return r.clock }
	r.cache.commit(func(v *fakeView) {
		v.table(users, "id")
		v.table(pairs, "a", "b")
		v.through(0x16B3748, r.clock.Add(-250*time.Millisecond))
		v.put(users, syncd.MakeKey("42"), `{"id":42,"name":"Ann"}`)
	})
	t.Cleanup(func() {
		if r.cache.open != 0 {
			t.Errorf("%d views were not closed", r.cache.open)
		}
	})
	return r
}

func (r *rig) do(method, target string, header ...string) *httptest.ResponseRecorder {
	return r.serveOne(httptest.NewRequest(method, target, nil), header...)
}

func (r *rig) doContext(ctx context.Context, method, target string) *httptest.ResponseRecorder {
	return r.serveOne(httptest.NewRequestWithContext(ctx, method, target, nil))
}

func (r *rig) doURL(method string, u *url.URL, query string) *httptest.ResponseRecorder {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if strings.HasSuffix(u.Path, "/watch") {
		cancel() // it lasts as long as its client
	}
	req := httptest.NewRequestWithContext(ctx, method, "/", nil)
	req.URL = u
	u.RawQuery = query
	return r.serveOne(req)
}

func (r *rig) serveOne(req *http.Request, header ...string) *httptest.ResponseRecorder {
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	checkDescribed(r.t, req, w.Code)
	return w
}

func wantStatus(t *testing.T, w *httptest.ResponseRecorder, status int, parts ...string) {
	t.Helper()
	if w.Code != status {
		t.Fatalf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	for _, p := range parts {
		if !strings.Contains(w.Body.String(), p) {
			t.Fatalf("answer %s lacks %q", w.Body, p)
		}
	}
	if status >= 400 && w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("an error of type %q", w.Header().Get("Content-Type"))
	}
}

// fakeHistory is a History in which nothing happens.
type fakeHistory struct {
	*fakeCache
	gone bool // what is asked for is forgotten
}

func (h *fakeHistory) mark() sink.Mark {
	return sink.Mark{Position: h.State().Cursor.Position, Commit: 1}
}

func (h *fakeHistory) Look() (sink.View, sink.Mark) { return h.View(), h.mark() }

func (h *fakeHistory) Head() (sink.Mark, *sink.State) { return h.mark(), h.State() }

func (h *fakeHistory) Changed(syncd.Table) <-chan struct{} { return nil }

func (h *fakeHistory) Next(syncd.Table, sink.Mark, int) ([]*sink.Commit, error) { return nil, nil }

func (h *fakeHistory) Find(syncd.Table, syncd.Version) (sink.Mark, error) {
	return h.After(users, syncd.Position{})
}

func (h *fakeHistory) After(syncd.Table, syncd.Position) (sink.Mark, error) {
	if h.gone {
		return sink.Mark{}, fmt.Errorf("what came since: %w", syncd.ErrTooOld)
	}
	return h.mark(), nil
}
