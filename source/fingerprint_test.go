package source

import (
	"maps"
	"slices"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/pgserver"
)

// TestNextSourceFindsWhatChanged: a source that goes on where another has ended has a table listed that changed meanwhile in a
// way that the stream does not tell, and one that did not is left alone.
func TestNextSourceFindsWhatChanged(t *testing.T) {
	t.Parallel()
	// A server of its own: while somebody's commit can't be seen yet, the next source has a table listed once more.
	db := harness.DatabaseOn(t, harness.Server(t, pgserver.Options{}))
	db.Exec(`CREATE TYPE mood AS ENUM ('low', 'high'); CREATE TABLE public.t (id int PRIMARY KEY, m mood);
		CREATE TABLE public.other (id int PRIMARY KEY)`)
	stream := new(Memory)
	told := func() []syncd.Table {
		t.Helper()
		w := run(t, NewWatch(configFor(t, db, "public.t", "public.other"), stream))
		flushes, _ := stream.Flushes()
		before := len(flushes)
		w.leads()
		db.Exec("INSERT INTO public.other SELECT coalesce(max(id), 0) + 1 FROM public.other")
		w.reach(db)
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		flushes, _ = stream.Flushes()
		all := map[syncd.Table]bool{}
		for _, f := range flushes[before:] {
			for table := range f.Marker.Relist {
				all[table] = true
			}
		}
		return slices.Collect(maps.Keys(all))
	}
	for _, step := range []struct {
		name, sql string
		want      []syncd.Table
	}{
		{name: "first"},
		{name: "nothing"},
		{name: "an index, statistics and rows", sql: "CREATE INDEX ON public.t (m); INSERT INTO public.t VALUES (1, 'low'); ANALYZE"},
		{name: "a label", sql: "ALTER TYPE mood RENAME VALUE 'low' TO 'down'", want: []syncd.Table{tableT}},
		{name: "nothing again"},
		{name: "a table made anew", sql: "DROP TABLE public.t; CREATE TABLE public.t (id int PRIMARY KEY, m mood)", want: []syncd.Table{tableT}},
		{name: "a rewritten one", sql: "ALTER TABLE public.t ALTER m TYPE mood USING 'high'", want: []syncd.Table{tableT}},
	} {
		if step.sql != "" {
			db.Exec(step.sql)
		}
		if got := told(); !slices.Equal(got, step.want) {
			t.Errorf("%s: %v are to be listed, want %v", step.name, got, step.want)
		}
	}
}

func TestFingerprint(t *testing.T) {
	a, b := syncd.Table{Schema: "public", Name: "a"}, syncd.Table{Schema: "public", Name: "b"}
	look := func(tables ...syncd.Table) fingerprint {
		m := map[syncd.Table]*rosterTable{}
		for _, name := range tables {
			m[name] = &rosterTable{config: TableConfig{Table: name}}
		}
		return fingerprintOf(m)
	}
	f := look(a, b)
	if f.differs(look(b, a).String(), a) || partOf(a) == partOf(b) {
		t.Errorf("%v, parts %d and %d", f, partOf(a), partOf(b))
	}
	without := look(a).String()
	if f.differs(without, a) || !f.differs(without, b) {
		t.Error("one table less is not told by its part alone")
	}
	for _, bad := range []string{"", "?", "AAAA", without + "AAAA"} {
		if !f.differs(bad, a) {
			t.Errorf("%q is taken for the same", bad)
		}
	}
}
