package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/syncd-io/syncd"
)

// see makes the views of a table: the one that others read, and the one that syncd reads. changed says that the columns are
// others than before.
func (p *place) see(ctx context.Context, tx pgx.Tx, info syncd.TableInfo, have []column, changed bool) error {
	v, b := p.in(visible(info.Table)), p.in(base(info.Table))
	var there bool
	if err := tx.QueryRow(ctx, "SELECT pg_catalog.to_regclass($1) IS NOT NULL", v).Scan(&there); err != nil {
		return err
	}
	if !changed && there {
		return nil
	}
	var grants []string
	if there {
		var err error
		if grants, err = p.grants(ctx, tx, v); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "DROP VIEW "+v); err != nil {
			return err
		}
	}
	var names []string // in the order of the source's
	for _, c := range info.Columns {
		if slices.ContainsFunc(have, func(h column) bool { return h.Name == c }) {
			names = append(names, syncd.QuoteIdent(c))
		}
	}
	statements := []string{
		fmt.Sprintf("CREATE VIEW %s AS SELECT %s FROM %s WHERE _syncd_row IS NOT NULL", v, strings.Join(names, ", "), b),
		fmt.Sprintf("COMMENT ON VIEW %s IS '%s'", v, viewMark),
		p.reading(info.Table, fmt.Sprintf("CASE WHEN _syncd_sum = %s THEN _syncd_row END", sumOf(have, ""))),
	}
	if len(have) == 0 { // nothing that SQL could show
		statements = []string{p.reading(info.Table, "_syncd_row")}
	}
	for _, s := range append(statements, grants...) {
		if _, err := tx.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// reading is the statement that makes the view that syncd reads, whose columns are always the same.
func (p *place) reading(t syncd.Table, row string) string {
	return fmt.Sprintf("CREATE OR REPLACE VIEW %s AS SELECT _syncd_hash AS hash, _syncd_kid AS kid, _syncd_key AS key, _syncd_meta AS meta, %s AS row, _syncd_row IS NOT NULL AS counted FROM %s",
		p.in(check(t)), row, p.in(base(t)))
}

// hide takes from the view that syncd reads what keeps columns from being dropped; the other view is taken away, and its
// grants are kept for see.
func (p *place) hide(ctx context.Context, tx pgx.Tx, t syncd.Table) error {
	if _, err := tx.Exec(ctx, p.reading(t, "_syncd_row")); err != nil {
		return err
	}
	v := p.in(visible(t))
	var there bool
	if err := tx.QueryRow(ctx, "SELECT pg_catalog.to_regclass($1) IS NOT NULL", v).Scan(&there); err != nil || !there {
		return err
	}
	// A view of one column that stays holds up nothing, and keeps the grants until see has read them.
	if mine, err := p.mine(ctx, tx, v); err != nil || !mine {
		if err == nil {
			err = fmt.Errorf("%s is not syncd's: move it away, or name another schema for the sink", v)
		}
		return err
	}
	grants, err := p.grants(ctx, tx, v)
	if err != nil {
		return err
	}
	for _, s := range append([]string{"DROP VIEW " + v, fmt.Sprintf("CREATE VIEW %s AS SELECT 1 AS being_changed", v)}, grants...) {
		if _, err := tx.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// mine says whether syncd made a view.
func (p *place) mine(ctx context.Context, tx pgx.Tx, v string) (mine bool, err error) {
	err = tx.QueryRow(ctx, "SELECT pg_catalog.obj_description(pg_catalog.to_regclass($1), 'pg_class') IS NOT DISTINCT FROM $2", v, viewMark).Scan(&mine)
	return mine, err
}

// grants gives the statements that grant again what was granted on a view.
func (p *place) grants(ctx context.Context, tx pgx.Tx, v string) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT a.privilege_type, coalesce((SELECT pg_catalog.quote_ident(r.rolname) FROM pg_catalog.pg_roles r WHERE r.oid = a.grantee), 'PUBLIC')
		FROM pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a WHERE c.oid = pg_catalog.to_regclass($1) AND a.grantee <> c.relowner`, v)
	if err != nil {
		return nil, err
	}
	type grant struct{ What, To string }
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[grant])
	if err != nil {
		return nil, err
	}
	var statements []string
	for _, g := range all {
		statements = append(statements, fmt.Sprintf("GRANT %s ON %s TO %s", g.What, v, g.To))
	}
	return statements, nil
}

// drop takes a table and its views away.
func (p *place) drop(ctx context.Context, tx pgx.Tx, t syncd.Table) error {
	v := p.in(visible(t))
	mine, err := p.mine(ctx, tx, v)
	if err != nil {
		return err
	}
	var statements []string
	if mine {
		statements = append(statements, "DROP VIEW "+v)
	}
	for _, s := range append(statements, "DROP VIEW IF EXISTS "+p.in(check(t)), "DROP TABLE IF EXISTS "+p.in(base(t))) {
		if _, err := tx.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}
