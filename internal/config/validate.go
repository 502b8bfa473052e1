package config

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink/redis"
)

// Role says what is to run on a configuration, and so what it needs.
type Role uint8

// The roles. A process that is both has both bits set.
const (
	SourceRole Role = 1 << iota
	SidecarRole
)

// Roles gives the roles that the configuration has what they need for: what `syncd config validate` checks it as.
func (c *Config) Roles() Role {
	switch {
	case c.Source.Postgres.IsZero() && c.Source.PostgresFile == "" && len(c.Source.Tables) == 0 && !c.Bus.URL.IsZero():
		return SidecarRole
	case !c.Bus.URL.IsZero() || c.Bus.Embedded.Listen != "":
		return SourceRole
	}
	return SourceRole | SidecarRole
}

// Validate gives every fault at once, as Problems; nil where there is none. r says what is to run; 0 takes Roles.
func (c *Config) Validate(r Role) error { return c.check(r, "").err() }

// checker collects the faults of one configuration.
type checker struct {
	c        *Config
	role     Role
	file     string
	problems Problems
}

func (c *Config) check(r Role, file string) Problems {
	if r == 0 {
		r = c.Roles()
	}
	k := &checker{c: c, role: r, file: file}
	k.ranges("", reflect.ValueOf(c).Elem())
	k.required()
	k.sourceTables()
	k.bus()
	k.api()
	k.sidecarTables()
	k.sinks()
	return k.problems
}

// fault notes a mistake, at the place of the key or of the nearest one above it.
func (k *checker) fault(key, format string, args ...any) {
	var o origin
	for at := key; at != "" && o.layer == byDefault; at = parent(at) {
		o = k.c.origins[at]
	}
	if o.layer == byDefault && k.file != "" {
		o = origin{layer: byFile, name: k.file}
	}
	k.problems = append(k.problems, Problem{Key: key, Message: fmt.Sprintf(format, args...), origin: o})
}

func parent(key string) string {
	i := strings.LastIndexAny(key, ".[")
	return key[:max(i, 0)]
}

// ranges checks what the tags of the fields say.
func (k *checker) ranges(path string, v reflect.Value) {
	for _, m := range members(v) {
		key := join(path, m.key)
		if m.group {
			k.ranges(key, m.value)
			continue
		}
		k.bounds(key, m.tag, m.value)
		k.choice(key, m.tag, m.value)
	}
}

func (k *checker) bounds(key string, tag reflect.StructTag, v reflect.Value) {
	low, hasLow := tag.Lookup("min")
	high, hasHigh := tag.Lookup("max")
	below := hasLow && compare(v, low) < 0
	if below || hasHigh && compare(v, high) > 0 {
		want := "at least " + low
		if hasHigh {
			want = "from " + low + " to " + high
		}
		k.fault(key, "must be %s", want)
	}
}

// compare compares a number with one written in a tag.
func compare(v reflect.Value, text string) int {
	limit := reflect.New(v.Type()).Elem()
	if err := setText(limit, text); err != nil {
		panic("config: a tag holds " + text) // the tags are constants, and a test reads them all
	}
	var d float64
	if v.CanInt() {
		d = float64(v.Int()) - float64(limit.Int())
	} else {
		d = v.Float() - limit.Float()
	}
	switch {
	case d < 0:
		return -1
	case d > 0:
		return 1
	}
	return 0
}

func (k *checker) choice(key string, tag reflect.StructTag, v reflect.Value) {
	if key == "source.slot" && k.c.Source.Slot == "syncd_"+k.c.Name {
		return // made of the name: what is wrong with that is said there
	}
	if pattern, ok := tag.Lookup("pattern"); ok && v.String() != "" && !regexp.MustCompile(pattern).MatchString(v.String()) {
		k.fault(key, "must be %s", tag.Get("says"))
	}
	if enum, ok := tag.Lookup("enum"); ok && v.String() != "" {
		all := strings.Split(enum, ",")
		for _, e := range all {
			if e == v.String() {
				return
			}
		}
		say := ""
		if near := syncd.Nearest(v.String(), all); near != "" {
			say = "; did you mean " + near + "?"
		}
		k.fault(key, "must be one of %s%s", strings.Join(all, ", "), say)
	}
}

