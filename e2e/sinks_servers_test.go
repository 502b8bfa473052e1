package e2e

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/redisserver"
)

// churn changes a table of ids and names, n statements long, so that each id's last change can be told.
func churn(db *harness.DB, round, n int) {
	for i := range n {
		id := (round*7 + i*13) % 50
		switch i % 5 {
		case 4:
			db.Exec("DELETE FROM people WHERE id = $1", id)
		default:
			db.Exec("INSERT INTO people VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name", id, fmt.Sprintf("n%d %d", round, i))
		}
	}
}

// names gives the rows of people in Postgres, as id and name.
func names(db *harness.DB) []string {
	var all []string
	for _, r := range db.Query("SELECT id::text, name FROM people ORDER BY id") {
		all = append(all, strings.Join(r, " "))
	}
	slices.Sort(all)
	return all
}

// sameAsSink waits until another program finds in a sink what Postgres has, and HTTP answers with it too.
func sameAsSink(f *fleet, c *cache, what string, sink func() ([]string, error)) {
	f.t.Helper()
	people := f.tables[0].table
	f.eventually("sink and Postgres are equal "+what, func() error {
		if err := c.reach(people, f.db.LSN()); err != nil {
			return err
		}
		want := names(f.db)
		got, err := sink()
		if err != nil {
			return err
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("the sink has %d rows %.200q, Postgres %d %.200q", len(got), got, len(want), want)
		}
		rows, _, err := c.rows(people)
		if err == nil && len(rows) != len(want) {
			err = fmt.Errorf("HTTP gives %d rows, want %d", len(rows), len(want))
		}
		return err
	})
}

// TestRedisSink keeps a table in Redis through what can happen to both: Redis flushed, killed, restarted empty, the sidecar
// killed, a row spoilt.
func TestRedisSink(t *testing.T) {
	t.Parallel()
	server, err := redisserver.Start(t.Context(), redisserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	f := newFleet(t, "public.people")
	f.db.Exec("CREATE TABLE people (id int PRIMARY KEY, name text)")
	f.more.sidecar = fmt.Sprintf("sink: {redis: {url: %s, prefix: 'shop:', value: hash}}", text(server.URL()))
	f.source()
	c := f.cache("sidecar", f.process)
	other := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { other.Close() })
	rows := func() ([]string, error) {
		keys, err := other.Keys(t.Context(), "shop:public.people:*").Result()
		all := make([]string, 0, len(keys))
		for _, k := range keys {
			fields, err := other.HGetAll(t.Context(), k).Result()
			if err != nil {
				return nil, err
			}
			all = append(all, fields["id"]+" "+fields["name"])
		}
		return all, err
	}
	churn(f.db, 1, 60)
	sameAsSink(f, c, "at the start", rows)

	if err := other.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	churn(f.db, 2, 20)
	sameAsSink(f, c, "after FLUSHALL", rows)
	c.member.says(f, "not as it was left")

	server.Kill()
	churn(f.db, 3, 20)
	c.member.says(f, "is the server running")
	if _, err := c.ask("GET", tablePath(f.tables[0].table)+"/rows/1"); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a read without Redis: %v", err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameAsSink(f, c, "after Redis came back empty", rows)

	c.member.kill()
	churn(f.db, 4, 20)
	c.member = f.process("sidecar", "sidecar")
	sameAsSink(f, c, "after kill -9 of the sidecar", rows)

	c.finds(0)
	spoilt := spoilableID(f.db)
	if err := other.HSet(t.Context(), "shop:public.people:"+spoilt, "name", "Mallory").Err(); err != nil {
		t.Fatal(err)
	}
	c.finds(1)
	sameAsSink(f, c, "after a row was spoilt", rows)
}

// finds has people compared in every sink until that succeeds, and wants so many rows repaired; with none, nothing is under way
// any more behind it.
func (c *cache) finds(n int) {
	c.f.t.Helper()
	people := c.f.tables[0].table
	c.f.eventually(fmt.Sprintf("a resync that repairs %d rows", n), func() error {
		report, err := c.resync(people)
		if err != nil {
			return err
		}
		if found := report.Missing + report.Corrupt + report.Stale; found != n {
			return fmt.Errorf("it repaired %d: %+v", found, report)
		}
		return nil
	})
}

// spoilableID is the id of some row.
func spoilableID(db *harness.DB) string { return db.Text("SELECT min(id)::text FROM people") }

// TestPostgresSink keeps a table in another Postgres, beside memory, through a killed sidecar, a spoilt row, a schema that is
// dropped and a change of the table's shape.
func TestPostgresSink(t *testing.T) {
	t.Parallel()
	target := harness.Database(t)
	f := newFleet(t, "public.people")
	f.db.Exec("CREATE TABLE people (id int PRIMARY KEY, name text)")
	f.more.sidecar = fmt.Sprintf("sinks: [{postgres: {url: %s, schema: cache}}, memory]", text(target.URL))
	f.source()
	c := f.cache("sidecar", f.process)
	rows := func() (all []string, err error) {
		if target.Text("SELECT (to_regclass('cache.people') IS NOT NULL)::text") != "true" {
			return nil, fmt.Errorf("there is no cache.people")
		}
		for _, r := range target.Query("SELECT id::text, name FROM cache.people") {
			all = append(all, strings.Join(r, " "))
		}
		return all, nil
	}
	churn(f.db, 1, 60)
	sameAsSink(f, c, "at the start", rows)

	c.member.kill()
	churn(f.db, 2, 20)
	c.member = f.process("sidecar", "sidecar")
	sameAsSink(f, c, "after kill -9 of the sidecar", rows)

	f.db.Exec("ALTER TABLE people ADD COLUMN age int")
	f.db.Exec("UPDATE people SET age = id + 1")
	f.eventually("the new column is there", func() error {
		var n string
		if target.Text("SELECT count(*)::text FROM pg_attribute WHERE attrelid = 'cache.people'::regclass AND attname = 'age'") == "1" {
			n = target.Text("SELECT count(*)::text FROM cache.people WHERE age = id + 1")
		}
		if n != f.db.Text("SELECT count(*)::text FROM people") {
			return fmt.Errorf("%q rows have it", n)
		}
		return nil
	})

	c.finds(0)
	id, err := strconv.Atoi(spoilableID(f.db))
	if err != nil {
		t.Fatal(err)
	}
	target.Exec("UPDATE cache.people SET name = 'Mallory' WHERE id = $1", id)
	c.finds(1)
	sameAsSink(f, c, "after a row was spoilt", rows)

	target.Exec("DROP SCHEMA cache CASCADE")
	churn(f.db, 3, 20)
	sameAsSink(f, c, "after the schema was dropped", rows)
}
