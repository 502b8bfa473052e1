package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/syncd-io/syncd"
)

// want is what a cache must hold of a table by what Postgres says: its rows, or why there can be none.
type want struct {
	table syncd.Table
	// refused is a pattern of what the refusal has to say; nil where the table can be synced.
	refused *regexp.Regexp
	rows    map[syncd.Key]string
}

// facts are what the catalog says of a table, gathered without any of the source's own queries.
type facts struct {
	Kind, Persistence, Identity string
	Under                       []string // the partitioned tables above it, as SQL writes them
	Index                       bool     // there is the index that its identity asks for
	Immediate                   bool     // and it is valid and not deferrable
	Key                         []string
	Columns                     []string // all but the generated ones
	All                         []string // those too
	Published                   []string // those that the publication names; null where it does not hold the table
	Filter                      string
}

// factsQuery gives one JSON object for a table, or no row where there is none.
const factsQuery = `SELECT pg_catalog.row_to_json(x) FROM (
	SELECT c.relkind AS kind, c.relpersistence AS persistence, c.relreplident AS identity,
		array(SELECT format('%I.%I', an.nspname, ac.relname) FROM pg_catalog.pg_partition_ancestors(c.oid) a
			JOIN pg_catalog.pg_class ac ON ac.oid = a.relid JOIN pg_catalog.pg_namespace an ON an.oid = ac.relnamespace WHERE a.relid <> c.oid) AS under,
		i.indexrelid IS NOT NULL AS index, coalesce(i.indimmediate AND i.indisvalid, false) AS immediate,
		array(SELECT a.attname FROM unnest(i.indkey[0:i.indnkeyatts-1]) WITH ORDINALITY k (num, n)
			JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.num ORDER BY k.n) AS key,
		array(SELECT a.attname FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0
			AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum) AS columns,
		array(SELECT a.attname FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0
			AND NOT a.attisdropped ORDER BY a.attnum) AS all,
		(SELECT to_jsonb(p) -> 'attnames' FROM pg_catalog.pg_publication_tables p WHERE p.pubname = $3 AND p.schemaname = $1 AND p.tablename = $2) AS published,
		(SELECT to_jsonb(p) ->> 'rowfilter' FROM pg_catalog.pg_publication_tables p WHERE p.pubname = $3 AND p.schemaname = $1 AND p.tablename = $2) AS filter
	FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		LEFT JOIN pg_catalog.pg_index i ON i.indrelid = c.oid AND c.relreplident <> 'n'
			AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
	WHERE n.nspname = $1 AND c.relname = $2) x`

// oracle is a session that asks Postgres what every cache must hold, in one snapshot and with the settings that a row's
// form is defined by.
type oracle struct {
	f  *fleet
	tx pgx.Tx
}

// wants gives what a cache must hold of each configured table, and where the server's log ended just before.
func (f *fleet) wants() (all []want, lsn syncd.LSN, err error) {
	ctx := f.t.Context()
	c, err := pgx.ParseConfig(f.target)
	if err != nil {
		return nil, 0, err
	}
	for name, value := range map[string]string{
		"TimeZone": "UTC", "DateStyle": "ISO", "IntervalStyle": "postgres", "extra_float_digits": "1", "bytea_output": "hex",
		"lc_monetary": "C", "search_path": "", "client_encoding": "UTF8",
	} {
		c.RuntimeParams[name] = value
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		o := oracle{f, tx}
		var at string
		// The LSN first: it lies at or below what the snapshot of the same statement sees.
		if err := tx.QueryRow(ctx, "SELECT pg_catalog.pg_current_wal_insert_lsn()::text").Scan(&at); err != nil {
			return err
		}
		if lsn, err = syncd.ParseLSN(at); err != nil {
			return err
		}
		all, err = o.all(ctx)
		return err
	})
	return all, lsn, err
}

// configured gives the tables that the fleet is to sync: those of its configuration, else those of its publication.
func (o *oracle) configured(ctx context.Context) ([]tableConfig, error) {
	if len(o.f.tables) > 0 {
		return o.f.tables, nil
	}
	rows, err := o.tx.Query(ctx, "SELECT schemaname::text, tablename::text FROM pg_catalog.pg_publication_tables WHERE pubname = $1", o.f.publication)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (t tableConfig, err error) {
		return t, r.Scan(&t.table.Schema, &t.table.Name)
	})
}

