package daemon

import (
	"context"

	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/postgres"
	"github.com/syncd-io/syncd/sink/redis"
)

// Stores in servers keep themselves what an earlier process left, and begin a new epoch in place: others read their rows under
// names that are given, so there is nowhere to build another beside them.

func redisOptions(c *config.RedisSink) redis.Options {
	return redis.Options{URL: c.URL.Reveal(), Prefix: c.Prefix, Key: c.Key, Values: redis.Values(c.Value)}
}

func postgresOptions(c *config.PostgresSink) postgres.Options {
	return postgres.Options{URL: c.URL.Reveal(), Schema: c.Schema}
}

func redisStores(s sinkSpec) (stores, error) {
	o := redisOptions(s.Redis)
	o.Log = s.log.With("stage", "sink")
	return stores{open: func() (sink.Store, error) { return redis.New(context.Background(), o) }}, nil
}

func postgresStores(s sinkSpec) (stores, error) {
	o := postgresOptions(s.Postgres)
	o.Log = s.log.With("stage", "sink")
	return stores{open: func() (sink.Store, error) { return postgres.New(context.Background(), o) }}, nil
}
