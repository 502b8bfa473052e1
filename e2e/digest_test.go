package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/pgserver"
	"github.com/syncd-io/syncd/internal/sidecar"
	"github.com/syncd-io/syncd/resync"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/memory"
	"github.com/syncd-io/syncd/source"
)

// asked counts what a sidecar asks its source for.
type asked struct {
	sidecar.Source
	mu    sync.Mutex
	pages int
	rows  int
}

func (a *asked) List(ctx context.Context, r syncd.ListRequest) (*syncd.Page, error) {
	p, err := a.Source.List(ctx, r)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.pages, a.rows = a.pages+1, a.rows+len(p.Rows)
	}
	return p, err
}

// took gives the pages and rows of lists since the last call.
func (a *asked) took() (pages, rows int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pages, rows = a.pages, a.rows
	a.pages, a.rows = 0, 0
	return pages, rows
}

// digests is a source and a sidecar in this process, whose cache the test can spoil.
type digests struct {
	t     *testing.T
	db    *harness.DB
	car   *sidecar.Sidecar
	asked *asked
	table syncd.Table
}

func newDigests(t *testing.T, table syncd.Table) *digests {
	t.Helper()
	// A server of its own: while somebody's commit can't be seen yet, no run proves anything, and others follow by themselves.
	db, nats := harness.DatabaseOn(t, harness.Server(t, pgserver.Options{})), harness.NATS(t)
	d := &digests{t: t, db: db, table: table}
	db.Exec(fmt.Sprintf("CREATE TABLE %s (id int PRIMARY KEY, n int, v text); INSERT INTO %s SELECT i, 0, repeat('x', i %% 90) FROM generate_series(1, 6000) i", table.SQL(), table.SQL()))
	conn, log := nats.Conn(), harness.Logger(t)
	p := &bus.Publisher{Conn: conn, Name: nats.Name, Limits: bus.Limits{MaxBytes: 256 << 20}, Log: log}
	w := source.NewWatch(source.Config{Name: nats.Name, Postgres: db.URL, Manage: true, TrailInterval: -1, Logger: log, Tables: []source.TableConfig{{Table: table}}}, p)
	l := source.NewLister(w)
	l.PageRows = 300
	service := &bus.Service{Conn: conn, Name: nats.Name, Lister: l, Marks: w, Log: log}
	d.asked = &asked{Source: &bus.Client{Conn: conn, Name: nats.Name}}
	var err error
	d.car, err = sidecar.Open(sidecar.Config{Name: nats.Name, MaxPrune: 0.5, Mode: resync.Digest, Logger: log,
		NewStore: func() (sink.Store, error) { return &sharedStore{Store: memory.New(memory.Options{})}, nil }}, &bus.Stream{Conn: conn, Name: nats.Name, Log: log}, d.asked)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{p.Run, w.Run, service.Run, d.car.Run} {
		g.Go(func() error { return run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		l.Close()
		if err := d.car.Close(); err != nil {
			t.Error(err)
		}
	})
	harness.Eventually(t, "the first list", func() error {
		if err := d.car.Ready(); err != nil {
			return err
		}
		if s := d.car.Cache().State().Tables[table]; s == nil || s.Verified.At.IsZero() || s.Relist != "" {
			return errors.New("it is under way")
		}
		return nil
	})
	d.asked.took()
	return d
}

// resync makes a run by digest.
func (d *digests) resync(o resync.Options) *resync.Report {
	d.t.Helper()
	o.Mode = resync.Digest
	rep, err := d.car.Request(d.t.Context(), d.table, o)
	if err != nil {
		d.t.Fatal(err)
	}
	return rep
}

// sharedStore is a store that others than its cache may write to: Store lets one goroutine at a time call it, and the cache
// commits markers whenever they come.
type sharedStore struct {
	*memory.Store
	mu sync.Mutex
}

func (s *sharedStore) Load(t syncd.Table, k syncd.Key) (sink.Entry, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Store.Load(t, k)
}

func (s *sharedStore) Commit(b *sink.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Store.Commit(b)
}

func (s *sharedStore) Walk(t syncd.Table, from uint64, fn func(syncd.Key, sink.Entry) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Store.Walk(t, from, fn)
}

// spoil changes what is held under a key behind the cache's back.
func (d *digests) spoil(id int, change func(w *sink.Write)) {
	d.t.Helper()
	store, k := d.car.Cache().Store(), syncd.MakeKey(fmt.Sprint(id))
	e, _, err := store.Load(d.table, k)
	if err != nil {
		d.t.Fatal(err)
	}
	w := sink.Write{Table: d.table, Key: k, Entry: e}
	change(&w)
	if err := store.Commit(&sink.Batch{Writes: []sink.Write{w}}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *digests) rows() map[syncd.Key]string {
	v := d.car.Cache().View()
	defer v.Close()
	m := map[syncd.Key]string{}
	v.Rows(d.table, 0, func(k syncd.Key, e sink.Entry) bool { m[k] = string(e.Row); return true })
	return m
}

// TestDigestFindsOneRow: a table in sync is proved without a row on the bus; a byte that is wrong, a row that is missing and
// one that is too many are found, and only their bucket is listed.
func TestDigestFindsOneRow(t *testing.T) {
	t.Parallel()
	d := newDigests(t, syncd.Table{Schema: "public", Name: "things"})
	rep := d.resync(resync.Options{})
	if pages, rows := d.asked.took(); pages != 0 || rows != 0 || rep.Mode != resync.Digest || rep.Rows != 6000 || !rep.Equal() || rep.Verified.IsZero() || rep.Bytes > 1000 {
		t.Errorf("in sync: %d pages, %d rows; %+v", pages, rows, *rep)
	}
	for _, c := range []struct {
		id    int
		kind  string
		spoil func(w *sink.Write)
	}{
		{4711, resync.Corrupt, func(w *sink.Write) {
			w.Entry.Row = []byte(strings.Replace(string(w.Entry.Row), `"n":0`, `"n":8`, 1))
		}},
		{17, resync.Missing, func(w *sink.Write) { w.Remove = true }},
		{9999, resync.Ghost, func(w *sink.Write) {
			w.Entry = sink.Entry{Row: []byte(`{"id":9999,"n":1,"v":""}`), Version: syncd.Version{Epoch: d.car.Cache().Through().Epoch, LSN: 1, Ordinal: 1}, XID: 3}
		}},
	} {
		d.spoil(c.id, c.spoil)
		for _, dry := range []bool{true, false} {
			rep := d.resync(resync.Options{Dry: dry})
			_, rows := d.asked.took()
			if rep.Mode != resync.Digest || rep.Differences() != 1 || len(rep.Samples) != 1 || rep.Samples[0].Key != fmt.Sprint(c.id) || rep.Samples[0].Kind != c.kind && c.kind != resync.Corrupt {
				t.Errorf("%s, dry %v: %+v", c.kind, dry, *rep)
			}
			if rows == 0 || rows > 400 {
				t.Errorf("%s: %d rows were sent for a bucket of about 190", c.kind, rows)
			}
		}
		if rep := d.resync(resync.Options{}); !rep.Equal() || rep.Note != "" {
			t.Errorf("%s, afterwards: %+v", c.kind, *rep)
		}
		d.asked.took()
	}
	if got, want := d.rows(), harness.Oracle(t, d.db, d.table); !maps.Equal(got, want) {
		t.Errorf("%d rows cached, %d in Postgres", len(got), len(want))
	}
}

// TestDigestUnderWriters: while several sessions write, runs by digest find nothing, and change nothing that was right.
func TestDigestUnderWriters(t *testing.T) {
	t.Parallel()
	d := newDigests(t, syncd.Table{Schema: "public", Name: "things"})
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for i := range 3 {
		conn := d.db.Conn()
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				id := 1 + n%6 // of these few, and now and then of all
				if n%200 == i {
					id = n * 37 % 6100
				}
				for _, sql := range []string{
					"INSERT INTO public.things VALUES ($1, $2, 'new') ON CONFLICT (id) DO UPDATE SET n = excluded.n",
					"UPDATE public.things SET n = n + 1 WHERE id = $1 AND $2 >= 0",
					"DELETE FROM public.things WHERE id = $1 AND $2 % 3 = 0",
				} {
					if _, err := conn.Exec(context.WithoutCancel(ctx), sql, id, n); err != nil {
						t.Error(err)
						return
					}
				}
				select {
				case <-ctx.Done():
				case <-time.After(2 * time.Millisecond):
				}
			}
		})
	}
	byDigest := 0
	for i := range 12 {
		rep := d.resync(resync.Options{Dry: i%2 == 0})
		if rep.Differences() != 0 || !rep.Complete {
			t.Errorf("run %d: %+v", i, *rep)
		}
		if rep.Mode == resync.Digest {
			byDigest++
		}
		t.Logf("%s: %d rows, %d bytes; %s", rep.Mode, rep.Rows, rep.Bytes, rep.Note)
	}
	stop()
	writers.Wait()
	if byDigest == 0 {
		t.Error("no run could make use of digests")
	}
	at := syncd.Position{Epoch: d.car.Cache().Through().Epoch, LSN: d.db.LSN()}
	if _, err := d.car.Mark(t.Context(), at.LSN); err != nil {
		t.Fatal(err)
	}
	if err := d.car.Cache().Wait(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	if got, want := d.rows(), harness.Oracle(t, d.db, d.table); !maps.Equal(got, want) {
		t.Errorf("%d rows cached, %d in Postgres", len(got), len(want))
	}
	if rep := d.resync(resync.Options{}); !rep.Equal() {
		t.Errorf("afterwards: %+v", *rep)
	}
}
