package source

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/syncd-io/syncd"
)

// tableFacts is everything that the catalog says of one table, as it matters here. Two looks that give equal facts mean
// that nothing happened to it which the stream does not carry.
type tableFacts struct {
	OID         uint32        `json:"oid"`
	Kind        string        `json:"kind"`        // pg_class.relkind
	Persistence string        `json:"persistence"` // pg_class.relpersistence
	Identity    string        `json:"identity"`    // pg_class.relreplident
	Root        *syncd.Table  `json:"root"`        // of a partition: the table at the top
	Files       string        `json:"files"`       // the files of the table and of its partitions
	Parts       string        `json:"parts"`       // where the catalog has its partitions: elsewhere after each change
	Security    bool          `json:"security"`    // row-level security hides rows from our role
	Readable    bool          `json:"readable"`    // our role may use the schema and read the table
	Attributes  int16         `json:"attributes"`  // pg_class.relnatts: it grows with each column that is added
	RowBytes    float64       `json:"row_bytes"`   // what a row takes on disk, TOAST too; 0 unknown
	Columns     []columnFacts `json:"columns"`
	Indexes     []indexFacts  `json:"indexes"` // the unique ones
	Published   *membership   `json:"published"`
}

type columnFacts struct {
	Num       int16  `json:"num"`
	Name      string `json:"name"`
	Type      uint32 `json:"type"`
	Typmod    int32  `json:"typmod"`
	Array     uint32 `json:"array"` // the array type of Type; 0 where there is none
	NotNull   bool   `json:"not_null"`
	Generated string `json:"generated"` // pg_attribute.attgenerated
}

type indexFacts struct {
	Name      string     `json:"name"`
	Primary   bool       `json:"primary"`
	Identity  bool       `json:"identity"`  // REPLICA IDENTITY USING INDEX
	Immediate bool       `json:"immediate"` // not deferrable
	Valid     bool       `json:"valid"`
	Plain     bool       `json:"plain"` // of columns alone, for all rows
	Columns   []int16    `json:"columns"`
	Order     []keyOrder `json:"order"` // of Columns; nil where the index has no order, as that of a key WITHOUT OVERLAPS
}

// keyOrder is how an index orders one of its columns: by operators and a collation of its own, which have to be named since
// an operator of an extension is not found by a session whose search_path is empty.
type keyOrder struct {
	Schema  string `json:"schema"` // of the operators
	Less    string `json:"less"`
	Equal   string `json:"equal"`
	AtLeast string `json:"at_least"`
	Greater string `json:"greater"`
	Collate string `json:"collate"` // where it is not the column's own: its name as SQL writes it
}

// membership is how the publication holds a table.
type membership struct {
	Member  uint32   `json:"member"`  // OID of the pg_publication_rel; 0 where the publication names a schema, or all tables
	Columns []string `json:"columns"` // before Postgres 15 nil: all
	List    bool     `json:"list"`    // the columns were named
	Filter  string   `json:"filter"`
	Whole   bool     `json:"whole"`   // the publication carries all four kinds of changes
	Options string   `json:"options"` // another after each change of the publication's options
}

// publicationFacts is the publication itself.
type publicationFacts struct {
	OID       uint32
	AllTables bool
	ViaRoot   bool
	Actions   bool // all four of insert, update, delete, truncate
	Owned     bool // our role may alter it
}

