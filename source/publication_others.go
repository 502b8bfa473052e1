package source

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/syncd-io/syncd"
)

// mendAllTables is what mends a publication FOR ALL TABLES: no statement narrows one.
func mendAllTables(publication string) string {
	return fmt.Sprintf("DROP PUBLICATION %s, after which it is made anew of the configured tables; or name another in source.publication; or set manage: false",
		syncd.QuoteIdent(publication))
}

// schemasVersion is the first whose publications hold whole schemas.
const schemasVersion = 150000

// publishedSchemas lists the schemas that a publication holds whole.
func publishedSchemas(ctx context.Context, s *session, publication string) ([]string, error) {
	if s.server.version < schemasVersion {
		return nil, nil
	}
	rows, err := s.Query(ctx, `SELECT n.nspname::text FROM pg_catalog.pg_publication_namespace x JOIN pg_catalog.pg_publication p ON p.oid = x.pnpubid
		JOIN pg_catalog.pg_namespace n ON n.oid = x.pnnspid WHERE p.pubname = $1 ORDER BY 1`, publication)
	if err != nil {
		return nil, fmt.Errorf("read the schemas of publication %s: %w", publication, err)
	}
	schemas, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read the schemas of publication %s: %w", publication, err)
	}
	return schemas, nil
}

// dropSchemas takes whole schemas out of the publication. Their configured tables are given to it one by one then: it is
// before that, since beside a schema no table may have a list of columns. Each of them is listed anew.
func (k *keeper) dropSchemas(ctx context.Context, s *session) (int, error) {
	schemas, err := publishedSchemas(ctx, s, k.publication)
	if err != nil {
		return 0, err
	}
	for i, schema := range schemas {
		sql := fmt.Sprintf("ALTER PUBLICATION %s DROP TABLES IN SCHEMA %s", syncd.QuoteIdent(k.publication), syncd.QuoteIdent(schema))
		if _, err := s.Exec(ctx, sql); err != nil {
			return i, fmt.Errorf("take schema %s out of publication %s: %w; as its owner: %s", schema, k.publication, err, sql)
		}
	}
	return len(schemas), nil
}

// holdsOthers says whether somebody has given the publication tables that are not wanted, or whole schemas.
func (k *keeper) holdsOthers(ctx context.Context, s *session, want []wanted) (bool, error) {
	oids := make([]uint32, len(want))
	for i, w := range want {
		oids[i] = w.facts.OID
	}
	sql := `SELECT EXISTS (SELECT FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid
		WHERE p.pubname = $1 AND r.prrelid <> ALL ($2::oid[]))`
	if s.server.version >= schemasVersion {
		sql += ` OR EXISTS (SELECT FROM pg_catalog.pg_publication_namespace x JOIN pg_catalog.pg_publication p ON p.oid = x.pnpubid WHERE p.pubname = $1)`
	}
	var others bool
	if err := s.QueryRow(ctx, sql, k.publication, oids).Scan(&others); err != nil {
		return false, fmt.Errorf("look for others' tables in publication %s: %w", k.publication, err)
	}
	return others, nil
}
