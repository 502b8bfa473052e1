package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/natsserver"
	"github.com/syncd-io/syncd/internal/pgserver"
)

// TestColumnsAndFilters: push and pull give the same columns and the same rows, and a row that leaves the filter leaves the
// cache.
func TestColumnsAndFilters(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.db.Exec(`CREATE TABLE t (secret text, id int, "Te nant" int, v text, big text, PRIMARY KEY ("Te nant", id));
		ALTER TABLE t ALTER big SET STORAGE EXTERNAL;
		INSERT INTO t SELECT 's', i, i % 3, 'v', repeat('x', 5000) FROM generate_series(1, 30) i;
		CREATE TABLE whole (id int PRIMARY KEY, kind text); ALTER TABLE whole REPLICA IDENTITY FULL; INSERT INTO whole SELECT i, 'kept' FROM generate_series(1, 10) i`)
	f.tables = []tableConfig{
		{table: table(t, "public.t"), columns: []string{"id", "Te nant", "v", "big"}, where: `"Te nant" = 1`},
		{table: table(t, "public.whole"), where: `kind = 'kept'`},
	}
	f.source()
	s := f.sidecar()
	f.converges(s)
	for _, sql := range []string{
		`UPDATE t SET secret = 'changed'`,
		`UPDATE t SET v = 'w' WHERE id < 10`,
		`UPDATE t SET "Te nant" = 2 WHERE id = 1`, // leaves
		`UPDATE t SET "Te nant" = 1 WHERE id = 2`, // comes, with a large value that did not change
		`UPDATE t SET "Te nant" = 1, id = 100 WHERE id = 4`,
		`DELETE FROM t WHERE id IN (3, 7)`,
		`UPDATE whole SET kind = 'hidden' WHERE id < 4`,
		`UPDATE whole SET kind = 'kept' WHERE id = 2`,
		`BEGIN; UPDATE whole SET kind = 'hidden'; UPDATE whole SET kind = 'kept' WHERE id > 5; COMMIT`,
		`TRUNCATE whole; INSERT INTO whole VALUES (1, 'kept'), (2, 'hidden')`,
		`ALTER TABLE t ADD COLUMN more int DEFAULT 1`,
	} {
		f.db.Exec(sql)
		f.converges(s)
	}
	s.resyncFindsNothing(2)
}

// TestSeveralSidecars: each keeps what it is told to keep, and one that comes late has all of it.
func TestSeveralSidecars(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "public.a", "public.b")
	f.db.Exec(`CREATE TABLE a (id int PRIMARY KEY, v text); CREATE TABLE b (id int PRIMARY KEY, v text);
		INSERT INTO a SELECT i, 'v' FROM generate_series(1, 500) i; INSERT INTO b SELECT i, 'v' FROM generate_series(1, 500) i`)
	f.source()
	all := []*cache{f.cache("one", f.start), f.cache("two", f.start)}
	f.more.sidecar = "tables: [public.b]"
	part := f.cache("part", f.start)
	f.more.sidecar = ""
	f.converges(all...)
	f.db.Exec("UPDATE a SET v = 'w' WHERE id % 2 = 0; DELETE FROM b WHERE id % 3 = 0")
	all = append(all, f.cache("late", f.start))
	f.db.Exec("UPDATE b SET id = id + 1000 WHERE id % 3 = 1")
	f.converges(all...)
	f.tables = f.tables[1:] // what the last one is to hold
	f.converges(part)
}

