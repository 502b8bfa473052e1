package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/storetest"
)

var counts = syncd.TableInfo{Table: syncd.Table{Schema: "public", Name: "counts"}, Columns: []string{"id", "n"}, Types: []string{"integer", "integer"}, Key: []string{"id"}, Schema: 7}

// changing is a real cache of one table and its API. What it held at each commit is kept by the commit's version.
type changing struct {
	*API
	t     *testing.T
	mu    sync.Mutex
	dice  *rand.Rand
	cache *sink.Cache
	epoch syncd.Epoch
	at    syncd.LSN
	held  map[string]map[string]string
}

func newChanging(t *testing.T, seed uint64, limits sink.HistoryLimits) *changing {
	c := &changing{t: t, dice: rand.New(rand.NewPCG(seed, 7)), epoch: 1, at: 100, held: map[string]map[string]string{}}
	c.cache = sink.New(sink.Options{Store: storetest.NewMap(), New: func() (sink.Store, error) { return storetest.NewMap(), nil }, History: limits})
	c.API = New(Options{Cache: c.cache, History: c.cache.History(), Node: &fakeNode{}, Marks: &fakeMarks{}, Gatherer: prometheus.NewRegistry()})
	c.flush()
	c.do(c.cache.SetTables([]syncd.TableInfo{counts}))
	c.list()
	c.keep()
	return c
}

