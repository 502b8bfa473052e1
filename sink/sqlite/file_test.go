package sqlite

import (
	"bytes"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

func mustCommit(t testing.TB, s *Store, b *sink.Batch) {
	t.Helper()
	if err := s.Commit(b); err != nil {
		t.Fatal(err)
	}
}

func stateOf(infos ...syncd.TableInfo) *sink.State {
	s := &sink.State{Cursor: syncd.Cursor{Seq: 1, Position: syncd.Position{Epoch: 1, LSN: 10}}, Tables: map[syncd.Table]*sink.TableState{}}
	for _, i := range infos {
		s.Tables[i.Table] = &sink.TableState{Info: i, Listed: true}
	}
	return s
}

func upsert(t syncd.Table, row string, key ...string) sink.Write {
	return sink.Write{Table: t, Key: syncd.MakeKey(key...), Entry: sink.Entry{Row: []byte(row), Version: syncd.Version{Epoch: 1, LSN: 1}}}
}

// asked gives what a query of another process answers, a row a line.
func asked(t testing.TB, path, text string) (lines []string) {
	t.Helper()
	c, err := openConn(path, "ro", "busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	err = c.query(text, func(row []driver.Value) error {
		var fields []string
		for _, v := range row {
			fields = append(fields, fmt.Sprintf("%v", v))
		}
		lines = append(lines, strings.Join(fields, "|"))
		return nil
	})
	if err := errors.Join(err, c.close()); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return lines
}

