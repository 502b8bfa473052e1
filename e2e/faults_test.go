package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/natsserver"
	"github.com/syncd-io/syncd/internal/pgserver"
)

// numbers is a table of rows (id, n), as witnesses read it.
const numbers = `CREATE TABLE t (id int PRIMARY KEY, n bigint); INSERT INTO t SELECT i, 0 FROM generate_series(1, 50) i`

// TestSlotIsLost: a slot that is gone, or that the server has invalidated, is a new slot and a new epoch, and nothing else: the
// caches list anew while they serve what they have.
func TestSlotIsLost(t *testing.T) {
	t.Parallel()
	// change makes changes that nobody will decode.
	const change = `UPDATE t SET n = n + 1 WHERE id <= 10; DELETE FROM t WHERE id BETWEEN 20 AND 30`
	t.Run("dropped while the source is away", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, "public.t")
		f.db.Exec(numbers)
		source := f.source()
		s := f.sidecar()
		f.converges(s)
		seen := s.watch(table(t, "public.t"))
		source.stop()
		f.db.Exec(change)
		f.eventually("the slot to be left", func() error { // its walsender may not have ended yet
			if f.db.Text("SELECT active FROM pg_replication_slots WHERE slot_name = 'syncd_' || $1", f.bus.Name) != "f" {
				return errors.New("it is in use")
			}
			return nil
		})
		f.db.Exec("SELECT pg_drop_replication_slot('syncd_' || $1)", f.bus.Name)
		f.start("source", "second").says(f, "the replication slot is gone")
		f.converges(s)
		seen.end()
	})
	t.Run("dropped while it runs", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, "public.t")
		f.db.Exec(numbers)
		f.source()
		s := f.sidecar()
		f.converges(s)
		seen := s.watch(table(t, "public.t"))
		f.eventually("the slot to be dropped", func() error {
			f.db.Exec("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = 'syncd_' || $1", f.bus.Name)
			f.db.Exec(`DO $$ BEGIN PERFORM pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database();
				EXCEPTION WHEN object_in_use THEN NULL; END $$`)
			if n := f.db.Text("SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'syncd_' || $1", f.bus.Name); n != "0" {
				return errors.New("it is in use")
			}
			return nil
		})
		f.db.Exec(change)
		f.converges(s)
		seen.end()
	})
	t.Run("invalidated by the server", func(t *testing.T) {
		t.Parallel()
		pg := harness.Server(t, pgserver.Options{Settings: map[string]string{"max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB"}})
		f := fleetOn(t, harness.DatabaseOn(t, pg), harness.NATS(t), "public.t")
		f.db.Exec(numbers)
		source := f.source()
		s := f.sidecar()
		f.converges(s)
		seen := s.watch(table(t, "public.t"))
		source.stop()
		f.db.Exec(change)
		f.db.Exec("CREATE TABLE busy (v text)")
		f.eventually("the slot to be invalidated", func() error {
			f.db.Exec("INSERT INTO busy SELECT repeat('x', 1000) FROM generate_series(1, 20000)")
			f.db.Exec("SELECT pg_switch_wal()")
			f.db.Exec("CHECKPOINT")
			if s := f.db.Text("SELECT wal_status FROM pg_replication_slots"); s != "lost" {
				return errors.New("it is " + s)
			}
			return nil
		})
		f.start("source", "second").says(f, "invalidated")
		f.converges(s)
		seen.end()
	})
	t.Run("given up before it fills the disk", func(t *testing.T) {
		t.Parallel()
		pg := harness.Server(t, pgserver.Options{})
		f := fleetOn(t, harness.DatabaseOn(t, pg), harness.NATSServer(t, natsserver.Config{}), "public.t")
		f.more.source = "max_slot_wal: 20MiB"
		f.db.Exec(numbers)
		source := f.source()
		s := f.sidecar()
		f.converges(s)
		f.bus.Server.Stop() // so that nothing is acknowledged
		f.db.Exec(change)
		f.db.Exec("CREATE TABLE busy (v text)")
		f.db.Exec("INSERT INTO busy SELECT repeat('x', 1000) FROM generate_series(1, 40000)")
		source.says(f, "gives the replication slot up")
		f.eventually("the slot to be gone", func() error {
			if n := f.db.Text("SELECT count(*) FROM pg_replication_slots WHERE pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) > 20 * 1048576"); n != "0" {
				return errors.New("it holds as much as before")
			}
			return nil
		})
		if err := f.bus.Server.Start(); err != nil {
			t.Fatal(err)
		}
		f.converges(s)
	})
}

// TestStreamIsDeleted: a stream that somebody deleted is not made anew in silence. The source ends and says what it takes.
func TestStreamIsDeleted(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "public.t")
	f.db.Exec(numbers)
	source := f.source()
	s := f.sidecar()
	f.converges(s)
	js, err := jetstream.New(f.bus.Conn())
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), f.bus.Stream()); err != nil {
		t.Fatal(err)
	}
	f.db.Exec("UPDATE t SET n = n + 1")
	harness.Receive(t, "the source to end", source.done)
	source.told = true
	if source.err == nil || !strings.Contains(source.err.Error(), "--recreate") {
		t.Errorf("it ended with %v", source.err)
	}
	if rows, _, err := s.rows(table(t, "public.t")); err != nil || len(rows) != 50 {
		t.Errorf("meanwhile %d rows are served, %v", len(rows), err)
	}
	f.recreate = true
	f.start("source", "second")
	f.converges(s)
}

