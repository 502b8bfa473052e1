package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/natsserver"
	"github.com/syncd-io/syncd/internal/pgserver"
)

func TestMain(m *testing.M) { Main(m) }

func TestNameIsValidAndUnique(t *testing.T) {
	t.Run("Ünïcode and / SPACES and a name that goes on and on and on and on", func(t *testing.T) {
		a, b := Name(t), Name(t)
		if a == b || !regexp.MustCompile(`^[a-z0-9_]{1,50}$`).MatchString(a) {
			t.Errorf("%s, %s", a, b)
		}
	})
}

func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	for i := range 3 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			db := Database(t)
			db.Exec("CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2)")
			db.Exec("INSERT INTO t VALUES ($1)", 3)
			if got := db.Query("SELECT n, NULL FROM t WHERE n > $1 ORDER BY n", 1); fmt.Sprint(got) != "[[2 ] [3 ]]" {
				t.Errorf("rows %v", got)
			}
			if got := db.Text("SELECT current_database()"); got != db.Name {
				t.Errorf("database %s, want %s", got, db.Name)
			}
			before := db.LSN()
			db.Exec("INSERT INTO t VALUES (4)")
			if after := db.LSN(); after <= before {
				t.Errorf("the LSN went from %v to %v", before, after)
			}
			if got := ask(t, db.Conn(), "SELECT count(*) FROM t"); got != "4" {
				t.Errorf("another session sees %s rows", got)
			}
		})
	}
}