// TestSizes: rows above what a message may hold go as pointers and are fetched; keys are as long as an index takes; and values
// that an update left out of the log are there all the same.
func TestSizes(t *testing.T) {
	t.Parallel()
	f := fleetOn(t, harness.Database(t), harness.NATSServer(t, natsserver.Config{MaxPayload: 64 << 10}), "public.t")
	f.db.Exec(`CREATE TABLE t (k text PRIMARY KEY, v text, n int); ALTER TABLE t ALTER v SET STORAGE EXTERNAL;
		INSERT INTO t VALUES ('listed', repeat('l', 300000), 0)`)
	f.source()
	s := f.sidecar()
	f.converges(s)
	for _, sql := range []string{
		`INSERT INTO t VALUES ('small', 's', 0), ('large', repeat('€', 200000), 0), (repeat('key ', 600), 'long key', 0)`,
		`UPDATE t SET n = n + 1`, // the large values are not in the log
		`UPDATE t SET k = k || '.' WHERE k IN ('large', 'listed')`,
		`UPDATE t SET k = k || '!', v = NULL WHERE k LIKE 'key%'`,
		`BEGIN; INSERT INTO t SELECT 'many ' || i, repeat(i::text, 20000), i FROM generate_series(1, 30) i; UPDATE t SET n = 100; COMMIT`,
		`UPDATE t SET v = 'small again' WHERE k = 'large.'`,
		`INSERT INTO t VALUES ('exactly', repeat('x', 65536 - 200), 1), ('about', repeat('x', 65536 - 100), 1), ('just above', repeat('x', 65536), 1)`,
		`DELETE FROM t WHERE k LIKE 'many%' AND n % 2 = 0`,
	} {
		f.db.Exec(sql)
		f.converges(s)
	}
	s.resyncFindsNothing(1)
}

// TestKeyValues: one key has one text, however it was written, and keys that differ stay apart.
func TestKeyValues(t *testing.T) {
	t.Parallel()
	types := []struct{ name, typ, values, update string }{
		{"num", "numeric", `(1.0), (2.00), (-0.0), ('NaN'), ('Infinity'), (1e30), (0.1)`, `UPDATE num SET k = 1.000 WHERE k = 1; UPDATE num SET n = 1 WHERE k = 2; DELETE FROM num WHERE k = 'NaN'`},
		{"flt", "float8", `(0.1), ('-0'), (1e300), ('NaN'), ('-Infinity'), (0.30000000000000004)`, `UPDATE flt SET k = '0' WHERE k = 0; UPDATE flt SET n = 1 WHERE k = 'NaN'; DELETE FROM flt WHERE k = 0.1`},
		{"stamp", "timestamptz", `('2024-03-31 01:59:59+01'), ('infinity'), ('0044-03-15 12:00+00 BC')`, `SET timezone = 'Asia/Tokyo'; UPDATE stamp SET n = 1; UPDATE stamp SET k = k + '1 hour' WHERE isfinite(k); RESET timezone`},
		{"span", "interval", `('1 mon'), ('29 days'), ('-1 day 02:03'), ('0')`, `UPDATE span SET k = '696:00:00' WHERE k = '29 days'; DELETE FROM span WHERE k = '0'`},
		{"bytes", "bytea", `('\x'), ('\x00'), ('\xff2c2e'), ('\x5c')`, `SET bytea_output = 'escape'; UPDATE bytes SET k = k || '\x00' WHERE k <> ''; DELETE FROM bytes WHERE k = ''`},
		{"padded", "char(5)", `('a'), (''), ('abcde'), ('a b')`, `UPDATE padded SET n = 1 WHERE k = 'a'; UPDATE padded SET k = 'b' WHERE k = ''`},
		{"arr", "text[]", `('{}'), ('{a,NULL}'), ('{"a,b","c\"d"}'), ('[0:1]={x,y}')`, `UPDATE arr SET k = k || '{z}' WHERE k <> '{}'; DELETE FROM arr WHERE k = '{}'`},
		{"doc", "jsonb", `('{"a": 1, "b": [1.0, null]}'), ('"x"'), ('1.50')`, `UPDATE doc SET k = k || '{"c": 2}' WHERE jsonb_typeof(k) = 'object'; UPDATE doc SET k = '1.5' WHERE k = '1.50'`},
		{"bits", "varbit", `(B''), (B'0'), (B'00'), (B'1')`, `UPDATE bits SET n = 1 WHERE k = B'00'; DELETE FROM bits WHERE k = B''`},
		{"truth", "bool", `(true), (false)`, `UPDATE truth SET n = 2 WHERE k; DELETE FROM truth WHERE NOT k`},
		{"net", "inet", `('10.0.0.1'), ('10.0.0.1/24'), ('::1'), ('::ffff:1.2.3.4')`, `UPDATE net SET k = k + 1; UPDATE net SET n = 1 WHERE family(k) = 6`},
		{"ranges", "int4range", `('empty'), ('[1,5)'), ('(,)'), ('[7,7]')`, `UPDATE ranges SET n = 1; UPDATE ranges SET k = '[1,9)' WHERE k = '[1,5)'`},
		{"word", `text COLLATE "blind"`, `('Straße'), ('a,b'), ('/'), ('..'), (''), ('"'), ('%2C')`, `UPDATE word SET k = 'STRASSE!' WHERE k = 'straße'; UPDATE word SET k = 'A,B' WHERE k = 'a,b'; UPDATE word SET n = 1 WHERE k = '..'; DELETE FROM word WHERE k = '/'`},
	}
	f := newFleet(t)
	f.db.Exec(`CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`)
	for _, k := range types {
		f.db.Exec(fmt.Sprintf("CREATE TABLE %[1]s (n int, k %[2]s PRIMARY KEY); INSERT INTO %[1]s (k) VALUES %[3]s", k.name, k.typ, k.values))
		f.tables = append(f.tables, tableConfig{table: syncd.Table{Schema: "public", Name: k.name}})
	}
	f.source()
	s := f.sidecar()
	f.converges(s)
	p := startPSQL(t, f.db)
	for _, k := range types {
		p.run(k.update + ";")
	}
	f.converges(s)
	s.resyncFindsNothing(len(types))
}

