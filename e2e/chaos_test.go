package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/natsserver"
	"github.com/syncd-io/syncd/internal/pgserver"
)

// writer writes to table t (id, n, v) all the time: each key's n is greater than all before it, also where the row is inserted
// anew. Each writer has keys of its own.
type writer struct {
	url    string
	t      *testing.T
	dice   *rand.Rand
	first  int // its keys are first, first+step, …
	step   int
	keys   int
	async  bool // commits need not be on disk
	n      int64
	wrote  int
	failed int
}

// run writes until ctx ends. What a server that went away has made of a commit does not matter: the next one is newer.
func (w *writer) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := w.session(ctx); err != nil && ctx.Err() == nil {
			if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code[:2] != "57" {
				w.t.Errorf("write: %v", err)
				return
			}
			w.failed++
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond): // the server is away
			}
		}
	}
}

func (w *writer) session(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, w.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if w.async {
		if _, err := conn.Exec(ctx, "SET synchronous_commit = off"); err != nil {
			return err
		}
	}
	for {
		if err := w.transaction(ctx, conn); err != nil {
			return err
		}
		w.wrote++
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(w.dice.IntN(4)) * time.Millisecond): // a load that leaves the machine to others too
		}
	}
}

// transaction changes a few rows, or many at times.
func (w *writer) transaction(ctx context.Context, conn *pgx.Conn) error {
	rows := 1 + w.dice.IntN(3)
	if w.dice.IntN(50) == 0 {
		rows = 200
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for range rows {
			id := w.first + w.step*w.dice.IntN(w.keys)
			w.n++
			var err error
			switch w.dice.IntN(6) {
			case 0:
				_, err = tx.Exec(ctx, "DELETE FROM t WHERE id = $1", id)
			case 1: // the large value stays
				_, err = tx.Exec(ctx, "UPDATE t SET n = $2 WHERE id = $1", id, w.n)
			default:
				_, err = tx.Exec(ctx, "INSERT INTO t VALUES ($1, $2, repeat('x', $3)) ON CONFLICT (id) DO UPDATE SET n = excluded.n, v = excluded.v",
					id, w.n, 1+w.dice.IntN(2)*5000)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// chaos is a fleet on servers of its own, and what can happen to it.
type chaos struct {
	*fleet
	dice    *rand.Rand
	postgre *pgserver.Server
	source  *member
	caches  []*cache
	sources int
}

// strike has one thing go wrong, and says what.
func (c *chaos) strike(i int) string {
	c.t.Helper()
	must := func(err error) {
		c.t.Helper()
		if err != nil {
			c.t.Fatal(err)
		}
	}
	switch i {
	case 0:
		c.source.kill()
		c.source = c.process("source", c.next())
		return "the source was killed"
	case 1:
		c.source.stop()
		c.source = c.process("source", c.next())
		return "the source was restarted"
	case 2:
		old := c.source
		c.source = c.process("source", c.next())
		old.kill() // while the next stands by
		return "a second source took over"
	case 3, 4:
		one := c.caches[i-3]
		one.member.kill()
		one.member = c.process("sidecar", one.name)
		return one.name + " was killed"
	case 5:
		c.bus.Server.Stop()
		must(c.bus.Server.Start())
		return "NATS was restarted"
	case 6:
		must(c.postgre.Kill())
		must(c.postgre.Start(c.t.Context()))
		return "Postgres was killed"
	}
	must(c.postgre.Restart(c.t.Context()))
	return "Postgres was restarted"
}

// next names the next source's process.
func (c *chaos) next() string {
	c.sources++
	return fmt.Sprint("source", c.sources)
}

const strikes = 8

// TestNothingIsLost: source, sidecars, NATS and Postgres are killed and restarted in any order under load. No key that a
// cache serves behind its readiness probe ever steps back, and at the end each cache equals the table.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	pg := harness.Server(t, pgserver.Options{})
	db := harness.DatabaseOn(t, pg)
	db.Exec("CREATE TABLE t (id int PRIMARY KEY, n bigint, v text); ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &chaos{fleet: fleetOn(t, db, harness.NATSServer(t, natsserver.Config{}), "public.t"), dice: rand.New(rand.NewPCG(seed, 0)), postgre: pg}
	c.source = c.process("source", c.next())
	var seen []*witness
	for _, name := range []string{"one", "two"} {
		one := c.cache(name, c.process)
		c.caches = append(c.caches, one)
		seen = append(seen, one.watch(table(t, "public.t")))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writing sync.WaitGroup
	writers := make([]*writer, 4)
	for i := range writers {
		w := &writer{url: db.URL, t: t, dice: rand.New(rand.NewPCG(seed, uint64(i+1))), first: i, step: len(writers), keys: 50, async: i == 0}
		writers[i] = w
		writing.Go(func() { w.run(ctx) })
	}
	for _, c := range c.caches {
		c.ready()
	}
	order := append(c.dice.Perm(strikes), c.dice.Perm(strikes)...)
	for _, i := range order {
		select {
		case <-t.Context().Done():
		case <-time.After(time.Duration(c.dice.IntN(600)) * time.Millisecond): // a moment that nobody has chosen
		}
		t.Log(c.strike(i))
	}
	stop()
	writing.Wait()
	c.converges(c.caches...)
	wrote, failed := 0, 0
	for _, w := range writers {
		wrote, failed = wrote+w.wrote, failed+w.failed
	}
	t.Logf("%d transactions, %d sessions cut", wrote, failed)
	if wrote == 0 || failed == 0 {
		t.Errorf("%d transactions with %d sessions cut: they prove nothing", wrote, failed)
	}
	for _, w := range seen {
		w.end()
	}
}
