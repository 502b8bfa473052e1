package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/natsserver"
)

// follower watches a table over HTTP as a service does, is cut off again and again, and goes on where it was. A commit of these tests has at most some fifty changes.
type follower struct {
	t     *testing.T
	c     *cache
	path  string
	check func(rows map[string]string) error // holds at each bookmark
	anew  bool                               // it begins with the rows each time, and never goes on where it was

	mu     sync.Mutex
	id     string
	rows   map[string]string
	marked map[string]string // rows at the last bookmark
	counts struct{ connections, bookmarks, resets, repairs int }
}

// follow begins to watch; end ends it, or the test.
func (c *cache) follow(t syncd.Table, query string, check func(rows map[string]string) error) *follower {
	return c.followAs(&follower{check: check}, t, query)
}

// followAs is follow with a follower of some kind.
func (c *cache) followAs(f *follower, t syncd.Table, query string) *follower {
	reader := *c
	reader.member = nil
	f.t, f.c, f.path = c.f.t, &reader, tablePath(t)+"/watch?list=true"+query
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			if err := f.connect(ctx, 1+rand.IntN(120)); err != nil {
				f.t.Errorf("watch %s: %v", f.path, err)
				return
			}
		}
	})
	c.f.t.Cleanup(func() { cancel(); done.Wait() })
	return f
}

