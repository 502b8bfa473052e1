package sqlite

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// shaped gives a table's info of "name type" texts; the key is id.
func shaped(columns ...string) syncd.TableInfo {
	info := syncd.TableInfo{Table: users, Key: []string{"id"}}
	for _, c := range columns {
		name, pgType, _ := strings.Cut(c, " ")
		info.Columns, info.Types = append(info.Columns, name), append(info.Types, pgType)
	}
	return info
}

// TestShapes changes a table's shape: what others see is what a table made anew would be, and where SQLite can change it in
// place it is not made anew. A reader in between sees the old shape until it ends.
func TestShapes(t *testing.T) {
	t.Parallel()
	before := []string{"id bigint", "a text", "b integer", "c jsonb"}
	for _, c := range []struct {
		name    string
		after   []string
		inPlace bool
		want    string // the row then
	}{
		{"added", []string{"id bigint", "a text", "b integer", "c jsonb", "d numeric", "e text"}, true, "1|x|2|[3]|<nil>|<nil>"},
		{"dropped", []string{"id bigint", "a text", "c jsonb"}, true, "1|x|[3]"},
		{"an indexed one dropped", []string{"id bigint", "b integer", "c jsonb"}, true, "1|2|[3]"},
		{"dropped and added", []string{"id bigint", "b integer", "c jsonb", "d text"}, true, "1|2|[3]|<nil>"},
		{"renamed", []string{"id bigint", "a text", "new integer", "c jsonb"}, true, "1|x|<nil>|[3]"},
		{"an indexed one renamed", []string{"id bigint", "new text", "b integer", "c jsonb"}, true, "1|<nil>|2|[3]"},
		{"of another type that is stored alike", []string{"id integer", "a character varying(9)", "b smallint", "c integer[]"}, true, "1|x|2|[3]"},
		{"retyped", []string{"id bigint", "a text", "b numeric", "c jsonb"}, false, "1|x|2|[3]"},
		{"a name that rows know already", []string{"id bigint", "a text", "b integer", "c jsonb", "later text"}, false, "1|x|2|[3]|5"},
		{"in another order", []string{"id bigint", "b integer", "a text", "c jsonb"}, false, "1|2|x|[3]"},
		{"names in another order", []string{"id bigint", "b text", "a integer", "c jsonb"}, false, "1|2|<nil>|[3]"},
		{"another key", []string{"id text", "a text", "b integer", "c jsonb"}, false, "1|x|2|[3]"},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %v", c.name, again), func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "cache.db")
				o := Options{Path: path, Name: "shop", Indexes: map[syncd.Table][][]string{users: {{"a"}, {"b"}, {"new", "c"}}}}
				s, err := Open(o)
				if err != nil {
					t.Fatal(err)
				}
				mustCommit(t, s, &sink.Batch{State: stateOf(shaped(before...)), Writes: []sink.Write{
					upsert(users, `{"id":1,"a":"x","b":2,"c":[3],"later":5}`, "1")}})
				if again {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					if s, err = Open(o); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.f.w.once(`CREATE INDEX stays ON "public.users" (id)`); err != nil {
					t.Fatal(err)
				}
				reader, err := openConn(path, "ro")
				if err != nil {
					t.Fatal(err)
				}
				_, err = reader.one("BEGIN")
				seen := func() (row []any) {
					err := reader.query(`SELECT * FROM "public.users"`, func(r []driver.Value) error {
						for _, v := range r {
							row = append(row, v)
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
					return row
				}
				old := fmt.Sprint(seen())
				mustCommit(t, s, &sink.Batch{State: stateOf(shaped(c.after...))})
				if now := fmt.Sprint(seen()); now != old {
					t.Errorf("a reader saw %s, and then %s", old, now)
				}
				if err := errors.Join(err, reader.exec("COMMIT")); err != nil || len(seen()) != len(c.after) {
					t.Errorf("the reader's next transaction sees %v: %v", seen(), err)
				}
				if err := reader.close(); err != nil {
					t.Error(err)
				}
				wantAnswer(t, path, `SELECT * FROM "public.users"`, c.want)
				wantAnswer(t, path, "SELECT count(*) FROM sqlite_master WHERE name = 'stays'", map[bool]string{true: "1", false: "0"}[c.inPlace])
				checkShape(t, s)
				mustCommit(t, s, &sink.Batch{State: stateOf(shaped(c.after...)), Writes: []sink.Write{
					upsert(users, `{"id":1,"a":"y","b":2,"c":[3],"d":4,"e":5,"new":6}`, "1"), upsert(users, `{"id":2,"a":"y"}`, "2")}})
				checkShape(t, s)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// TestShapeThatSomebodyUses has another's view name a column that goes: the table is made anew.
func TestShapeThatSomebodyUses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cache.db")
	s := open(t, path)
	mustCommit(t, s, &sink.Batch{State: stateOf(shaped("id bigint", "a text", "b integer")), Writes: []sink.Write{upsert(users, `{"id":1,"a":"x","b":2}`, "1")}})
	if err := s.f.w.once(`CREATE VIEW theirs AS SELECT a FROM "public.users"`); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, &sink.Batch{State: stateOf(shaped("id bigint", "b integer"))})
	wantAnswer(t, path, `SELECT * FROM "public.users"`, "1|2")
	check(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// checkShape fails the test where a table is not as one made anew would be: columns, rows and indexes.
func checkShape(t *testing.T, s *Store) {
	t.Helper()
	check(t, s)
	tab := s.tables[users]
	other := newConnAt(t, tab.shape.create("t"))
	columns := func(c *conn, name string) (all string) {
		err := c.query("SELECT name, type, pk FROM pragma_table_info(?) ORDER BY cid", func(row []driver.Value) error {
			all += fmt.Sprint(row)
			return nil
		}, name)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if got, want := columns(s.f.w, tab.physical), columns(other, "t"); got != want {
		t.Fatalf("the columns are %s, want %s", got, want)
	}
	if err := other.close(); err != nil {
		t.Fatal(err)
	}
	there, err := s.indexesOf(tab)
	if want := s.wantedIndexes(tab); err != nil || fmt.Sprint(there) != fmt.Sprint(want) {
		t.Fatalf("the indexes are %v, want %v: %v", there, want, err)
	}
	if v, err := s.f.w.one("PRAGMA integrity_check"); v != "ok" || err != nil {
		t.Fatalf("%v, %v", v, err)
	}
}

func newConnAt(t *testing.T, text string) *conn {
	t.Helper()
	c, err := openConn(filepath.Join(t.TempDir(), "other.db"), "rwc")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.once(text); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestShapesAtRandom goes from shape to shape, with rows that have some columns and lack others.
func TestShapesAtRandom(t *testing.T) {
	t.Parallel()
	s, err := Open(Options{Path: filepath.Join(t.TempDir(), "cache.db"), Name: "shop", Indexes: map[syncd.Table][][]string{users: {{"b"}, {"c", "B"}}}})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 6))
	columns := []string{"id bigint", "a text"}
	for range 150 {
		switch n := r.IntN(6); {
		case n < 2 && len(columns) < 6:
			columns = append(columns, []string{"a", "b", "c", "d", "B", "A", "e", "f"}[r.IntN(8)]+" "+[]string{"text", "integer", "numeric", "jsonb"}[r.IntN(4)])
		case n == 2 && len(columns) > 1:
			i := 1 + r.IntN(len(columns)-1)
			columns = append(columns[:i:i], columns[i+1:]...)
		case n == 3 && len(columns) > 1:
			i := 1 + r.IntN(len(columns)-1)
			_, pgType, _ := strings.Cut(columns[i], " ")
			columns = append([]string{}, columns...)
			columns[i] = []string{"a", "b", "c", "d", "B", "g"}[r.IntN(6)] + " " + pgType
		}
		b := &sink.Batch{}
		seen, kept := map[string]bool{}, columns[:0:0]
		for _, c := range columns {
			if name, _, _ := strings.Cut(c, " "); !seen[name] {
				seen[name], kept = true, append(kept, c)
			}
		}
		columns = kept
		b.State = stateOf(shaped(columns...))
		for range r.IntN(4) {
			id := r.IntN(1e6)
			row := fmt.Sprintf(`{"id":%d`, id)
			for _, name := range []string{"a", "b", "c", "B", "d"} {
				if seen[name] && r.IntN(4) > 0 || r.IntN(60) == 0 {
					row += fmt.Sprintf(`,"%s":%d`, name, r.IntN(5))
				}
			}
			b.Writes = append(b.Writes, upsert(users, row+"}", fmt.Sprint(id)))
		}
		mustCommit(t, s, b)
		checkShape(t, s)
		if r.IntN(3) == 0 {
			for _, tab := range s.tables { // as after a start
				tab.shape = newShape(&tab.info)
				tab.checked = 0
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