// tablesQuery reads the facts of the named tables, in their order; NULL where there is no such table. Columns that later
// versions have are reached through to_jsonb, so that one query serves all.
const tablesQuery = `
WITH pub AS MATERIALIZED (
  SELECT p.schemaname, p.tablename, to_jsonb(p) AS j FROM pg_catalog.pg_publication_tables p WHERE p.pubname = $3
), member AS MATERIALIZED (
  SELECT r.prrelid, r.oid, to_jsonb(r) ->> 'prattrs' IS NOT NULL AS list
    FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid WHERE p.pubname = $3
)
SELECT (SELECT to_jsonb(x) FROM (
  SELECT c.oid::int8 AS oid, c.relkind AS kind, c.relpersistence AS persistence, c.relreplident AS identity,
    CASE WHEN c.relispartition THEN (
      SELECT jsonb_build_object('Schema', rn.nspname, 'Name', r.relname) FROM pg_catalog.pg_class r
        JOIN pg_catalog.pg_namespace rn ON rn.oid = r.relnamespace WHERE r.oid = pg_catalog.pg_partition_root(c.oid)) END AS root,
    CASE WHEN c.relkind = 'p' THEN (
      SELECT pg_catalog.string_agg(t.relid::oid::text || ':' || coalesce(pg_catalog.pg_relation_filenode(t.relid)::text, ''), ',' ORDER BY t.relid::oid)
        FROM pg_catalog.pg_partition_tree(c.oid) t)
      ELSE coalesce(pg_catalog.pg_relation_filenode(c.oid)::text, '') END AS files,
    CASE WHEN c.relkind = 'p' THEN (
      SELECT pg_catalog.string_agg(h.inhrelid::text || ':' || h.ctid::text, ',' ORDER BY h.inhrelid, h.inhparent)
        FROM pg_catalog.pg_partition_tree(c.oid) t JOIN pg_catalog.pg_inherits h ON h.inhrelid = t.relid WHERE t.relid <> c.oid) END AS parts,
    c.relnatts AS attributes, pg_catalog.row_security_active(c.oid) AS security,
    pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_table_privilege(c.oid, 'SELECT') AS readable,
    CASE WHEN c.reltuples > 0 THEN (c.relpages + coalesce((SELECT t.relpages FROM pg_catalog.pg_class t WHERE t.oid = c.reltoastrelid), 0))
      * pg_catalog.current_setting('block_size')::float8 / c.reltuples ELSE 0 END AS row_bytes,
    (SELECT jsonb_agg(jsonb_build_object('num', a.attnum, 'name', a.attname, 'type', a.atttypid::int8, 'typmod', a.atttypmod,
        'array', t.typarray::int8, 'not_null', a.attnotnull, 'generated', a.attgenerated) ORDER BY a.attnum)
       FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
      WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns,
    (SELECT jsonb_agg(jsonb_build_object('name', ic.relname, 'primary', i.indisprimary, 'identity', i.indisreplident,
        'immediate', i.indimmediate, 'valid', i.indisvalid, 'plain', i.indpred IS NULL AND i.indexprs IS NULL,
        'columns', (SELECT jsonb_agg(k.n ORDER BY k.i) FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k (n, i) WHERE k.i <= i.indnkeyatts),
        'order', (SELECT jsonb_agg(jsonb_build_object('schema', sn.nspname, 'less', lt.oprname, 'equal', eq.oprname, 'at_least', ge.oprname, 'greater', gt.oprname,
            'collate', CASE WHEN k.coll <> ka.attcollation THEN (SELECT pg_catalog.quote_ident(cn.nspname) || '.' || pg_catalog.quote_ident(co.collname)
              FROM pg_catalog.pg_collation co JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace WHERE co.oid = k.coll) ELSE '' END) ORDER BY k.i)
          FROM unnest(i.indkey::int2[], i.indclass::oid[], i.indcollation::oid[]) WITH ORDINALITY AS k (n, class, coll, i)
          JOIN pg_catalog.pg_opclass oc ON oc.oid = k.class
          JOIN pg_catalog.pg_operator lt ON lt.oid = (SELECT o.amopopr FROM pg_catalog.pg_amop o WHERE o.amopfamily = oc.opcfamily
               AND o.amoplefttype = oc.opcintype AND o.amoprighttype = oc.opcintype AND o.amopstrategy = 1)
          JOIN pg_catalog.pg_operator eq ON eq.oid = (SELECT o.amopopr FROM pg_catalog.pg_amop o WHERE o.amopfamily = oc.opcfamily
               AND o.amoplefttype = oc.opcintype AND o.amoprighttype = oc.opcintype AND o.amopstrategy = 3)
          JOIN pg_catalog.pg_operator ge ON ge.oid = (SELECT o.amopopr FROM pg_catalog.pg_amop o WHERE o.amopfamily = oc.opcfamily
               AND o.amoplefttype = oc.opcintype AND o.amoprighttype = oc.opcintype AND o.amopstrategy = 4)
          JOIN pg_catalog.pg_operator gt ON gt.oid = (SELECT o.amopopr FROM pg_catalog.pg_amop o WHERE o.amopfamily = oc.opcfamily
               AND o.amoplefttype = oc.opcintype AND o.amoprighttype = oc.opcintype AND o.amopstrategy = 5)
          JOIN pg_catalog.pg_namespace sn ON sn.oid = gt.oprnamespace
          LEFT JOIN pg_catalog.pg_attribute ka ON ka.attrelid = i.indrelid AND ka.attnum = k.n
          WHERE am.amname = 'btree')) ORDER BY i.indexrelid)
       FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class ic ON ic.oid = i.indexrelid
       JOIN pg_catalog.pg_am am ON am.oid = ic.relam WHERE i.indrelid = c.oid AND i.indisunique) AS indexes,
    (SELECT jsonb_build_object('member', coalesce((SELECT m.oid FROM member m WHERE m.prrelid = c.oid), 0)::int8,
        'list', coalesce((SELECT m.list FROM member m WHERE m.prrelid = c.oid), false),
        'columns', p.j -> 'attnames', 'filter', coalesce(p.j ->> 'rowfilter', ''),
        'whole', (SELECT o.pubinsert AND o.pubupdate AND o.pubdelete AND o.pubtruncate FROM pg_catalog.pg_publication o WHERE o.pubname = $3),
        'options', (SELECT to_jsonb(o)::text || o.ctid::text FROM pg_catalog.pg_publication o WHERE o.pubname = $3))
       FROM pub p WHERE p.schemaname = n.nspname AND p.tablename = c.relname) AS published
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
   WHERE n.nspname = w.nsp AND c.relname = w.rel) x)
  FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w (nsp, rel, i) ORDER BY w.i`

