package source

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/syncd-io/syncd/internal/harness"
)

// counted counts the queries that go to a connection.
type counted struct {
	*pgx.Conn
	n int
}

func (c *counted) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	c.n++
	return c.Conn.Query(ctx, sql, args...)
}

// typesOf asks for types by what SQL calls them.
func typesOf(t *testing.T, c *Catalog, q *counted, names ...string) []*Type {
	t.Helper()
	types, err := c.Types(t.Context(), q, oidsOf(t, q.Conn, names...))
	if err != nil {
		t.Fatal(err)
	}
	return types
}

func oidsOf(t *testing.T, c *pgx.Conn, names ...string) []uint32 {
	t.Helper()
	oids := make([]uint32, len(names))
	for i, name := range names {
		if err := c.QueryRow(t.Context(), "SELECT $1::text::regtype::oid", name).Scan(&oids[i]); err != nil {
			t.Fatal(err)
		}
	}
	return oids
}

func TestCatalogReadsOneQueryALevel(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TYPE a AS (x int, y text[]); CREATE DOMAIN b AS a; CREATE TYPE c AS (bs b[], m tstzmultirange); CREATE TYPE mood AS ENUM ('sad', 'ok')`)
	q, types := &counted{Conn: pinnedConn(t, db)}, new(Catalog)
	got := typesOf(t, types, q, "public.c", "int4", "public.c", "public.mood")
	// c; b[] and tstzmultirange; b and tstzrange; a and timestamptz; int and text[]; text.
	if q.n != 6 {
		t.Errorf("%d queries, want one for each of 6 levels", q.n)
	}
	if got[0] != got[2] || got[0].Fields[0].Type.Elem.Base.Fields[0].Type != got[1] {
		t.Error("one type was made twice")
	}
	b := got[0].Fields[0].Type.Elem
	if b.Category != Composite || b.String() != "public.b" || b.Base.Fields[1].Type.Elem.Name != "text" {
		t.Errorf("the domain is %+v", b)
	}
	if m := got[0].Fields[1].Type; m.Category != Quoted || m.Of.Name != "tstzrange" || m.Of.Of.Name != "timestamptz" {
		t.Errorf("the multirange is %+v", m)
	}
	if !slices.Equal(got[3].Labels, []string{"sad", "ok"}) {
		t.Errorf("the enum's labels are %q", got[3].Labels)
	}
	q.n = 0
	if again := typesOf(t, types, q, "public.c"); again[0] != got[0] || q.n != 0 {
		t.Errorf("what is known was read again by %d queries", q.n)
	}
}

// TestCatalogSeesDDL: whatever changes how values read is seen by Refresh, and gives the types that are made of it anew, and a
// shape another hash; the others stay.
func TestCatalogSeesDDL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, ddl string }{
		{"renamed label", "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'"},
		{"added label", "ALTER TYPE mood ADD VALUE 'glad'"},
		{"added attribute", "ALTER TYPE pair ADD ATTRIBUTE z int"},
		{"dropped attribute", "ALTER TYPE pair DROP ATTRIBUTE y"},
		{"renamed attribute", "ALTER TYPE pair RENAME ATTRIBUTE y TO why"},
		{"retyped attribute", "ALTER TYPE pair ALTER ATTRIBUTE y TYPE bigint"},
		{"remodified attribute", "ALTER TYPE pair ALTER ATTRIBUTE n TYPE numeric(8,3)"},
		{"renamed type", "ALTER TYPE pair RENAME TO couple"},
		{"moved type", "CREATE SCHEMA s; ALTER TYPE mood SET SCHEMA s"},
		{"new cast", "CREATE FUNCTION mood_json(mood) RETURNS json LANGUAGE sql AS 'SELECT ''1''::json'; CREATE CAST (mood AS json) WITH FUNCTION mood_json(mood)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := harness.Database(t)
			db.Exec(`CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE pair AS (x mood, y int, n numeric(8,2)); CREATE DOMAIN few AS pair[]`)
			q, types := &counted{Conn: pinnedConn(t, db)}, new(Catalog)
			oids := oidsOf(t, q.Conn, "public.few", "int4", "text[]")
			form := func() []byte { return nil }
			read := func() []*Type {
				got, err := types.Types(t.Context(), q, oids)
				if err != nil {
					t.Fatal(err)
				}
				form = func() []byte { return got[0].appendForm(nil) }
				return got
			}
			before := read()
			old := form()
			q.n = 0
			if changed, err := types.Refresh(t.Context(), q); err != nil || changed || q.n != 1 {
				t.Errorf("without a change: changed %v, error %v, %d queries, want 1", changed, err, q.n)
			}
			if same := read(); !slices.Equal(same, before) {
				t.Error("types were made anew without a change")
			}
			db.Exec(c.ddl)
			if changed, err := types.Refresh(t.Context(), q); err != nil || !changed {
				t.Errorf("changed %v, error %v", changed, err)
			}
			after := read()
			if after[0] == before[0] || slices.Equal(form(), old) {
				t.Error("the type does not show the change")
			}
			if after[1] != before[1] || after[2] != before[2] {
				t.Error("types that did not change were made anew")
			}
			if changed, err := types.Refresh(t.Context(), q); err != nil || changed {
				t.Errorf("once it is known: changed %v, error %v", changed, err)
			}
		})
	}
}

func TestCatalogOfDroppedType(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TYPE mood AS ENUM ('sad')`)
	q, types := &counted{Conn: pinnedConn(t, db)}, new(Catalog)
	oids := oidsOf(t, q.Conn, "public.mood")
	if _, err := types.Types(t.Context(), q, oids); err != nil {
		t.Fatal(err)
	}
	db.Exec(`DROP TYPE mood`)
	if changed, err := types.Refresh(t.Context(), q); err != nil || !changed {
		t.Errorf("changed %v, error %v", changed, err)
	}
	var gone *NoTypeError
	if _, err := types.Types(t.Context(), q, oids); !errors.As(err, &gone) || gone.OID != oids[0] {
		t.Errorf("error %v, want a *NoTypeError of %d", err, oids[0])
	}
}