// required checks that what the roles can't do without is there.
func (k *checker) required() {
	if k.c.Name == "" {
		k.fault("name", "is missing: name the sync with 1 to 50 of a-z, 0-9 and _")
	}
	if k.role&SourceRole != 0 {
		if k.c.Source.Postgres.IsZero() && k.c.Source.PostgresFile == "" {
			k.fault("source.postgres", "is missing: give the connection string here, in source.postgres_file or in %s", Variable("source.postgres"))
		}
		k.dsn("source.postgres", k.c.Source.Postgres)
		k.dsn("source.list_postgres", k.c.Source.ListPostgres)
		if len(k.c.Source.Tables) == 0 && k.c.Source.Manage {
			k.fault("source.tables", "is missing: name the tables to sync, such as [public.users]")
		}
	}
	if k.c.Source.Publication != "" && (len(k.c.Source.Publication) > 63 || strings.ContainsRune(k.c.Source.Publication, 0)) {
		k.fault("source.publication", "is longer than the 63 bytes that Postgres keeps of a name")
	}
}

// dsn checks that a connection string is one. It says nothing of what is in it: that may be a secret.
func (k *checker) dsn(key string, s Secret) {
	if s.IsZero() {
		return
	}
	if _, err := pgconn.ParseConfig(s.Reveal()); err != nil {
		k.fault(key, "is not a connection string of Postgres: want a URL such as postgres://user@host:5432/database?sslmode=require, or keywords such as "+
			"host=… dbname=…, and files it names (certificates, a service file) must be there")
	}
}

// table checks a table's name, and that it was not there before.
func (k *checker) table(key, name string, seen map[syncd.Table]string) (syncd.Table, bool) {
	if name == "" {
		k.fault(key, "is missing the table's name, such as public.users")
		return syncd.Table{}, false
	}
	t, err := syncd.ParseTable(name)
	if err != nil {
		k.fault(key, "%v", err)
		return t, false
	}
	if before, ok := seen[t]; ok {
		k.fault(key, "%v is there already, at %s", t, before)
		return t, false
	}
	seen[t] = key
	return t, true
}

func (k *checker) sourceTables() {
	seen := map[syncd.Table]string{}
	for i := range k.c.Source.Tables {
		t := &k.c.Source.Tables[i]
		key := fmt.Sprintf("source.tables[%d]", i)
		k.table(key, t.Table, seen)
		k.ranges(key, reflect.ValueOf(t).Elem())
		k.columns(key+".columns", t.Columns)
		if _, given := k.c.origins[key+".columns"]; given && len(t.Columns) == 0 {
			k.fault(key+".columns", "is empty: name the columns, or leave the key out for all of them")
		}
		if _, given := k.c.origins[key+".where"]; given && strings.TrimSpace(t.Where) == "" {
			k.fault(key+".where", "is empty: write the filter, or leave the key out for all rows")
		}
	}
}

// columns checks that each column is named, and once.
func (k *checker) columns(key string, columns []string) {
	seen := map[string]bool{}
	for i, c := range columns {
		at := fmt.Sprintf("%s[%d]", key, i)
		switch {
		case c == "" || strings.ContainsRune(c, 0):
			k.fault(at, "is no column's name")
		case seen[c]:
			k.fault(at, "column %s is there twice", c)
		}
		seen[c] = true
	}
}

