package e2e

import (
	"fmt"
	"testing"
)

// TestPublicationIsNarrowed: somebody has the publication leave out deletes. While it does no table can be kept, whose ghosts
// nobody would notice; and what was left out is found afterwards, also where it lasted a moment only.
func TestPublicationIsNarrowed(t *testing.T) {
	t.Parallel()
	const (
		narrow = "ALTER PUBLICATION %s SET (publish = 'insert, update')"
		whole  = "ALTER PUBLICATION %s SET (publish = 'insert, update, delete, truncate')"
	)
	setup := func(t *testing.T) *fleet {
		f := newFleet(t)
		f.db.Exec("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT i, 'v' FROM generate_series(1, 10) i")
		return f
	}
	t.Run("taken as it is", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		f.publication = "as it is"
		f.db.Exec(`CREATE PUBLICATION "as it is" FOR TABLE t`)
		f.source()
		s := f.sidecar()
		f.converges(s)
		f.db.Exec(fmt.Sprintf(narrow, `"as it is"`))
		f.converges(s) // refused
		f.db.Exec("DELETE FROM t WHERE id = 1")
		f.db.Exec(fmt.Sprintf(whole, `"as it is"`))
		f.converges(s)
		f.db.Exec(fmt.Sprintf(narrow, `"as it is"`))
		f.db.Exec("DELETE FROM t WHERE id = 2")
		f.db.Exec(fmt.Sprintf(whole, `"as it is"`))
		f.converges(s)
	})
	t.Run("kept by syncd", func(t *testing.T) {
		t.Parallel()
		f := setup(t)
		f.tables = []tableConfig{{table: table(t, "public.t")}}
		f.source()
		s := f.sidecar()
		f.converges(s)
		own := "syncd_" + f.bus.Name
		f.db.Exec(fmt.Sprintf(narrow, own))
		f.db.Exec("DELETE FROM t WHERE id = 1")
		f.converges(s)
		if n := f.db.Text("SELECT count(*) FROM pg_publication WHERE pubname = $1 AND pubdelete AND pubtruncate", own); n != "1" {
			t.Error("the publication was not made whole again")
		}
	})
}

// TestTableJoinsAmidATransaction: what a transaction did to a table before the table was published is not on the stream, and
// when the transaction is committed only after the table's first list, not in that either.
func TestTableJoinsAmidATransaction(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.publication = "p"
	f.db.Exec("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY); INSERT INTO u VALUES (1); CREATE PUBLICATION p FOR TABLE t")
	f.source()
	s := f.sidecar()
	f.converges(s)
	open := f.db.Conn()
	for _, sql := range []string{"BEGIN", "INSERT INTO u VALUES (2)"} {
		if _, err := open.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	f.db.Exec("ALTER PUBLICATION p ADD TABLE u")
	f.converges(s)
	if _, err := open.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	f.converges(s)
}
