package source

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/syncd-io/syncd"
)

// ddlLockTimeout bounds how long a statement on the publication waits for a table's lock, since others would queue behind
// it. The next look at the catalog tries again.
const ddlLockTimeout = "2s"

// keeper keeps the publication to the configured tables.
type keeper struct {
	publication string
	user        string
	// filters remembers, for each configured row filter, how the server writes it, so that it is compared only once.
	filters map[syncd.Table]filter
}

type filter struct{ configured, canonical string }

// wanted is a table that the publication is to hold.
type wanted struct {
	config  TableConfig
	facts   *tableFacts
	verdict verdict
}

// Keep makes the publication hold the wanted tables as they are wanted, and nothing else. It says which it could not give
// it, with what mends it, and whether it changed anything.
func (k *keeper) Keep(ctx context.Context, s *session, want []wanted) (refused map[syncd.Table]refusal, changed bool, err error) {
	if changed, err = k.keepItself(ctx, s); err != nil {
		return nil, changed, err
	}
	n, err := k.dropOthers(ctx, s, want)
	if err != nil {
		return nil, changed, err
	}
	changed = changed || n > 0
	refused = map[syncd.Table]refusal{}
	for _, w := range want {
		did, why, err := k.keepTable(ctx, s, w)
		if err != nil && (ctx.Err() != nil || s.IsClosed()) {
			return nil, changed, err
		}
		if err != nil {
			why = refuse("as the owner of both "+k.addSQL(w, w.verdict.List), "publication %s can't be given %s (%v)", k.publication, w.config.Table, err)
		}
		if !why.none() {
			refused[w.config.Table] = why
		}
		changed = changed || did
	}
	return refused, changed, nil
}

// keepItself makes the publication where there is none, and corrects its options.
func (k *keeper) keepItself(ctx context.Context, s *session) (changed bool, err error) {
	const options = "(publish = 'insert, update, delete, truncate', publish_via_partition_root = true)"
	name := syncd.QuoteIdent(k.publication)
	p, err := readPublication(ctx, s, k.publication)
	switch {
	case err != nil:
		return false, err
	case p == nil:
		if _, err := s.Exec(ctx, "CREATE PUBLICATION "+name+" WITH "+options); err != nil && sqlState(err) != stateDuplicateObject {
			return false, fmt.Errorf("create publication %s: %w; it needs GRANT CREATE ON DATABASE %s TO %s", k.publication, err, syncd.QuoteIdent(s.server.database), syncd.QuoteIdent(k.user))
		}
		return true, nil
	case p.AllTables:
		return false, fmt.Errorf("publication %s is FOR ALL TABLES and can't be kept to some: %s", k.publication, mendAllTables(k.publication))
	case p.ViaRoot && p.Actions:
		return false, nil
	}
	if _, err := s.Exec(ctx, "ALTER PUBLICATION "+name+" SET "+options); err != nil {
		return false, fmt.Errorf("set the options of publication %s: %w; as its owner: ALTER PUBLICATION %s OWNER TO %s", k.publication, err, name, syncd.QuoteIdent(k.user))
	}
	return true, nil
}

// dropOthers takes out of the publication what is not wanted: an unwanted table may be one whose UPDATEs would fail.
func (k *keeper) dropOthers(ctx context.Context, s *session, want []wanted) (int, error) {
	rows, err := s.Query(ctx, `SELECT n.nspname::text, c.relname::text FROM pg_catalog.pg_publication_rel r
		JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid JOIN pg_catalog.pg_class c ON c.oid = r.prrelid
		JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = $1`, k.publication)
	if err != nil {
		return 0, fmt.Errorf("read publication %s: %w", k.publication, err)
	}
	held, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (t syncd.Table, err error) {
		return t, row.Scan(&t.Schema, &t.Name)
	})
	if err != nil {
		return 0, fmt.Errorf("read publication %s: %w", k.publication, err)
	}
	n, err := k.dropSchemas(ctx, s)
	if err != nil {
		return n, err
	}
	for _, t := range held {
		if slices.ContainsFunc(want, func(w wanted) bool { return w.config.Table == t }) {
			continue
		}
		if _, err := s.Exec(ctx, k.dropSQL(t)); err != nil {
			return n, fmt.Errorf("take table %s out of publication %s: %w", t, k.publication, err)
		}
		n++
	}
	return n, nil
}

