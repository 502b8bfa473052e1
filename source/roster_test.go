package source

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
)

func TestChangesThatTheStreamLacksAreToldOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		setup string
		ddl   string
		why   string // empty: nothing is to be listed again
		check string // a write behind it
	}{
		{name: "addcolumn", ddl: `ALTER TABLE public.addcolumn ADD n int DEFAULT 7`, why: "its columns"},
		{name: "dropcolumn", ddl: `ALTER TABLE public.dropcolumn DROP v`, why: "its columns", check: `UPDATE public.dropcolumn SET id = 100 WHERE id = 1`},
		{name: "retype", ddl: `ALTER TABLE public.retype ALTER v TYPE varchar(50)`, why: "its columns"},
		{name: "rewrite", ddl: `ALTER TABLE public.rewrite ALTER v TYPE text USING upper(v)`, why: "it was rewritten"},
		{name: "pkey", ddl: `ALTER TABLE public.pkey DROP CONSTRAINT pkey_pkey, ADD PRIMARY KEY (v, id)`, why: "its columns"},
		{name: "anew", ddl: `DROP TABLE public.anew; CREATE TABLE public.anew (id int PRIMARY KEY, v text); INSERT INTO public.anew VALUES (1, 'y')`, why: "it was made anew"},
		{name: "label", setup: `CREATE TYPE public.mood AS ENUM ('sad', 'ok'); CREATE TABLE public.label (id int PRIMARY KEY, v public.mood); INSERT INTO public.label VALUES (1, 'sad')`,
			ddl: `ALTER TYPE public.mood RENAME VALUE 'ok' TO 'fine'`, why: "its columns, their types", check: `UPDATE public.label SET v = 'fine'`},
		{name: "part", setup: `CREATE TABLE public.part (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TABLE public.part1 PARTITION OF public.part FOR VALUES FROM (0) TO (10);
			CREATE TABLE public.part2 (id int PRIMARY KEY, v text); INSERT INTO public.part2 VALUES (11, 'x'); INSERT INTO public.part VALUES (1, 'x')`,
			ddl: `ALTER TABLE public.part ATTACH PARTITION public.part2 FOR VALUES FROM (10) TO (20)`, why: "its partitions changed"},
		{name: "leaftrunc", setup: `CREATE TABLE public.leaftrunc (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TABLE public.leaftrunc1 PARTITION OF public.leaftrunc FOR VALUES FROM (0) TO (10);
			INSERT INTO public.leaftrunc VALUES (1, 'x')`, ddl: `TRUNCATE public.leaftrunc1`, why: "its partitions changed", check: `INSERT INTO public.leaftrunc VALUES (2, 'y')`},
		{name: "gap", ddl: `ALTER PUBLICATION %[1]s DROP TABLE public.gap; UPDATE public.gap SET v = 'missed'; ALTER PUBLICATION %[1]s ADD TABLE public.gap`, why: "left the publication and came back"},
		{name: "remade", ddl: `ALTER TABLE public.remade ADD n int DEFAULT 1; ALTER TABLE public.remade DROP v; ALTER TABLE public.remade ADD v text DEFAULT 'x'; ALTER TABLE public.remade DROP n`, why: "its columns"},
		{name: "instead", setup: `CREATE TABLE public.instead (id int PRIMARY KEY, v text DEFAULT 'x'); INSERT INTO public.instead VALUES (1)`,
			ddl: `ALTER TABLE public.instead DROP v; ALTER TABLE public.instead ADD v text DEFAULT 'y'`, why: "its columns"}, // the same form, other values
		{name: "wasaway", ddl: `ALTER TABLE public.wasaway RENAME TO elsewhere; UPDATE public.elsewhere SET v = 'y'; ALTER TABLE public.elsewhere RENAME TO wasaway`, why: "was named public.elsewhere"},
		{name: "leafaway", setup: `CREATE TABLE public.leafaway (id int PRIMARY KEY, v text) PARTITION BY RANGE (id); CREATE TABLE public.leafaway1 PARTITION OF public.leafaway FOR VALUES FROM (0) TO (10);
			INSERT INTO public.leafaway VALUES (1, 'x')`, why: "its partitions changed",
			ddl: `ALTER TABLE public.leafaway DETACH PARTITION public.leafaway1; UPDATE public.leafaway1 SET v = 'y'; ALTER TABLE public.leafaway ATTACH PARTITION public.leafaway1 FOR VALUES FROM (0) TO (10)`},
		{name: "labelaway", setup: `CREATE TYPE public.size AS ENUM ('s', 'm'); CREATE TABLE public.labelaway (id int PRIMARY KEY, v public.size[]); INSERT INTO public.labelaway VALUES (1, '{s}')`,
			ddl: `ALTER TYPE public.size RENAME VALUE 's' TO 'tmp'; UPDATE public.labelaway SET v = v || v; ALTER TYPE public.size RENAME VALUE 'tmp' TO 's'`, why: "had other names", check: `UPDATE public.labelaway SET v = '{m}'`},
		{name: "fieldaway", setup: `CREATE TYPE public.pair AS (a int, b int); CREATE TABLE public.fieldaway (id int PRIMARY KEY, v public.pair); INSERT INTO public.fieldaway VALUES (1, (1, 2))`,
			ddl: `ALTER TYPE public.pair RENAME ATTRIBUTE a TO tmp; UPDATE public.fieldaway SET v.tmp = 5; ALTER TYPE public.pair RENAME ATTRIBUTE tmp TO a`, why: "had other names", check: `UPDATE public.fieldaway SET v.b = 6`},
		{name: "identity", ddl: `ALTER TABLE public.identity REPLICA IDENTITY FULL`},
		{name: "truncated", ddl: `TRUNCATE public.truncated; INSERT INTO public.truncated VALUES (1, 'y')`},
		{name: "indexed", ddl: `CREATE INDEX ON public.indexed (v); ANALYZE public.indexed`},
	}
	db := harness.Database(t)
	var names []string
	for _, tt := range tests {
		names = append(names, "public."+tt.name)
		if tt.setup == "" {
			tt.setup = fmt.Sprintf(`CREATE TABLE public.%s (id int PRIMARY KEY, v text); INSERT INTO public.%[1]s VALUES (1, 'x')`, tt.name)
		}
		db.Exec(tt.setup)
	}
	w := run(t, NewWatch(configFor(t, db, names...), new(Memory)))
	l := w.lister()
	for _, name := range names {
		w.info(strings.TrimPrefix(name, "public."), synced)
	}
	start, _ := w.stream.Flushes()
	for _, tt := range tests {
		if strings.Contains(tt.ddl, "%[1]s") {
			tt.ddl = fmt.Sprintf(tt.ddl, `"syncd_`+db.Name+`"`)
		}
		db.Exec(tt.ddl)
		if tt.name == "truncated" {
			w.reach(db)
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := syncd.Table{Schema: "public", Name: tt.name}
			if tt.why != "" {
				if why := w.relisted(tt.name, len(start)); !strings.Contains(why, tt.why) {
					t.Errorf("to be listed since %q, want %q", why, tt.why)
				}
			}
			if tt.check == "" {
				tt.check = fmt.Sprintf(`UPDATE public.%s SET v = v || 'z'`, tt.name)
			}
			before, _ := w.stream.Flushes()
			db.Exec(tt.check)
			w.reach(db)
			info := w.info(tt.name, synced)
			want := harness.Oracle(t, db, table)
			rows := listed(t, pages(t, l, table, 3))
			for k, v := range want {
				if rows[k] != v {
					t.Errorf("%s is listed as %s, Postgres has %s", k, rows[k], v)
				}
			}
			all, _ := w.stream.Flushes()
			n := 0
			for _, f := range all[len(before):] {
				for _, d := range f.Deltas {
					if d.Table == table && d.Op == syncd.Upsert {
						if n++; d.Schema != info.Schema || !d.Pointer && string(d.Row) != want[d.Key] {
							t.Errorf("delta %s of shape %x, the table has %x; Postgres has %s", d.Row, d.Schema, info.Schema, want[d.Key])
						}
					}
				}
			}
			if n == 0 {
				t.Error("no change of it is in the stream")
			}
		})
	}
	all, _ := w.stream.Flushes()
	told := map[string]int{}
	for _, f := range all[len(start):] {
		for table := range f.Marker.Relist {
			told[table.Name]++
		}
	}
	for _, tt := range tests {
		if n := told[tt.name]; (n > 0) != (tt.why != "") { // twice where the stream shows it before the catalog does
			t.Errorf("%s was told of %d times, because %q", tt.name, n, tt.why)
		}
	}
}

func TestRelistIsToldUntilItIsAcknowledged(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text)`)
	m := new(Memory)
	w := run(t, NewWatch(configFor(t, db, "public.t"), m))
	w.leads()
	w.info("t", synced)
	m.Hold(true)
	before, _ := m.Flushes()
	db.Exec(`ALTER TABLE public.t ADD n int`)
	w.relisted("t", len(before))
	told, _ := m.Flushes()
	m.Lose(len(told) - len(before)) // the marker that told of it never was
	m.Hold(false)
	m.Break(errors.New("no connection to the stream"))
	w.relisted("t", len(before))
}