// readTables reads the facts of tables; a nil stands where there is no such table.
func readTables(ctx context.Context, q Querier, publication string, tables []TableConfig) ([]*tableFacts, error) {
	schemas, names := make([]string, len(tables)), make([]string, len(tables))
	for i, t := range tables {
		schemas[i], names[i] = t.Table.Schema, t.Table.Name
	}
	rows, err := q.Query(ctx, tablesQuery, schemas, names, publication)
	if err != nil {
		return nil, fmt.Errorf("read the tables from the catalog: %w", err)
	}
	facts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*tableFacts, error) {
		var text []byte
		if err := row.Scan(&text); err != nil || text == nil {
			return nil, err
		}
		f := new(tableFacts)
		return f, json.Unmarshal(text, f)
	})
	if err != nil {
		return nil, fmt.Errorf("read the tables from the catalog: %w", err)
	}
	return facts, nil
}

const publicationQuery = `SELECT oid, puballtables, pubviaroot, pubinsert AND pubupdate AND pubdelete AND pubtruncate,
       pg_catalog.pg_has_role(pubowner, 'USAGE')
  FROM pg_catalog.pg_publication WHERE pubname = $1`

// readPublication gives nil where there is no such publication.
func readPublication(ctx context.Context, q Querier, name string) (*publicationFacts, error) {
	rows, err := q.Query(ctx, publicationQuery, name)
	if err != nil {
		return nil, fmt.Errorf("read publication %s: %w", name, err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*publicationFacts, error) {
		p := new(publicationFacts)
		return p, row.Scan(&p.OID, &p.AllTables, &p.ViaRoot, &p.Actions, &p.Owned)
	})
	if err != nil {
		return nil, fmt.Errorf("read publication %s: %w", name, err)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all[0], nil
}

// publishedTables lists the tables of a publication, for a configuration that names none.
func publishedTables(ctx context.Context, q Querier, publication string) ([]TableConfig, error) {
	rows, err := q.Query(ctx, `SELECT schemaname::text, tablename::text FROM pg_catalog.pg_publication_tables WHERE pubname = $1 ORDER BY 1, 2`, publication)
	if err != nil {
		return nil, fmt.Errorf("read the tables of publication %s: %w", publication, err)
	}
	tables, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t TableConfig, err error) {
		return t, row.Scan(&t.Table.Schema, &t.Table.Name)
	})
	if err != nil {
		return nil, fmt.Errorf("read the tables of publication %s: %w", publication, err)
	}
	return tables, nil
}

// column finds a column by its number.
func (f *tableFacts) column(num int16) *columnFacts {
	for i := range f.Columns {
		if f.Columns[i].Num == num {
			return &f.Columns[i]
		}
	}
	return nil
}

func (f *tableFacts) names(nums []int16) []string {
	names := make([]string, len(nums))
	for i, n := range nums {
		if c := f.column(n); c != nil {
			names[i] = c.Name
		}
	}
	return names
}

// primary and identity give those indexes; nil where there is none.
func (f *tableFacts) primary() *indexFacts {
	return f.index(func(x indexFacts) bool { return x.Primary })
}

func (f *tableFacts) identity() *indexFacts {
	return f.index(func(x indexFacts) bool { return x.Identity })
}

// candidate gives an index that could be the replica identity.
func (f *tableFacts) candidate() *indexFacts {
	return f.index(func(x indexFacts) bool {
		if !x.usable() || !x.Plain {
			return false
		}
		for _, n := range x.Columns {
			if c := f.column(n); c == nil || !c.NotNull || c.Generated != "" {
				return false
			}
		}
		return true
	})
}

func (f *tableFacts) index(ok func(indexFacts) bool) *indexFacts {
	if i := slices.IndexFunc(f.Indexes, ok); i >= 0 {
		return &f.Indexes[i]
	}
	return nil
}

// usable says whether the index can tell rows apart at any time.
func (x *indexFacts) usable() bool { return x.Valid && x.Immediate }

// quoteList gives names as SQL writes a list of columns.
func quoteList(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = syncd.QuoteIdent(n)
	}
	return strings.Join(quoted, ", ")
}
