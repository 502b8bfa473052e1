package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/syncd-io/syncd/internal/pgserver"
	"github.com/syncd-io/syncd/sink/postgres"
)

// postgresSink compares the deltas of random rows of 200 bytes that a cache in Postgres takes in a second, in flushes of 1,000, with
// what the same rows take in plain INSERT … ON CONFLICT DO UPDATE statements of as many rows, each a transaction, into a table of the
// same columns.
func postgresSink(ctx context.Context, o options) (err error) {
	pg, err := pgserver.Start(ctx, pgserver.Options{Own: true, TCP: o.tcp, Settings: map[string]string{
		"shared_buffers": "256MB", "max_wal_size": "16GB", "checkpoint_timeout": "1h",
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pg.Stop()) }()
	url := pg.URL("postgres")
	if o.tcp {
		url = pg.TCPURL("postgres")
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "CREATE TABLE plain (id bigint PRIMARY KEY, note text)"); err != nil {
		return err
	}
	store, err := postgres.New(ctx, postgres.Options{URL: url, Schema: "bench"})
	if err != nil {
		return err
	}
	c, err := newCachesIn(store, sinkRows)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := conn.Exec(ctx, "INSERT INTO plain SELECT id, note FROM bench.item"); err != nil {
		return err
	}
	var floor, ours []float64
	for range o.rounds {
		took, err := c.plain(ctx, conn)
		if err != nil {
			return err
		}
		floor = append(floor, postgresDeltas/took.Seconds())
		took, err = 0, nil
		for n := 0; n < postgresDeltas; n += flushSize {
			c.fill(flushSize, c.any)
			begin := time.Now()
			if err := c.apply(); err != nil {
				return err
			}
			took += time.Since(begin)
		}
		ours = append(ours, postgresDeltas/took.Seconds())
	}
	text := func(r float64) string { return fmt.Sprintf("%.0f", r) }
	fmt.Printf("postgres: INSERT … ON CONFLICT %.0f rows a second (%s), deltas %.0f a second (%s): ratio %.2f\n",
		median(floor), each(floor, text), median(ours), each(ours, text), median(ours)/median(floor))
	return nil
}

const postgresDeltas = 50_000 // a round

// plain writes rows of the form of the cache's by one statement for each 1,000, of which no key comes twice.
func (c *caches) plain(ctx context.Context, conn *pgx.Conn) (took time.Duration, err error) {
	for n := 0; n < postgresDeltas; n += flushSize {
		c.fill(flushSize, c.any)
		rows := make(map[string]string, flushSize)
		for i := range c.deltas {
			rows[string(c.deltas[i].Key)] = string(c.deltas[i].Row)
		}
		texts := make([]string, 0, len(rows))
		for _, r := range rows {
			texts = append(texts, r)
		}
		begin := time.Now()
		_, err := conn.Exec(ctx, `INSERT INTO plain SELECT (r->>'id')::bigint, r->>'note' FROM unnest($1::json[]) r
			ON CONFLICT (id) DO UPDATE SET note = EXCLUDED.note`, texts)
		if err != nil {
			return 0, err
		}
		took += time.Since(begin)
	}
	return took, nil
}
