package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
)

// lister makes a Lister for a watch that runs.
func (r *running) lister() *Lister {
	r.t.Helper()
	r.leads()
	l := NewLister(r.watch)
	r.t.Cleanup(l.Close)
	return l
}

// pages lists a table to its end.
func pages(t *testing.T, l *Lister, table syncd.Table, limit int) []*syncd.Page {
	t.Helper()
	var all []*syncd.Page
	r := syncd.ListRequest{Table: table, Limit: limit}
	for {
		p, err := l.List(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
		if p.Last {
			return all
		}
		if len(p.Rows) == 0 {
			t.Fatal("a page without rows that is not the last")
		}
		r.Started, r.After, r.Sent = true, p.After, p.Sent
	}
}

// listed gives the rows of pages, and checks that none comes twice and that the totals prove them.
func listed(t *testing.T, all []*syncd.Page) map[syncd.Key]string {
	t.Helper()
	rows := map[syncd.Key]string{}
	var sent syncd.Totals
	for _, p := range all {
		for _, r := range p.Rows {
			if _, twice := rows[r.Key]; twice {
				t.Errorf("%s comes twice", r.Key)
			}
			rows[r.Key] = string(r.JSON)
			sent.Add(r.Key, r.JSON)
		}
		if p.Sent != sent {
			t.Errorf("the page's totals are %+v, those of its rows %+v", p.Sent, sent)
		}
	}
	return rows
}

func TestListPagesByAnyKey(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE EXTENSION citext; CREATE EXTENSION btree_gin;
		CREATE COLLATION public.ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
		CREATE TYPE public.mood AS ENUM ('sad', 'ok', 'happy');
		CREATE DOMAIN public.short AS text CHECK (length(VALUE) < 50)`)
	tables := []struct{ name, columns, rows string }{
		{"ints", `id int PRIMARY KEY, v text`, `SELECT i, 'v' || i FROM generate_series(-50, 200) i`},
		{"composite", `a text, b int, c timestamptz, v text, PRIMARY KEY (c, a, b)`,
			`SELECT chr(97 + i % 5), i % 7, '2024-10-27 00:30:00+00'::timestamptz + (i % 11) * interval '7.123456 s', i FROM generate_series(1, 380) i`},
		{"unordered", `a int, b int, c int, PRIMARY KEY (c, b)`, `SELECT i, i % 17, i / 17 FROM generate_series(1, 300) i`},
		{"collated", `k text COLLATE "en-x-icu" PRIMARY KEY`, `SELECT chr(33 + i) || chr(90 - i % 60) FROM generate_series(0, 200) i WHERE i NOT IN (94, 95)`},
		{"insensitive", `k text COLLATE public.ci PRIMARY KEY, v int`, `SELECT CASE WHEN i % 2 = 0 THEN upper(md5(i::text)) ELSE md5(i::text) END, i FROM generate_series(1, 200) i`},
		{"citexts", `k public.citext, n int, PRIMARY KEY (k, n)`, `SELECT CASE WHEN i % 3 = 0 THEN upper(md5((i/4)::text)) ELSE md5((i/4)::text) END, i FROM generate_series(1, 200) i`},
		{"citextone", `k public.citext PRIMARY KEY`, `SELECT CASE WHEN i % 2 = 0 THEN 'B' ELSE 'a' END || i FROM generate_series(1, 100) i`},
		{"numerics", `k numeric PRIMARY KEY`, `SELECT i::numeric / 7 FROM generate_series(-100, 100) i UNION SELECT 'NaN'`},
		{"floats", `k float8 PRIMARY KEY`, `SELECT i::float8 / 3 FROM generate_series(-100, 100) i UNION SELECT 'Infinity' UNION SELECT '-Infinity' UNION SELECT 'NaN'`},
		{"bytes", `k bytea PRIMARY KEY`, `SELECT decode(md5(i::text), 'hex') FROM generate_series(1, 150) i UNION SELECT ''`},
		{"uuids", `k uuid PRIMARY KEY`, `SELECT md5(i::text)::uuid FROM generate_series(1, 150) i`},
		{"moods", `k public.mood, n int, PRIMARY KEY (k, n)`, `SELECT (ARRAY['happy','sad','ok'])[1 + i % 3]::public.mood, i FROM generate_series(1, 150) i`},
		{"domains", `k public.short PRIMARY KEY`, `SELECT 'd' || i FROM generate_series(1, 150) i UNION SELECT ''`},
		{"chars", `k char(5) PRIMARY KEY`, `SELECT i::text FROM generate_series(1, 150) i`},
		{"arrays", `k int[] PRIMARY KEY`, `SELECT ARRAY[i % 3, i] FROM generate_series(1, 150) i UNION SELECT '{}'`},
		{"pattern", `k text NOT NULL, v int`, `SELECT chr(33 + i) || i, i FROM generate_series(0, 90) i`},
		{"descending", `a int NOT NULL, b int NOT NULL, v int`, `SELECT i % 10, i, i FROM generate_series(0, 190) i`},
		{"quoted", `"a,b" text, "c""d" text, "SELECT" int, PRIMARY KEY ("c""d", "a,b")`, `SELECT 'x' || i, 'q"\,{}' || i % 5, i FROM generate_series(1, 120) i`},
		{"empty", `id int PRIMARY KEY`, `SELECT 1 WHERE false`},
	}
	var names []string
	for _, tt := range tables {
		names = append(names, "public."+tt.name)
		db.Exec(fmt.Sprintf("CREATE TABLE public.%s (%s); INSERT INTO public.%s %s", tt.name, tt.columns, tt.name, tt.rows))
	}
	db.Exec(`CREATE UNIQUE INDEX pattern_k ON public.pattern (k text_pattern_ops); ALTER TABLE public.pattern REPLICA IDENTITY USING INDEX pattern_k;
		CREATE UNIQUE INDEX descending_k ON public.descending (a DESC, b); ALTER TABLE public.descending REPLICA IDENTITY USING INDEX descending_k`)
	l := run(t, NewWatch(configFor(t, db, names...), new(Memory))).lister()
	for _, tt := range tables {
		table := syncd.Table{Schema: "public", Name: tt.name}
		t.Run(tt.name, func(t *testing.T) {
			want := harness.Oracle(t, db, table)
			checkDigest(t, l, table, want)
			got := listed(t, pages(t, l, table, 7))
			if !maps.Equal(got, want) {
				t.Errorf("listed %d rows, Postgres has %d\n%v\n%v", len(got), len(want), got, want)
			}
			keys := slices.Collect(maps.Keys(want))
			keys = append(keys, keys...)
			p, err := l.Get(t.Context(), syncd.GetRequest{Table: table, Keys: keys})
			if err != nil {
				t.Fatal(err)
			}
			if got := listed(t, []*syncd.Page{{Rows: p.Rows, Sent: totals(p.Rows)}}); !maps.Equal(got, want) {
				t.Errorf("got %d rows by key, Postgres has %d", len(got), len(want))
			}
		})
	}
}

func totals(rows []syncd.Row) (s syncd.Totals) {
	for _, r := range rows {
		s.Add(r.Key, r.JSON)
	}
	return s
}

func TestGetOfKeysThatCantBe(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text); INSERT INTO public.t SELECT i, i FROM generate_series(1, 9) i`)
	l := run(t, NewWatch(configFor(t, db, "public.t"), new(Memory))).lister()
	asked := []syncd.Key{"3", "x", "", "7", "99999999999", syncd.MakeKey("1", "2"), "12", "03"}
	p, err := l.Get(t.Context(), syncd.GetRequest{Table: tableT, Keys: asked})
	if err != nil {
		t.Fatal(err)
	}
	var got []syncd.Key
	for _, r := range p.Rows {
		got = append(got, r.Key)
	}
	slices.Sort(got)
	if !slices.Equal(got, []syncd.Key{"3", "7"}) || !slices.Equal(p.Asked, asked) || p.Snapshot == nil {
		t.Errorf("got %q of %q", got, p.Asked)
	}
	if _, err := l.Get(t.Context(), syncd.GetRequest{Table: syncd.Table{Schema: "public", Name: "none"}, Keys: asked}); !errors.Is(err, syncd.ErrNoTable) {
		t.Errorf("a table that is not synced: %v", err)
	}
}

