package source

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Querier runs a query; *pgx.Conn and pgx.Tx do.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Catalog keeps the types that were read from one database's catalog. The zero Catalog is ready; goroutines may share it,
// each with a connection of its own, and none waits for another's query.
//
// What it holds is the catalog as it was when read. Refresh brings it up to date after DDL; Types handed out before stay as
// they were.
type Catalog struct {
	mu    sync.Mutex
	rows  map[uint32]*typeRow // a row is never changed
	types map[uint32]*Type    // made of rows
}

// Types gives the types of oids, in that order, reading those that it does not hold yet with one query for each level of
// the types' trees. An OID that the database does not have is a *NoTypeError.
func (c *Catalog) Types(ctx context.Context, q Querier, oids []uint32) ([]*Type, error) {
	rows := c.known()
	if err := load(ctx, q, oids, rows); err != nil {
		return nil, err
	}
	return c.link(oids, rows)
}

// known gives a copy of the rows.
func (c *Catalog) known() map[uint32]*typeRow {
	c.mu.Lock()
	defer c.mu.Unlock()
	rows := make(map[uint32]*typeRow, len(c.rows))
	maps.Copy(rows, c.rows)
	return rows
}

// link adds rows to those held, which stand where both have one, and makes the types.
func (c *Catalog) link(oids []uint32, rows map[uint32]*typeRow) ([]*Type, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil {
		c.rows, c.types = map[uint32]*typeRow{}, map[uint32]*Type{}
	}
	for oid, r := range rows {
		if c.rows[oid] == nil {
			c.rows[oid] = r
		}
	}
	types := make([]*Type, len(oids))
	for i, oid := range oids {
		t, err := link(oid, c.rows, c.types, 0)
		if err != nil {
			return nil, err
		}
		types[i] = t
	}
	return types, nil
}

// Refresh reads every type that the catalog holds again, mostly with one query, and says whether any of them changed or
// went. A type that did not change, nor anything that it is made of, keeps its *Type.
func (c *Catalog) Refresh(ctx context.Context, q Querier) (changed bool, err error) {
	old := c.known()
	if len(old) == 0 {
		return false, nil
	}
	rows := make(map[uint32]*typeRow, len(old))
	if err := load(ctx, q, slices.Collect(maps.Keys(old)), rows); err != nil {
		return false, err
	}
	stale := map[uint32]bool{}
	for oid, r := range old {
		if !reflect.DeepEqual(r, rows[oid]) {
			stale[oid] = true
		}
	}
	if len(stale) == 0 {
		return false, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for oid := range stale {
		delete(c.rows, oid)
	}
	for oid, r := range rows {
		if c.rows[oid] == nil {
			c.rows[oid] = r
		}
	}
	maps.DeleteFunc(c.types, func(_ uint32, t *Type) bool { return t.contains(stale) })
	return true, nil
}

// contains says whether t or anything it is made of is one of oids.
func (t *Type) contains(oids map[uint32]bool) bool {
	if t == nil {
		return false
	}
	if oids[t.OID] || t.Base.contains(oids) || t.Elem.contains(oids) || t.Of.contains(oids) {
		return true
	}
	return slices.ContainsFunc(t.Fields, func(f Field) bool { return f.Type.contains(oids) })
}

// load reads the types of oids that rows lacks, and all that they are made of, into rows.
func load(ctx context.Context, q Querier, oids []uint32, rows map[uint32]*typeRow) error {
	for want := missing(oids, rows); len(want) > 0; {
		read, err := readTypes(ctx, q, want)
		if err != nil {
			return fmt.Errorf("read types from the catalog: %w", err)
		}
		var below []uint32
		for _, r := range read {
			rows[r.oid] = r
			below = append(below, r.children()...)
		}
		want = missing(below, rows)
	}
	return nil
}

func missing(oids []uint32, rows map[uint32]*typeRow) []uint32 {
	var m []uint32
	for _, oid := range oids {
		if rows[oid] == nil {
			m = append(m, oid)
		}
	}
	slices.Sort(m)
	return slices.Compact(m)
}

// typesQuery: a true array is what get_element_type of lsyscache.c calls one. A cast to json counts where find_coercion_pathway
// would find a function, and only for types that are not built in (OID 16384 and above).
const typesQuery = `
SELECT t.oid, n.nspname, t.typname, t.typtype::text,
       CASE WHEN t.typsubscript = 'pg_catalog.array_subscript_handler'::regproc THEN t.typelem ELSE 0::oid END,
       t.typoutput = 'pg_catalog.array_out'::regproc,
       t.typdelim::text, t.typbasetype, t.typtypmod,
       coalesce(r.rngsubtype, m.rngtypid, 0::oid),
       coalesce(c.castfunc::regprocedure::text, ''),
       coalesce(p.prosrc = 'hstore_to_json' AND p.probin ~ '(^|/)hstore$', false),
       ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder),
       ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
             WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
       ARRAY(SELECT a.atttypid FROM pg_catalog.pg_attribute a
             WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
       ARRAY(SELECT a.atttypmod FROM pg_catalog.pg_attribute a
             WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
       coalesce((SELECT pg_catalog.string_agg(e.ctid::text, ',' ORDER BY e.enumsortorder) FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid),
                (SELECT pg_catalog.string_agg(a.ctid::text, ',' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
                  WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped AND t.typtype = 'c'), '')
  FROM pg_catalog.pg_type t
  JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
  LEFT JOIN pg_catalog.pg_range r ON r.rngtypid = t.oid
  LEFT JOIN pg_catalog.pg_range m ON m.rngmultitypid = t.oid
  LEFT JOIN pg_catalog.pg_cast c ON c.castsource = t.oid AND c.casttarget = 'pg_catalog.json'::regtype
                                AND c.castmethod = 'f' AND t.oid >= 16384
  LEFT JOIN pg_catalog.pg_proc p ON p.oid = c.castfunc
 WHERE t.oid = ANY ($1::oid[])`

func readTypes(ctx context.Context, q Querier, oids []uint32) ([]*typeRow, error) {
	rows, err := q.Query(ctx, typesQuery, oids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (*typeRow, error) {
		r := new(typeRow)
		return r, row.Scan(&r.oid, &r.schema, &r.name, &r.typtype, &r.elem, &r.arrayOut, &r.delim, &r.base, &r.typmod, &r.of,
			&r.cast, &r.hstoreCast, &r.labels, &r.fields, &r.fieldTypes, &r.fieldTypmods, &r.age)
	})
}
