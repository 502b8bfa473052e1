package source

import (
	"errors"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
)

// TestTableThatWasDescribedTooEarly: a publication for all tables holds a new table at once, so that the server describes it
// with its first row, before any look at the catalog has found it; and does not describe it again.
func TestTableThatWasDescribedTooEarly(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec("CREATE TABLE public.t (id int PRIMARY KEY); CREATE PUBLICATION p FOR ALL TABLES")
	c := configFor(t, db)
	c.Publication, c.Manage = "p", false
	w := run(t, NewWatch(c, new(Memory)))
	w.leads()
	db.Exec("CREATE TABLE public.u (id int PRIMARY KEY); INSERT INTO public.u VALUES (1)")
	w.reach(db)
	u := syncd.Table{Schema: "public", Name: "u"}
	harness.Eventually(t, "the new table to be found", func() error {
		if w.watch.roster.get(u) == nil {
			return errors.New("not yet")
		}
		return nil
	})
	db.Exec("DELETE FROM public.u WHERE id = 1")
	w.reach(db)
	flushes, _ := w.stream.Flushes()
	for _, f := range flushes {
		for _, d := range f.Deltas {
			if d.Table == u && d.Op == syncd.Delete && d.Key == "1" {
				return
			}
		}
	}
	t.Error("the deletion is not on the stream")
}
