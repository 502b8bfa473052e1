package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/pgserver"
	"github.com/syncd-io/syncd/resync"
)

// TestListsFromAStandby: lists and digests are read on a standby whose replay is held up again and again, while writers change the primary
// and the table is compared without pause. No key steps back, however old what the standby shows; and a standby that has not
// come to the epoch's start proves nothing.
func TestListsFromAStandby(t *testing.T) {
	t.Parallel()
	primary := harness.Server(t, pgserver.Options{})
	db := harness.DatabaseOn(t, primary)
	db.Exec(`CREATE TABLE t (id int PRIMARY KEY, n bigint); CREATE SEQUENCE s; INSERT INTO t SELECT i, nextval('s') FROM generate_series(1, 120) i;
		INSERT INTO t SELECT i, 0 FROM generate_series(1001, 9000) i`) // which nobody writes to: most buckets are at rest
	standby := harness.Standby(t, primary, pgserver.Options{})
	replay := &replica{t: t, conn: connect(t, standby.URL(db.Name))}
	f := fleetOn(t, db, harness.NATS(t), "public.t")
	f.more.source = "list_postgres: " + text(standby.URL(db.Name))
	name := table(t, "public.t")

	replay.pause()
	db.Exec("UPDATE t SET n = nextval('s') WHERE id <= 10") // the epoch will start behind this
	f.source()
	s := f.sidecar()
	f.eventually("a list of a standby that is before the epoch's start to be refused", func() error {
		_, err := s.resync(name)
		if err == nil {
			t.Fatal("it was taken")
		}
		if !strings.Contains(err.Error(), "replayed up to") {
			return err
		}
		return nil
	})
	if state, err := s.tables(); err != nil || state[name].Ready {
		t.Errorf("the table is ready: %+v, %v", state[name], err)
	}
	replay.resume()
	f.converges(s)
	if e, err := s.explain(name, "1"); err != nil || !e.Postgres.Standby || e.Cache.Snapshot == "" {
		t.Errorf("the row was not listed on the standby: %+v, %v", e, err)
	}

	seen := s.watch(name)
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for part := range 3 {
		conn := db.Conn()
		writers.Go(func() { scribble(ctx, t, conn, part, 3) })
	}
	held, free := map[resync.Mode]int{}, map[resync.Mode]int{} // comparisons that came to their end
	modes := []resync.Mode{resync.Full, resync.Digest}
	for range 6 {
		at := db.LSN()
		replay.pause()
		f.eventually("writers to go on while replay is held up", func() error {
			if now := db.LSN(); now < at+64<<10 {
				return fmt.Errorf("at %s, from %s", now, at)
			}
			return nil
		})
		for i := range 4 {
			compared(t, s, name, modes[i%2], held)
		}
		replay.resume()
		for i := range 4 {
			compared(t, s, name, modes[i%2], free)
		}
	}
	cancel()
	writers.Wait()
	// Amid so many writes hardly a bucket is at rest on a standby that is held up. Amid few, the others are proved.
	f.converges(s)
	replay.pause()
	db.Exec("UPDATE t SET n = nextval('s') WHERE id BETWEEN 1001 AND 1003")
	f.converges(s)
	for range 3 {
		compared(t, s, name, resync.Digest, held)
	}
	replay.resume()
	for _, mode := range modes {
		if held[mode] == 0 || free[mode] == 0 {
			t.Errorf("%s: %d comparisons came to their end while replay was held up, %d while not: nothing is tested", mode, held[mode], free[mode])
		}
	}
	f.converges(s)
	seen.end()
	s.resyncFindsNothing(0)
}

// listed lists the table once, and counts it where it came to its end.
func listed(t *testing.T, s *cache, name syncd.Table, ended *int) {
	t.Helper()
	all := map[resync.Mode]int{}
	compared(t, s, name, resync.Full, all)
	*ended += all[resync.Full]
}

// compared compares the table once; nothing of it may be a repair, since nothing was lost.
func compared(t *testing.T, s *cache, name syncd.Table, mode resync.Mode, ended map[resync.Mode]int) {
	t.Helper()
	r, err := s.resyncBy(mode, name)
	if err != nil {
		t.Logf("a comparison did not come to its end: %v", err)
		return
	}
	if mode == resync.Digest && r.Mode != mode {
		t.Logf("a digest was not to be had: %s", r.Note)
		return
	}
	ended[mode]++
	if r.Differences() != 0 {
		t.Errorf("a comparison with the standby repaired what was right: %+v", r)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// replica holds up the replay of a standby.
type replica struct {
	t    *testing.T
	conn *pgx.Conn
}

func (r *replica) pause() {
	r.t.Helper()
	if _, err := r.conn.Exec(r.t.Context(), "SELECT pg_wal_replay_pause()"); err != nil {
		r.t.Fatal(err)
	}
	harness.Eventually(r.t, "replay to be held up", func() error {
		var state string
		if err := r.conn.QueryRow(r.t.Context(), "SELECT pg_get_wal_replay_pause_state()").Scan(&state); err != nil || state != "paused" {
			return fmt.Errorf("it is %q: %w", state, err)
		}
		return nil
	})
}

func (r *replica) resume() {
	r.t.Helper()
	if _, err := r.conn.Exec(r.t.Context(), "SELECT pg_wal_replay_resume()"); err != nil {
		r.t.Fatal(err)
	}
}

// scribble changes the keys of one of several parts until ctx ends. Each change of a key has a greater n than all before.
func scribble(ctx context.Context, t *testing.T, conn *pgx.Conn, part, parts int) {
	chance := rand.New(rand.NewPCG(uint64(part), 1))
	for ctx.Err() == nil {
		id := chance.IntN(40)*parts + part + 1
		sql := "INSERT INTO t VALUES ($1, nextval('s')) ON CONFLICT (id) DO UPDATE SET n = excluded.n"
		if chance.IntN(5) == 0 {
			sql = "DELETE FROM t WHERE id = $1"
		}
		if _, err := conn.Exec(ctx, sql, id); err != nil && !errors.Is(err, context.Canceled) && ctx.Err() == nil {
			t.Errorf("write: %v", err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Millisecond): // two processors are everybody's
		}
	}
}