func (k *checker) bus() {
	b := &k.c.Bus
	var ways []string
	for _, w := range []struct {
		key   string
		given bool
	}{
		{"creds", b.Creds != ""}, {"nkey", b.NKey != ""}, {"user", b.User != ""},
		{"token", !b.Token.IsZero() || b.TokenFile != ""},
	} {
		if w.given {
			ways = append(ways, w.key)
		}
	}
	if len(ways) > 1 {
		k.fault("bus."+ways[1], "is one way too many to sign in: keep one of %s", strings.Join(ways, ", "))
	}
	password := !b.Password.IsZero() || b.PasswordFile != ""
	if (b.User != "") != password {
		k.fault("bus.user", "user and password go together: give both or neither")
	}
	k.pair("bus.tls", b.TLS.Cert, b.TLS.Key)
	if !b.URL.IsZero() {
		if !b.URL.natsURLs() {
			k.fault("bus.url", "is not a URL such as nats://127.0.0.1:4222, tls://…, ws:// or wss://… (several are parted by commas)")
		}
		return
	}
	k.embedded(password)
}

// embedded checks the NATS in this process.
func (k *checker) embedded(password bool) {
	b := &k.c.Bus
	if b.Embedded.Dir == "" {
		k.fault("bus.embedded.dir", "is missing: name the directory that JetStream keeps its files in")
	}
	if b.Creds != "" || b.NKey != "" || b.User != "" || password || !b.Token.IsZero() || b.TokenFile != "" {
		k.fault("bus.embedded", "the embedded NATS asks nobody to sign in: give bus.url, or leave creds, nkey, user and token out")
	}
	if b.Stream.Replicas > 1 {
		k.fault("bus.stream.replicas", "the embedded NATS is one server, so it keeps one replica; give the URL of a cluster in bus.url")
	}
	switch {
	case k.role == SidecarRole:
		k.fault("bus.url", "is missing: a sidecar alone needs the NATS that its source writes to")
	case k.role == SourceRole && b.Embedded.Listen == "":
		k.fault("bus.url", "is missing: nobody could read what a source alone writes to an embedded NATS without bus.embedded.listen")
	}
	if b.Embedded.Listen == "" {
		return
	}
	loopback, err := hostPort(b.Embedded.Listen)
	switch {
	case err != nil:
		k.fault("bus.embedded.listen", "%v", err)
	case !loopback:
		k.fault("bus.embedded.listen", "whoever reaches this address could read and write every row: listen on 127.0.0.1; for other machines run a NATS server and give its bus.url")
	}
}

// pair checks that certificate and key come together.
func (k *checker) pair(key, cert, private string) {
	if (cert == "") != (private == "") {
		k.fault(key, "cert and key go together: give both or neither")
	}
}

func (k *checker) api() {
	s := &k.c.Sidecar
	k.pair("sidecar.tls", s.TLS.Cert, s.TLS.Key)
	if s.TLS.ClientCA != "" && s.TLS.Cert == "" {
		k.fault("sidecar.tls.client_ca", "needs cert and key beside it")
	}
	if s.Data == "" {
		k.fault("sidecar.data", "is missing: name the directory of the persisted cache")
	}
	if l := k.c.Metrics.Listen; l != "" {
		if _, err := hostPort(l); err != nil {
			k.fault("metrics.listen", "%v", err)
		}
	}
	if s.Stale.Fail && s.Stale.After <= 0 {
		k.fault("sidecar.stale", "say after how long: fail: {after: 5m}")
	}
	if path, ok := strings.CutPrefix(s.Listen, "unix:"); ok {
		if path == "" {
			k.fault("sidecar.listen", "is missing the socket's path, such as unix:/run/syncd/syncd.sock")
		}
		return
	}
	loopback, err := hostPort(s.Listen)
	switch {
	case err != nil:
		k.fault("sidecar.listen", "%v, or unix:/path of a socket", err)
	case !loopback && s.Token.IsZero() && s.TokenFile == "" && s.TLS.Cert == "" && !s.Insecure:
		k.fault("sidecar.listen", "whoever reaches this address could read every row: set sidecar.token_file or sidecar.tls, or listen on 127.0.0.1; sidecar.insecure: true goes without")
	}
}

// hostPort checks an address to listen on, and says whether only this machine reaches it.
func hostPort(address string) (loopback bool, err error) {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return false, fmt.Errorf("%q is not host:port, such as 127.0.0.1:7070", address)
	}
	if host == "localhost" {
		return true, nil
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback(), nil
}

