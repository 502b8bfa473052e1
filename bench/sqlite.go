package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	_ "modernc.org/sqlite"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/natsserver"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/sqlite"
)

// The SQLite benchmark changes random ones of so many rows, in flushes of so many, so many times a round.
const (
	sqliteRows    = 100_000
	sqliteFlush   = 5_000
	sqliteFlushes = 10
)

// person is a row of the SQLite benchmark.
type person struct {
	id, tenant           int64
	email, name, created string
}

func newPerson(id int64) person {
	n := rand.IntN(1e6)
	return person{id, id % 100, "someone." + strconv.FormatInt(id, 10) + "@example.com", "Some One " + strconv.Itoa(n), fmt.Sprintf("2026-01-02T03:04:05.%06d+00:00", n)}
}

func (p *person) json() []byte {
	return fmt.Appendf(nil, `{"id":%d,"tenant_id":%d,"email":%q,"name":%q,"status":"active","created_at":%q}`, p.id, p.tenant, p.email, p.name, p.created)
}

var people = syncd.TableInfo{Table: syncd.Table{Schema: "public", Name: "users"}, Key: []string{"id"}, Schema: 1,
	Columns: []string{"id", "tenant_id", "email", "name", "status", "created_at"},
	Types:   []string{"bigint", "bigint", "text", "text", "text", "timestamp with time zone"}}

// somebody gives the rows of the next flush: random ones, none twice, or those behind from.
func somebody(n int, from int64) []person {
	all, seen := make([]person, 0, n), map[int64]bool{}
	for len(all) < n {
		id := from + int64(len(all))
		if from < 0 {
			if id = rand.Int64N(sqliteRows); seen[id] {
				continue
			}
			seen[id] = true
		}
		all = append(all, newPerson(id))
	}
	return all
}

// cachedPeople is a cache over a SQLite file.
type cachedPeople struct {
	*sink.Cache
	at syncd.LSN
}

func (c *cachedPeople) flush(all []person) func() error {
	deltas := make([]syncd.Delta, len(all))
	c.at++
	for i := range all {
		deltas[i] = syncd.Delta{Table: people.Table, Op: syncd.Upsert, Key: syncd.MakeKey(strconv.FormatInt(all[i].id, 10)), XID: syncd.XID(c.at), Schema: 1,
			Version: syncd.Version{Epoch: 1, LSN: c.at, Ordinal: uint32(i + 1)}, Row: all[i].json()}
	}
	m := &syncd.Marker{Epoch: 1, Previous: c.at - 1, Through: c.at, Safe: c.at}
	return func() error {
		return c.Flush(&sink.Flush{Marker: m, Seq: uint64(m.Through), Deltas: map[syncd.Table][]syncd.Delta{people.Table: deltas}})
	}
}

// plainly gives a loop of INSERT OR REPLACE in one transaction.
func plainly(db *sql.DB, all []person) func() error {
	return func() error {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		defer tx.Rollback() // after Commit it does nothing
		insert, err := tx.Prepare("INSERT OR REPLACE INTO users VALUES (?, ?, ?, ?, ?, ?)")
		if err != nil {
			return err
		}
		defer insert.Close()
		for i := range all {
			p := &all[i]
			if _, err := insert.Exec(p.id, p.tenant, p.email, p.name, "active", p.created); err != nil {
				return err
			}
		}
		return tx.Commit()
	}
}

// applySQLite measures how many deltas a second a cache takes into a SQLite file, with an index beside the key, against a loop
// that replaces the same rows in a bare table of another file.
func applySQLite(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "syncd-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(sqlite.Options{Path: filepath.Join(dir, "cache.db"), Name: "bench", Indexes: map[syncd.Table][][]string{people.Table: {{"email"}}}})
	if err != nil {
		return err
	}
	c := &cachedPeople{Cache: sink.New(sink.Options{Store: store}), at: 1}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.SetTables([]syncd.TableInfo{people}); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "plain.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=cache_size(-65536)")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE users (id INTEGER PRIMARY KEY, tenant_id INTEGER, email TEXT, name TEXT, status TEXT, created_at TEXT)"); err != nil {
		return err
	}
	for at := int64(0); at < sqliteRows; at += sqliteFlush {
		rows := somebody(sqliteFlush, at)
		if err := errors.Join(c.flush(rows)(), plainly(db, rows)()); err != nil {
			return err
		}
	}
	var ours, plain, oursCPU, plainCPU []float64
	for range o.rounds {
		var wall, cpu [2]time.Duration
		for range sqliteFlushes {
			rows := somebody(sqliteFlush, -1)
			for i, step := range []func() error{c.flush(rows), plainly(db, rows)} {
				begin, used := time.Now(), ownCPU()
				if err := step(); err != nil {
					return err
				}
				wall[i], cpu[i] = wall[i]+time.Since(begin), cpu[i]+ownCPU()-used
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		const n = sqliteFlush * sqliteFlushes
		ours, plain = append(ours, n/wall[0].Seconds()), append(plain, n/wall[1].Seconds())
		oursCPU, plainCPU = append(oursCPU, n/cpu[0].Seconds()), append(plainCPU, n/cpu[1].Seconds())
	}
	text := func(r float64) string { return fmt.Sprintf("%.0f", r) }
	fmt.Printf("sqlite: flushes of %d of %d rows: %.0f deltas a second (%s; want 50000 or more), INSERT OR REPLACE into a bare table %.0f (%s): ratio %.2f\n", sqliteFlush, sqliteRows,
		median(ours), each(ours, text), median(plain), each(plain, text), median(ours)/median(plain))
	fmt.Printf("sqlite: for a second of processor time %.0f deltas (%s), INSERT OR REPLACE %.0f (%s): ratio %.2f\n",
		median(oursCPU), each(oursCPU, text), median(plainCPU), each(plainCPU, text), median(oursCPU)/median(plainCPU))
	return nil
}

// listSQLite measures the first list of a table into a sidecar whose sink is a SQLite file: time, processor time, memory.
func listSQLite(ctx context.Context, r *rig, o options) error {
	if err := r.fill(ctx, o.rows); err != nil {
		return err
	}
	nats, err := natsserver.Start(natsserver.Config{Dir: filepath.Join(r.dir, "nats"), Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer nats.Close()
	config, addr, err := r.config("file", fmt.Sprintf("{url: %q}", nats.URL()))
	if err != nil {
		return err
	}
	path := filepath.Join(r.dir, "cache.db")
	if err := replaceText(config, "sidecar: {", fmt.Sprintf("sidecar: {sink: {sqlite: {path: %q}}, ", path)); err != nil {
		return err
	}
	source, err := r.start(ctx, "source", config, addr)
	if err != nil {
		return err
	}
	lsn, err := r.lsn(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	sidecar, err := r.start(ctx, "sidecar", config, addr)
	if err == nil {
		err = sidecar.reached(ctx, lsn)
	}
	if err != nil {
		return err
	}
	took, used := time.Since(begin), sidecar.cpu()
	now, peak, err := sidecar.resident()
	if err != nil {
		return err
	}
	size := func(end string) int64 {
		info, err := os.Stat(path + end)
		if err != nil {
			return 0
		}
		return info.Size() >> 20
	}
	fmt.Printf("sqlitelist: first list of %d rows: %.1f s, %.1f s of the sidecar's processor time; %d MiB resident, peak %d MiB; file %d MiB, its log %d MiB\n", o.rows,
		took.Seconds(), used.Seconds(), now>>20, peak>>20, size(""), size("-wal"))
	return errors.Join(sidecar.stop(), source.stop())
}