// TestStreamForgets: the stream's limits drop what a sidecar has not read while it was away.
func TestStreamForgets(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "public.t")
	f.stream = "{max_bytes: 1MiB}"
	f.db.Exec(numbers + `; ALTER TABLE t ADD COLUMN v text`)
	f.source()
	one := f.cache("one", f.process)
	f.converges(one)
	seen := one.watch(table(t, "public.t"))
	one.member.kill()
	for range 20 {
		f.db.Exec("UPDATE t SET n = n + 1, v = repeat('x', 10000) WHERE id > 10")
	}
	f.db.Exec("DELETE FROM t WHERE id = 50; INSERT INTO t VALUES (51, 1)")
	f.eventually("the stream to have forgotten its beginning", func() error {
		js, err := jetstream.New(f.bus.Conn())
		if err != nil {
			return err
		}
		s, err := js.Stream(t.Context(), f.bus.Stream())
		if err == nil && s.CachedInfo().State.FirstSeq < 10 {
			err = fmt.Errorf("it begins with message %d", s.CachedInfo().State.FirstSeq)
		}
		return err
	})
	one.member = f.process("sidecar", "one")
	late := f.cache("late", f.start)
	f.converges(one, late)
	seen.end()
}

// TestNATSIsAwayForLong: for longer than the server waits for a client. The source goes on answering the server, so that the
// connection stands when NATS is back.
func TestNATSIsAwayForLong(t *testing.T) {
	t.Parallel()
	pg := harness.Server(t, pgserver.Options{Settings: map[string]string{"wal_sender_timeout": "1s"}})
	f := fleetOn(t, harness.DatabaseOn(t, pg), harness.NATSServer(t, natsserver.Config{}), "public.t")
	f.db.Exec(numbers + `; ALTER TABLE t ADD COLUMN v text`)
	f.source()
	s := f.sidecar()
	f.converges(s)
	seen := s.watch(table(t, "public.t"))
	walsender := func() string { return f.db.Text("SELECT active_pid FROM pg_replication_slots") }
	before := walsender()
	f.bus.Server.Stop()
	for end, n := time.Now().Add(4*time.Second), 0; time.Now().Before(end); n++ {
		if n < 20 {
			f.db.Exec("UPDATE t SET v = repeat('x', 1000000) || $1 WHERE id <= 5", fmt.Sprint(n)) // in all more than may wait in memory
		}
		f.db.Exec("UPDATE t SET n = n + 1 WHERE id % 10 = $1", n%10)
	}
	if now := walsender(); now != before {
		t.Errorf("the server's process was %s and is %s now", before, now)
	}
	if rows, _, err := s.rows(table(t, "public.t")); err != nil || len(rows) != 50 {
		t.Errorf("meanwhile %d rows are served, %v", len(rows), err)
	}
	if err := f.bus.Server.Start(); err != nil {
		t.Fatal(err)
	}
	f.converges(s)
	seen.end()
}

// TestFailover: the primary dies with commits that its standby never got. The caches follow the new primary, in which what
// was lost never was.
func TestFailover(t *testing.T) {
	t.Parallel()
	pg := harness.Server(t, pgserver.Options{})
	f := fleetOn(t, harness.DatabaseOn(t, pg), harness.NATS(t), "public.t")
	f.db.Exec(numbers)
	standby := harness.Standby(t, pg, pgserver.Options{})
	f.source()
	s := f.sidecar()
	f.converges(s)
	if err := standby.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.db.Exec("UPDATE t SET n = 100 WHERE id < 10; INSERT INTO t VALUES (1000, 1)") // phantoms
	f.converges(s)
	if err := pg.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.moveTo(t, standby)
	f.converges(s)
}

// TestBackupIsRestored: the database is put back to what it was, and another history begins.
func TestBackupIsRestored(t *testing.T) {
	t.Parallel()
	pg := harness.Server(t, pgserver.Options{})
	f := fleetOn(t, harness.DatabaseOn(t, pg), harness.NATS(t), "public.t")
	f.db.Exec(numbers)
	f.source()
	s := f.sidecar()
	f.converges(s)
	backup := harness.Copy(t, pg, pgserver.Options{})
	f.db.Exec("UPDATE t SET n = 100 WHERE id < 10; INSERT INTO t VALUES (1000, 1)") // phantoms
	f.converges(s)
	if err := pg.Kill(); err != nil {
		t.Fatal(err)
	}
	f.moveTo(t, backup)
	f.converges(s)
}

// moveTo has a new source follow another server, where writes have gone on.
func (f *fleet) moveTo(t *testing.T, s *pgserver.Server) {
	t.Helper()
	f.target = s.URL(f.db.Name)
	p := startPSQLAt(t, s, f.target)
	p.run("UPDATE t SET n = 7 WHERE id = 5; INSERT INTO t VALUES (2000, 2);")
	f.start("source", "moved")
}

// TestServerIsNotLogical: wal_level is what it is by default. The source says so, and goes on when that was mended.
func TestServerIsNotLogical(t *testing.T) {
	t.Parallel()
	pg := harness.Server(t, pgserver.Options{})
	db := harness.DatabaseOn(t, pg)
	db.Exec(numbers)
	db.Exec("ALTER SYSTEM SET wal_level = replica")
	if err := pg.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := fleetOn(t, db, harness.NATS(t), "public.t")
	f.source().says(f, "wal_level")
	if said := f.check(); !strings.Contains(said, "ALTER SYSTEM SET wal_level = logical") {
		t.Errorf("check says %q", said)
	}
	s := f.sidecar()
	p := startPSQLAt(t, pg, f.target)
	p.run("ALTER SYSTEM RESET wal_level;")
	p.quit()
	if err := pg.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.converges(s)
}
