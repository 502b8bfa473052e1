package e2e

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/daemon"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/pgserver"
	"github.com/syncd-io/syncd/source"
)

// TestServerCases runs the scripts that change roles, settings, slots or databases, each twice on a server of its own; syncd
// starts between setup and changes, in the database that the setup ends in, and as the role that the setup has made for it.
func TestServerCases(t *testing.T) {
	t.Parallel()
	for _, c := range readCases(t) {
		if !c.ownServer() {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := harness.DatabaseOn(t, harness.Server(t, pgserver.Options{}))
			for range 2 {
				runServerCase(t, &c, db)
			}
		})
	}
}

func runServerCase(t *testing.T, c *sqlCase, db *harness.DB) {
	discovered := discover(t, c, db)
	p := startPSQL(t, db)
	f := fleetOn(t, db, harness.NATS(t))
	f.target = db.Server.URL(p.run(c.setup))
	f.postgres = as(t, f.target, db.Text("SELECT coalesce((SELECT rolname FROM pg_catalog.pg_roles WHERE rolname = $1), 'postgres')", c.schemas[0]+"_sync"))
	if p.ask("SELECT count(*) FROM pg_catalog.pg_publication WHERE pubname = '"+c.schemas[0]+"'") == "1" {
		f.publication = c.schemas[0]
	} else {
		f.tables = discovered
	}
	source := f.source()
	s := f.sidecar()
	if p.ask("SHOW server_encoding") == "SQL_ASCII" {
		f.refusesDatabase(p, source, s, c)
	} else {
		s.listed()
		p.run(c.changes)
		f.converges(s)
		s.resyncFindsNothing(3)
	}
	s.member.stop()
	source.stop()
	f.teardown()
	p.run(c.cleanup)
	p.quit()
}

// as gives a URL with another user.
func as(t *testing.T, address, user string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(user)
	return u.String()
}