func (k *checker) sidecarTables() {
	source := map[syncd.Table]bool{}
	for i := range k.c.Source.Tables {
		if t, err := syncd.ParseTable(k.c.Source.Tables[i].Table); err == nil {
			source[t] = true
		}
	}
	seen := map[syncd.Table]string{}
	for i := range k.c.Sidecar.Tables {
		t := &k.c.Sidecar.Tables[i]
		key := fmt.Sprintf("sidecar.tables[%d]", i)
		name, ok := k.table(key, t.Table, seen)
		if ok && len(source) > 0 && !source[name] {
			k.fault(key, "%v is not among source.tables", name)
		}
		if t.Selector != "" {
			if err := syncd.CheckSelector(t.Selector); err != nil {
				k.fault(key+".selector", "%v", err)
			}
		}
		for j, x := range t.Indexes {
			k.columns(fmt.Sprintf("%s.indexes[%d]", key, j), x)
			if len(x) == 0 {
				k.fault(fmt.Sprintf("%s.indexes[%d]", key, j), "names no column")
			}
		}
	}
}

func (k *checker) sinks() {
	s := &k.c.Sidecar
	if _, both := k.c.origins["sidecar.sink"]; both {
		if _, both = k.c.origins["sidecar.sinks"]; both {
			k.fault("sidecar.sinks", "sink and sinks are both given; keep one")
			return
		}
	}
	for i := range s.Sinks {
		key := k.sinkKey(i)
		sink := &s.Sinks[i]
		switch {
		case sink.SQLite != nil && sink.SQLite.Path == "":
			k.fault(key+".sqlite.path", "is missing: name the file")
		case sink.Redis != nil && sink.Redis.URL.IsZero() && sink.Redis.URLFile == "":
			k.fault(key+".redis.url", "is missing, such as redis://127.0.0.1:6379/0")
		case sink.Redis != nil && redis.CheckKey(sink.Redis.Key) != nil:
			k.fault(key+".redis.key", "%v", redis.CheckKey(sink.Redis.Key))
		case sink.Redis != nil && sink.Redis.Value != string(redis.JSON) && sink.Redis.Value != string(redis.Hash):
			k.fault(key+".redis.value", "%q is neither json nor hash", sink.Redis.Value)
		case sink.Postgres != nil && (strings.HasPrefix(sink.Postgres.Schema, "pg_") || len(sink.Postgres.Schema) > 63):
			k.fault(key+".postgres.schema", "%q can't be a schema: name one of 1 to 63 bytes that does not begin with pg_", sink.Postgres.Schema)
		case sink.Postgres != nil && sink.Postgres.URL.IsZero() && sink.Postgres.URLFile == "":
			k.fault(key+".postgres.url", "is missing: give the connection string")
		}
	}
	k.sameSinks()
}

// sameSinks refuses two sinks that would write to one place.
func (k *checker) sameSinks() {
	places := map[string]string{}
	for i := range k.c.Sidecar.Sinks {
		place := k.c.Sidecar.Sinks[i].place()
		if first, taken := places[place]; taken {
			k.fault(k.sinkKey(i), "is kept at the same place as %s: give each a place of its own, or leave one out", first)
			continue
		}
		places[place] = k.sinkKey(i)
	}
}

// place is where a sink keeps its rows.
func (s *Sink) place() string {
	switch {
	case s.SQLite != nil:
		return "sqlite " + filepath.Clean(s.SQLite.Path)
	case s.Redis != nil:
		return "redis " + s.Redis.URL.Reveal() + " " + s.Redis.URLFile + " " + s.Redis.Prefix
	case s.Postgres != nil:
		return "postgres " + s.Postgres.URL.Reveal() + " " + s.Postgres.URLFile + " " + s.Postgres.Schema
	}
	return s.Kind
}

// sinkKey names a sink as the file does.
func (k *checker) sinkKey(i int) string {
	if _, several := k.c.origins["sidecar.sinks"]; several {
		return fmt.Sprintf("sidecar.sinks[%d]", i)
	}
	return "sidecar.sink"
}
