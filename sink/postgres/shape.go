package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/syncd-io/syncd"
)

// column is a column of a table of entries: its name, and its type as format_type prints it.
type column struct{ Name, Type string }

// plainMark is the comment of a table all of whose columns are text, because a value did not fit.
const plainMark = "syncd: every column is text"

// viewMark is the comment of the views that syncd made.
const viewMark = "kept true to its source by syncd"

// fit gives a table the shape that its source has: it makes it, or alters it and writes its columns anew.
func (p *place) fit(ctx context.Context, tx pgx.Tx, info syncd.TableInfo, plain bool) error {
	was, there, marked, err := p.found(ctx, tx, info.Table)
	if err != nil {
		return err
	}
	plain = plain || marked
	want, err := columnsFor(ctx, tx, info, plain)
	if err != nil {
		return err
	}
	b := p.in(base(info.Table))
	if !there {
		if _, err := tx.Exec(ctx, "CREATE TABLE "+b+` (_syncd_hash bigint, _syncd_kid bytea, _syncd_key bytea NOT NULL, _syncd_seq bigint NOT NULL,
			_syncd_meta bytea NOT NULL, _syncd_row bytea, _syncd_sum text, PRIMARY KEY (_syncd_hash, _syncd_kid))`); err != nil {
			return err
		}
	}
	if there && slices.Equal(was, want) && plain == marked {
		return p.see(ctx, tx, info, want, false)
	}
	if plain {
		if _, err := tx.Exec(ctx, "COMMENT ON TABLE "+b+" IS '"+plainMark+"'"); err != nil {
			return err
		}
	}
	if err := p.hide(ctx, tx, info.Table); err != nil {
		return err
	}
	for _, c := range was {
		if !slices.Contains(want, c) {
			if _, err := tx.Exec(ctx, "ALTER TABLE "+b+" DROP COLUMN "+syncd.QuoteIdent(c.Name)); err != nil {
				return err
			}
		}
	}
	for _, c := range want {
		if !slices.Contains(was, c) {
			if _, err := tx.Exec(ctx, "ALTER TABLE "+b+" ADD COLUMN "+syncd.QuoteIdent(c.Name)+" "+c.Type); err != nil {
				return err
			}
		}
	}
	if there && len(want) > 0 {
		list, values := listOf(want, "p.")
		_, err := tx.Exec(ctx, fmt.Sprintf(`UPDATE %s b SET (_syncd_sum, %s) = (SELECT %s, %s FROM pg_catalog.json_populate_record(NULL::%s, pg_catalog.convert_from(b._syncd_row, 'UTF8')::json) p)
			WHERE b._syncd_row IS NOT NULL`, b, list, sumOf(want, "p."), values, b))
		if err != nil {
			return err
		}
	}
	if err := p.index(ctx, tx, info, want); err != nil {
		return err
	}
	return p.see(ctx, tx, info, want, true)
}

// found gives the columns that a table of entries has, in the order of their names' first appearance.
func (p *place) found(ctx context.Context, tx pgx.Tx, t syncd.Table) (all []column, there, plain bool, err error) {
	err = tx.QueryRow(ctx, `SELECT pg_catalog.to_regclass($1) IS NOT NULL, pg_catalog.obj_description(pg_catalog.to_regclass($1), 'pg_class') IS NOT DISTINCT FROM $2`,
		p.in(base(t)), plainMark).Scan(&there, &plain)
	if err != nil || !there {
		return nil, there, false, err
	}
	rows, err := tx.Query(ctx, `SELECT attname, pg_catalog.format_type(atttypid, atttypmod) FROM pg_catalog.pg_attribute
		WHERE attrelid = pg_catalog.to_regclass($1) AND attnum > 0 AND NOT attisdropped AND attname NOT LIKE '\_syncd\_%'`, p.in(base(t)))
	if err != nil {
		return nil, there, plain, err
	}
	all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[column])
	slices.SortFunc(all, byName)
	return all, there, plain, err
}

func byName(a, b column) int { return strings.Compare(a.Name, b.Name) }

// columnsFor gives the columns that a table is to have, by name. A type that the target does not know is text there.
func columnsFor(ctx context.Context, tx pgx.Tx, info syncd.TableInfo, plain bool) (all []column, err error) {
	for i, name := range info.Columns {
		if strings.HasPrefix(name, own) {
			continue // it is in the row, and would be taken for one of syncd's own here
		}
		c := column{name, "text"}
		if !plain && i < len(info.Types) {
			if c.Type, err = typeFor(ctx, tx, info.Types[i]); err != nil {
				return nil, err
			}
		}
		all = append(all, c)
	}
	slices.SortFunc(all, byName)
	return all, nil
}

// typeFor gives a type of the source as the target has it. Types that are no builtin ones are text: another one of that name
// may mean something else.
func typeFor(ctx context.Context, tx pgx.Tx, text string) (string, error) {
	var found *string
	err := tx.QueryRow(ctx, `SELECT (SELECT pg_catalog.format_type(t.oid, NULL) FROM pg_catalog.pg_type t
		WHERE t.oid = pg_catalog.to_regtype($1) AND t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype <> 'p')`, bare(text)).Scan(&found)
	switch {
	case code(err) != "":
		return "", fmt.Errorf("look for type %s: %w", text, err)
	case err != nil:
		return "", err
	case found == nil:
		return "text", nil
	}
	return text, nil
}

// bare takes the modifier out of a type: character varying(20)[] is character varying[].
func bare(text string) string {
	open := strings.IndexByte(text, '(')
	if open < 0 {
		return text
	}
	end := strings.IndexByte(text[open:], ')')
	if end < 0 {
		return text
	}
	return text[:open] + text[open+end+1:]
}

// listOf gives the columns' names as a list, alone and behind a prefix.
func listOf(columns []column, prefix string) (names, values string) {
	a, b := make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		a[i] = syncd.QuoteIdent(c.Name)
		b[i] = prefix + a[i]
	}
	return strings.Join(a, ", "), strings.Join(b, ", ")
}

// sumOf gives the expression of the sum over the columns.
func sumOf(columns []column, prefix string) string {
	_, values := listOf(columns, prefix)
	return "pg_catalog.md5(ROW(" + values + ")::text)"
}

// index has the key's columns looked up fast. It is left out where the target has no order for them.
func (p *place) index(ctx context.Context, tx pgx.Tx, info syncd.TableInfo, have []column) error {
	keys := make([]string, 0, len(info.Key))
	for _, k := range info.Key {
		if !slices.ContainsFunc(have, func(c column) bool { return c.Name == k }) {
			return nil
		}
		keys = append(keys, syncd.QuoteIdent(k))
	}
	if len(keys) == 0 {
		return nil
	}
	sp, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	name := own + hashed(info.Table, "key_"+info.Table.Name, maxName-len(own))
	if _, err = sp.Exec(ctx, "DROP INDEX IF EXISTS "+p.in(name)); err == nil {
		_, err = sp.Exec(ctx, "CREATE INDEX "+syncd.QuoteIdent(name)+" ON "+p.in(base(info.Table))+" ("+strings.Join(keys, ", ")+") WHERE _syncd_row IS NOT NULL")
	}
	if err != nil && code(err) != "" && code(err) != "57014" {
		p.log.Warn("the key of a table in the sink has no index", "table", info.Table.String(), "error", err)
		return sp.Rollback(ctx)
	}
	if err != nil {
		return err
	}
	return sp.Commit(ctx)
}
