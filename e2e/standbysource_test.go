package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/pgserver"
)

// decodingStandbys is the first version whose standbys decode.
const decodingStandbys = 160000

// binariesFor gives server binaries of at least a version: empty, the tests' own, where they are; else the newest that
// scripts/fetch-postgres.sh has fetched. ok is false where this machine has none.
func binariesFor(t *testing.T, version int) (bin string, ok bool) {
	t.Helper()
	if harness.Postgres(t).Version() >= version {
		return "", true
	}
	cache := os.Getenv("SYNCD_PG_CACHE")
	if cache == "" && os.Getuid() == 0 {
		cache = "/var/cache/syncd"
	} else if cache == "" {
		home, err := os.UserCacheDir()
		if err != nil {
			return "", false
		}
		cache = filepath.Join(home, "syncd")
	}
	found, err := filepath.Glob(filepath.Join(cache, "[1-9]*", "bin"))
	if err != nil || len(found) == 0 {
		return "", false
	}
	newest := slices.Max(found)
	var major int
	_, err = fmt.Sscanf(filepath.Base(filepath.Dir(newest)), "%d.", &major)
	return newest, err == nil && major*10000 >= version
}

// onStandby is the URL of a database on a standby, for a source that is to follow it.
func onStandby(t *testing.T, s *pgserver.Server, db *harness.DB) string {
	t.Helper()
	u, err := url.Parse(s.URL(db.Name))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("target_session_attrs", "prefer-standby")
	u.RawQuery = q.Encode()
	return u.String()
}

