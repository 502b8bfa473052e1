package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/pgserver"
)

// mend is what the refusal of a table says behind its reason; empty where it is not refused.
func (c *cache) mend(name string) string {
	c.f.t.Helper()
	states, err := c.tables()
	if err != nil {
		c.f.t.Fatal(err)
	}
	_, mend, _ := strings.Cut(states[table(c.f.t, name)].Error, ": ")
	return mend
}

// TestRefusalsAreMended: what cannot be synced is refused with the statement that mends it. Run as it stands, the statement
// mends it, and the table is synced without anything being restarted.
func TestRefusalsAreMended(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "public.unlogged", "public.nothing", "public.deferred", "public.gone", "public.indexed", `public."keyed full"`, "public.keyless", "public.fine")
	f.db.Exec(`CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY); INSERT INTO unlogged VALUES (1);
		CREATE TABLE nothing (id int PRIMARY KEY); ALTER TABLE nothing REPLICA IDENTITY NOTHING; INSERT INTO nothing VALUES (1);
		CREATE TABLE deferred (a int, "b c" text, PRIMARY KEY (a, "b c") DEFERRABLE); INSERT INTO deferred VALUES (1, 'x');
		CREATE TABLE gone (id int PRIMARY KEY, u int NOT NULL); CREATE UNIQUE INDEX gone_u ON gone (u); ALTER TABLE gone REPLICA IDENTITY USING INDEX gone_u;
		INSERT INTO gone VALUES (1, 2); DROP INDEX gone_u;
		CREATE TABLE indexed (v text, u int NOT NULL UNIQUE); INSERT INTO indexed VALUES ('x', 2);
		CREATE TABLE "keyed full" (id int NOT NULL); ALTER TABLE "keyed full" REPLICA IDENTITY FULL; INSERT INTO "keyed full" VALUES (1), (2);
		CREATE TABLE keyless (id int NOT NULL, v text); INSERT INTO keyless VALUES (1, 'x');
		CREATE TABLE fine (id int PRIMARY KEY)`)
	f.source()
	s := f.sidecar()
	f.converges(s)
	for _, tc := range []struct {
		table string
		fill  string // the words that only people know, in place of …
	}{
		{"public.unlogged", ""}, {"public.nothing", ""}, {"public.deferred", ""}, {"public.gone", ""}, {"public.indexed", ""},
		{`public."keyed full"`, "id"}, {"public.keyless", "id"},
	} {
		mend := s.mend(tc.table)
		if mend == "" {
			t.Fatalf("%s is not refused", tc.table)
		}
		sql := strings.ReplaceAll(mend, "…", tc.fill)
		t.Logf("%s: %s", tc.table, sql)
		f.db.Exec(sql)
		f.eventually(tc.table+" to be mended", func() error {
			if again := s.mend(tc.table); again != "" {
				return fmt.Errorf("it says %q", again)
			}
			return nil
		})
		f.converges(s)
	}
	f.db.Exec(`UPDATE nothing SET id = 3; DELETE FROM "keyed full" WHERE id = 1; UPDATE keyless SET v = 'y'; UPDATE indexed SET u = 5; UPDATE unlogged SET id = 9`)
	f.converges(s)
}

// TestRoleLacksRights: the source runs as a role that may hardly do anything. Each right that it needs is named as it is
// missed, with the statement that grants it.
func TestRoleLacksRights(t *testing.T) {
	t.Parallel()
	db := harness.DatabaseOn(t, harness.Server(t, pgserver.Options{})) // roles are of the whole server
	db.Exec(`CREATE ROLE reader LOGIN; CREATE SCHEMA s; CREATE TABLE s.t (id int PRIMARY KEY, owner text); INSERT INTO s.t VALUES (1, 'reader'), (2, 'boss');
		CREATE TABLE s.open (id int PRIMARY KEY); INSERT INTO s.open VALUES (1); GRANT USAGE ON SCHEMA s TO reader; GRANT SELECT ON s.open TO reader;
		ALTER TABLE s.t ENABLE ROW LEVEL SECURITY; CREATE POLICY mine ON s.t FOR SELECT TO reader USING (owner = 'reader');
		CREATE PUBLICATION p FOR TABLE s.t, s.open`)
	f := fleetOn(t, db, harness.NATS(t))
	f.publication, f.postgres = "p", as(t, db.URL, "reader")
	source := f.source()
	source.says(f, "REPLICATION")
	if said := f.check(); !strings.Contains(said, "ALTER ROLE \"reader\" REPLICATION") || !strings.Contains(said, "GRANT SELECT ON") {
		t.Errorf("check says %q", said)
	}
	db.Exec(`ALTER ROLE reader REPLICATION`)
	s := f.sidecar()
	f.eventually("the readable table to be listed, the other to be refused", func() error {
		states, err := s.tables()
		if err != nil {
			return err
		}
		if one := states[table(t, "s.open")]; !one.Ready || one.Rows != 1 {
			return fmt.Errorf("s.open is %+v", one)
		}
		if one := states[table(t, "s.t")]; one.Error == "" || one.Rows != 0 {
			return fmt.Errorf("s.t is %+v", one)
		}
		return nil
	})
	if m := s.mend("s.t"); !strings.Contains(m, "GRANT SELECT") {
		t.Errorf("without SELECT: %q", m)
	}
	db.Exec(s.mend("s.t"))
	f.eventually("the policy to be named", func() error {
		if m := s.mend("s.t"); !strings.Contains(m, "BYPASSRLS") {
			return fmt.Errorf("it says %q", m)
		}
		return nil
	})
	db.Exec("INSERT INTO s.t VALUES (3, 'boss')")
	db.Exec(s.mend("s.t"))
	f.eventually("the table to be mended", func() error {
		if m := s.mend("s.t"); m != "" {
			return fmt.Errorf("it says %q", m)
		}
		return nil
	})
	f.converges(s)
	db.Exec("REVOKE SELECT ON s.t FROM reader") // the rows may not be read any more
	f.eventually("the rows to leave the cache", func() error {
		states, err := s.tables()
		if one := states[table(t, "s.t")]; err == nil && (one.Rows != 0 || one.Error == "") {
			err = fmt.Errorf("s.t is %+v", one)
		}
		return err
	})
}