func (c *changing) do(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func key(id int) syncd.Key { return syncd.MakeKey(fmt.Sprint(id)) }

func count(id, n int) string { return fmt.Sprintf(`{"id":%d,"n":%d}`, id, n) }

// flush commits deltas, or a marker alone.
func (c *changing) flush(deltas ...syncd.Delta) {
	c.at += 10
	for i := range deltas {
		d := &deltas[i]
		d.Table, d.Schema, d.XID = counts.Table, counts.Schema, syncd.XID(c.at)
		d.Version = syncd.Version{Epoch: c.epoch, LSN: c.at, Ordinal: uint32(i + 1)}
	}
	m := &syncd.Marker{Epoch: c.epoch, Through: c.at, Safe: c.at, Sent: time.Now()}
	c.do(c.cache.Flush(&sink.Flush{Deltas: map[syncd.Table][]syncd.Delta{counts.Table: deltas}, Marker: m, Seq: uint64(c.at)}))
}

func put(id, n int) syncd.Delta {
	return syncd.Delta{Op: syncd.Upsert, Key: key(id), Row: []byte(count(id, n))}
}

func gone(id int) syncd.Delta { return syncd.Delta{Op: syncd.Delete, Key: key(id)} }

// judge has the cache judge rows, and the absence of some keys.
func (c *changing) judge(rows map[int]int, absent ...int) *syncd.Snapshot {
	s := &syncd.Snapshot{Epoch: c.epoch, Xmin: syncd.XID(c.at) + 1, Xmax: syncd.XID(c.at) + 1, H: c.at}
	p := &syncd.Page{Table: counts.Table, Schema: counts.Schema, Snapshot: s, Safe: c.at}
	for id, n := range rows {
		p.Rows = append(p.Rows, syncd.Row{Key: key(id), JSON: []byte(count(id, n))})
		p.Asked = append(p.Asked, key(id))
	}
	for _, id := range absent {
		p.Asked = append(p.Asked, key(id))
	}
	_, err := c.cache.Judge(p, sink.How{})
	c.do(err)
	return s
}

// list makes a complete list of a few rows.
func (c *changing) list() {
	s := c.judge(map[int]int{1: 1, 2: 60, 3: 30})
	_, _, err := c.cache.Done(c.t.Context(), &sink.List{Table: counts.Table, Schema: counts.Schema, Snapshots: []*syncd.Snapshot{s}, Safe: c.at})
	c.do(err)
}

// keep takes note of what the cache holds now.
func (c *changing) keep() {
	v, m := c.cache.History().Look()
	defer v.Close()
	rows := map[string]string{}
	v.Rows(counts.Table, 0, func(k syncd.Key, e sink.Entry) bool { rows[string(k)] = string(e.Row); return true })
	c.held[m.Version().String()] = rows
}

// step makes one commit.
func (c *changing) step() {
	c.mu.Lock()
	defer c.mu.Unlock()
	const keys = 12
	switch roll := c.dice.IntN(20); {
	case roll < 12:
		var deltas []syncd.Delta
		for _, id := range c.dice.Perm(keys)[:1+c.dice.IntN(5)] {
			if c.dice.IntN(3) == 0 {
				deltas = append(deltas, gone(id))
			} else {
				deltas = append(deltas, put(id, c.dice.IntN(100)))
			}
		}
		c.flush(deltas...)
	case roll < 15:
		c.flush()
	case roll < 19:
		c.judge(map[int]int{c.dice.IntN(keys): c.dice.IntN(100)}, keys+c.dice.IntN(2), keys+2)
	default:
		c.epoch++
		c.flush()
		c.keep()
		c.list()
	}
	c.keep()
}

// stream is what a watch has written. Between two writes something may happen.
type stream struct {
	mu      sync.Mutex
	head    http.Header
	status  int
	body    bytes.Buffer
	between func()
}

func (s *stream) Header() http.Header { return s.head }
func (s *stream) WriteHeader(n int)   { s.status = n }
func (s *stream) Flush()              {}

func (s *stream) Write(b []byte) (int, error) {
	if s.between != nil {
		s.between()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.body.Write(b)
}

// event is one event of a watch.
type event struct {
	id, name string
	hasID    bool
	data     struct {
		Key     []string
		Version string
		Row     json.RawMessage
		Repair  string
		Reason  string
		Age     *float64 `json:"age_seconds"`
	}
}

// parse reads the events that are whole.
func parse(t *testing.T, body string) (all []event) {
	t.Helper()
	for {
		block, rest, ok := strings.Cut(body, "\n\n")
		if !ok {
			return all
		}
		body = rest
		var e event
		var data []string
		for line := range strings.SplitSeq(block, "\n") {
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch name {
			case "id":
				e.id, e.hasID = value, true
			case "event":
				e.name = value
			case "data":
				data = append(data, value)
			}
		}
		if data == nil {
			continue
		}
		if err := json.Unmarshal([]byte(strings.Join(data, "\n")), &e.data); err != nil {
			t.Fatalf("%q: %v", block, err)
		}
		all = append(all, e)
	}
}

// follower is a client that is cut off and goes on, and what it has.
type follower struct {
	c      *changing
	dice   *rand.Rand
	list   bool   // it begins with list=true; else it reads the rows, and watches since their version
	filter string // its condition, n<50 in the API's words, or none
	id     string
	since  string // without list: the version of the rows that it has read
	rows   map[string]string

	bookmarks, resets, tooOld, repairs int
}

// wants gives what of some rows the client is to have.
func (f *follower) wants(rows map[string]string) map[string]string {
	some := map[string]string{}
	for k, row := range rows {
		var r struct{ N int }
		if err := json.Unmarshal([]byte(row), &r); err != nil {
			f.c.t.Fatal(err)
		}
		if f.filter == "" || r.N < 50 {
			some[k] = row
		}
	}
	return some
}

func (f *follower) read() {
	w := httptest.NewRecorder()
	f.c.ServeHTTP(w, httptest.NewRequest("GET", "/v1/tables/public.counts/rows?limit=1000&"+f.filter, nil))
	var page struct {
		Items   []json.RawMessage
		Version string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != 200 {
		f.c.t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	f.rows, f.since = map[string]string{}, page.Version
	for _, row := range page.Items {
		var r struct{ ID int }
		if err := json.Unmarshal(row, &r); err != nil {
			f.c.t.Fatal(err)
		}
		f.rows[fmt.Sprint(r.ID)] = string(row)
	}
}

// connect watches while some commits are made, and is cut off within what came.
func (f *follower) connect() {
	c := f.c
	target := "/v1/tables/public.counts/watch?" + f.filter
	if f.list {
		target += "&list=true"
	} else if f.id == "" {
		if f.since == "" || f.dice.IntN(4) == 0 {
			f.read()
		}
		target += "&since=" + f.since
	}
	ctx, cancel := context.WithCancel(context.Background())
	req := httptest.NewRequestWithContext(ctx, "GET", target, nil)
	if f.id != "" {
		req.Header.Set("Last-Event-ID", f.id)
	}
	out := &stream{head: http.Header{}, status: 200, between: func() {
		if rand.IntN(2) == 0 {
			c.step()
		}
	}}
	done := make(chan struct{})
	go func() { defer close(done); c.ServeHTTP(out, req) }()
	for range f.dice.IntN(10) {
		c.step()
		if f.dice.IntN(2) == 0 {
			synctest.Wait()
		}
	}
	if f.dice.IntN(3) == 0 {
		time.Sleep(15 * time.Second) // of the bubble's: a bookmark comes
	}
	synctest.Wait()
	cancel()
	<-done
	body := out.body.String()
	if out.status == http.StatusGone {
		f.tooOld++
		f.id, f.since = "", ""
		return
	}
	if out.status != 200 {
		c.t.Fatalf("%s: %d %s", target, out.status, body)
	}
	if f.dice.IntN(2) == 0 {
		body = body[:f.dice.IntN(len(body)+1)]
	}
	if f.list && f.id == "" {
		f.rows = map[string]string{}
	}
	for _, e := range parse(c.t, body) {
		f.apply(&e)
	}
}

func (f *follower) apply(e *event) {
	t := f.c.t
	if e.hasID {
		f.id = e.id
	}
	k := string(syncd.MakeKey(e.data.Key...))
	if e.data.Repair != "" {
		f.repairs++
	}
	switch e.name {
	case "upsert":
		f.rows[k] = string(e.data.Row)
	case "delete":
		delete(f.rows, k)
	case "reset":
		f.resets++
		f.rows, f.since = map[string]string{}, ""
	case "bookmark":
		f.bookmarks++
		held, ok := f.c.held[e.id]
		if !ok {
			t.Fatalf("bookmark %s is of no commit", e.id)
		}
		if want := f.wants(held); !maps.Equal(want, f.rows) {
			t.Fatalf("at %s (list %v, filter %q) the client has\n%v, the cache had\n%v", e.id, f.list, f.filter, f.rows, want)
		}
		if _, err := syncd.ParsePosition(e.data.Version); err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatalf("event %q", e.name)
	}
}

// TestWatchesSeeTheCache: clients that are cut off anywhere and go on, some so late that they are told to begin anew, have at
// each bookmark what the cache held then.
func TestWatchesSeeTheCache(t *testing.T) {
	var total follower
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			c := newChanging(t, seed, sink.HistoryLimits{Commits: 2 + int(seed%20)})
			c.partRows = 3
			f := &follower{c: c, dice: rand.New(rand.NewPCG(seed, 8)), list: seed%2 == 0, filter: []string{"", "n=lt.50"}[seed/2%2], rows: map[string]string{}}
			for range 12 {
				f.connect()
			}
			total.bookmarks, total.resets, total.tooOld, total.repairs = total.bookmarks+f.bookmarks, total.resets+f.resets, total.tooOld+f.tooOld, total.repairs+f.repairs
			c.do(c.cache.Close())
		})
	}
	t.Logf("%d bookmarks, %d resets, %d times too old, %d repairs", total.bookmarks, total.resets, total.tooOld, total.repairs)
	if total.bookmarks < 500 || total.resets < 10 || total.tooOld < 10 || total.repairs < 10 {
		t.Error("too little has happened")
	}
}
