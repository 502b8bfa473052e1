package source

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/pgserver"
)

// result finds a result by its name.
func result(t *testing.T, all []Result, name string) Result {
	t.Helper()
	for _, r := range all {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("there is no result %q: %+v", name, all)
	return Result{}
}

func TestCheckOfAServerThatIsReady(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id) STORED); CREATE TABLE public.keyless (id int)`)
	cfg := configFor(t, db, "public.t", "public.keyless", "public.absent")
	cfg.ListPostgres = db.TCPURL
	for _, state := range []string{"before", "after"} {
		all := Check(t.Context(), cfg)
		for _, r := range all {
			if strings.HasPrefix(r.Name, "table ") || r.Name == "max_slot_wal_keep_size" {
				continue
			}
			if !r.OK || r.Mend != "" || r.Unreachable {
				t.Errorf("%s the start: %+v", state, r)
			}
		}
		if r := result(t, all, "max_slot_wal_keep_size"); !r.OK || !strings.Contains(r.Mend, "ALTER SYSTEM") {
			t.Errorf("%+v", r)
		}
		if r := result(t, all, "table public.t"); !r.OK || !strings.Contains(r.Detail, "generated columns left out: g") {
			t.Errorf("%+v", r)
		}
		if r := result(t, all, "table public.keyless"); r.OK || r.Mend != `ALTER TABLE "public"."keyless" ADD PRIMARY KEY (…)` {
			t.Errorf("%+v", r)
		}
		if r := result(t, all, "table public.absent"); r.OK || r.Mend == "" {
			t.Errorf("%+v", r)
		}
		if state == "before" {
			w := run(t, NewWatch(cfg, new(Memory)))
			w.leads()
			if err := w.stop(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := harness.Server(t, pgserver.Options{Settings: map[string]string{
		"max_replication_slots": "1", "max_wal_senders": "0", "synchronous_standby_names": "*", "synchronous_commit": "local"}})
	db := harness.DatabaseOn(t, s)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY); CREATE TABLE public.hidden (id int PRIMARY KEY); CREATE ROLE plain LOGIN;
		CREATE TABLE public.secured (id int PRIMARY KEY); ALTER TABLE public.secured ENABLE ROW LEVEL SECURITY; GRANT SELECT ON public.t, public.secured TO plain;
		SELECT pg_create_physical_replication_slot('other')`)
	cfg := configFor(t, db, "public.t", "public.hidden", "public.secured")
	cfg.Postgres = withRole(t, db.URL, "plain")
	all := Check(t.Context(), cfg)
	for name, mend := range map[string]string{
		"replication slot":          "max_replication_slots",
		"max_wal_senders":           "ALTER SYSTEM SET max_wal_senders",
		"replication right":         `ALTER ROLE "plain" REPLICATION`,
		"publication":               "GRANT CREATE ON DATABASE",
		"table public.t":            `ADD TABLE ONLY "public"."t"`,
		"table public.hidden":       `GRANT SELECT ON "public"."hidden" TO "plain"`,
		"table public.secured":      `ALTER ROLE "plain" BYPASSRLS`,
		"synchronous_standby_names": "name the real standbys",
	} {
		if r := result(t, all, name); r.OK || !strings.Contains(r.Mend, mend) {
			t.Errorf("%+v, want %q", r, mend)
		}
	}
	// Where the provider gives the right by a role, what is wrong is something else.
	db.Exec("CREATE ROLE rds_replication")
	if r := result(t, Check(t.Context(), cfg), "replication right"); r.OK || r.Mend != `GRANT rds_replication TO "plain"` {
		t.Errorf("%+v of one that is no member of rds_replication", r)
	}
	db.Exec("GRANT rds_replication TO plain")
	if r := result(t, Check(t.Context(), cfg), "replication right"); strings.Contains(r.Mend, "ALTER ROLE") {
		t.Errorf("%+v of a member of rds_replication", r)
	}
}

func TestCheckOfAServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	all := Check(t.Context(), Config{Name: "x", Postgres: "postgres://nobody:secret@127.0.0.1:1/none", Tables: []TableConfig{{Table: tableT}}, Manage: true})
	if len(all) != 1 || all[0].OK || !all[0].Unreachable || strings.Contains(all[0].Detail, "secret") {
		t.Errorf("%+v", all)
	}
	all = Check(t.Context(), Config{Name: "x", Postgres: "postgres://nobody:secret@[", Tables: []TableConfig{{Table: tableT}}, Manage: true})
	if len(all) != 1 || all[0].OK || strings.Contains(all[0].Detail, "secret") {
		t.Errorf("%+v", all)
	}
}

