package daemon

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/redisserver"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/postgres"
	"github.com/syncd-io/syncd/sink/redis"
	"github.com/syncd-io/syncd/sink/sqlite"
)

// checked gives what check says of one sink.
func checked(t *testing.T, c *config.Config, s config.Sink) []Precondition {
	t.Helper()
	with := *c
	with.Sidecar.Sinks = []config.Sink{s}
	with.Defaults()
	all, err := checkSinks(t.Context(), &with)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.Part != "sink" || !strings.HasPrefix(p.Name, s.Kind+" ") || p.Detail == "" {
			t.Errorf("%+v", p)
		}
	}
	return all
}

// wantMet fails the test where a precondition is not met.
func wantMet(t *testing.T, all []Precondition) {
	t.Helper()
	for _, p := range all {
		if !p.OK || p.Unreachable {
			t.Errorf("%+v", p)
		}
	}
}

// wantFault fails the test where what is not met is anything but one precondition that says this, and what mends it.
func wantFault(t *testing.T, all []Precondition, name string, says ...string) {
	t.Helper()
	found := false
	for _, p := range all {
		if p.OK {
			continue
		}
		if p.Name != name {
			t.Errorf("besides %s: %+v", name, p)
			continue
		}
		found = true
		for _, s := range says {
			if !strings.Contains(p.Detail+"\n"+p.Mend, s) {
				t.Errorf("%+v says nothing of %q", p, s)
			}
		}
	}
	if !found {
		t.Errorf("%s is met: %+v", name, all)
	}
}

// wantAdvice fails the test where a precondition has no such advice.
func wantAdvice(t *testing.T, all []Precondition, name string, says ...string) {
	t.Helper()
	wantMet(t, all)
	for _, p := range all {
		for _, s := range says {
			if p.Name == name && !strings.Contains(p.Detail+"\n"+p.Mend, s) {
				t.Errorf("%+v says nothing of %q", p, s)
			}
		}
	}
}

func TestCheckSQLite(t *testing.T) {
	t.Parallel()
	c := &config.Config{Name: "shop"}
	dir := t.TempDir()
	path := filepath.Join(dir, "new", "cache.db")
	at := func(path string) config.Sink {
		return config.Sink{Kind: "sqlite", SQLite: &config.SQLiteSink{Path: path}}
	}
	all := checked(t, c, at(path))
	wantMet(t, all)
	if _, err := os.Stat(filepath.Dir(path)); err == nil || len(all) != 2 {
		t.Errorf("check has made the directory, or said too little: %+v", all)
	}
	s, err := sqlite.Open(sqlite.Options{Path: path, Name: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	wantFault(t, checked(t, c, at(path)), "sqlite file in use", "in use by another sidecar", "name another path")
	wantFault(t, checked(t, &config.Config{Name: "other"}, at(path)), "sqlite file in use")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := files(t, filepath.Dir(path))
	wantMet(t, checked(t, c, at(path)))
	if after := files(t, filepath.Dir(path)); before != after {
		t.Errorf("check has changed %s to %s", before, after)
	}
	wantFault(t, checked(t, &config.Config{Name: "other"}, at(path)), "sqlite file", "its name is shop, want other", "aside")
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("dear diary ", 20)), 0o600); err != nil {
		t.Fatal(err)
	}
	wantFault(t, checked(t, c, at(text)), "sqlite file", "no SQLite file", "name another path")
	wantFault(t, checked(t, c, at(filepath.Join(text, "cache.db"))), "sqlite directory", "is no directory")
	wantFault(t, checked(t, c, at(dir)), "sqlite file", "name another path")
	app := filepath.Join(dir, "app.db")
	spoil(t, app, "CREATE TABLE mine (id int)")
	wantFault(t, checked(t, c, at(app)), "sqlite file", "was not written by syncd")
}

// files describes what lies in a directory.
func files(t *testing.T, dir string) string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, f := range all {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("%s %d %x; ", f.Name(), len(b), b[:min(len(b), 100)])
	}
	return text
}