func ask(t *testing.T, c *pgx.Conn, sql string) string {
	t.Helper()
	rows, err := query(t.Context(), c, sql, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(rows[0][0])
}

func TestSharedServerIsContrary(t *testing.T) {
	t.Parallel()
	db := Database(t)
	// Binaries without pg_resetwal can't set the epoch.
	_, noReset := os.Stat(filepath.Join(db.Server.Bin(), "pg_resetwal"))
	if got := db.Text("SELECT (pg_current_xact_id()::text::numeric / 4294967296)::int"); noReset == nil && got != "5" {
		t.Errorf("xid epoch %s, want 5", got)
	}
	for k, v := range contrary {
		if got := db.Text("SHOW " + k); got != v && db.Server.Dir() != "" {
			t.Errorf("%s is %s, want %s", k, got, v)
		}
	}
}

// TestDatabaseIsDropped leaves a slot in use, and an open transaction behind.
func TestDatabaseIsDropped(t *testing.T) {
	t.Parallel()
	s := Postgres(t)
	var name string
	outer := t // its connection lives on when the database's test ends
	t.Run("user", func(t *testing.T) {
		db := Database(t)
		name = db.Name
		db.Exec("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", name)
		db.Exec("CREATE PUBLICATION p FOR ALL TABLES")
		err := pglogrepl.StartReplication(t.Context(), replication(outer, db), name, 0, pglogrepl.StartReplicationOptions{
			PluginArgs: []string{"proto_version '1'", "publication_names 'p'"}})
		if err != nil {
			t.Fatal(err)
		}
		open := db.Conn()
		ask(t, open, "BEGIN; SELECT pg_current_xact_id()")
	})
	err := admin(t.Context(), s, func(c *pgx.Conn) error {
		var databases, slots int
		err := c.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_database WHERE datname = $1),
			(SELECT count(*) FROM pg_replication_slots WHERE database = $1)`, name).Scan(&databases, &slots)
		if err == nil && databases+slots > 0 {
			err = fmt.Errorf("%d databases and %d slots are left", databases, slots)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func replication(t *testing.T, db *DB) *pgconn.PgConn {
	t.Helper()
	config, err := pgconn.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["replication"] = "database"
	c, err := pgconn.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func TestOracle(t *testing.T) {
	t.Parallel()
	db := Database(t)
	db.Exec(`CREATE SCHEMA "Odd Name";
		CREATE TABLE "Odd Name"."T" (v text, "B.b" char(3), a timestamptz, f float8, x bytea, PRIMARY KEY (a, "B.b"));
		INSERT INTO "Odd Name"."T" VALUES ('one', 'k', '2024-02-03 04:05:06+00', 0.1, '\x00ff'), (NULL, 'l', '2024-02-03 04:05:06+00', 1e300, NULL);
		CREATE TABLE child () INHERITS ("Odd Name"."T");
		INSERT INTO child VALUES ('child', 'c', 'now', 0, NULL);
		CREATE TABLE parted (id bool PRIMARY KEY, v int) PARTITION BY LIST (id);
		CREATE TABLE leaf PARTITION OF parted FOR VALUES IN (true);
		INSERT INTO parted VALUES (true, 7);
		CREATE TABLE identity (id int PRIMARY KEY, u text NOT NULL);
		CREATE UNIQUE INDEX u ON identity (u);
		ALTER TABLE identity REPLICA IDENTITY USING INDEX u;
		INSERT INTO identity VALUES (1, 'one');
		CREATE TABLE keyless (v int)`)
	odd := syncd.Table{Schema: "Odd Name", Name: "T"}
	for _, c := range []struct {
		table   syncd.Table
		columns []string
		want    map[syncd.Key]string
	}{
		{odd, nil, map[syncd.Key]string{
			syncd.MakeKey("2024-02-03 04:05:06+00", "k  "): `{"v":"one","B.b":"k  ","a":"2024-02-03T04:05:06+00:00","f":0.1,"x":"\\x00ff"}`,
			syncd.MakeKey("2024-02-03 04:05:06+00", "l  "): `{"v":null,"B.b":"l  ","a":"2024-02-03T04:05:06+00:00","f":1e+300,"x":null}`,
		}},
		{odd, []string{"B.b", "v"}, map[syncd.Key]string{
			syncd.MakeKey("2024-02-03 04:05:06+00", "k  "): `{"B.b":"k  ","v":"one"}`,
			syncd.MakeKey("2024-02-03 04:05:06+00", "l  "): `{"B.b":"l  ","v":null}`,
		}},
		{syncd.Table{Schema: "public", Name: "parted"}, nil, map[syncd.Key]string{syncd.MakeKey("t"): `{"id":true,"v":7}`}},
		{syncd.Table{Schema: "public", Name: "parted"}, []string{"v"}, map[syncd.Key]string{syncd.MakeKey("t"): `{"v":7}`}},
		{syncd.Table{Schema: "public", Name: "identity"}, nil, map[syncd.Key]string{syncd.MakeKey("one"): `{"id":1,"u":"one"}`}},
	} {
		if got := Oracle(t, db, c.table, c.columns...); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", c.want) {
			t.Errorf("%v %v: %q\nwant %q", c.table, c.columns, got, c.want)
		}
	}
	if _, err := oracle(t.Context(), db, syncd.Table{Schema: "public", Name: "keyless"}, nil); err == nil || !strings.Contains(err.Error(), "no key") {
		t.Errorf("a table without a key: %v", err)
	}
}

func TestServersOfOnesOwn(t *testing.T) {
	t.Parallel()
	s := Server(t, pgserver.Options{Settings: map[string]string{"wal_sender_timeout": "3s", "TimeZone": "UTC"}})
	db := DatabaseOn(t, s)
	db.Exec("CREATE TABLE t AS SELECT 1 AS n")
	if got := db.Text("SELECT current_setting('wal_sender_timeout') || current_setting('TimeZone')"); got != "3sUTC" {
		t.Errorf("settings %s", got)
	}
	standby, restored := Standby(t, s, pgserver.Options{}), Copy(t, s, pgserver.Options{})
	for what, c := range map[string]*pgserver.Server{"f": restored, "t": standby} {
		conn, err := pgx.Connect(t.Context(), c.URL(db.Name))
		if err != nil {
			t.Fatal(err)
		}
		if got := ask(t, conn, "SELECT pg_is_in_recovery()"); got != what {
			t.Errorf("%s in recovery: %s, want %s", c.Origin(), got, what)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := query(t.Context(), db.conn, "SELECT 1", nil); err == nil {
		t.Error("the session lived through a restart")
	}
	if got := db.Text("SELECT count(*) FROM t"); got != "1" {
		t.Errorf("after a restart %s rows", got)
	}
	if err := s.Kill(); err != nil { // the database can't be dropped then, and need not be
		t.Fatal(err)
	}
}

func TestStreamsAreApart(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("user", func(t *testing.T) {
		b, other := NATS(t), NATS(t)
		if b.Name == other.Name || b.Server != other.Server {
			t.Fatalf("%v and %v", b, other)
		}
		js, err := jetstream.New(b.Conn())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: b.Stream(), Subjects: []string{"syncd." + b.Name + ".>"}}); err != nil {
			t.Fatal(err)
		}
		name = b.Stream()
		overTCP, err := nats.Connect(b.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer overTCP.Close()
		if js, err = jetstream.New(overTCP); err != nil {
			t.Fatal(err)
		}
		if _, err := js.Stream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	})
	js, err := jetstream.New(NATS(t).Conn())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Stream(t.Context(), name); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("the stream is left: %v", err)
	}
}

func TestNATSOfOnesOwn(t *testing.T) {
	t.Parallel()
	b := NATSServer(t, natsserver.Config{MaxPayload: 4096})
	c := b.Conn(nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond))
	if c.MaxPayload() != 4096 {
		t.Errorf("max_payload %d", c.MaxPayload())
	}
	b.Server.Stop()
	if err := b.Server.Start(); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "connected again", func() error { return c.FlushTimeout(time.Second) })
}

func TestEventuallyAsksAgain(t *testing.T) {
	t.Parallel()
	n := 0
	Eventually(t, "the third time", func() error {
		if n++; n < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if n != 3 {
		t.Errorf("asked %d times", n)
	}
	c := make(chan int, 1)
	c <- 7
	if got := Receive(t, "a seven", c); got != 7 {
		t.Errorf("received %d", got)
	}
}