func TestListUnderWriters(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	// Two columns that every transaction keeps equal, and rows that come and go beside those that stay.
	db.Exec(`CREATE TABLE public.t (g int, id int, a int, b int, PRIMARY KEY (g, id));
		INSERT INTO public.t SELECT i % 3, i, 0, 0 FROM generate_series(1, 600) i`)
	l := run(t, NewWatch(configFor(t, db, "public.t"), new(Memory))).lister()
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	defer writers.Wait()
	defer cancel()
	for n := range 3 {
		c := db.Conn()
		writers.Go(func() {
			for i := 1; ctx.Err() == nil; i++ {
				id := 10_000 + n*1000 + i%500
				_, err := c.Exec(ctx, `WITH u AS (UPDATE public.t SET a = a + 1, b = b + 1 WHERE id % 50 = $1 % 50 AND id <= 600 RETURNING 1),
					d AS (DELETE FROM public.t WHERE id = $2) INSERT INTO public.t VALUES ($1 % 3, $2 + 5000, 0, 0) ON CONFLICT DO NOTHING`, i, id)
				if err != nil && ctx.Err() == nil {
					t.Errorf("writer %d: %v", n, err)
					return
				}
			}
		})
	}
	for range 20 {
		all := pages(t, l, tableT, 50)
		rows := listed(t, all)
		for key := range rows {
			if v := key.Values(); len(v) != 2 {
				t.Fatalf("key %q", key)
			}
		}
		for i := 1; i <= 600; i++ {
			row, ok := rows[syncd.MakeKey(fmt.Sprint(i%3), fmt.Sprint(i))]
			if !ok {
				t.Fatalf("row %d, which is always there, is not listed", i)
			}
			var g, id, a, b int
			if _, err := fmt.Sscanf(row, `{"g":%d,"id":%d,"a":%d,"b":%d}`, &g, &id, &a, &b); err != nil || a != b {
				t.Fatalf("row %s is torn (%v)", row, err)
			}
		}
		for i, p := range all {
			if p.Snapshot.H == 0 || p.Snapshot.Xmax == 0 || p.Snapshot.Epoch == 0 || p.System == 0 || p.Timeline == 0 || p.Schema == 0 {
				t.Fatalf("page %d: %+v", i, p)
			}
			flushed, err := syncd.ParseLSN(db.Text("SELECT pg_catalog.pg_current_wal_flush_lsn()"))
			if err != nil || flushed < p.Snapshot.H {
				t.Fatalf("the page's H is %s, the log is flushed up to %s (%v)", p.Snapshot.H, flushed, err)
			}
		}
	}
}