// A pooler gives its clients process ids of its own, and knows only few of the startup packet's settings.
func TestPoolersAreRefused(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	if db.TCPURL == "" {
		t.Fatal("the server listens on no port")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	upstream := hostOf(t, db.TCPURL)
	go pool(l, upstream)
	address := strings.Replace(db.TCPURL, upstream, l.Addr().String(), 1)
	_, err = openSession(t.Context(), address, true)
	if !errors.Is(err, errPooler) {
		t.Errorf("a session through a pooler: %v", err)
	}
	if _, _, err = openReplication(t.Context(), address); !errors.Is(err, errPooler) {
		t.Errorf("a replication connection through a pooler: %v", err)
	}
}

// withRole gives a URL for another role.
func withRole(t *testing.T, address, role string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	if q.Has("user") {
		q.Set("user", role)
		u.RawQuery = q.Encode()
	} else {
		u.User = url.User(role)
	}
	return u.String()
}

func hostOf(t *testing.T, url string) string {
	t.Helper()
	_, rest, ok := strings.Cut(url, "@")
	host, _, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 {
		t.Fatalf("the URL %s has no host", url)
	}
	return host
}

// pool forwards connections to upstream, and gives each another process id, as pgbouncer does.
func pool(l net.Listener, upstream string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", upstream)
		if err != nil {
			client.Close()
			continue
		}
		go func() {
			io.Copy(server, client)
			server.Close()
		}()
		go func() {
			defer client.Close()
			header := make([]byte, 5)
			for {
				if _, err := io.ReadFull(server, header); err != nil {
					return
				}
				body := make([]byte, binary.BigEndian.Uint32(header[1:])-4)
				if _, err := io.ReadFull(server, body); err != nil {
					return
				}
				if header[0] == 'K' {
					binary.BigEndian.PutUint32(body, 4711)
				}
				if _, err := client.Write(append(header[:5:5], body...)); err != nil {
					return
				}
			}
		}()
	}
}

func TestSettingsArePinned(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(fmt.Sprintf(`ALTER DATABASE %s SET statement_timeout = '20ms'`, syncd.QuoteIdent(db.Name)))
	db.Exec(fmt.Sprintf(`ALTER DATABASE %s SET default_transaction_read_only = on`, syncd.QuoteIdent(db.Name)))
	db.Exec(fmt.Sprintf(`ALTER DATABASE %s SET search_path = public`, syncd.QuoteIdent(db.Name)))
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("timezone", "Asia/Tokyo")
	q.Set("options", "-c DateStyle=German -c search_path=public")
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	for _, url := range []string{db.URL, u.String()} {
		s, err := openSession(t.Context(), url, true)
		if err != nil {
			t.Fatal(err)
		}
		var date, path string
		if err := s.QueryRow(t.Context(), `SELECT '2024-02-03 04:05:06+00'::timestamptz::text, pg_catalog.current_setting('search_path')`).Scan(&date, &path); err != nil {
			t.Fatal(err)
		}
		if date != "2024-02-03 04:05:06+00" || path != "" {
			t.Errorf("a time is %s, the search_path %q", date, path)
		}
		s.close()
	}
}

func TestPageStart(t *testing.T) {
	s := server{block: 8192, segment: 16 << 20}
	for l, want := range map[syncd.LSN]syncd.LSN{
		0x16B3748:               0x16B3748,
		5 * 8192:                5 * 8192,
		5*8192 + 24:             5 * 8192,
		5*8192 + 40:             5*8192 + 40,
		3*(16<<20) + 40:         3 * (16 << 20),
		3*(16<<20) + 8192 + 24:  3*(16<<20) + 8192,
		3*(16<<20) + 8192 + 40:  3*(16<<20) + 8192 + 40,
		3*(16<<20) + 8192 + 100: 3*(16<<20) + 8192 + 100,
	} {
		if got := s.pageStart(l); got != want {
			t.Errorf("%s means %s, want %s", l, got, want)
		}
	}
}

func TestKeepSize(t *testing.T) {
	for _, c := range []struct {
		keep, ours   int64
		danger, mend string
	}{
		{-1, 4 << 30, "without limit", "ALTER SYSTEM"},
		{512 << 20, 4 << 30, "536870912 bytes, less than source.max_slot_wal, 4294967296", "source.max_slot_wal: 256MiB, or"},
		{8 << 30, 4 << 30, "", ""},
		{512 << 20, 0, "", ""},
	} {
		if danger, mend := ofKeepSize(c.keep, c.ours); !strings.HasPrefix(danger, c.danger) || !strings.HasPrefix(mend, c.mend) || (danger == "") != (c.danger == "") {
			t.Errorf("%d beside %d: %q, %q", c.keep, c.ours, danger, mend)
		}
	}
}
