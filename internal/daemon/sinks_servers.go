package daemon

import (
	"context"

	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/postgres"
	"github.com/syncd-io/syncd/sink/redis"
)

// Stores in servers keep themselves what an earlier process left, and begin a new epoch in place: others read their rows under
// names that are given, so there is nowhere to build another beside them.

func redisStores(s sinkSpec) (stores, error) {
	o := redis.Options{URL: s.Redis.URL.Reveal(), Prefix: s.Redis.Prefix, Key: s.Redis.Key, Values: redis.Values(s.Redis.Value), Log: s.log.With("stage", "sink")}
	return stores{open: func() (sink.Store, error) { return redis.New(context.Background(), o) }}, nil
}

func postgresStores(s sinkSpec) (stores, error) {
	o := postgres.Options{URL: s.Postgres.URL.Reveal(), Schema: s.Postgres.Schema, Log: s.log.With("stage", "sink")}
	return stores{open: func() (sink.Store, error) { return postgres.New(context.Background(), o) }}, nil
}