func TestListIsSharedAndBounded(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text); INSERT INTO public.t SELECT i, 'x' FROM generate_series(1, 100) i;
		CREATE TABLE public.u (id int PRIMARY KEY)`)
	cfg := configFor(t, db, "public.t", "public.u")
	cfg.ListConcurrency = 1
	l := run(t, NewWatch(cfg, new(Memory))).lister()
	hold := db.Conn() // so that a page has to wait for its lock
	if _, err := hold.Exec(t.Context(), "BEGIN; LOCK TABLE public.t IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	const asking = 5
	got := make(chan *syncd.Page, asking)
	for range asking {
		go func() {
			p, err := l.List(t.Context(), syncd.ListRequest{Table: tableT, Limit: 10})
			if err != nil {
				t.Error(err)
			}
			got <- p
		}()
	}
	harness.Eventually(t, "the page waits for its lock", func() error {
		if db.Text(`SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'public.t'::regclass`) != "1" {
			return errors.New("nobody waits")
		}
		return nil
	})
	harness.Eventually(t, "all ask for it", func() error {
		l.flights.mu.Lock()
		defer l.flights.mu.Unlock()
		for _, f := range l.flights.byID {
			if f.waiting == asking {
				return nil
			}
		}
		return errors.New("not all wait")
	})
	if _, err := l.List(t.Context(), syncd.ListRequest{Table: syncd.Table{Schema: "public", Name: "u"}}); !errors.Is(err, syncd.ErrBusy) {
		t.Errorf("a second scan where one may run: %v", err)
	}
	if _, err := hold.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	first := harness.Receive(t, "a page", got)
	for range asking - 1 {
		if p := harness.Receive(t, "a page", got); p == nil || first == nil || p.Snapshot != first.Snapshot || &p.Rows[0] != &first.Rows[0] {
			t.Errorf("a page of its own: %+v", p)
		}
	}
}

// TestKeptPageIsGivenOnlyWhereItIsOfUse: a page kept from a moment ago is of no use to whoever has seen something later, and is
// read anew for him, once.
func TestKeptPageIsGivenOnlyWhereItIsOfUse(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text); INSERT INTO public.t VALUES (1, 'old')`)
	l := run(t, NewWatch(configFor(t, db, "public.t"), new(Memory))).lister()
	list := func(since *syncd.Snapshot) *syncd.Page {
		t.Helper()
		p, err := l.List(t.Context(), syncd.ListRequest{Table: tableT, Since: since})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	list(nil)
	db.Exec("UPDATE public.t SET v = 'new'")
	seen, err := l.Get(t.Context(), syncd.GetRequest{Table: tableT, Keys: []syncd.Key{syncd.MakeKey("1")}})
	if err != nil {
		t.Fatal(err)
	}
	if p := list(seen.Snapshot); !p.Snapshot.Later(seen.Snapshot) || string(p.Rows[0].JSON) != `{"id":1,"v":"new"}` {
		t.Errorf("after %s: %s of %s", seen.Snapshot.Text(), p.Rows[0].JSON, p.Snapshot.Text())
	}
	never := &syncd.Snapshot{Epoch: seen.Snapshot.Epoch + 1}
	before := l.flights.number()
	list(never)
	if n := l.flights.number() - before; n == 0 || n > 2 { // the page, and the one before it where that was still kept
		t.Errorf("%d pages were read for a snapshot that none is later than", n)
	}
}