// TestJapaneseEncoding: a database in EUC_JP, whose texts, names and keys come as UTF-8.
func TestJapaneseEncoding(t *testing.T) {
	t.Parallel()
	pg := harness.Server(t, pgserver.Options{})
	db := harness.DatabaseOn(t, pg)
	db.Exec("CREATE DATABASE japan ENCODING 'EUC_JP' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	f := fleetOn(t, db, harness.NATS(t), `public."商品"`)
	f.target = pg.URL("japan")
	p := startPSQLAt(t, pg, f.target)
	p.run(`CREATE TABLE "商品" ("名前" text PRIMARY KEY, "説明" text, meta jsonb); INSERT INTO "商品" VALUES ('りんご', '赤い', '{"色": "赤"}'), ('みかん', NULL, NULL);`)
	f.source()
	s := f.sidecar()
	f.converges(s)
	p.run(`INSERT INTO "商品" VALUES ('ぶどう', repeat('紫', 3000), '[]'); UPDATE "商品" SET "名前" = '青りんご' WHERE "名前" = 'りんご'; DELETE FROM "商品" WHERE "名前" = 'みかん';`)
	f.converges(s)
	s.resyncFindsNothing(1)
	if row, err := s.row(table(t, `public."商品"`), "青りんご"); err != nil || !strings.Contains(row, "赤い") {
		t.Errorf("row %s, %v", row, err)
	}
}

// TestGeneratedColumns: the stream lacks them; they are left out, or fetched with each row that changes.
func TestGeneratedColumns(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "public.t")
	f.db.Exec(`CREATE TABLE t (id int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED, b text); INSERT INTO t (id, a, b) SELECT i, i, 'b' FROM generate_series(1, 20) i`)
	f.tables[0].generated = "fetch"
	f.source()
	s := f.sidecar()
	f.converges(s)
	for _, sql := range []string{
		`UPDATE t SET a = a + 100 WHERE id < 5`, `INSERT INTO t (id, a) VALUES (50, 7)`, `UPDATE t SET id = id + 1000 WHERE id < 3`, `DELETE FROM t WHERE id > 15 AND id < 50`,
		`ALTER TABLE t ADD COLUMN thrice int GENERATED ALWAYS AS (a * 3) STORED`, `UPDATE t SET a = 0`,
	} {
		f.db.Exec(sql)
		f.converges(s)
	}
	s.resyncFindsNothing(1)
}
