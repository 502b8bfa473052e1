package source

import (
	"bytes"
	"context"
	_ "embed"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
)

//go:embed testdata/zoo.sql
var zooSQL string

// published makes publication "p" of the tables of db that have a primary key, and gives these.
func published(t testing.TB, db *harness.DB) []syncd.Table {
	t.Helper()
	var tables []syncd.Table
	var sql []string
	for _, r := range db.Query(`SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p' AND n.nspname !~ '^pg_|^information_schema$'
		AND EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary) ORDER BY 1, 2`) {
		table := syncd.Table{Schema: r[0], Name: r[1]}
		tables = append(tables, table)
		sql = append(sql, table.SQL())
	}
	db.Exec("CREATE PUBLICATION p FOR TABLE " + strings.Join(sql, ", "))
	return tables
}

// pinnedConn is a session with the settings of a source.
func pinnedConn(t testing.TB, db *harness.DB) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(config.RuntimeParams, settings)
	c, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// copyist holds the rows of tables as values, and turns them into JSON with the encoder under test.
type copyist struct {
	t      testing.TB
	conn   *pgx.Conn
	types  *Catalog
	dec    Decoder
	shapes map[uint32]*Shape
	rows   map[syncd.Table]map[syncd.Key][]Value
}

func newCopyist(t testing.TB, conn *pgx.Conn) *copyist {
	return &copyist{t: t, conn: conn, types: new(Catalog), shapes: map[uint32]*Shape{}, rows: map[syncd.Table]map[syncd.Key][]Value{}}
}

