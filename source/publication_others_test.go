package source

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
)

// TestPublicationOfOthersIsKept: a publication that holds more than the configured tables is brought to them, at the start and
// whenever somebody gives it more; a table that was in it by its schema is listed anew.
func TestPublicationOfOthersIsKept(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	name := `"syncd_` + db.Name + `"`
	db.Exec(`CREATE SCHEMA s; CREATE SCHEMA "Odd s"; CREATE TABLE s.t (id int PRIMARY KEY, v text, o int); CREATE TABLE s.keyless (id int); CREATE TABLE "Odd s".x (id int);
		INSERT INTO s.t VALUES (1, 'a', 1)`)
	schemas := db.Server.Version() >= schemasVersion
	holds := func(want string) {
		t.Helper()
		harness.Eventually(t, "the publication to hold "+want, func() error {
			if got := db.Text(`SELECT coalesce(string_agg(tablename, ' ' ORDER BY tablename), '') FROM pg_publication_tables WHERE pubname = 'syncd_` + db.Name + `'`); got != want {
				return errors.New("it holds " + got)
			}
			return nil
		})
	}
	cfg := configFor(t, db, "s.t")
	if schemas {
		db.Exec(`CREATE PUBLICATION ` + name + ` FOR TABLES IN SCHEMA s, "Odd s"`)
		cfg.Tables[0].Columns = []string{"id", "v"}
		if r := resultOf(t, cfg, "publication"); !r.OK || !strings.Contains(r.Detail, "taken out at the start: Odd s, s") {
			t.Errorf("check says %+v", r)
		}
	} else {
		db.Exec(`CREATE PUBLICATION ` + name + ` FOR TABLE s.t, s.keyless`)
	}
	w := run(t, NewWatch(cfg, new(Memory)))
	w.leads()
	holds("t")
	db.Exec(`INSERT INTO s.t VALUES (2, 'b', 2); UPDATE s.t SET v = 'c' WHERE id = 1`)
	w.reach(db)
	flushes, _ := w.stream.Flushes()
	r := follow(t, flushes)
	if got := r.rows[syncd.Table{Schema: "s", Name: "t"}]; len(got) != 2 {
		t.Errorf("the stream has %v", got)
	}

	db.Exec(`ALTER PUBLICATION ` + name + ` ADD TABLE s.keyless`)
	holds("t")
	if flushes, _ := w.stream.Flushes(); slices.ContainsFunc(flushes, func(f syncd.Flush) bool { return len(f.Marker.Relist) > 0 }) {
		t.Error("tables of others make ours be listed again")
	}
	if schemas { // which can't be added beside a list of columns
		cfg.Tables[0].Columns = nil
		w.watch.SetTables(cfg.Tables)
		harness.Eventually(t, "the publication to hold all columns", func() error {
			if got := db.Text(`SELECT count(*) FROM pg_publication_rel WHERE prattrs IS NULL`); got != "1" {
				return errors.New("not yet")
			}
			return nil
		})
		db.Exec(`ALTER PUBLICATION ` + name + ` ADD TABLES IN SCHEMA "Odd s"`)
		holds("t")
	}
	db.Exec(`INSERT INTO s.keyless VALUES (1); UPDATE s.keyless SET id = 2`)

	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	db.Exec(`DROP PUBLICATION ` + name + `; CREATE PUBLICATION ` + name + ` FOR ALL TABLES`)
	err := NewWatch(cfg, w.stream).Step(t.Context())
	if err == nil || !strings.Contains(err.Error(), "DROP PUBLICATION "+name) {
		t.Errorf("FOR ALL TABLES: %v", err)
	}
	mend := resultOf(t, cfg, "publication")
	if mend.OK || !strings.HasPrefix(mend.Mend, "DROP PUBLICATION "+name) {
		t.Errorf("FOR ALL TABLES: check says %+v", mend)
	}
	sql, _, _ := strings.Cut(mend.Mend, ",")
	db.Exec(sql)
	w = run(t, NewWatch(cfg, w.stream))
	w.leads()
	holds("t")
}

// resultOf gives one result of Check.
func resultOf(t *testing.T, c Config, name string) Result {
	t.Helper()
	all := Check(t.Context(), c)
	i := slices.IndexFunc(all, func(r Result) bool { return r.Name == name })
	if i < 0 {
		t.Fatalf("check has no %s: %+v", name, all)
	}
	return all[i]
}