// connect watches until so many events came, beside those of a list, or the watch ends.
func (f *follower) connect(ctx context.Context, events int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://sidecar"+f.path, nil)
	if err != nil {
		return err
	}
	f.mu.Lock()
	if f.anew {
		f.id = ""
	}
	if f.id != "" {
		req.Header.Set("Last-Event-ID", f.id)
	}
	fresh := f.id == ""
	f.counts.connections++
	f.mu.Unlock()
	resp, err := f.c.http.Do(req)
	if err != nil {
		return nil // it is away
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusServiceUnavailable {
		return nil
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	if fresh {
		f.rows = map[string]string{}
	}
	b := bufio.NewScanner(resp.Body)
	b.Buffer(nil, 16<<20)
	fields := map[string]string{}
	for b.Scan() {
		name, value, _ := strings.Cut(b.Text(), ":")
		if name != "" {
			fields[name] = strings.TrimPrefix(value, " ")
			continue
		}
		if err := f.event(fields); err != nil {
			return err
		}
		clear(fields)
		if fresh = fresh && f.id == ""; !fresh {
			events--
		}
		if events == 0 {
			return nil
		}
	}
	return nil
}

func (f *follower) event(fields map[string]string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id, ok := fields["id"]; ok {
		f.id = id
	}
	var d struct {
		Key    []string
		Row    json.RawMessage
		Repair string
	}
	if fields["data"] == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(fields["data"]), &d); err != nil {
		return err
	}
	if d.Repair != "" {
		f.counts.repairs++
	}
	switch k := strings.Join(d.Key, ","); fields["event"] {
	case "upsert":
		f.rows[k] = string(d.Row)
	case "delete":
		delete(f.rows, k)
	case "reset":
		f.counts.resets++
		f.rows = map[string]string{}
	case "bookmark":
		f.counts.bookmarks++
		f.marked = maps.Clone(f.rows)
		return f.check(f.rows)
	}
	return nil
}

// converges waits until the follower has what Postgres has.
func (f *follower) converges(query string) {
	f.t.Helper()
	f.c.f.eventually("who watches to have the table", func() error {
		want := map[string]string{}
		text := f.c.f.db.Text("SELECT coalesce(json_object_agg(id, row_to_json(t)::text), '{}') FROM t " + query)
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			return err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if !maps.Equal(want, f.marked) {
			for k, row := range want {
				if f.marked[k] != row {
					return fmt.Errorf("it has %d rows, Postgres %d; %s is %s, want %s; %+v, id %s", len(f.marked), len(want), k, f.marked[k], row, f.counts, f.id)
				}
			}
			return fmt.Errorf("it has %d rows, Postgres %d", len(f.marked), len(want))
		}
		return nil
	})
}

func nothing(map[string]string) error { return nil }

// TestWatchers: services that watch, and are cut off all the time, see transactions whole, and have what Postgres has after
// losses that a list repairs, a new epoch, a change of the table's shape and a restart of the sidecar.
func TestWatchers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "public.t")
	f.db.Exec(numbers)
	f.more.sidecar = "faults: {drop: 0.05, seed: 3}"
	source := f.source()
	s := f.sidecar()
	f.converges(s)
	name := table(t, "public.t")
	// Each transaction moves an amount from one row to another, and the rows' sum stays what it is, but where changes were lost.
	all := s.follow(name, "", nothing)
	some := s.follow(name, "&n=gt.0", func(rows map[string]string) error {
		for _, row := range rows {
			var r struct{ N int }
			if err := json.Unmarshal([]byte(row), &r); err != nil || r.N <= 0 {
				return fmt.Errorf("row %s does not match: %v", row, err)
			}
		}
		return nil
	})
	move := func(times int) {
		for range times {
			from, to, n := 1+rand.IntN(50), 1+rand.IntN(50), rand.IntN(9)
			f.db.Exec(fmt.Sprintf("BEGIN; UPDATE t SET n = n - %d WHERE id = %d; UPDATE t SET n = n + %d WHERE id = %d; COMMIT", n, from, n, to))
		}
	}
	settled := func() {
		f.converges(s)
		all.converges("")
		some.converges("WHERE n > 0")
	}
	move(150)
	settled()
	source.stop()
	f.eventually("the slot to be free", func() error {
		if n := f.db.Text("SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'syncd_' || $1 AND active", f.bus.Name); n != "0" {
			return errors.New("it is in use")
		}
		return nil
	})
	f.db.Exec("SELECT pg_drop_replication_slot('syncd_' || $1)", f.bus.Name)
	move(5)
	f.db.Exec("DELETE FROM t WHERE id > 40; INSERT INTO t VALUES (100, 100)")
	f.start("source", "second")
	settled()
	f.db.Exec("ALTER TABLE t ADD COLUMN v text DEFAULT 'new'")
	move(20)
	settled()
	s.member.stop()
	move(20)
	s.member = f.start("sidecar", "sidecar")
	move(20)
	settled()
	for _, w := range []*follower{all, some} {
		w.mu.Lock()
		t.Logf("%s: %+v", w.path, w.counts)
		if c := w.counts; c.connections < 5 || c.resets < 2 || c.bookmarks < 20 {
			t.Errorf("too little has happened: %+v", c)
		}
		w.mu.Unlock()
	}
}

// TestWatchersSeeTransactionsWhole: at each bookmark the amounts that transactions move between rows add up.
func TestWatchersSeeTransactionsWhole(t *testing.T) {
	t.Parallel()
	for _, sink := range []string{"memory", "sqlite", "redis", "postgres"} {
		t.Run(sink, func(t *testing.T) {
			t.Parallel()
			watchersSeeTransactionsWhole(t, sink)
		})
	}
}

func watchersSeeTransactionsWhole(t *testing.T, sink string) {
	f := newFleet(t, "public.t")
	switch sink {
	case "sqlite":
		f.more.sidecar = "sink: {sqlite: {path: " + text(filepath.Join(f.dir, "cache.db")) + "}}"
	case "redis":
		f.more.sidecar = "sink: {redis: {url: " + text(redisURL(t)) + "}}"
	case "postgres":
		f.more.sidecar = "sink: {postgres: {url: " + text(harness.Database(t).URL) + ", schema: cache}}"
	}
	f.db.Exec(numbers)
	f.source()
	s := f.sidecar()
	f.converges(s)
	whole := func(rows map[string]string) error {
		sum := 0
		for _, row := range rows {
			var r struct{ N int }
			if err := json.Unmarshal([]byte(row), &r); err != nil {
				return err
			}
			sum += r.N
		}
		if sum != 0 || len(rows) != 50 {
			return fmt.Errorf("%d rows with a sum of %d: half a transaction is seen", len(rows), sum)
		}
		return nil
	}
	resumes := s.follow(table(t, "public.t"), "", whole)
	lists := s.followAs(&follower{check: whole, anew: true}, table(t, "public.t"), "")
	for i := range 200 {
		f.db.Exec(fmt.Sprintf("BEGIN; UPDATE t SET n = n - 1 WHERE id = %d; UPDATE t SET n = n + 1 WHERE id = %d; COMMIT", 1+i%50, 1+(i*7+3)%50))
	}
	resumes.converges("")
	lists.converges("")
}

