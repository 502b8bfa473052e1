package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/pgserver"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/remote"
)

var people = syncd.Table{Schema: "public", Name: "people"}

// batch is a commit of some rows of people.
func batch(at int, info syncd.TableInfo, rows ...string) *sink.Batch {
	b := &sink.Batch{State: &sink.State{
		Cursor: syncd.Cursor{Seq: uint64(at), Position: syncd.Position{Epoch: 1, LSN: syncd.LSN(at)}},
		Tables: map[syncd.Table]*sink.TableState{people: {Listed: true, Info: info}},
	}}
	for i, row := range rows {
		b.Writes = append(b.Writes, sink.Write{Table: people, Key: syncd.MakeKey(fmt.Sprint(i + 1)), Entry: sink.Entry{
			Row: []byte(row), Version: syncd.Version{Epoch: 1, LSN: syncd.LSN(at), Ordinal: 1}, XID: syncd.XID(at)}})
	}
	return b
}

func shape(columns ...string) syncd.TableInfo {
	i := syncd.TableInfo{Table: people, Key: []string{"id"}, Schema: uint64(len(columns))}
	for _, c := range columns {
		name, kind, _ := strings.Cut(c, " ")
		i.Columns, i.Types = append(i.Columns, name), append(i.Types, kind)
	}
	return i
}