func wantAnswer(t testing.TB, path, text string, want ...string) {
	t.Helper()
	if got := asked(t, path, text); !slices.Equal(got, want) {
		t.Errorf("%s\ngives %q\nwant  %q", text, got, want)
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	inf := math.Inf(-1)
	for _, c := range []struct {
		pgType, json string
		want         any
	}{
		{"smallint", `-7`, int64(-7)}, {"bigint", `9223372036854775807`, int64(math.MaxInt64)}, {"integer", `null`, nil},
		{"integer", `"text"`, nil}, {"integer", `1.5`, nil}, {"oid", `4294967295`, int64(4294967295)},
		{"real", `1.5`, 1.5}, {"double precision", `1e+300`, 1e300}, {"double precision", `"-Infinity"`, inf}, {"real", `"NaN"`, "NaN"}, {"real", `7`, 7.0},
		{"real", `"x"`, nil}, {"real", `true`, nil},
		{"numeric", `12.50`, 12.5}, {"numeric(10,2)", `-0.10`, -0.1}, {"numeric", `12`, int64(12)}, {"numeric", `"NaN"`, "NaN"},
		{"numeric", `123456789012345.6`, "123456789012345.6"}, {"numeric", `12345678901234.5`, 12345678901234.5},
		{"numeric", `99999999999999999999`, "99999999999999999999"}, {"numeric", `0.000000000000000000001`, 1e-21},
		{"boolean", `true`, int64(1)}, {"boolean", `false`, int64(0)}, {"boolean", `"t"`, nil},
		{"bytea", `"\\x00ff"`, []byte{0, 255}}, {"bytea", `"\\x0"`, `\x0`},
		{"json", `"a \"b\""`, `"a \"b\""`}, {"jsonb", `{"a": [1]}`, `{"a": [1]}`}, {"json", `null`, nil}, {"text[]", `["a",null]`, `["a",null]`}, {"numeric(3,1)[]", `[1.0]`, `[1.0]`},
		{"text", `"a\u0001ü"`, "a\u0001ü"}, {"text", `5`, "5"}, {"character varying(5)", `"05"`, "05"}, {"timestamp with time zone", `"2026-01-02T03:04:05+00:00"`, "2026-01-02T03:04:05+00:00"},
		{"public.mood", `"happy"`, "happy"}, {"public.pair", `{"a":1,"b":[2]}`, `{"a":1,"b":[2]}`}, {"public.dom", `17`, int64(17)}, {"public.dom", `true`, int64(1)},
	} {
		_, k := typeOf(c.pgType)
		if got := k.value([]byte(c.json)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %s: %#v, want %#v", c.pgType, c.json, got, c.want)
		}
	}
}

// TestOthersSee reads with SQL what another process would.
func TestOthersSee(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cache.db")
	things := syncd.TableInfo{Table: syncd.Table{Schema: "shop", Name: `Odd "things"`}, Key: []string{"b", "A"},
		Columns: []string{"A", "a", "b", "n", "rowid", "select"}, Types: []string{"text", "integer", "uuid", "numeric", "boolean", "jsonb"}}
	quoted := `"shop.Odd ""things"""`
	s, err := Open(Options{Path: path, Name: "shop", Indexes: map[syncd.Table][][]string{things.Table: {{"n"}, {"a", "n"}, {"none"}}}})
	if err != nil {
		t.Fatal(err)
	}
	empty := syncd.TableInfo{Table: syncd.Table{Schema: "sqlite_x", Name: "empty"}, Key: []string{"id"}, Columns: []string{"id"}, Types: []string{"integer"}}
	twin, other := empty, empty
	twin.Table, other.Table = syncd.Table{Schema: "a.b", Name: "c"}, syncd.Table{Schema: "A", Name: "B.c"}
	mustCommit(t, s, &sink.Batch{State: stateOf(things, empty, twin, other), Writes: []sink.Write{
		upsert(things.Table, `{"A":"x","a":1,"b":"b1","n":1.5,"rowid":true,"select":{"k": [1]}}`, "b1", "x"),
		upsert(things.Table, `{"A":"y","a":null,"b":"b1","n":12345678901234567.5,"rowid":null,"select":"s"}`, "b1", "y"),
	}})
	wantAnswer(t, path, `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\_syncd%' ESCAPE '\' AND name <> 'sqlite_sequence' ORDER BY name`,
		"A.B.c", "_sqlite_x.empty", "a.b.c_2", `shop.Odd "things"`)
	wantAnswer(t, path, `SELECT "A", "a_2", b, n, typeof(n), "rowid", "select", "select" ->> '$.k[0]' FROM `+quoted+` ORDER BY 1`,
		`x|1|b1|1.5|real|1|{"k": [1]}|1`, `y|<nil>|b1|12345678901234567.5|text|<nil>|"s"|<nil>`)
	wantAnswer(t, path, `SELECT name, type, pk FROM pragma_table_info('shop.Odd "things"') ORDER BY cid`, "A|TEXT|2", "a_2|INTEGER|0", "b|TEXT|1", "n||0", "rowid|INTEGER|0", "select|TEXT|0")
	if plan := asked(t, path, "EXPLAIN QUERY PLAN SELECT * FROM "+quoted+` WHERE "a_2" = 1 AND n > 1`); !strings.Contains(plan[0], "_syncd_index_") {
		t.Errorf("the plan uses no index: %s", plan)
	}
	mustCommit(t, s, &sink.Batch{State: stateOf(things), Drop: []syncd.Table{empty.Table, twin.Table, other.Table}, Writes: []sink.Write{
		{Table: things.Table, Key: syncd.MakeKey("b1", "x"), Entry: sink.Entry{Version: syncd.Version{Epoch: 1, LSN: 2}}}}})
	wantAnswer(t, path, `SELECT "A" FROM `+quoted, "y")
	wantAnswer(t, path, `SELECT count(*) FROM sqlite_master WHERE name LIKE '%.c%' OR name LIKE '%empty%'`, "0")
	things.Columns, things.Types = append(things.Columns[:3:3], "select"), append(things.Types[:3:3], "jsonb")
	mustCommit(t, s, &sink.Batch{State: stateOf(things)})
	wantAnswer(t, path, "SELECT * FROM "+quoted, `y|<nil>|b1|"s"`)
	check(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Other indexes are asked for at the next start.
	if s, err = Open(Options{Path: path, Name: "shop", Indexes: map[syncd.Table][][]string{things.Table: {{"select"}}}}); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, path, "SELECT sql FROM sqlite_master WHERE type = 'index' AND sql NOT NULL", `CREATE INDEX _syncd_index_3_0 ON "shop.Odd ""things""" ("select")`)
	if err := s.SetIndexes(map[syncd.Table][][]string{things.Table: {{"a"}, {"select"}}}); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, path, "SELECT sql FROM sqlite_master WHERE type = 'index' AND sql NOT NULL ORDER BY name",
		`CREATE INDEX _syncd_index_3_0 ON "shop.Odd ""things""" ("a_2")`, `CREATE INDEX _syncd_index_3_1 ON "shop.Odd ""things""" ("select")`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestKeysThatAreEqualInSQLite moves a row from one spelling of its key to another that SQLite takes for the same.
func TestKeysThatAreEqualInSQLite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cache.db")
	info := syncd.TableInfo{Table: users, Key: []string{"n"}, Columns: []string{"n", "v"}, Types: []string{"numeric", "text"}}
	s := open(t, path)
	mustCommit(t, s, &sink.Batch{State: stateOf(info), Writes: []sink.Write{upsert(users, `{"n":1.0,"v":"old"}`, "1.0")}})
	mustCommit(t, s, &sink.Batch{State: stateOf(info), Writes: []sink.Write{
		upsert(users, `{"n":1.00,"v":"new"}`, "1.00"), {Table: users, Key: "1.0", Entry: sink.Entry{Version: syncd.Version{Epoch: 1, LSN: 2}}}}})
	wantAnswer(t, path, `SELECT n, v FROM "public.users"`, "1|new")
	check(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestNextEpoch builds a new epoch's tables beside those that others see, and puts them in their place.
func TestNextEpoch(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cache.db")
	info := syncd.TableInfo{Table: users, Key: []string{"id"}, Columns: []string{"id"}, Types: []string{"integer"}}
	old := open(t, path)
	mustCommit(t, old, &sink.Batch{State: stateOf(info), Writes: []sink.Write{upsert(users, `{"id":1}`, "1")}})
	abandoned, _ := old.Next()
	mustCommit(t, abandoned, &sink.Batch{State: stateOf(info), Writes: []sink.Write{upsert(users, `{"id":5}`, "5")}})
	if err := abandoned.Close(); err != nil {
		t.Fatal(err)
	}
	next, _ := old.Next()
	mustCommit(t, next, &sink.Batch{State: stateOf(info), Writes: []sink.Write{upsert(users, `{"id":2}`, "2")}})
	wantAnswer(t, path, `SELECT * FROM "public.users"`, "1")
	if err := next.Promote(); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, path, `SELECT * FROM "public.users"`, "2")
	v := old.View() // between Promote and the swap readers still come here
	if _, ok := v.Get(users, "1"); !ok || v.Err() != nil {
		t.Errorf("the old epoch can't be read: %v", v.Err())
	}
	v.Close()
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, path, `SELECT count(*) FROM sqlite_master WHERE name LIKE '\_syncd\_entries%' ESCAPE '\' OR name LIKE '\_syncd\_next%' ESCAPE '\'`, "1")
	mustCommit(t, next, &sink.Batch{State: stateOf(info), Writes: []sink.Write{upsert(users, `{"id":3}`, "3")}})
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, path)
	wantAnswer(t, path, `SELECT * FROM "public.users" ORDER BY 1`, "2", "3")
	check(t, again)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFilesThatAreNoGood are put aside and begun again.
func TestFilesThatAreNoGood(t *testing.T) {
	t.Parallel()
	info := syncd.TableInfo{Table: users, Key: []string{"id"}, Columns: []string{"id", "v"}, Types: []string{"integer", "text"}}
	fill := func(t *testing.T, path, name string) {
		s, err := Open(Options{Path: path, Name: name})
		if err != nil {
			t.Fatal(err)
		}
		b := &sink.Batch{State: stateOf(info)}
		for i := range 800 {
			b.Writes = append(b.Writes, upsert(users, fmt.Sprintf(`{"id":%d,"v":"%0100d"}`, i, i), fmt.Sprint(i)))
		}
		mustCommit(t, s, b)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	sqlText := func(text string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			fill(t, path, "shop")
			c, err := openConn(path, "rwc")
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(c.once(text), c.close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name, why string
		spoil     func(t *testing.T, path string)
	}{
		{"no database", "damaged", func(t *testing.T, path string) { write(t, path, 0, bytes.Repeat([]byte("a text file\n"), 1000)) }},
		{"somebody else's", "not written by syncd", func(t *testing.T, path string) {
			c, err := openConn(path, "rwc")
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(c.once("CREATE TABLE theirs (x)"), c.close()); err != nil {
				t.Fatal(err)
			}
		}},
		{"another sync's", "its name is other", func(t *testing.T, path string) { fill(t, path, "other") }},
		{"a newer program's", "its format is 99", sqlText("UPDATE _syncd_meta SET value = '99' WHERE key = 'format'")},
		{"its state is cut short", "damaged", sqlText("UPDATE _syncd_state SET state = substr(state, 1, 20)")},
		{"its own tables are gone", "damaged", sqlText("DROP TABLE _syncd_meta")},
		{"cut short", "damaged", func(t *testing.T, path string) {
			fill(t, path, "shop")
			if err := os.Truncate(path, 40_000); err != nil {
				t.Fatal(err)
			}
		}},
		{"pages overwritten", "damaged", func(t *testing.T, path string) {
			fill(t, path, "shop")
			write(t, path, 20_000, bytes.Repeat([]byte{0xa5}, 100_000))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "cache.db")
			c.spoil(t, path)
			var log bytes.Buffer
			s, err := Open(Options{Path: path, Name: "shop", Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			if len(s.State().Tables) > 0 || s.State().Cursor.Seq != 0 {
				t.Errorf("it is served: %+v", s.State())
			}
			mustCommit(t, s, &sink.Batch{State: stateOf(info), Writes: []sink.Write{upsert(users, `{"id":1,"v":"x"}`, "1")}})
			wantAnswer(t, path, `SELECT * FROM "public.users"`, "1|x")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(log.String(), c.why) || !strings.Contains(log.String(), "put aside") {
				t.Errorf("the log says %s, want %q", &log, c.why)
			}
			if aside, _ := filepath.Glob(path + ".bad-*Z"); len(aside) != 1 {
				t.Errorf("put aside: %v", aside)
			}
		})
	}
}

func write(t *testing.T, path string, at int64, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(b, at)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestInUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "cache.db")
	s := open(t, path)
	_, err := Open(Options{Path: path, Name: "shop"})
	if _, ok := errors.AsType[*InUseError](err); !ok || !strings.Contains(err.Error(), path) {
		t.Errorf("opened twice: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Path: t.TempDir(), Name: "shop"}); err == nil {
		t.Error("a directory was opened")
	}
}

// TestViewAfterAFault reads through a view whose connection is gone: it says so, and gives no row.
func TestViewAfterAFault(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "cache.db"))
	mustCommit(t, s, &sink.Batch{State: stateOf(), Writes: []sink.Write{upsert(users, `{}`, "1")}})
	v := s.View().(*view)
	if err := v.c.exec("COMMIT"); err != nil { // its transaction is gone, and so is the table
		t.Fatal(err)
	}
	mustCommit(t, s, &sink.Batch{State: stateOf(), Drop: []syncd.Table{users}})
	if _, ok := v.Get(users, "1"); ok || v.Err() == nil {
		t.Error("a view that can't read says nothing")
	}
	v.Rows(users, 0, func(syncd.Key, sink.Entry) bool { t.Error("a row"); return true })
	v.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(&sink.Batch{}); err == nil {
		t.Error("a closed store takes a commit")
	}
}

func FuzzValues(f *testing.F) {
	f.Add([]byte(`{"id":1,"tenant_id":null,"email":"a\"b","name":{"x":[1,"}"]},"status":true,"created_at":-1e5}`))
	f.Add([]byte(`{ "id" : "1" , "more" : [ ] }`))
	shape := newShape(&benchInfo)
	f.Fuzz(func(t *testing.T, row []byte) {
		if v := shape.values(row, nil); v != nil && (len(v) != len(shape.columns) || v[0] == nil) {
			t.Fatalf("%q gives %v", row, v)
		}
	})
}