// list reads a table as a list does: in the text format, with the shape made of the catalog.
func (c *copyist) list(table syncd.Table) {
	c.t.Helper()
	rows, err := c.conn.Query(c.t.Context(), `SELECT a.attname::text, a.atttypid, a.atttypmod, i.indrelid IS NOT NULL
		FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey)
		WHERE a.attrelid = $1::text::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum`, table.SQL())
	if err != nil {
		c.t.Fatal(err)
	}
	cols, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (RelationColumn, error) {
		var col RelationColumn
		var name string
		err := row.Scan(&name, &col.Type, &col.Typmod, &col.Key)
		col.Name = []byte(name)
		return col, err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	shape := c.shape(table, cols)
	var list []string
	for _, col := range cols {
		list = append(list, syncd.QuoteIdent(string(col.Name)))
	}
	rows, err = c.conn.Query(c.t.Context(), "SELECT "+strings.Join(list, ", ")+" FROM "+table.SQL(), pgx.QueryResultFormats{pgx.TextFormatCode})
	if err != nil {
		c.t.Fatal(err)
	}
	defer rows.Close()
	c.rows[table] = map[syncd.Key][]Value{}
	for rows.Next() {
		c.put(shape, TextValues(nil, rows.RawValues()))
	}
	if err := rows.Err(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *copyist) shape(table syncd.Table, rel []RelationColumn) *Shape {
	c.t.Helper()
	cols, err := c.types.Columns(c.t.Context(), c.conn, rel)
	if err != nil {
		c.t.Fatal(err)
	}
	var key []string
	for _, col := range rel {
		if col.Key {
			key = append(key, string(col.Name))
		}
	}
	s, err := NewShape(table, cols, key)
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

func (c *copyist) key(s *Shape, values []Value) syncd.Key {
	c.t.Helper()
	k, err := s.AppendKey(nil, values)
	if err != nil {
		c.t.Fatal(err)
	}
	return syncd.Key(k)
}

func (c *copyist) put(s *Shape, values []Value) {
	own := slices.Clone(values)
	for i := range own {
		own[i].Data = bytes.Clone(own[i].Data)
	}
	c.rows[s.Table()][c.key(s, own)] = own
}

// apply takes one message of pgoutput.
func (c *copyist) apply(msg []byte) {
	c.t.Helper()
	kind, err := c.dec.Decode(msg)
	if err != nil {
		c.t.Fatal(err)
	}
	sameAsPglogrepl(c.t, &c.dec, kind, msg)
	change := &c.dec.Change
	switch kind {
	case KindRelation:
		r := &c.dec.Relation
		table := syncd.Table{Schema: string(r.Namespace), Name: string(r.Name)}
		c.shapes[r.OID] = c.shape(table, r.Columns)
		if c.rows[table] == nil {
			c.rows[table] = map[syncd.Key][]Value{}
		}
	case KindInsert, KindUpdate:
		s := c.shapes[change.Relation]
		base := c.key(s, change.New)
		if change.OldTuple != OldNone {
			base = c.key(s, change.Old)
		}
		for i, old := range c.rows[s.Table()][base] {
			if change.New[i].Kind == Unchanged {
				change.New[i] = old
			}
		}
		delete(c.rows[s.Table()], base)
		c.put(s, change.New)
	case KindDelete:
		s := c.shapes[change.Relation]
		delete(c.rows[s.Table()], c.key(s, change.Old))
	case KindTruncate:
		for _, oid := range c.dec.Truncate.Relations {
			clear(c.rows[c.shapes[oid].Table()])
		}
	}
}

// stream applies what the slot holds.
func (c *copyist) stream(slot string) {
	c.t.Helper()
	rows, err := c.conn.Query(c.t.Context(), `SELECT data FROM pg_logical_slot_peek_binary_changes($1, NULL, NULL, 'proto_version', '1', 'publication_names', 'p')`, slot)
	if err != nil {
		c.t.Fatal(err)
	}
	messages, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range messages {
		c.apply(m)
	}
}

// equal compares a table with what Postgres prints.
func (c *copyist) equal(db *harness.DB, table syncd.Table, by string) {
	c.t.Helper()
	shape := slices.Collect(maps.Values(c.shapes))
	i := slices.IndexFunc(shape, func(s *Shape) bool { return s.Table() == table })
	if i < 0 {
		c.t.Fatalf("no shape of %s", table)
	}
	var columns []string
	for _, col := range shape[i].Columns() {
		columns = append(columns, col.Name)
	}
	want := harness.Oracle(c.t, db, table, columns...)
	for k, values := range c.rows[table] {
		got, err := shape[i].AppendRow(nil, values)
		if err != nil {
			c.t.Errorf("%s: %s key %s: %v", by, table, k, err)
		} else if string(got) != want[k] {
			c.t.Errorf("%s: %s key %s:\n got %s\nwant %s", by, table, k, got, want[k])
		}
		delete(want, k)
	}
	for k := range want {
		c.t.Errorf("%s: %s: key %s is missing", by, table, k)
	}
}

// scripts are the type zoo and, where SYNCD_CASES names their folder, the shared cases about types.
func scripts(t *testing.T) map[string]string {
	s := map[string]string{"zoo": zooSQL}
	if harness.Postgres(t).Version() < 150000 { // negative scales came with 15
		s["zoo"] = strings.ReplaceAll(zooSQL, "numeric(5,-2)", "numeric")
	}
	if dir := os.Getenv("SYNCD_CASES"); dir != "" {
		files, err := filepath.Glob(filepath.Join(dir, "0[0-2]*.sql"))
		if err != nil || len(files) == 0 {
			t.Fatalf("SYNCD_CASES=%s holds no cases: %v", dir, err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			s[strings.TrimSuffix(filepath.Base(f), ".sql")] = string(b)
		}
	}
	return s
}

// TestRowsAreWhatPostgresPrints: rows that came through the stream, and rows that were listed, are to the byte what
// row_to_json prints in a session of its own.
func TestRowsAreWhatPostgresPrints(t *testing.T) {
	for name, script := range scripts(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := harness.Database(t)
			setup, changes, ok := strings.Cut(script, "-- STEP: changes")
			if !ok {
				t.Fatal("the script has no line -- STEP: changes")
			}
			changes, cleanup, _ := strings.Cut(changes, "-- STEP: cleanup")
			db.Exec(setup)
			tables := published(t, db)
			db.Exec("SELECT pg_create_logical_replication_slot('" + db.Name + "', 'pgoutput')")
			conn := pinnedConn(t, db)
			pushed, listed := newCopyist(t, conn), newCopyist(t, conn)
			for _, table := range tables {
				pushed.list(table)
			}
			db.Exec(changes)
			pushed.stream(db.Name)
			listed.shapes = pushed.shapes
			for _, table := range tables {
				listed.list(table)
				pushed.equal(db, table, "stream")
				listed.equal(db, table, "list")
			}
			if cleanup != "" {
				db.Exec(cleanup)
			}
			if len(tables) == 0 {
				t.Error("no table was compared")
			}
		})
	}
}
