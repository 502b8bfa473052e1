package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/redisserver"
)

// redisServer starts a Redis that ends with the test.
func redisServer(t *testing.T) *redisserver.Server {
	t.Helper()
	server, err := redisserver.Start(t.Context(), redisserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// TestSinkAway stops the Redis of one of three sinks. The others take in what comes meanwhile, HTTP reads their rows in their
// newest state and is listed and compared alone, and the one that was away has everything once its server is back.
func TestSinkAway(t *testing.T) {
	t.Parallel()
	server := redisServer(t)
	target := harness.Database(t)
	f := newFleet(t, "public.people")
	f.db.Exec("CREATE TABLE people (id int PRIMARY KEY, name text)")
	f.more.sidecar = fmt.Sprintf("sinks: [memory, {redis: {url: %s, prefix: 'shop:'}}, {postgres: {url: %s, schema: cache}}]", text(server.URL()), text(target.URL))
	f.source()
	c := f.sidecar()
	rows := func() (all []string, err error) {
		if target.Text("SELECT (to_regclass('cache.people') IS NOT NULL)::text") != "true" {
			return nil, errors.New("there is no cache.people")
		}
		for _, r := range target.Query("SELECT id::text, name FROM cache.people") {
			all = append(all, strings.Join(r, " "))
		}
		return all, nil
	}
	churn(f.db, 1, 60)
	sameAsSink(f, c, "at the start", rows)
	c.ready()

	server.Kill()
	for round := 2; round < 6; round++ {
		churn(f.db, round, 40)
		sameAsSink(f, c, "while another sink is away", rows) // HTTP reads what Postgres has, each row of its own write
	}
	c.member.says(f, "is the server running")
	if _, err := c.ask("GET", "/readyz"); err != nil {
		t.Errorf("who was ready is no more, because a sink went away: %v", err)
	}

	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { other.Close() })
	f.eventually("the sink that was away has caught up", func() error {
		keys, err := other.Keys(t.Context(), "shop:public.people:*").Result()
		if want := len(names(f.db)); err == nil && len(keys) != want {
			err = fmt.Errorf("it has %d rows, want %d", len(keys), want)
		}
		return err
	})
}