// load gives the source's configuration.
func (f *fleet) load() *config.Config {
	f.t.Helper()
	c, err := config.Load(config.Sources{File: f.configure("source", "source")}, config.SourceRole)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// teardown takes slot, publication and stream away, as the command does. The source has ended.
func (f *fleet) teardown() {
	f.t.Helper()
	td, err := daemon.OpenTeardown(f.t.Context(), f.load(), harness.Logger(f.t))
	if err != nil {
		f.t.Fatal(err)
	}
	defer td.Close()
	if err := td.Drop(f.t.Context(), func(string) {}); err != nil {
		f.t.Fatal(err)
	}
}

// check gives what syncd check says of a precondition that is not met; empty where all are.
func (f *fleet) check() string {
	f.t.Helper()
	all, err := daemon.Check(f.t.Context(), f.load())
	if err != nil {
		f.t.Fatal(err)
	}
	var wrong []string
	for _, p := range all {
		if !p.OK {
			wrong = append(wrong, fmt.Sprintf("%s %s: %s; %s", p.Part, p.Name, p.Detail, p.Mend))
		}
	}
	return strings.Join(wrong, "\n")
}

// refusesDatabase wants a database without an encoding to be refused as a whole, and left as it was.
func (f *fleet) refusesDatabase(p *psql, source *member, s *cache, c *sqlCase) {
	f.t.Helper()
	source.says(f, "SQL_ASCII")
	p.run(c.changes)
	if said := f.check(); !strings.Contains(said, "SQL_ASCII") || !strings.Contains(said, "UTF8") {
		f.t.Errorf("check says %q", said)
	}
	if states, err := s.tables(); err != nil || len(states) != 0 {
		f.t.Errorf("the cache has the tables %v, %v", states, err)
	}
	if n := p.ask("SELECT count(*) FROM pg_catalog.pg_replication_slots"); n != "0" {
		f.t.Errorf("%s replication slots were made", n)
	}
}

// TestSlotWaitsForTransactions: a transaction that is open holds up the making of the slot. The source says for whom it waits,
// leaves nothing behind when it is ended meanwhile, and goes on by itself when the transaction has ended.
func TestSlotWaitsForTransactions(t *testing.T) {
	t.Parallel()
	db := harness.DatabaseOn(t, harness.Server(t, pgserver.Options{}))
	db.Exec("CREATE TABLE t (id int PRIMARY KEY, v text)")
	holder := db.Conn()
	exec := func(sql string) {
		t.Helper()
		if _, err := holder.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("BEGIN")
	exec("INSERT INTO t VALUES (1, 'open')")
	f := fleetOn(t, db, harness.NATS(t), "public.t")
	waits := fmt.Sprintf("pids=[%d]", holder.PgConn().PID())
	first := f.source()
	first.says(f, waits)
	first.stop()
	f.eventually("the slot to be gone", func() error {
		if n := db.Text("SELECT count(*) FROM pg_replication_slots"); n != "0" {
			return fmt.Errorf("%s slots are left", n)
		}
		return nil
	})
	second := f.source()
	second.says(f, waits)
	s := f.sidecar()
	exec("COMMIT")
	f.converges(s)
}

// TestNoFreeSlot: all slots of the server are taken. The source says so, check says what mends it, and when one is free the
// source goes on by itself.
func TestNoFreeSlot(t *testing.T) {
	t.Parallel()
	db := harness.DatabaseOn(t, harness.Server(t, pgserver.Options{Settings: map[string]string{"max_replication_slots": "2"}}))
	db.Exec("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
	db.Exec("SELECT pg_create_physical_replication_slot('taken_' || i) FROM generate_series(1, 2) i")
	f := fleetOn(t, db, harness.NATS(t), "public.t")
	m := f.source()
	m.says(f, "all replication slots are in use")
	if said := f.check(); !strings.Contains(said, "max_replication_slots") || !strings.Contains(said, "pg_drop_replication_slot") {
		t.Errorf("check says %q", said)
	}
	s := f.sidecar()
	db.Exec("SELECT pg_drop_replication_slot('taken_1')")
	f.converges(s)
}

// TestSlotFollowsWhereNothingIsPublished: while only tables are written that nobody syncs, also in another database, the slot
// does not hold the log back: what it confirms follows the log's end, after the time by which it trails JetStream's
// acknowledgements.
func TestSlotFollowsWhereNothingIsPublished(t *testing.T) {
	t.Parallel()
	db := harness.DatabaseOn(t, harness.Server(t, pgserver.Options{}))
	elsewhere := harness.DatabaseOn(t, db.Server)
	db.Exec("CREATE TABLE quiet (id int PRIMARY KEY); INSERT INTO quiet VALUES (1); CREATE TABLE busy (v text)")
	elsewhere.Exec("CREATE TABLE busy (v text)")
	f := fleetOn(t, db, harness.NATS(t), "public.quiet")
	f.trailing(source.Config{TrailInterval: -1})
	s := f.sidecar()
	f.converges(s)
	held := func() string {
		return db.Text("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn) FROM pg_replication_slots")
	}
	for _, where := range []*harness.DB{db, elsewhere} {
		where.Exec("INSERT INTO busy SELECT repeat('x', 800) FROM generate_series(1, 30000)")
		f.eventually("the slot to follow the log's end", func() error {
			if h := held(); len(h) > 5 { // 100 kB
				return fmt.Errorf("it holds %s bytes", h)
			}
			return nil
		})
	}
	db.Exec("INSERT INTO quiet VALUES (2)")
	f.converges(s)
}

// TestServerShutsDownInTime: a server that is told to shut down waits until each walsender's client has confirmed all of the
// log, which a source does only a good while after JetStream has acknowledged. It must let go of the server instead.
func TestServerShutsDownInTime(t *testing.T) {
	t.Parallel()
	pg := harness.Server(t, pgserver.Options{Settings: map[string]string{"wal_sender_timeout": "0"}}) // or it would give up waiting by itself
	db := harness.DatabaseOn(t, pg)
	db.Exec("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
	f := fleetOn(t, db, harness.NATS(t), "public.t")
	f.source()
	s := f.sidecar()
	f.converges(s)
	for i := range 2 {
		if _, err := db.Conn().Exec(t.Context(), "INSERT INTO t VALUES ($1)", i+2); err != nil {
			t.Fatal(err)
		}
		f.converges(s)
		ctx, cancel := context.WithTimeout(t.Context(), harness.HangGuard)
		err := pg.Restart(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		f.converges(s)
	}
}