// TestSourceOnAStandby: everything is read on a standby: the changes, the catalog and the lists. What only the primary can
// do is said, with the statement. Nothing steps back while replay is held up and the table is listed all the time; a restart
// goes on where it was; and a promotion, with what was never replayed lost, is a new epoch.
func TestSourceOnAStandby(t *testing.T) {
	t.Parallel()
	bin, ok := binariesFor(t, decodingStandbys)
	if !ok {
		t.Log("there are no binaries of Postgres 16 or later: all that can be tested is TestSourceRefusesAStandby")
		return
	}
	primary := harness.Server(t, pgserver.Options{Bin: bin})
	db := harness.DatabaseOn(t, primary)
	db.Exec(`CREATE TABLE t (id int PRIMARY KEY, n bigint); CREATE SEQUENCE s; INSERT INTO t SELECT i, nextval('s') FROM generate_series(1, 120) i;
		CREATE TABLE u (id int PRIMARY KEY, v text, hidden text); INSERT INTO u VALUES (1, 'x', 'y'); CREATE TABLE keyless (id int)`)
	standby := harness.Standby(t, primary, pgserver.Options{Settings: map[string]string{"hot_standby_feedback": "on"}})
	replay := &replica{t: t, conn: connect(t, standby.URL(db.Name))}
	f := fleetOn(t, db, harness.NATS(t), "public.t", "public.u", "public.keyless")
	f.tables[1].columns = []string{"id", "v"}
	f.postgres = onStandby(t, standby, db)

	source := f.source()
	source.says(f, "there is no publication")
	f.eventually("the primary's statement to be named", func() error {
		_, create, ok := strings.Cut(f.check(), "on the primary: ")
		create, _, _ = strings.Cut(create, "\n")
		if !ok || strings.Contains(create, "keyless") {
			return fmt.Errorf("check says %q", f.check())
		}
		db.Exec(create)
		return nil
	})
	f.eventually("the source to name what it waits for", func() error {
		// The primary may happen to log a snapshot by itself, and then nothing is waited for.
		if log := source.log.String(); !strings.Contains(log, "pg_log_standby_snapshot") && !strings.Contains(log, "msg=leads") {
			return errors.New("not yet")
		}
		return nil
	})
	f.eventually("the slot to be made", func() error {
		db.Exec("SELECT pg_log_standby_snapshot()")
		if strings.Contains(source.log.String(), "leads") {
			return nil
		}
		return errors.New("not yet")
	})
	s := f.sidecar()
	f.converges(s)
	epoch := s.epoch()
	f.more.source = "list_postgres: " + text(db.URL)
	if said := f.check(); !strings.Contains(said, "lists can't be read on the primary") {
		t.Errorf("of lists from the primary check says %q", said)
	}

	name := table(t, "public.t")
	seen := s.watch(name)
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for part := range 3 {
		conn := db.Conn()
		writers.Go(func() { scribble(ctx, t, conn, part, 3) })
	}
	var lists int
	for range 4 {
		at := db.LSN()
		replay.pause()
		f.eventually("writers to go on while replay is held up", func() error {
			if now := db.LSN(); now < at+32<<10 {
				return fmt.Errorf("at %s, from %s", now, at)
			}
			return nil
		})
		for range 2 {
			listed(t, s, name, &lists)
		}
		replay.resume()
		for range 2 {
			listed(t, s, name, &lists)
		}
	}
	db.Exec("ALTER TABLE u ADD COLUMN w int DEFAULT 7; ALTER TABLE keyless ADD PRIMARY KEY (id)")
	f.eventually("the table with a key to be wanted in the publication", func() error {
		if m := s.mend("public.keyless"); !strings.Contains(m, "ADD TABLE") {
			return fmt.Errorf("it says %q", m)
		}
		return nil
	})
	// What a transaction did before the table joined the publication is not in the stream, and not in a list before its end.
	amid := db.Conn()
	if _, err := amid.Exec(t.Context(), "BEGIN; INSERT INTO keyless VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	db.Exec(strings.TrimPrefix(s.mend("public.keyless"), "on the primary: "))
	f.eventually("the table to be listed", func() error {
		states, err := s.tables()
		if err == nil && !states[table(t, "public.keyless")].Ready {
			err = errors.New("it is not")
		}
		return err
	})
	if _, err := amid.Exec(t.Context(), "INSERT INTO keyless VALUES (2); COMMIT"); err != nil {
		t.Fatal(err)
	}
	cancel()
	writers.Wait()
	f.converges(s)
	if lists == 0 {
		t.Error("no list came to its end: nothing is tested")
	}

	if err := standby.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	db.Exec("UPDATE t SET n = nextval('s') WHERE id <= 10; TRUNCATE u")
	f.converges(s)
	if now := s.epoch(); now != epoch {
		t.Errorf("a restart of the standby has begun epoch %s, it was %s", now, epoch)
	}

	replay.conn = connect(t, standby.URL(db.Name))
	replay.pause()
	db.Exec("DELETE FROM t WHERE id = 20")
	replay.resume()
	f.converges(s)
	seen.end()
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.target = standby.URL(db.Name)
	p := startPSQLAt(t, standby, f.target)
	p.run("UPDATE t SET n = 7 WHERE id = 5; INSERT INTO t VALUES (2000, 2);")
	source.says(f, "timeline 2")
	f.converges(s)
	p.run("DELETE FROM t WHERE id = 2000; CREATE TABLE later (id int);")
	f.converges(s)
	if now := s.epoch(); now <= epoch {
		t.Errorf("after the promotion the epoch is %s, it was %s", now, epoch)
	}
}

// TestSourceRefusesAStandby: a standby is not followed by mistake, and not where it can't decode.
func TestSourceRefusesAStandby(t *testing.T) {
	t.Parallel()
	primary := harness.Server(t, pgserver.Options{})
	db := harness.DatabaseOn(t, primary)
	db.Exec("CREATE TABLE t (id int PRIMARY KEY)")
	standby := harness.Standby(t, primary, pgserver.Options{})
	f := fleetOn(t, db, harness.NATS(t), "public.t")
	f.postgres = standby.URL(db.Name)
	f.source().says(f, "target_session_attrs=prefer-standby")
	if said := f.check(); !strings.Contains(said, "the server is a standby: name the primary") {
		t.Errorf("check says %q", said)
	}
	f.postgres = onStandby(t, standby, db)
	said := f.check()
	if primary.Version() < decodingStandbys {
		f.start("source", "asked").says(f, "from Postgres 16 on")
		if !strings.Contains(said, "from Postgres 16 on") {
			t.Errorf("check says %q", said)
		}
	} else if !strings.Contains(said, "none can be made on a standby") {
		t.Errorf("check says %q", said)
	}
}
