package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/syncd-io/syncd/internal/harness"
)

// TestSinksKeepTheirRowsThroughANewEpoch loses the slot under a Redis and a Postgres sink. Whoever reads those servers finds a row
// that did not change at every moment, and in the end what Postgres has: what changed and what was deleted meanwhile too.
func TestSinksKeepTheirRowsThroughANewEpoch(t *testing.T) {
	t.Parallel()
	server := redisServer(t)
	target := harness.Database(t)
	f := newFleet(t, "public.people")
	f.db.Exec("CREATE TABLE people (id int PRIMARY KEY, name text)")
	f.db.Exec("INSERT INTO people SELECT i, 'n' || i FROM generate_series(1, 3000) i")
	f.more.sidecar = fmt.Sprintf("sinks: [{redis: {url: %s, prefix: 'shop:'}}, {postgres: {url: %s, schema: cache}}]", text(server.URL()), text(target.URL))
	source := f.source()
	c := f.sidecar()
	other := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { other.Close() })
	inRedis := func() ([]string, error) {
		keys, err := other.Keys(t.Context(), "shop:public.people:*").Result()
		return keys, err
	}
	inPostgres := func() (all []string, err error) {
		if target.Text("SELECT (to_regclass('cache.people') IS NOT NULL)::text") != "true" {
			return nil, errors.New("there is no cache.people")
		}
		for _, r := range target.Query("SELECT id::text, name FROM cache.people") {
			all = append(all, strings.Join(r, " "))
		}
		return all, nil
	}
	equal := func(what string) {
		t.Helper()
		sameAsSink(f, c, what, inPostgres)
		f.eventually("Redis has the rows "+what, func() error {
			keys, err := inRedis()
			if want := len(names(f.db)); err == nil && len(keys) != want {
				err = fmt.Errorf("it has %d, want %d", len(keys), want)
			}
			return err
		})
	}
	equal("at the start")

	source.stop()
	f.db.Exec("UPDATE people SET name = 'changed' WHERE id <= 10")
	f.db.Exec("DELETE FROM people WHERE id BETWEEN 20 AND 30")
	f.eventually("the slot is dropped", func() error {
		f.db.Exec(`DO $$ BEGIN PERFORM pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database();
			EXCEPTION WHEN object_in_use THEN NULL; END $$`)
		if n := f.db.Text("SELECT count(*)::text FROM pg_replication_slots WHERE database = current_database()"); n != "0" {
			return errors.New("it is in use")
		}
		return nil
	})
	end := watched(t, target.URL, other)
	f.start("source", "second").says(f, "the replication slot is gone")
	f.converges(c)
	equal("in the new epoch")
	end()
	got, err := other.MGet(t.Context(), "shop:public.people:5", "shop:public.people:25", "shop:public.people:2999").Result()
	if want := []any{`{"id":5,"name":"changed"}`, nil, `{"id":2999,"name":"n2999"}`}; err != nil || !slices.Equal(got, want) {
		t.Errorf("Redis gives %v, %v, want %v", got, err, want)
	}
}

// watched reads a row that does not change, and how many there are, from both servers again and again, until it is ended.
func watched(t *testing.T, url string, other *redis.Client) (end func()) {
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		defer conn.Close(context.WithoutCancel(ctx))
		for ctx.Err() == nil {
			if n, err := other.Exists(ctx, "shop:public.people:2999").Result(); err == nil && n != 1 {
				done <- errors.New("a row that did not change is gone from Redis")
				return
			}
			var n int
			if err := conn.QueryRow(ctx, "SELECT count(*) FROM cache.people").Scan(&n); err == nil && n < 2989 {
				done <- fmt.Errorf("Postgres shows %d rows, and never were there less than 2989", n)
				return
			}
		}
		done <- nil
	}()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