func open(t testing.TB, o Options) *remote.Store {
	t.Helper()
	s, err := New(t.Context(), o)
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestSelect reads the rows with SQL while their table changes its shape: columns have the source's types, and what was granted
// stays granted.
func TestSelect(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	role := "reader_" + db.Name
	db.Exec("CREATE ROLE " + role)
	s := open(t, Options{URL: db.URL, Schema: "cache"})
	first := shape("id integer", "name character varying(20)", "tags text[]", "born timestamp with time zone", "doc jsonb", "mood public.mood", "b bytea")
	must(t, s.Commit(batch(1, first, `{"id":1,"name":"Ann","tags":["a","b c"],"born":"2026-01-02T03:04:05+00:00","doc":{"x": 1},"mood":"happy","b":"\\x0102"}`,
		`{"id":2,"name":null,"tags":null,"born":"infinity","doc":null,"mood":null,"b":null}`)))
	db.Exec("GRANT SELECT ON cache.people TO " + role)
	want := func(sql, want string) {
		t.Helper()
		if got := fmt.Sprint(db.Query(sql)); got != want {
			t.Errorf("%s gives %s, want %s", sql, got, want)
		}
	}
	want("SELECT id + 1, name, tags[2], extract(year FROM born), doc->>'x', mood, encode(b, 'hex') FROM cache.people WHERE id = 1", `[[2 Ann b c 2026 1 happy 0102]]`)
	want("SELECT count(*) FROM cache.people WHERE born = 'infinity'", "[[1]]")
	want("SELECT string_agg(format_type(atttypid, atttypmod), ',' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'cache.people'::regclass AND attnum > 0",
		"[[integer,character varying(20),text[],timestamp with time zone,jsonb,text,bytea]]")
	must(t, s.Commit(batch(2, shape("id bigint", "name text", "more numeric(5,2)"), `{"id":1,"name":"Bea","more":1.50}`)))
	want("SELECT * FROM cache.people ORDER BY id", "[[1 Bea 1.50] [2  ]]")
	want("SELECT has_table_privilege('"+role+"', 'cache.people', 'SELECT')", "[[t]]")
	// A value that the type does not take: all is text from now on.
	must(t, s.Commit(batch(3, shape("id bigint", "name text", "more numeric(5,2)"), `{"id":1,"name":"Bea","more":123456.50}`)))
	want("SELECT id || '', more FROM cache.people ORDER BY id", "[[1 123456.50] [2 ]]")
	v := s.View()
	if e, ok := v.Get(people, syncd.MakeKey("1")); !ok || string(e.Row) != `{"id":1,"name":"Bea","more":123456.50}` {
		t.Errorf("the row is %s, %v", e.Row, v.Err())
	}
	v.Close()
	// A table that is left out goes, and its view with it.
	must(t, s.Commit(&sink.Batch{State: &sink.State{}, Drop: []syncd.Table{people}}))
	db.Exec("DROP ROLE " + role)
	want("SELECT relname FROM pg_class WHERE relnamespace = 'cache'::regnamespace AND relkind IN ('r', 'v')", "[[_syncd_state]]")
}

// TestMany sends more entries than one statement takes.
func TestMany(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	s := open(t, Options{URL: db.URL, Schema: "cache"})
	rows := make([]string, 2*partWrites+7)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"id":%d}`, i+1)
	}
	must(t, s.Commit(batch(1, shape("id integer"), rows...)))
	if got := db.Text("SELECT count(*) || ' ' || sum(id) FROM cache.people"); got != fmt.Sprintf("%d %d", len(rows), len(rows)*(len(rows)+1)/2) {
		t.Errorf("the table has %s", got)
	}
	n := 0
	must(t, s.Walk(people, 0, func(syncd.Key, sink.Entry) bool { n++; return true }))
	if n != len(rows) || s.State().Tables[people].Rows != n {
		t.Errorf("a walk gives %d, %d are counted, want %d", n, s.State().Tables[people].Rows, len(rows))
	}
}

// TestNotAsItWasLeft has the schema lose what it held: the next commit says so, and nothing of before is left.
func TestNotAsItWasLeft(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"the schema is dropped":  "DROP SCHEMA cache CASCADE",
		"the state is deleted":   "DELETE FROM cache._syncd_state",
		"the state is of before": "UPDATE cache._syncd_state SET seq = 1",
		"the tables are dropped": "DO $$ DECLARE r text; BEGIN FOR r IN SELECT tablename FROM pg_tables WHERE schemaname = 'cache' LOOP EXECUTE format('DROP TABLE cache.%I CASCADE', r); END LOOP; END $$",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := harness.Database(t)
			s := open(t, Options{URL: db.URL, Schema: "cache"})
			must(t, s.Commit(batch(1, shape("id integer"), `{"id":1}`, `{"id":2}`)))
			must(t, s.Commit(batch(2, shape("id integer"), `{"id":1}`)))
			view := s.View()
			defer view.Close()
			db.Exec(sql)
			if _, ok := view.Get(people, syncd.MakeKey("1")); ok || view.Err() == nil {
				t.Errorf("a view of what is gone gives %v, error %v", ok, view.Err())
			}
			harness.Eventually(t, "the loss is noticed", func() error {
				if err := s.Commit(batch(3, shape("id integer"), `{"id":1}`)); !errors.Is(err, sink.ErrReset) {
					return fmt.Errorf("commit: %w", err)
				}
				return nil
			})
			if st := s.State(); !st.Cursor.Position.IsZero() || st.Tables[people].Listed {
				t.Errorf("the state is %+v", st)
			}
			must(t, s.Commit(batch(4, shape("id integer"), `{"id":1}`)))
			if got := db.Text("SELECT count(*) FROM cache.people"); got != "1" {
				t.Errorf("the table has %s rows", got)
			}
		})
	}
}

// TestOneProcessAtATime has two processes want one schema.
func TestOneProcessAtATime(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	o := Options{URL: db.URL, Schema: "cache"}
	first := open(t, o)
	must(t, first.Commit(batch(1, shape("id integer"), `{"id":1}`)))
	second := open(t, o)
	var inUse *remote.InUseError
	if err := second.Commit(batch(2, shape("id integer"))); !errors.As(err, &inUse) || !strings.Contains(err.Error(), "process ") {
		t.Fatalf("two processes in one schema: %v", err)
	}
	must(t, first.Close())
	if err := second.Commit(batch(2, shape("id integer"))); !errors.Is(err, sink.ErrReset) || second.State().Cursor.Seq != 1 {
		t.Fatalf("the second does not take the schema over: %v", err)
	}
}

// TestAway kills the target: commits fail until it is back, and then go on where they were.
func TestAway(t *testing.T) {
	t.Parallel()
	server := harness.Server(t, pgserver.Options{TCP: true})
	s := open(t, Options{URL: server.URL("postgres"), Schema: "cache"})
	must(t, s.Commit(batch(1, shape("id integer"), `{"id":1}`)))
	must(t, server.Kill())
	if err := s.Commit(batch(2, shape("id integer"), `{"id":1}`)); err == nil {
		t.Fatal("a commit went through without a server")
	}
	must(t, server.Start(t.Context()))
	harness.Eventually(t, "commits go through again", func() error {
		err := s.Commit(batch(2, shape("id integer"), `{"id":1}`))
		if errors.Is(err, sink.ErrReset) {
			t.Fatalf("the sink began anew: %v", err)
		}
		return err
	})
}

func TestWhatCantBeUsed(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec("CREATE SCHEMA cache")
	db.Exec("CREATE TABLE cache.people ()")
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{URL: "postgres://u:secret@[", Schema: "x"}, "write postgres://"},
		{Options{URL: db.URL}, "can't be used"},
		{Options{URL: db.URL, Schema: "pg_x"}, "can't be used"},
	} {
		s, err := New(t.Context(), c.o)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v, want an error that says %q and no password", err, c.want)
		}
	}
	s := open(t, Options{URL: db.URL, Schema: "cache"})
	if err := s.Commit(batch(1, shape("id integer"))); err == nil || !strings.Contains(err.Error(), "name another schema") {
		t.Errorf("a table of somebody else's in the place of a view: %v", err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 40)
	seen := map[string]syncd.Table{}
	for _, table := range []syncd.Table{{Schema: "public", Name: "a"}, {Schema: "public", Name: "a.b"}, {Schema: "a", Name: "b"}, {Schema: "public.a", Name: "b"},
		{Schema: "public", Name: "_syncd_state"}, {Schema: "public", Name: long}, {Schema: "public", Name: long + "x"}, {Schema: "x", Name: "a"}} {
		for _, name := range []string{visible(table), base(table), check(table)} {
			if other, twice := seen[name]; twice || len(name) > maxName {
				t.Errorf("%s of %d bytes is of %s and of %s", name, len(name), table, other)
			}
			seen[name] = table
		}
	}
	if visible(people) != "people" || visible(syncd.Table{Schema: "shop", Name: "x"}) != "shop.x" {
		t.Error("plain names are not plain")
	}
}