// keepTable gives the publication one table, or gives it anew where the columns or the filter differ.
func (k *keeper) keepTable(ctx context.Context, s *session, w wanted) (changed bool, refused refusal, err error) {
	held := w.facts.Published
	if held != nil && held.Member != 0 && k.same(w) {
		return false, refusal{}, nil
	}
	tx, err := s.Begin(ctx)
	if err != nil {
		return false, refusal{}, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '"+ddlLockTimeout+"'"); err != nil {
		return false, refusal{}, err
	}
	if held != nil && held.Member != 0 {
		if _, err := tx.Exec(ctx, k.dropSQL(w.config.Table)); err != nil {
			return false, refusal{}, err
		}
	}
	if refused, err = k.tryFilter(ctx, tx, w); err != nil || !refused.none() {
		return false, refused, err
	}
	if held != nil && k.same(w) {
		return false, refusal{}, nil // the transaction only asked how the server writes the filter
	}
	if _, err := tx.Exec(ctx, k.addSQL(w, w.verdict.List)); err != nil {
		return false, refusal{}, err
	}
	return true, refusal{}, tx.Commit(ctx)
}

// tryFilter gives the publication the table with its row filter alone, asks how the server writes the filter and what it
// reads, and takes the table out again. Nobody else sees any of it.
func (k *keeper) tryFilter(ctx context.Context, tx pgx.Tx, w wanted) (refused refusal, err error) {
	if w.config.Where == "" {
		return refusal{}, nil
	}
	if _, err := tx.Exec(ctx, k.addSQL(w, false)); err != nil {
		return refusal{}, err
	}
	canonical, reads, err := readFilter(ctx, tx, k.publication, w.facts.OID)
	if err != nil {
		return refusal{}, err
	}
	k.filters[w.config.Table] = filter{w.config.Where, canonical}
	if why := refuseFilter(w.config, w.facts, w.verdict.Key, reads); !why.none() {
		return why, nil
	}
	_, err = tx.Exec(ctx, k.dropSQL(w.config.Table))
	return refusal{}, err
}

// same says whether the publication holds the table as it is wanted.
func (k *keeper) same(w wanted) bool {
	held := w.facts.Published
	if held.List != w.verdict.List {
		return false
	}
	if held.List && !sameSet(held.Columns, columnNames(w.verdict.Publish)) {
		return false
	}
	if w.config.Where == "" {
		return held.Filter == ""
	}
	f := k.filters[w.config.Table]
	return f.configured == w.config.Where && f.canonical == held.Filter
}

// addSQL gives the publication the table, with its list of columns where asked for, and with its row filter.
func (k *keeper) addSQL(w wanted, list bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "ALTER PUBLICATION %s ADD TABLE ONLY %s", syncd.QuoteIdent(k.publication), w.config.Table.SQL())
	if list {
		fmt.Fprintf(&b, " (%s)", quoteList(columnNames(w.verdict.Publish)))
	}
	if w.config.Where != "" {
		fmt.Fprintf(&b, " WHERE (%s)", w.config.Where)
	}
	return b.String()
}

func (k *keeper) dropSQL(t syncd.Table) string {
	return fmt.Sprintf("ALTER PUBLICATION %s DROP TABLE ONLY %s", syncd.QuoteIdent(k.publication), t.SQL())
}

// filterQuery finds what a row filter reads by the dependencies that the server has recorded; a column list would have
// recorded its own there too.
const filterQuery = `SELECT pg_catalog.pg_get_expr(r.prqual, r.prrelid),
       ARRAY(SELECT DISTINCT a.attname::text FROM pg_catalog.pg_depend d
               JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
              WHERE d.classid = 'pg_catalog.pg_publication_rel'::pg_catalog.regclass AND d.objid = r.oid
                AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid = r.prrelid AND d.refobjsubid > 0)
  FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid
 WHERE p.pubname = $1 AND r.prrelid = $2`

// readFilter gives a table's row filter as the server writes it, and the columns that it reads.
func readFilter(ctx context.Context, tx pgx.Tx, publication string, table uint32) (text string, reads []string, err error) {
	if err := tx.QueryRow(ctx, filterQuery, publication, table).Scan(&text, &reads); err != nil {
		return "", nil, fmt.Errorf("read the row filter: %w", err)
	}
	return text, reads, nil
}

func columnNames(cols []columnFacts) []string {
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = c.Name
	}
	return names
}
