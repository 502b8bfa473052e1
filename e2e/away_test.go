package e2e

import (
	"fmt"
	"testing"
)

// TestChangesWhileTheSourceIsAway: what the stream does not tell happens while no source looks at the catalog. The next one has
// to find it all the same, and soon: no consumer has a reason to ask.
func TestChangesWhileTheSourceIsAway(t *testing.T) {
	t.Parallel()
	for _, s := range []story{
		{name: "an enum's label is renamed", tables: []string{"public.t"},
			setup: `CREATE TYPE mood AS ENUM ('low', 'high'); CREATE TABLE t (id int PRIMARY KEY, m mood); INSERT INTO t VALUES (1, 'low'), (2, 'high')`,
			steps: []string{`ALTER TYPE mood RENAME VALUE 'low' TO 'down'`}},
		{name: "a column's values are changed", tables: []string{"public.t"},
			setup: `CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t SELECT i, i FROM generate_series(1, 10) i`,
			steps: []string{`ALTER TABLE t ALTER n TYPE int USING n + 100`}},
		{name: "a table is made anew", tables: []string{"public.t"},
			setup: `CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT i, 'first' FROM generate_series(1, 10) i`,
			steps: []string{`DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v text)`}},
		{name: "a partition is attached", tables: []string{"public.t"},
			setup: `CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (1) TO (100);
				CREATE TABLE t2 (id int PRIMARY KEY); INSERT INTO t VALUES (1); INSERT INTO t2 VALUES (200)`,
			steps: []string{`ALTER TABLE t ATTACH PARTITION t2 FOR VALUES FROM (100) TO (300)`}},
		{name: "a table leaves its publication for a while", publication: "p",
			setup: `CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 10); CREATE TABLE u (id int PRIMARY KEY); CREATE PUBLICATION p FOR TABLE t, u`,
			steps: []string{`ALTER PUBLICATION p DROP TABLE t`, `DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (11)`, `ALTER PUBLICATION p ADD TABLE t`}},
		{name: "a publication leaves deletions out for a while", publication: "p",
			setup: `CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 10); CREATE PUBLICATION p FOR TABLE t`,
			steps: []string{`ALTER PUBLICATION p SET (publish = 'insert')`, `DELETE FROM t WHERE id = 1`, `ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')`}},
		{name: "a row filter changes", publication: "p",
			setup: `CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 10); CREATE PUBLICATION p FOR TABLE t WHERE (id > 5)`,
			steps: []string{`ALTER PUBLICATION p SET TABLE t WHERE (id < 5)`}},
		{name: "a column is added, and rows with it", tables: []string{"public.t"},
			setup: `CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 10)`,
			steps: []string{`ALTER TABLE t ADD COLUMN v text DEFAULT 'x'; INSERT INTO t VALUES (11, 'y')`}},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, s.tables...)
			f.publication = s.publication
			f.db.Exec(s.setup)
			source := f.source()
			c := f.sidecar()
			f.converges(c)
			source.stop()
			for _, step := range s.steps {
				f.db.Exec(step)
			}
			for i := range 2 { // the second time nothing has happened
				source = f.start("source", fmt.Sprint("source", i))
				f.converges(c)
				source.stop()
			}
		})
	}
}
