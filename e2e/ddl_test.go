package e2e

import (
	"fmt"
	"testing"

	"github.com/syncd-io/syncd/internal/harness"
)

// story is what happens to tables while syncd runs. After each step every cache must come to equal Postgres by itself,
// however little of the step the replication stream tells.
type story struct {
	name        string
	tables      []string
	publication string // made by setup and taken as it is
	since       int    // the first version that can run it; 0: all can
	setup       string
	steps       []string
}

var stories = []story{
	{
		name: "columns", tables: []string{"public.t"},
		setup: `CREATE TABLE t (id int PRIMARY KEY, a text); INSERT INTO t SELECT i, 'a' || i FROM generate_series(1, 20) i`,
		steps: []string{
			`ALTER TABLE t ADD COLUMN b int`,
			`ALTER TABLE t ADD COLUMN c text NOT NULL DEFAULT 'stored once'`,
			`ALTER TABLE t ADD COLUMN d float8 DEFAULT random()`,
			`UPDATE t SET b = id WHERE id < 5`,
			`ALTER TABLE t RENAME COLUMN a TO e`,
			`ALTER TABLE t ALTER b TYPE numeric(10, 2) USING id * 1.5`,
			`ALTER TABLE t ALTER e TYPE jsonb USING to_jsonb(e)`,
			`ALTER TABLE t DROP COLUMN c; ALTER TABLE t ADD COLUMN c text DEFAULT 'another of the same name'`,
			`BEGIN; ALTER TABLE t DROP COLUMN d; INSERT INTO t VALUES (100, '1', 1); ALTER TABLE t ADD COLUMN d bool; UPDATE t SET d = true WHERE id = 100; COMMIT`,
			`BEGIN; ALTER TABLE t RENAME COLUMN e TO never; DELETE FROM t; ROLLBACK`,
			`ALTER TABLE t ADD COLUMN g int GENERATED ALWAYS AS (id * 2) STORED`,
			`UPDATE t SET b = 0 WHERE id > 10`,
		},
	},
	{
		name: "types", tables: []string{"public.t"},
		setup: `CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 5)`,
		steps: []string{
			`CREATE TYPE mood AS ENUM ('low', 'high'); CREATE TYPE pair AS (a int, b text); CREATE DOMAIN short AS varchar(3)`,
			`ALTER TABLE t ADD COLUMN m mood DEFAULT 'low', ADD COLUMN p pair DEFAULT ROW(1, 'x'), ADD COLUMN s short[] DEFAULT '{ab,NULL}'`,
			`INSERT INTO t VALUES (6)`,
			`ALTER TYPE mood ADD VALUE 'middle' BEFORE 'high'`,
			`UPDATE t SET m = 'middle' WHERE id = 1`,
			`ALTER TYPE mood RENAME VALUE 'low' TO 'down'`,
			`ALTER TYPE pair ADD ATTRIBUTE c date`,
			`UPDATE t SET p.c = '2024-02-29' WHERE id = 2`,
			`ALTER TYPE pair RENAME ATTRIBUTE b TO name`,
			`ALTER TYPE pair DROP ATTRIBUTE a`,
			`ALTER TYPE mood RENAME TO humour; ALTER TYPE pair SET SCHEMA pg_catalog`,
			`CREATE TYPE span AS RANGE (subtype = float8); CREATE TYPE deep AS (many pair[], span span, mood humour[])`,
			`ALTER TABLE t ADD COLUMN x deep; UPDATE t SET x = ROW(ARRAY[p, NULL], '[1.5,)', '{down,NULL}') WHERE id < 4`,
			`INSERT INTO t (id, x) VALUES (7, ROW(NULL, 'empty', '{}'))`,
		},
	},
	{
		name: "casts to json", tables: []string{"public.t"},
		setup: `CREATE TYPE mood AS ENUM ('low', 'high'); CREATE TYPE pair AS (a int, m mood); CREATE TABLE t (id int PRIMARY KEY, m mood, p pair, many mood[]);
			INSERT INTO t VALUES (1, 'low', (1, 'high'), '{low,high}'), (2, NULL, NULL, NULL);
			CREATE FUNCTION mood_json(mood) RETURNS json LANGUAGE sql IMMUTABLE AS $$ SELECT json_build_object('mood', $1::text) $$`,
		steps: []string{
			`CREATE CAST (mood AS json) WITH FUNCTION mood_json(mood)`,
			`UPDATE t SET m = 'high' WHERE id = 1; INSERT INTO t VALUES (3, 'low', (3, 'low'), '{low}'), (4, 'low', NULL, NULL)`,
			`UPDATE t SET id = 30 WHERE id = 3; DELETE FROM t WHERE id = 4`,
			`DROP CAST (mood AS json)`,
			`UPDATE t SET m = 'low'`,
			`CREATE CAST (pair AS json) WITH FUNCTION pg_catalog.row_to_json(record) AS ASSIGNMENT`,
			`UPDATE t SET p = (9, 'low')`,
			`CREATE EXTENSION hstore; ALTER TABLE t ADD COLUMN h hstore DEFAULT 'a=>1'`,
			`UPDATE t SET h = h || 'b=>NULL' WHERE id = 1`,
		},
	},
	{
		name: "keys", tables: []string{"public.t"},
		setup: `CREATE TABLE t (id int PRIMARY KEY, u text NOT NULL UNIQUE, v text);
			INSERT INTO t SELECT i, 'u' || i, 'v' FROM generate_series(1, 12) i`,
		steps: []string{
			`ALTER TABLE t REPLICA IDENTITY USING INDEX t_u_key`,
			`UPDATE t SET u = 'moved', v = 'w' WHERE id = 1; DELETE FROM t WHERE id = 2`,
			`ALTER TABLE t REPLICA IDENTITY FULL`,
			`UPDATE t SET u = 'again' WHERE id = 1; DELETE FROM t WHERE id = 3`,
			`ALTER TABLE t REPLICA IDENTITY NOTHING`, // refused
			`ALTER TABLE t REPLICA IDENTITY DEFAULT`,
			`ALTER TABLE t ADD COLUMN tenant int NOT NULL DEFAULT 7`,
			`ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (tenant, id)`,
			`UPDATE t SET tenant = 8 WHERE id = 4; INSERT INTO t VALUES (4, 'u4b', 'v', 7); DELETE FROM t WHERE id = 5`,
			`ALTER TABLE t DROP CONSTRAINT t_pkey`, // refused
			`INSERT INTO t VALUES (50, 'u50', 'while it was refused', 7)`,
			`ALTER TABLE t ADD PRIMARY KEY (u)`,
			`UPDATE t SET u = upper(u) WHERE id > 6`,
			`ALTER TABLE t ALTER u TYPE varchar(40) USING 'all keys change ' || tenant || '/' || id`,
			`ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (u) DEFERRABLE`, // refused
			`ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (id, tenant) INCLUDE (v)`,
			`DELETE FROM t WHERE id = 6`,
		},
	},
	{
		name: "tables", tables: []string{"public.t", "public.late", "public.view", "odd.t"},
		setup: `CREATE SCHEMA odd; CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT i, 'first' FROM generate_series(1, 30) i;
			CREATE VIEW view AS SELECT 1 AS id`,
		steps: []string{
			`CREATE TABLE late (id int PRIMARY KEY); INSERT INTO late SELECT generate_series(1, 40)`,
			`DELETE FROM late WHERE id < 10`,
			`DROP TABLE t; CREATE UNLOGGED TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT i, 'unlogged' FROM generate_series(1, 20) i`, // refused
			`ALTER TABLE t SET LOGGED`,
			`UPDATE t SET v = 'logged' WHERE id = 1`,
			`ALTER TABLE t RENAME TO aside; CREATE TABLE t (id int PRIMARY KEY, v text)`, // the same shape, and empty
			`INSERT INTO t SELECT i, 'second' FROM generate_series(20, 50) i`,
			`BEGIN; ALTER TABLE t RENAME TO away; ALTER TABLE aside RENAME TO t; COMMIT`,
			`BEGIN; DROP TABLE t; CREATE TABLE t (v text, id bigint PRIMARY KEY); INSERT INTO t VALUES ('third', 1); COMMIT`,
			`ALTER TABLE t SET SCHEMA odd`,
			`UPDATE odd.t SET v = 'elsewhere'`,
			`DROP TABLE late; DROP VIEW view`,
			`CREATE TABLE view (id int PRIMARY KEY); INSERT INTO view VALUES (1); CREATE TABLE late (id int PRIMARY KEY)`,
			`DROP SCHEMA odd CASCADE`,
			`VACUUM FULL late`,
		},
	},
	{
		name: "partitions", tables: []string{"public.log", "public.log_mar"},
		setup: `CREATE TABLE log (id int, day date, v text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
			CREATE TABLE log_jan PARTITION OF log FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
			CREATE TABLE log_feb PARTITION OF log FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
			CREATE TABLE log_mar (v text, day date NOT NULL, id int NOT NULL, PRIMARY KEY (id, day));
			INSERT INTO log SELECT i, '2024-01-01'::date + i, 'v' FROM generate_series(0, 50) i;
			INSERT INTO log_mar SELECT 'v', '2024-03-01'::date + i, i FROM generate_series(0, 20) i`,
		steps: []string{
			`UPDATE log SET day = day + 40 WHERE id < 5`, // to another partition
			`ALTER TABLE log ATTACH PARTITION log_mar FOR VALUES FROM ('2024-03-01') TO ('2024-04-01')`,
			`UPDATE log SET v = 'w' WHERE day >= '2024-02-25'; UPDATE log_mar SET v = 'by its own name' WHERE id = 3`,
			`TRUNCATE log_jan`, // most of the rows
			`ALTER TABLE log DETACH PARTITION log_mar`,
			`UPDATE log_mar SET v = 'on its own'`,
			`DROP TABLE log_feb`,
			`CREATE TABLE log_rest PARTITION OF log DEFAULT PARTITION BY HASH (id)`,
			`CREATE TABLE log_rest_0 PARTITION OF log_rest FOR VALUES WITH (MODULUS 2, REMAINDER 0);
			 CREATE TABLE log_rest_1 PARTITION OF log_rest FOR VALUES WITH (MODULUS 2, REMAINDER 1);
			 INSERT INTO log SELECT i, '2025-01-01', 'below' FROM generate_series(1, 20) i`,
			`UPDATE log SET id = id + 1001 WHERE id % 2 = 1`,
			`ALTER TABLE log_rest DETACH PARTITION log_rest_0`,
			`ALTER TABLE log ADD COLUMN more text DEFAULT 'for all'`,
			`TRUNCATE log`,
			`INSERT INTO log VALUES (1, '2024-01-01', 'new', 'x')`,
		},
	},
	{
		name: "truncates and transactions", tables: []string{"public.a", "public.b"},
		setup: `CREATE TABLE a (id int PRIMARY KEY, v text); CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a ON DELETE CASCADE ON UPDATE CASCADE);
			INSERT INTO a SELECT i, 'v' FROM generate_series(1, 30) i; INSERT INTO b SELECT i, i FROM generate_series(1, 30) i`,
		steps: []string{
			`DELETE FROM a WHERE id < 10; UPDATE a SET id = id + 1000 WHERE id > 25`,
			`BEGIN; INSERT INTO a VALUES (500, 'gone'); TRUNCATE a CASCADE; INSERT INTO a SELECT i, 'again' FROM generate_series(1, 5) i; COMMIT`,
			`INSERT INTO a VALUES (1, 'merged'), (77, 'merged') ON CONFLICT (id) DO UPDATE SET v = excluded.v`,
			`INSERT INTO a VALUES (2, 'x'), (78, 'x') ON CONFLICT (id) DO UPDATE SET v = 'conflict'`,
			`BEGIN; UPDATE a SET v = 'prepared' WHERE id = 3; PREPARE TRANSACTION 'stories'`,
			`UPDATE a SET v = 'between' WHERE id = 4`,
			`COMMIT PREPARED 'stories'`,
			`BEGIN; SAVEPOINT s; DELETE FROM a; ROLLBACK TO s; INSERT INTO b VALUES (1, 1); RELEASE s; COMMIT`,
			`SET session_replication_role = replica; DELETE FROM a WHERE id = 1; RESET session_replication_role`, // b keeps its row
			`BEGIN; TRUNCATE b; INSERT INTO b VALUES (9, NULL); ROLLBACK`,
			`TRUNCATE b; TRUNCATE a CASCADE`,
		},
	},
	{
		name: "a publication of people", since: columnLists, publication: "theirs",
		setup: `CREATE TABLE t (id int PRIMARY KEY, v text, secret text); CREATE TABLE u (id int PRIMARY KEY, v text); CREATE SCHEMA more;
			CREATE TABLE more.w (id int PRIMARY KEY);
			INSERT INTO t SELECT i, 'v', 's' FROM generate_series(1, 20) i; INSERT INTO u SELECT i, 'v' FROM generate_series(1, 20) i; INSERT INTO more.w SELECT generate_series(1, 5);
			CREATE PUBLICATION theirs FOR TABLE t`,
		steps: []string{
			`UPDATE t SET v = 'w' WHERE id = 1`,
			`ALTER PUBLICATION theirs ADD TABLE u`,
			`UPDATE u SET v = 'w' WHERE id = 2`,
			`ALTER PUBLICATION theirs DROP TABLE u`,
			`UPDATE u SET v = 'unseen' WHERE id = 3`,
			`ALTER PUBLICATION theirs SET TABLE t (id, v), u WHERE (id < 15)`,
			`UPDATE t SET secret = 'x' WHERE id = 4; UPDATE u SET id = id + 100 WHERE id IN (2, 6); UPDATE u SET id = 0 WHERE id = 20`,
			`ALTER PUBLICATION theirs SET TABLE t, u WHERE (id > 5)`,
			`DELETE FROM u WHERE id = 8; DELETE FROM t WHERE id = 5`,
			`ALTER PUBLICATION theirs ADD TABLES IN SCHEMA more`,
			`INSERT INTO more.w VALUES (6); CREATE TABLE more.x (id int PRIMARY KEY); INSERT INTO more.x VALUES (1)`,
			`ALTER PUBLICATION theirs DROP TABLES IN SCHEMA more`,
			`DROP PUBLICATION theirs; CREATE PUBLICATION theirs FOR TABLE t, more.x`,
			`INSERT INTO more.x VALUES (2)`,
		},
	},
	{
		name: "a publication for all tables", publication: "everything",
		setup: `CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'v'); CREATE PUBLICATION everything FOR ALL TABLES`,
		steps: []string{
			`CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1), (2)`,
			`DELETE FROM u WHERE id = 1`,
			`CREATE TABLE keyless (v text); INSERT INTO keyless VALUES ('x')`,
			`CREATE TABLE root (id int PRIMARY KEY) PARTITION BY HASH (id); CREATE TABLE leaf PARTITION OF root FOR VALUES WITH (MODULUS 1, REMAINDER 0); INSERT INTO root VALUES (1)`,
			`INSERT INTO root VALUES (2)`,
			`DROP TABLE u`,
		},
	},
}

func TestStories(t *testing.T) {
	t.Parallel()
	for _, s := range stories {
		if harness.Postgres(t).Version() < s.since {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, s.tables...)
			f.publication = s.publication
			f.db.Exec(s.setup)
			f.source()
			c := f.sidecar()
			f.converges(c)
			p := startPSQL(t, f.db)
			for i, step := range s.steps {
				t.Log(fmt.Sprintf("step %d: ", i) + step)
				p.run(step + ";")
				f.converges(c)
			}
			c.resyncFindsNothing(5)
		})
	}
}