func (o *oracle) all(ctx context.Context) ([]want, error) {
	tables, err := o.configured(ctx)
	if err != nil {
		return nil, err
	}
	whole := true // the publication carries every kind of change
	if o.f.publication != "" {
		err := o.tx.QueryRow(ctx, "SELECT pubinsert AND pubupdate AND pubdelete AND pubtruncate FROM pg_catalog.pg_publication WHERE pubname = $1", o.f.publication).Scan(&whole)
		if err != nil {
			return nil, fmt.Errorf("publication %s: %w", o.f.publication, err)
		}
	}
	all := make([]want, len(tables))
	for i, t := range tables {
		w := &all[i]
		w.table = t.table
		facts, err := o.facts(ctx, t.table)
		if err != nil {
			return nil, err
		}
		refused := o.refused(t, facts, tables)
		if refused == "" && !whole {
			refused = `ALTER PUBLICATION .* SET \(publish = `
		}
		if refused != "" {
			w.refused = regexp.MustCompile(refused)
			continue
		}
		if w.rows, err = o.rows(ctx, t, facts); err != nil {
			return nil, fmt.Errorf("ask Postgres for the rows of %s: %w", t.table, err)
		}
	}
	return all, nil
}

// facts gives nil where there is no such table.
func (o *oracle) facts(ctx context.Context, t syncd.Table) (*facts, error) {
	rows, err := o.tx.Query(ctx, factsQuery, t.Schema, t.Name, o.f.publication)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[json.RawMessage])
	if err != nil || len(all) == 0 {
		return nil, err
	}
	f := &facts{}
	return f, json.Unmarshal(all[0], f)
}

// columnLists is the first version with column lists and row filters.
const columnLists = 150000

// refused says what the refusal of a table has to say; empty where the table can be synced.
func (o *oracle) refused(t tableConfig, f *facts, configured []tableConfig) string {
	if f == nil {
		return "there is no table"
	}
	rooted := slices.ContainsFunc(configured, func(c tableConfig) bool {
		return slices.ContainsFunc(f.Under, func(root string) bool {
			above, err := syncd.ParseTable(root)
			return err == nil && above == c.table
		})
	})
	name := regexp.QuoteMeta(t.table.SQL())
	switch {
	case f.Kind == "v" || f.Kind == "m":
		return "view"
	case f.Kind == "f":
		return "foreign table"
	case f.Persistence == "u":
		return "ALTER TABLE " + name + " SET LOGGED"
	case f.Persistence == "t":
		return "temporary"
	case rooted && o.f.publication == "":
		return "is a partition of"
	case o.f.publication == "" && (len(t.columns) > 0 || t.where != "") && o.f.db.Server.Version() < columnLists:
		return "columns and where need Postgres 15"
	case !f.Index:
		return "ALTER TABLE " + name + " (ADD PRIMARY KEY|REPLICA IDENTITY)"
	case f.Identity == "f" && len(f.All) > len(f.Columns) && o.f.db.Server.Version() >= 180000:
		return "ALTER TABLE " + name + " REPLICA IDENTITY DEFAULT"
	case !f.Immediate:
		return "ALTER TABLE " + name + " (REPLICA IDENTITY USING INDEX|DROP CONSTRAINT .* ADD PRIMARY KEY)"
	}
	return ""
}

// rows reads a table's published rows, each under its key. A partitioned table has its partitions', another its own alone.
func (o *oracle) rows(ctx context.Context, t tableConfig, f *facts) (map[syncd.Key]string, error) {
	columns := f.Columns
	if t.generated == "fetch" {
		columns = f.All
	}
	named := t.columns
	where := t.where
	if o.f.publication != "" {
		named, where = f.Published, f.Filter
	}
	if named != nil {
		columns = slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return !slices.Contains(named, c) })
	}
	var b strings.Builder
	b.WriteString("SELECT ")
	for _, k := range f.Key {
		b.WriteString("o." + syncd.QuoteIdent(k) + ", ")
	}
	quoted := make([]string, len(columns))
	for i, c := range columns {
		quoted[i] = "o." + syncd.QuoteIdent(c)
	}
	only := "ONLY "
	if f.Kind == "p" {
		only = ""
	}
	fmt.Fprintf(&b, "(SELECT pg_catalog.row_to_json(p.*) FROM (SELECT %s) p) FROM %s%s o", strings.Join(quoted, ", "), only, t.table.SQL())
	if where != "" {
		b.WriteString(" WHERE " + where)
	}
	rows, err := o.tx.Query(ctx, b.String(), pgx.QueryExecModeSimpleProtocol) // the text that the output functions print
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all, n := map[syncd.Key]string{}, 0
	for rows.Next() {
		raw := rows.RawValues()
		values := make([]string, len(f.Key))
		for i := range values {
			values[i] = string(raw[i])
		}
		all[syncd.MakeKey(values...)] = string(raw[len(values)])
		n++
	}
	if len(all) != n && rows.Err() == nil {
		return nil, fmt.Errorf("%d rows have %d keys", n, len(all))
	}
	return all, rows.Err()
}