// TestStartWithoutNATS: a sidecar that starts while NATS is away serves what it has on disk, says how old that is, or refuses
// where it is too old for its configuration, and catches up by itself when NATS is back.
func TestStartWithoutNATS(t *testing.T) {
	t.Parallel()
	f := fleetOn(t, harness.Database(t), harness.NATSServer(t, natsserver.Config{}), "public.t")
	f.db.Exec(numbers)
	source := f.source()
	serves := f.sidecar()
	f.more.sidecar = "stale: {fail: {after: 100ms}}"
	fails := f.cache("fails", f.start)
	f.converges(serves)
	f.eventually("the other cache", func() error {
		if err := fails.equals(); err != nil && !strings.Contains(err.Error(), "sidecar.stale allows 100ms") { // markers come once a second
			return err
		}
		return nil
	})
	for _, m := range []*member{serves.member, fails.member, source} {
		m.stop()
	}
	f.bus.Server.Stop()
	f.db.Exec("UPDATE t SET n = 7 WHERE id = 7; DELETE FROM t WHERE id = 8")
	fails.member = f.start("sidecar", "fails")
	f.more.sidecar = ""
	serves.member = f.start("sidecar", "sidecar")
	age := func() (float64, error) {
		resp, err := serves.http.Get("http://sidecar" + tablePath(table(t, "public.t")) + "/rows/7")
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Syncd-Version") == "" {
			return 0, fmt.Errorf("status %d, %v", resp.StatusCode, resp.Header)
		}
		return strconv.ParseFloat(resp.Header.Get("Syncd-Age"), 64)
	}
	first := 0.0
	f.eventually("rows from the disk", func() (err error) {
		first, err = age()
		return err
	})
	f.eventually("the age to grow", func() error {
		if now, err := age(); err != nil || now <= first || first <= 0 {
			return fmt.Errorf("age %v, %v at first: %v", now, first, err)
		}
		return nil
	})
	if rows, _, err := serves.rows(table(t, "public.t")); err != nil || len(rows) != 50 {
		t.Errorf("%d rows are served, %v", len(rows), err)
	}
	if _, err := serves.ask(http.MethodGet, "/readyz"); err == nil || !strings.Contains(err.Error(), "the stream has not been reached yet") {
		t.Errorf("readyz says %v", err)
	}
	f.eventually("the other sidecar to refuse", func() error {
		_, err := fails.row(table(t, "public.t"), syncd.MakeKey("7"))
		if e, ok := errors.AsType[*answerError](err); !ok || e.status != http.StatusServiceUnavailable || !strings.Contains(e.body, "sidecar.stale allows 100ms") {
			return fmt.Errorf("it says %v", err)
		}
		return nil
	})
	if err := f.bus.Server.Start(); err != nil {
		t.Fatal(err)
	}
	f.source()
	f.converges(serves)
	serves.ready()
	f.eventually("the other sidecar to serve", func() error {
		row, err := fails.row(table(t, "public.t"), syncd.MakeKey("7"))
		if err != nil || row != `{"id":7,"n":7}` {
			return fmt.Errorf("row %s, %v", row, err)
		}
		return nil
	})
}
