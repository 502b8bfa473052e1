package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var users = syncd.Table{Schema: "public", Name: "users"}

func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(Options{Path: path, Name: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// place is a file, as the conformance suite handles it.
func place(t testing.TB) storetest.Place {
	path := filepath.Join(t.TempDir(), "cache.db")
	p := storetest.Place{Keeps: true}
	p.Open = func(t testing.TB) sink.Store {
		revive(t, path)
		return open(t, path)
	}
	p.Next = func(t testing.TB, s sink.Store) sink.Store {
		n, err := s.(*Store).Next()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	p.Check = func(t testing.TB, s sink.Store) { check(t, s.(*Store)) }
	p.Crash = func(t testing.TB, s sink.Store, step int) { die(t, s.(*Store), step) }
	for _, how := range []struct{ name, text string }{
		{"a column", `UPDATE "public.users" SET "name" = 'spoilt' WHERE "id" = ?`},
		{"a type", `UPDATE "public.users" SET "doc" = 5 WHERE "id" = ?`},
		{"a row gone", `DELETE FROM "public.users" WHERE "id" = ?`},
		{"a key", `UPDATE "public.users" SET "id" = 1000 WHERE "id" = ?`},
		{"the JSON", `UPDATE ENTRIES SET entry = CAST(replace(CAST(entry AS TEXT), '"name"', '"nome"') AS BLOB) WHERE hash = HASH`},
		{"the entry", `DELETE FROM ENTRIES WHERE hash = HASH`},
		{"no blob", `UPDATE ENTRIES SET entry = '{"id":5}' WHERE hash = HASH`},
		{"cut short", `UPDATE ENTRIES SET entry = substr(entry, 1, length(entry) - 1) WHERE hash = HASH`},
		{"a number", `UPDATE ENTRIES SET entry = 5 WHERE hash = HASH`},
	} {
		p.Spoils = append(p.Spoils, storetest.Spoil{Name: how.name, Do: func(t testing.TB, table syncd.Table, key syncd.Key) { spoil(t, path, how.text, table, key) }})
	}
	return p
}

// check fails the test where the tables that others see are not what the entries say.
func check(t testing.TB, s *Store) {
	t.Helper()
	for name, tab := range s.tables {
		if tab.shape == nil {
			continue
		}
		if err := s.verify(tab); err != nil {
			t.Fatal(err)
		}
		n, err := s.f.w.oneInt("SELECT count(*) FROM " + quote(tab.physical))
		if err != nil || len(tab.spoilt) > 0 || int(n) != tab.rows || tab.rows != s.State().Tables[name].Rows {
			t.Fatalf("%s: others see %d rows of %d (in the state %d), and wrong ones of %v: %v", name, n, tab.rows, s.State().Tables[name].Rows, tab.spoilt, err)
		}
	}
}

// spoil changes something in a file through a connection of its own.
func spoil(t testing.TB, path, text string, table syncd.Table, key syncd.Key) {
	t.Helper()
	c, err := openConn(path, "rw", "busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	id, err := c.oneInt("SELECT id FROM _syncd_tables WHERE table_schema = ? AND table_name = ?", table.Schema, table.Name)
	if err != nil {
		t.Fatal(err)
	}
	args := []any{string(key)}
	if strings.Contains(text, "HASH") {
		args = nil
	}
	text = strings.NewReplacer("ENTRIES", entriesOf(id), "HASH", fmt.Sprint(signed(key.Hash()))).Replace(text)
	before, _ := c.oneInt("SELECT total_changes()")
	if err := c.exec(text, args...); err != nil {
		t.Fatal(err)
	}
	if after, _ := c.oneInt("SELECT total_changes()"); after != before+1 {
		t.Fatalf("%s changed %d rows", text, after-before)
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
}

var errKilled = errors.New("killed")

// die has a store give up before the step of a commit; what is on disk at that moment is what the next one finds.
func die(t testing.TB, s *Store, step int) {
	s.f.step = func() error {
		if step--; step != -1 {
			return nil
		}
		for _, end := range []string{"", "-wal"} {
			copyFile(t, s.f.path+end, s.f.path+".killed"+end)
		}
		return errKilled
	}
}

// revive puts what was on disk when a store died in its place.
func revive(t testing.TB, path string) {
	if _, err := os.Stat(path + ".killed"); err != nil {
		return
	}
	for _, end := range []string{"", "-wal"} {
		if err := os.Rename(path+".killed"+end, path+end); err != nil {
			t.Fatal(err)
		}
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestStore(t *testing.T) { storetest.Run(t, place) }