func TestListFailsAsAWhole(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text); INSERT INTO public.t SELECT i, 'x' FROM generate_series(1, 100) i`)
	l := run(t, NewWatch(configFor(t, db, "public.t"), new(Memory))).lister()
	hold := db.Conn()
	if _, err := hold.Exec(t.Context(), "BEGIN; LOCK TABLE public.t IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		p, err := l.List(ctx, syncd.ListRequest{Table: tableT})
		if p != nil {
			err = fmt.Errorf("a page of %d rows, and %w", len(p.Rows), err)
		}
		failed <- err
	}()
	harness.Eventually(t, "the page waits for its lock", func() error {
		if db.Text(`SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'public.t'::regclass`) != "1" {
			return errors.New("nobody waits")
		}
		return nil
	})
	cancel()
	if err := harness.Receive(t, "the list's end", failed); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "a page of") {
		t.Errorf("a list that was cancelled: %v", err)
	}
	harness.Eventually(t, "the server is told", func() error {
		if n := db.Text(`SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'public.t'::regclass`); n != "0" {
			return fmt.Errorf("%s still wait", n)
		}
		return nil
	})
	if _, err := hold.Exec(t.Context(), "TRUNCATE public.t; COMMIT"); err != nil {
		t.Fatal(err)
	}
	if rows := listed(t, pages(t, l, tableT, 0)); len(rows) != 0 {
		t.Errorf("%d rows of an empty table", len(rows))
	}
}

// A page has the columns that the table has in the page's own snapshot, also those that were added since the catalog was last
// looked at: a list that a delta with a new column brings about must not take the column away again.
func TestListHasColumnsThatWereJustAdded(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text); INSERT INTO public.t VALUES (1, 'x')`)
	l := run(t, NewWatch(configFor(t, db, "public.t"), new(Memory))).lister()
	for i := range 5 {
		db.Exec(fmt.Sprintf(`ALTER TABLE public.t ADD COLUMN c%d int DEFAULT %d`, i, i))
		p, err := l.Get(t.Context(), syncd.GetRequest{Table: tableT, Keys: []syncd.Key{"1"}})
		if err != nil {
			t.Fatal(err)
		}
		want := db.Text(`SELECT row_to_json(t)::text FROM public.t`)
		if len(p.Rows) != 1 || string(p.Rows[0].JSON) != want {
			t.Errorf("got %+v, want %s", p.Rows, want)
		}
		list, err := l.List(t.Context(), syncd.ListRequest{Table: tableT, Limit: 100 + i})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Rows) != 1 || string(list.Rows[0].JSON) != want {
			t.Errorf("listed %+v, want %s", list.Rows, want)
		}
	}
}

// A list that meets a table made anew looks at the catalog itself. That must not hide the change from the look that keeps the
// publication: the table would stay out of it.
func TestListHidesNothingFromThePublication(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text)`)
	cfg := configFor(t, db, "public.t")
	l := run(t, NewWatch(cfg, new(Memory))).lister()
	for range 3 {
		db.Exec(`DROP TABLE public.t; CREATE TABLE public.t (id int PRIMARY KEY, v text); INSERT INTO public.t VALUES (1, 'x')`)
		if err := l.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, "the publication holds the table", func() error {
			if n := db.Text(`SELECT count(*) FROM pg_publication_tables WHERE tablename = 't'`); n != "1" {
				return fmt.Errorf("it holds %s", n)
			}
			return nil
		})
	}
}