func redisServer(t *testing.T, args ...string) *redisserver.Server {
	t.Helper()
	s, err := redisserver.Start(t.Context(), redisserver.Options{Args: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func redisSink(address string) config.Sink {
	return config.Sink{Kind: "redis", Redis: &config.RedisSink{URL: config.NewSecret(address)}}
}

func TestCheckRedis(t *testing.T) {
	t.Parallel()
	c := &config.Config{Name: "shop"}
	server := redisServer(t, "--user", "default", "on", "nopass", "~*", "&*", "+@all", "--user", "guest", "on", ">s3cret", "~other:*", "+@read", "+info", "--user", "app", "on", ">s3cret", "~shop:*",
		"+@read", "+@write", "+@scripting", "+info", "+scan", "--user", "blind", "on", ">s3cret", "~shop:*", "+@read")
	as := func(user string) config.Sink { return redisSink("redis://" + user + ":s3cret@" + server.Addr() + "/0") }
	wantMet(t, checked(t, c, redisSink(server.URL())))
	wantMet(t, checked(t, c, as("app")))
	wantFault(t, checked(t, c, as("guest")), "redis rights", "ACL SETUSER guest ~shop:* +@read +@write +@scripting")
	wantFault(t, checked(t, c, as("blind")), "redis server", "ACL SETUSER blind")
	wantFault(t, checked(t, c, redisSink("redis://app:wrong@"+server.Addr()+"/0")), "redis server", "user and password")
	wantFault(t, checked(t, c, redisSink("http://x")), "redis url", "write redis://")
	for _, s := range []config.Sink{as("guest"), as("nobody"), redisSink("redis://app:s3cret@127.0.0.1:1/0")} {
		for _, p := range checked(t, c, s) {
			if strings.Contains(fmt.Sprint(p), "s3cret") {
				t.Errorf("a password is told: %+v", p)
			}
		}
	}
	st, err := redis.New(t.Context(), redis.Options{URL: server.URL(), Prefix: "shop:"})
	if err != nil {
		t.Fatal(err)
	}
	wantAdvice(t, checked(t, c, redisSink(server.URL())), "redis in use", fmt.Sprintf("process %d on", os.Getpid()), "another prefix")
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}

	evicts := redisServer(t, "--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru")
	wantFault(t, checked(t, c, redisSink(evicts.URL())), "redis maxmemory", "allkeys-lru", "CONFIG SET maxmemory-policy noeviction")
	wantMet(t, checked(t, c, redisSink(redisServer(t, "--maxmemory", "50mb", "--maxmemory-policy", "volatile-lru").URL())))
	wantMet(t, checked(t, c, redisSink(redisServer(t, "--maxmemory-policy", "allkeys-lru").URL()))) // no limit, nothing is evicted
	full := redisServer(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction")
	wantFault(t, checked(t, c, redisSink(full.URL())), "redis rights", "more maxmemory")
	host, port, _ := strings.Cut(server.Addr(), ":")
	replica := redisServer(t, "--replicaof", host+" "+port)
	harness.Eventually(t, "the replica", func() error {
		for _, p := range checked(t, c, redisSink(replica.URL())) {
			if p.Name == "redis role" && !p.OK && strings.Contains(p.Mend, "primary") {
				return nil
			}
		}
		return fmt.Errorf("it is taken for a primary")
	})
	cluster := redisServer(t, "--cluster-enabled", "yes")
	all := checked(t, c, redisSink(cluster.URL()))
	if all[2].OK || all[2].Name != "redis cluster mode" || !strings.Contains(all[2].Mend, "cluster-enabled no") {
		t.Errorf("a cluster: %+v", all)
	}

	server.Kill()
	all = checked(t, c, redisSink(server.URL()))
	if len(all) != 1 || all[0].OK || !all[0].Unreachable || !strings.Contains(all[0].Detail, "is the server running") {
		t.Errorf("a server that is away: %+v", all)
	}
}

func TestCheckPostgres(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	c := &config.Config{Name: "shop", Source: config.Source{Tables: []config.SourceTable{{Table: "public.people"}, {Table: `shop.Pets`}}}}
	at := func(address, schema string) config.Sink {
		return config.Sink{Kind: "postgres", Postgres: &config.PostgresSink{URL: config.NewSecret(address), Schema: schema}}
	}
	role := func(name string) string {
		u, err := url.Parse(db.URL)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.User(name)
		return u.String()
	}
	all := checked(t, c, at(db.URL, ""))
	wantMet(t, all)
	if n := db.Text("SELECT count(*) FROM pg_namespace WHERE nspname = 'shop'"); n != "0" {
		t.Error("check has made the schema")
	}

	// Rights.
	plain, owner := "plain_"+db.Name, "owner_"+db.Name
	db.Exec(fmt.Sprintf("CREATE ROLE %s LOGIN; CREATE ROLE %s LOGIN; REVOKE CREATE ON DATABASE %s FROM public", plain, owner, db.Name))
	wantFault(t, checked(t, c, at(role(plain), "cache")), "postgres rights", "GRANT CREATE ON DATABASE", plain)
	db.Exec("CREATE SCHEMA cache AUTHORIZATION " + owner)
	wantFault(t, checked(t, c, at(role(plain), "cache")), "postgres rights", `GRANT CREATE, USAGE ON SCHEMA "cache" TO "`+plain)
	wantMet(t, checked(t, c, at(role(owner), "cache")))
	db.Exec("CREATE TABLE cache._syncd_state (); GRANT ALL ON SCHEMA cache TO " + plain)
	wantFault(t, checked(t, c, at(role(plain), "cache")), "postgres rights", "does not own cache._syncd_state", "OWNER TO")
	db.Exec("DROP TABLE cache._syncd_state")

	// Names: the schema of the source's own tables, and a store's views of an earlier run, which are its own.
	db.Exec("CREATE TABLE people (id int PRIMARY KEY)")
	wantFault(t, checked(t, c, at(db.URL, "public")), "postgres names", "schema public has people already", "the source's own tables", "name another schema")
	s, err := postgres.New(t.Context(), postgres.Options{URL: db.URL, Schema: "cache"})
	if err != nil {
		t.Fatal(err)
	}
	commitPeople(t, s)
	wantAdvice(t, checked(t, c, at(db.URL, "cache")), "postgres in use", fmt.Sprintf("syncd, process %d on", os.Getpid()), "another schema")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantMet(t, checked(t, c, at(db.URL, "cache")))
	db.Exec(`CREATE VIEW cache."shop.Pets" AS SELECT 1 AS id`)
	wantMet(t, checked(t, c, at(db.URL, "cache"))) // the table is shop.pets: unquoted
	db.Exec(`CREATE VIEW cache."shop.pets" AS SELECT 1 AS id`)
	wantFault(t, checked(t, c, at(db.URL, "cache")), "postgres names", "shop.pets")
	db.Exec(`DROP VIEW cache."shop.pets"`)

	// The source's publication.
	db.Exec("CREATE PUBLICATION syncd_shop FOR TABLE people")
	wantMet(t, checked(t, c, at(db.URL, "cache")))
	db.Exec("DROP PUBLICATION syncd_shop; CREATE PUBLICATION syncd_shop FOR ALL TABLES")
	wantFault(t, checked(t, c, at(db.URL, "cache")), "postgres publication", "syncd_shop", "another database")

	// Servers that can't be written to, or are not there.
	db.Exec(fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s", db.Name, owner))
	db.Exec(fmt.Sprintf("DROP PUBLICATION syncd_shop; ALTER ROLE %s SET default_transaction_read_only = on", owner))
	wantFault(t, checked(t, c, at(role(owner), "other")), "postgres writes", "default_transaction_read_only = off")
	wantFault(t, checked(t, c, at(role("nobody_at_all"), "cache")), "postgres server", "nobody_at_all")
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/no_such_database"
	wantFault(t, checked(t, c, at(u.String(), "cache")), "postgres server", `CREATE DATABASE "no_such_database"`)
	wantFault(t, checked(t, c, at(db.URL, "pg_x")), "postgres url", "can't be used")
	db.Exec(fmt.Sprintf("DROP OWNED BY %s, %s CASCADE; DROP ROLE %s, %s", plain, owner, plain, owner))
	all = checked(t, c, at("postgres://u:s3cret@127.0.0.1:1/x", "cache"))
	if len(all) != 1 || all[0].OK || !all[0].Unreachable || strings.Contains(fmt.Sprint(all), "s3cret") {
		t.Errorf("a server that is away: %+v", all)
	}
}

// commitPeople has a store make the table people.
func commitPeople(t *testing.T, s sink.Store) {
	t.Helper()
	people := syncd.Table{Schema: "public", Name: "people"}
	err := s.Commit(&sink.Batch{State: &sink.State{Tables: map[syncd.Table]*sink.TableState{
		people: {Info: syncd.TableInfo{Table: people, Key: []string{"id"}, Columns: []string{"id"}, Types: []string{"integer"}}}}}})
	if err != nil {
		t.Fatal(err)
	}
}
