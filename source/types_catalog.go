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
// each with a connection of its own.
//
// What it holds is the catalog as it was when read. After DDL, Refresh or Forget brings it up to date; Types handed out before
// stay as they were.
type Catalog struct {
	mu    sync.Mutex
	rows  map[uint32]*typeRow
	types map[uint32]*Type
}

// Types gives the types of oids, in that order, reading those that it does not hold yet with one query for each level of
// the types' trees. An OID that the database does not have is a *NoTypeError.
func (c *Catalog) Types(ctx context.Context, q Querier, oids []uint32) ([]*Type, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.types == nil {
		c.rows, c.types = map[uint32]*typeRow{}, map[uint32]*Type{}
	}
	if err := load(ctx, q, oids, c.rows); err != nil {
		return nil, err
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
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rows) == 0 {
		return false, nil
	}
	rows := make(map[uint32]*typeRow, len(c.rows))
	if err := load(ctx, q, slices.Collect(maps.Keys(c.rows)), rows); err != nil {
		return false, err
	}
	stale := map[uint32]bool{}
	for oid, old := range c.rows {
		if !reflect.DeepEqual(old, rows[oid]) {
			stale[oid] = true
		}
	}
	if len(stale) == 0 {
		return false, nil
	}
	c.rows = rows
	maps.DeleteFunc(c.types, func(_ uint32, t *Type) bool { return t.contains(stale) })
	return true, nil
}

// Forget drops everything that was read.
func (c *Catalog) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows, c.types = nil, nil
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
       coalesce(p.prosrc = 'hstore_to_json' AND p.probin = '$libdir/hstore', false),
       ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid ORDER BY e.enumsortorder),
       ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute a
             WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
       ARRAY(SELECT a.atttypid FROM pg_catalog.pg_attribute a
             WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
       ARRAY(SELECT a.atttypmod FROM pg_catalog.pg_attribute a
             WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum)
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
			&r.cast, &r.hstoreCast, &r.labels, &r.fields, &r.fieldTypes, &r.fieldTypmods)
	})
}
