package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/postgres"
	"github.com/syncd-io/syncd/sink/redis"
	"github.com/syncd-io/syncd/sink/sqlite"
)

// checkSinks looks at each sink of the sidecar; a memory sink needs no more than the sidecar's data directory.
func checkSinks(ctx context.Context, c *config.Config) (all []Precondition, err error) {
	tables, err := checkedTables(c)
	if err != nil {
		return nil, err
	}
	names := sinkNames(c.Sidecar.Sinks)
	for i, s := range c.Sidecar.Sinks {
		var found []sink.Precondition
		switch {
		case s.SQLite != nil:
			dir := checkDir(names[i]+" directory", filepath.Dir(s.SQLite.Path))
			dir.Part = "sink"
			all = append(all, dir)
			if dir.OK {
				found = sqlite.Check(sqlite.Options{Path: s.SQLite.Path, Name: c.Name})
			}
		case s.Redis != nil:
			found = redis.Check(ctx, redisOptions(s.Redis))
		case s.Postgres != nil:
			found = postgres.Check(ctx, postgresOptions(s.Postgres), tables, c.Source.Publication)
		}
		for _, f := range found {
			all = append(all, Precondition{"sink", names[i] + " " + f.Name, f.OK, f.Detail, f.Mend, f.Unreachable})
		}
	}
	return all, nil
}

// checkedTables gives the tables that the sidecar keeps, as far as the configuration names them.
func checkedTables(c *config.Config) ([]syncd.Table, error) {
	k, err := keptOf(c)
	if err != nil || k.tables != nil {
		return k.tables, err
	}
	var all []syncd.Table
	for _, t := range c.Source.Tables {
		name, parseErr := syncd.ParseTable(t.Table)
		if parseErr != nil {
			err = errors.Join(err, fmt.Errorf("source.tables: %w", parseErr))
		}
		all = append(all, name)
	}
	return all, err
}