// TestCastsToJSON: a cast to json by a function decides how row_to_json prints a type that is not built in, wherever the
// type stands; any other cast does not.
func TestCastsToJSON(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`
		CREATE TYPE cast_enum AS ENUM ('1'); CREATE FUNCTION f(cast_enum) RETURNS json LANGUAGE sql AS 'SELECT ''{"a":1}''::json';
		CREATE CAST (cast_enum AS json) WITH FUNCTION f(cast_enum);
		CREATE TYPE inout_enum AS ENUM ('2'); CREATE CAST (inout_enum AS json) WITH INOUT;
		CREATE TYPE jsonb_enum AS ENUM ('3'); CREATE FUNCTION f(jsonb_enum) RETURNS jsonb LANGUAGE sql AS 'SELECT ''{"a":1}''::jsonb';
		CREATE CAST (jsonb_enum AS jsonb) WITH FUNCTION f(jsonb_enum);
		CREATE TYPE cast_row AS (a int); CREATE FUNCTION f(cast_row) RETURNS json LANGUAGE sql AS 'SELECT ''[]''::json';
		CREATE CAST (cast_row AS json) WITH FUNCTION f(cast_row);
		CREATE FUNCTION f(int) RETURNS json LANGUAGE sql AS 'SELECT ''[]''::json';
		CREATE CAST (int AS json) WITH FUNCTION f(int);
		CREATE DOMAIN cast_domain AS cast_enum; CREATE TYPE holds_cast AS (a int, b cast_domain[]);`)
	q, types := &counted{Conn: pinnedConn(t, db)}, new(Catalog)
	for _, c := range []struct{ typ, value string }{
		{"public.inout_enum", "2"}, {"public.jsonb_enum", "3"}, {"public.cast_row", "(5)"}, {"public.cast_row[]", "{(5)}"}, {"int4", "7"},
	} {
		typ := typesOf(t, types, q, c.typ)[0]
		got, err := typ.AppendJSON(nil, []byte(c.value))
		want := db.Text("SELECT to_json('" + c.value + "'::" + c.typ + ")")
		if err != nil || string(got) != want || typ.NeedsServer() != nil {
			t.Errorf("%s: %s, error %v; Postgres prints %s", c.typ, got, err, want)
		}
	}
	for _, name := range []string{"public.cast_enum", "public.cast_enum[]", "public.cast_domain", "public.holds_cast", "public.holds_cast[]"} {
		typ := typesOf(t, types, q, name)[0]
		if sub := typ.NeedsServer(); sub == nil || sub.String() != "public.cast_enum" {
			t.Errorf("%s: needs the server for %v, want public.cast_enum", name, sub)
		}
	}
	var only *ServerOnlyError
	if _, err := typesOf(t, types, q, "public.cast_enum")[0].AppendJSON(nil, []byte("1")); !errors.As(err, &only) ||
		!strings.Contains(err.Error(), "public.f(public.cast_enum)") {
		t.Errorf("error %v, want a *ServerOnlyError that names the cast", err)
	}
}

// TestTypesBelowThemselves: a catalog that makes a type of itself is refused, not followed for ever.
func TestTypesBelowThemselves(t *testing.T) {
	rows := map[uint32]*typeRow{20001: {oid: 20001, name: "loop", typtype: "d", base: 20001}}
	if _, err := link(20001, rows, map[uint32]*Type{}, 0); err == nil || !strings.Contains(err.Error(), "levels") {
		t.Errorf("error %v", err)
	}
}
