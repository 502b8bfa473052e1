package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// kinds is a table of many types, with a key of two columns.
const kinds = `CREATE TABLE kinds (region text, n int, at timestamptz, price numeric(20, 2), ratio float8, ok boolean, raw bytea, tags text[], doc jsonb, PRIMARY KEY (region, n))`

// kindsAnswer and kindsSQLite ask Postgres and the SQLite file for the same.
const (
	kindsAnswer = `SELECT concat_ws('|', region, n, row_to_json(k)->>'at', trim_scale(price), ratio, ok::int, encode(raw, 'hex'), array_to_json(tags), doc) FROM kinds k`
	kindsSQLite = `SELECT concat_ws('|', region, n, at, price, ratio, ok, CASE WHEN raw IS NOT NULL THEN lower(hex(raw)) END, tags, doc) FROM "public.kinds"`
)

// sqliteFile is a SQLite file of a sidecar that runs in another process.
type sqliteFile struct {
	f  *fleet
	db *sql.DB
}

func (f *fleet) openSQLite(path string) *sqliteFile {
	f.t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { db.Close() })
	return &sqliteFile{f, db}
}

// lines gives the answer of a query of one column, in order.
func (s *sqliteFile) lines(query string) ([]string, error) {
	rows, err := s.db.Query(query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return nil, err
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return all, rows.Err()
}

// answers waits until a query of the file gives what another gives of Postgres.
func (s *sqliteFile) answers(query, inPostgres string) {
	s.f.t.Helper()
	want := s.f.lines(inPostgres)
	s.f.eventually("the SQLite file to answer as Postgres: "+query, func() error {
		got, err := s.lines(query)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("%d lines, Postgres gives %d; the first that differs is %s", len(got), len(want), differs(got, want))
		}
		return err
	})
}

// lines gives the answer of a query of one column, in order, in the form that rows have.
func (f *fleet) lines(query string) []string {
	f.t.Helper()
	ctx := f.t.Context()
	conn, err := pgx.Connect(ctx, f.db.URL)
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "SET TimeZone = 'UTC'; SET DateStyle = 'ISO'; SET extra_float_digits = 1; SET bytea_output = 'hex'"); err != nil {
		f.t.Fatal(err)
	}
	rows, err := conn.Query(ctx, query)
	if err != nil {
		f.t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

func differs(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return got[i] + ", want " + want[i]
		}
	}
	return "behind the end of one"
}

// TestSQLiteFile reads the SQLite files of two sidecars: one gets a push that loses, doubles and reorders messages, the other is
// killed in the middle of its work. Readers of the other see whole transactions, and at the end both hold what Postgres does.
func TestSQLiteFile(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "public.t", "public.kinds", "public.pair")
	f.db.Exec("CREATE TABLE t (id int PRIMARY KEY, n bigint, v text); ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
	f.db.Exec(kinds)
	f.db.Exec("CREATE TABLE pair (id int PRIMARY KEY, n int); INSERT INTO pair VALUES (1, 100), (2, 0)")
	f.source()
	keep := func(name string) string {
		path := filepath.Join(f.dir, name+".db")
		f.more.sidecar = "sink: {sqlite: {path: " + text(path) + "}}"
		return path
	}
	lossy := f.openSQLite(keep("lossy"))
	// A TRUNCATE that is lost is a table of which a list lacks nearly all.
	f.more.sidecar += "\n  resync: {max_prune: 1}\n  faults: {drop: 0.05, duplicate: 0.05, reorder: 0.05, seed: 7}"
	one := f.cache("lossy", f.process)
	killed := f.openSQLite(keep("killed"))
	two := f.cache("killed", f.process)
	one.ready()
	two.ready()

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var busy sync.WaitGroup
	w := &writer{url: f.db.URL, t: t, dice: rand.New(rand.NewPCG(1, 2)), step: 1, keys: 100}
	for _, run := range []func(context.Context){w.run, f.moves, killed.sums} {
		busy.Go(func() { run(ctx) })
	}
	for range 3 {
		select {
		case <-t.Context().Done():
		case <-time.After(300 * time.Millisecond): // a moment that nobody has chosen
		}
		two.member.kill()
		two.member = f.process("sidecar", "killed")
	}
	f.db.Exec(`INSERT INTO kinds SELECT r, i, '2026-01-02 03:04:05.6+00'::timestamptz + i * interval '1 day', i * 1.25 + 0.01, i / 8.0::float8 + 0.0625, i % 2 = 0, decode('00ff', 'hex'), ARRAY['a"b', NULL], '{"k": [1, null]}'
		FROM generate_series(1, 300) i, unnest(ARRAY['eu', 'ü''"']) r`)
	f.db.Exec("UPDATE kinds SET price = 12345678901234567.89, doc = NULL, ratio = NULL WHERE n % 10 = 0; DELETE FROM kinds WHERE n % 10 = 1; UPDATE kinds SET n = n + 1000 WHERE n % 10 = 2")
	stop()
	busy.Wait()
	f.converges(one, two)
	for _, file := range []*sqliteFile{lossy, killed} {
		file.answers(`SELECT concat_ws('|', id, n, v) FROM "public.t"`, "SELECT concat_ws('|', id, n, v) FROM t")
		file.answers(kindsSQLite, kindsAnswer)
	}
	f.db.Exec("ALTER TABLE kinds ADD more int DEFAULT 7; ALTER TABLE kinds DROP tags; UPDATE kinds SET more = n WHERE n < 5")
	two.member.kill()
	f.db.Exec("TRUNCATE t; INSERT INTO t VALUES (5, 5, 'five')")
	two.member = f.process("sidecar", "killed")
	for _, file := range []*sqliteFile{lossy, killed} {
		file.answers(`SELECT concat_ws('|', region, n, more) FROM "public.kinds"`, "SELECT concat_ws('|', region, n, more) FROM kinds")
		file.answers(`SELECT concat_ws('|', id, n, v) FROM "public.t"`, "SELECT concat_ws('|', id, n, v) FROM t")
		if _, err := file.lines(`SELECT tags FROM "public.kinds"`); err == nil {
			t.Error("a column that was dropped is still there")
		}
	}
	f.converges(one, two)
	if w.wrote == 0 {
		t.Error("nothing was written")
	}
}

// moves moves something from one row to another, until ctx ends: in each transaction the two are 100 together.
func (f *fleet) moves(ctx context.Context) {
	conn, err := pgx.Connect(ctx, f.db.URL)
	if err != nil {
		return // ctx has ended, or the test will say what is wrong
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for i := 0; ctx.Err() == nil; i++ {
		if _, err := conn.Exec(ctx, "UPDATE pair SET n = CASE id WHEN 1 THEN $1::int ELSE 100 - $1::int END", i%100); err != nil && ctx.Err() == nil {
			f.t.Errorf("move: %v", err)
			return
		}
	}
}

// sums reads the two rows again and again: a reader who sees half of a transaction sees another sum.
func (s *sqliteFile) sums(ctx context.Context) {
	for ctx.Err() == nil {
		got, err := s.lines(`SELECT count(*) || ' ' || sum(n) FROM "public.pair"`)
		switch {
		case err != nil && (strings.Contains(err.Error(), "no such table") || strings.Contains(err.Error(), "schema") || strings.Contains(err.Error(), "locked") || strings.Contains(err.Error(), "unable to open")):
		case err != nil:
			s.f.t.Errorf("read the sum: %v", err)
			return
		case !slices.Equal(got, []string{"2 100"}):
			s.f.t.Errorf("the two rows are %s", got)
			return
		}
	}
}
