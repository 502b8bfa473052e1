package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is an environment of some variables.
func env(kv ...string) func(string) (string, bool) {
	m := map[string]string{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = kv[i+1]
	}
	return func(name string) (string, bool) { v, ok := m[name]; return v, ok }
}

// write makes a file with a text.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// load reads a text as syncd.yaml.
func load(text string, e func(string) (string, bool), r Role, flags ...Flag) (*Config, error) {
	return parseAll(Sources{File: "syncd.yaml", Env: e, Flags: flags}, []byte(text), r)
}

func TestContractExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/contract.yaml")
	if err != nil {
		t.Fatal(err)
	}
	token := write(t, "token", "hush\n")
	e := env("DATABASE_URL", "postgres://u:pw@db/shop", "REPLICA_URL", "host=/run/pg dbname=shop", "SECRETS", filepath.Dir(token))
	c, err := load(string(text), e, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Name = "shop"
	want.Source.Postgres, want.Source.ListPostgres = NewSecret("postgres://u:pw@db/shop"), NewSecret("host=/run/pg dbname=shop")
	want.Source.Slot, want.Source.Publication = "syncd_shop", "syncd_shop"
	want.Source.Tables = []SourceTable{
		{Table: "public.users", Columns: []string{"id", "tenant_id", "email", "name"}, Where: "tenant_id = 7", Generated: "omit"},
		{Table: "public.products", Generated: "omit"},
	}
	want.Bus.URL, want.Bus.Creds = NewServerURL("nats://127.0.0.1:4222"), "/run/secrets/nats.creds"
	want.Sidecar.Token, want.Sidecar.TokenFile = NewSecret("hush"), token
	want.Sidecar.Sink = Sink{Kind: "memory"}
	want.Sidecar.Sinks = []Sink{{Kind: "memory"}}
	want.Sidecar.Tables = []SidecarTable{{Table: "public.users", Indexes: []Index{{"email"}, {"tenant_id", "name"}}}}
	want.Metrics.Listen = "127.0.0.1:9464"
	if got := Changes(want, c); got != nil {
		t.Errorf("these keys differ: %v\n got %+v\nwant %+v", got, c, want)
	}
}

func TestEveryFormOfAValue(t *testing.T) {
	t.Parallel()
	const head = "name: a\nsource:\n  postgres: host=x\n  tables: [public.t]\n"
	for _, c := range []struct {
		name, text string
		get        func(*Config) any
		want       any
	}{
		{"a number as a text", "name: 0123\nsource: {postgres: host=x, tables: [a.b]}", func(c *Config) any { return c.Name }, "0123"},
		{"derived", head, func(c *Config) any { return c.Source.Slot + c.Source.Publication }, "syncd_asyncd_a"},
		{"quoted name", head + "  slot: 'other'", func(c *Config) any { return c.Source.Slot }, "other"},
		{"bool", head + "  manage: false", func(c *Config) any { return c.Source.Manage }, false},
		{"bytes", head + "  max_slot_wal: 1.5 GiB", func(c *Config) any { return c.Source.MaxSlotWAL }, Bytes(3 << 29)},
		{"bytes as a number", head + "  max_slot_wal: 0", func(c *Config) any { return c.Source.MaxSlotWAL }, Bytes(0)},
		{"empty section", head + "bus:\nsidecar:\n", func(c *Config) any { return c.Sidecar.Listen }, "127.0.0.1:7070"},
		{"stale", head + "sidecar: {stale: serve}", func(c *Config) any { return c.Sidecar.Stale }, Stale{}},
		{"an anchor", "name: &n a\nsource: {postgres: host=x, slot: *n, tables: [a.b]}", func(c *Config) any { return c.Source.Slot }, "a"},
		{"literal block", "name: a\nsource:\n  postgres: host=x\n  tables:\n  - table: a.b\n    where: |-\n      id > 1\n", func(c *Config) any { return c.Source.Tables[0].Where }, "id > 1"},
		{"a dollar", "name: a\nsource: {postgres: 'password=pa$$w$rd user=$${x}', tables: [a.b]}", func(c *Config) any { return c.Source.Postgres.Reveal() }, "password=pa$$w$rd user=${x}"},
		{"a variable in a number", head + "  list_rate: ${RATE}", func(c *Config) any { return c.Source.ListRate }, 7},
		{"a default", head + "  list_rate: ${NONE:-8}", func(c *Config) any { return c.Source.ListRate }, 8},
		{"a default for an empty variable", head + "  list_rate: ${EMPTY:-9}", func(c *Config) any { return c.Source.ListRate }, 9},
		{"an empty variable", head + "metrics: {listen: '${EMPTY}'}", func(c *Config) any { return c.Metrics.Listen }, ""},
		{"a variable is not expanded again", "name: a\nsource: {postgres: 'host=x${NEST}', tables: [a.b]}", func(c *Config) any { return c.Source.Postgres.Reveal() }, "host=x${RATE}"},
	} {
		got, err := load(c.text, env("RATE", "7", "EMPTY", "", "NEST", "${RATE}"), SourceRole|SidecarRole)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if v := c.get(got); v != c.want {
			t.Errorf("%s: %v, want %v", c.name, v, c.want)
		}
	}
}

// TestMistakes reads testdata/mistakes.txt: blocks of a file and what is said of it, every line.
func TestMistakes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/mistakes.txt")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "=== ")
	for _, block := range blocks[1:] {
		title, rest, _ := strings.Cut(block, "\n")
		file, want, ok := strings.Cut(rest, "---\n")
		if !ok {
			t.Fatalf("%s: no line ---", title)
		}
		c, err := load(file, env("SECRET", "hush\"hush", "EMPTY", ""), 0)
		var problems Problems
		if !errors.As(err, &problems) {
			t.Errorf("%s: want Problems, got %v, %v", title, c, err)
			continue
		}
		if got := err.Error(); strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%s:\n%s\nwant:\n%s", title, got, want)
		}
		if strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: a secret is printed", title)
		}
	}
	if len(blocks) < 10 {
		t.Errorf("only %d blocks", len(blocks))
	}
}

func TestWhatIsNoFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"name: a\n---\nname: b\n":                "syncd.yaml line 3, column 1: the file holds more than one document",
		strings.Repeat("# comment\n", maxFile/5): "syncd.yaml: the file has 524280 bytes, more than 262144",
		"- name: a":                              "syncd.yaml line 1, column 1: want keys with values, have a list",
	} {
		if _, err := load(text, env("SYNCD_NAME", "a", "SYNCD_BUS_URL", "nats://h"), SidecarRole); err == nil || err.Error() != want {
			t.Errorf("%.30q: %v, want %s", text, err, want)
		}
	}
	for _, nest := range []string{"[", "{", "- ", "? ", "&a ", "!!a ", "[\n", "{a: ", "*a "} {
		if _, err := load(strings.Repeat(nest, 16<<10/len(nest)), nil, 0); err == nil {
			t.Errorf("a nest of %q is taken", nest)
		}
	}
	var stairs strings.Builder
	for i := 0; stairs.Len()+i < 64<<10; i++ {
		stairs.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	if _, err := load(stairs.String(), nil, 0); err == nil {
		t.Error("stairs are taken")
	}
}

func TestRolesNeedDifferentThings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		role Role
		want string // "" : valid
	}{
		{"name: a\nbus: {url: 'nats://127.0.0.1'}\nsource: {postgres: 'mysql://x', tables: [a.b]}", SourceRole, "source.postgres: is not a connection string"},
		{"name: a\nbus: {url: 'nats://127.0.0.1'}\nsource: {postgres: host=x, list_postgres: nonsense, tables: [a.b]}", SourceRole, "source.list_postgres: is not"},
		{"name: a\nbus: {url: 'nats://127.0.0.1'}\nsource: {postgres: 'mysql://x', tables: [a.b]}", SidecarRole, ""},
		{"name: a\nbus: {url: 'htp://127.0.0.1'}", SidecarRole, "bus.url: is not a URL"},
		{"name: a\nbus: {url: 'tls://a:1, nats://127.0.0.1:4222'}", SidecarRole, ""},
		{"name: a", SidecarRole, "bus.url"},
		{"name: a\nbus: {url: 'nats://127.0.0.1'}", SidecarRole, ""},
		{"name: a\nbus: {url: 'nats://127.0.0.1'}", 0, ""},
		{"name: a\nbus: {url: 'nats://127.0.0.1'}", SourceRole, "source.tables"},
		{"name: a\nbus: {url: 'nats://127.0.0.1'}\nsource: {postgres: host=x, publication: p, manage: false}", SourceRole, ""},
		{"name: a\nsource: {postgres: host=x, tables: [a.b]}", SourceRole, "bus.embedded.listen"},
		{"name: a\nsource: {postgres: host=x, tables: [a.b]}\nbus: {embedded: {listen: '127.0.0.1:4222'}}", SourceRole, ""},
		{"name: a\nsource: {postgres: host=x, tables: [a.b]}", SourceRole | SidecarRole, ""},
		{"name: a\nsource: {postgres: host=x, tables: [a.b]}", 0, ""},
	} {
		_, err := load(c.text, nil, c.role)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q as %d: %v, want %q", c.text, c.role, err, c.want)
		}
	}
}

func TestListenElsewhereThanOnLoopback(t *testing.T) {
	t.Parallel()
	cert := "tls: {cert: a, key: b}"
	token := "token: t"
	for _, c := range []struct {
		listen, more string
		ok           bool
	}{
		{"127.0.0.1:7070", "", true}, {"127.8.9.1:7070", "", true}, {"'[::1]:7070'", "", true}, {"localhost:0", "", true},
		{"unix:/run/s.sock", "", true}, {"'unix:'", "", false},
		{"0.0.0.0:7070", "", false}, {"':7070'", "", false}, {"'[::]:7070'", "", false}, {"10.0.0.1:7070", "", false}, {"db.example:7070", "", false},
		{"127.0.0.1", "", false}, {"127.0.0.1:http", "", false}, {"127.0.0.1:70700", "", false},
		{"0.0.0.0:7070", token, true}, {"0.0.0.0:7070", cert, true}, {"0.0.0.0:7070", "insecure: true", true}, {"0.0.0.0:7070", "insecure: false", false},
	} {
		text := fmt.Sprintf("name: a\nbus: {url: 'nats://127.0.0.1'}\nsidecar:\n  listen: %s\n  %s\n", c.listen, c.more)
		if _, err := load(text, nil, SidecarRole); (err == nil) != c.ok {
			t.Errorf("%s %s: %v", c.listen, c.more, err)
		}
	}
}

func TestFlagBeatsEnvironmentBeatsFile(t *testing.T) {
	t.Parallel()
	const text = "name: a\nsource: {postgres: host=file, tables: [a.b], list_rate: 1, manage: true}\nsidecar: {resync: {interval: 1h}}"
	e := env("SYNCD_SOURCE_POSTGRES", "host=env", "SYNCD_SOURCE_LIST_RATE", "2", "SYNCD_SIDECAR_RESYNC_INTERVAL", "2h", "SYNCD_SIDECAR_SINK", "memory")
	c, err := load(text, e, 0, Flag{"--rate", "source.list_rate", "3"}, Flag{"--manage", "source.manage", "false"})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(c.Source.Postgres.Reveal(), c.Source.ListRate, c.Source.Manage, c.Sidecar.Resync.Interval)
	if got != "host=env3 false 2h0m0s" {
		t.Errorf("got %s", got)
	}
	_, err = load(text, env("SYNCD_SOURCE_LIST_RATE", "many", "SYNCD_SIDECAR_SINK", "paper"), 0, Flag{"--x", "source.postgre", "3"}, Flag{"--jitter", "sidecar.resync.jitter", "2"})
	want := `environment variable SYNCD_SOURCE_LIST_RATE: source.list_rate: "many" is not a whole number
environment variable SYNCD_SIDECAR_SINK: sidecar.sink: want memory, or sqlite, redis or postgres with its keys
--x: source.postgre: is no key of a single value; did you mean source.postgres?
--jitter: sidecar.resync.jitter: must be from 0 to 1`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestSecretFiles(t *testing.T) {
	t.Parallel()
	dsn, token := write(t, "dsn", "postgres://u:hush@db/x\r\n"), write(t, "token", "hush")
	empty := write(t, "empty", "\n")
	text := func(source string) string {
		return fmt.Sprintf("name: a\nsource: {%s, tables: [a.b]}\nsidecar: {token_file: %s}", source, token)
	}
	file := "postgres_file: " + dsn
	c, err := load(text(file), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if c.Source.Postgres.Reveal() != "postgres://u:hush@db/x" || c.Sidecar.Token.Reveal() != "hush" {
		t.Errorf("%q, %q", c.Source.Postgres.Reveal(), c.Sidecar.Token.Reveal())
	}
	// What has more weight holds, whether it is the value or its file.
	for _, c := range []struct {
		source string
		e      func(string) (string, bool)
		want   string
	}{
		{file, env("SYNCD_SOURCE_POSTGRES", "host=direct"), "host=direct"},
		{"postgres: host=direct", env("SYNCD_SOURCE_POSTGRES_FILE", dsn), "postgres://u:hush@db/x"},
	} {
		got, err := load(text(c.source), c.e, 0)
		if err != nil || got.Source.Postgres.Reveal() != c.want {
			t.Errorf("%s: %v, %v; want %s", c.source, got, err, c.want)
		}
	}
	for source, want := range map[string]string{
		"postgres: host=x, " + file:           "the value and its file are both given",
		"postgres_file: /nonexistent/dsn":     "no such file",
		"postgres_file: " + empty:             "is empty",
		"postgres_file: " + filepath.Dir(dsn): "read the file: is a directory",
	} {
		if _, err := load(text(source), nil, 0); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
}

func TestLoadReadsTheFile(t *testing.T) {
	t.Parallel()
	path := write(t, "syncd.yaml", "name: a\nsource: {postgres: host=x, tables: [a.b]}\nnames: b\n")
	_, err := Load(Sources{File: path}, 0)
	if want := path + ` line 3, column 1: unknown key "names"; did you mean name?`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	var problems Problems
	if _, err := Load(Sources{File: path + "x"}, 0); !errors.Is(err, os.ErrNotExist) || errors.As(err, &problems) {
		t.Errorf("a missing file: %v", err)
	}
	c, err := Load(Sources{Env: env("SYNCD_NAME", "b", "SYNCD_BUS_URL", "nats://h")}, SidecarRole)
	if err != nil || c.Name != "b" {
		t.Errorf("without a file: %v, %v", c, err)
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Name = "a"
	c.Source.Postgres = NewSecret("hush")
	c.Bus.URL = NewServerURL("nats://user:hush@h:4222,tls://hush@i?x=hush")
	c.Sidecar.Sinks = []Sink{{Kind: "redis", Redis: &RedisSink{URL: NewSecret("hush")}}}
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("x", "config", c, "secret", c.Source.Postgres, "url", c.Bus.URL, "sinks", c.Sidecar.Sinks[0].Redis)
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	yml, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	hiding := struct{ inner Config }{*c} // fmt asks no methods of what is unexported
	all := []string{string(text), string(yml), log.String(), fmt.Sprint(hiding), fmt.Sprintf("%#v", hiding), fmt.Sprintf("%+v", hiding)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		all = append(all, fmt.Sprintf(verb, c), fmt.Sprintf(verb, *c), fmt.Sprintf(verb, c.Source.Postgres), fmt.Sprintf(verb, &c.Bus.URL), fmt.Sprintf(verb, c.Sidecar.Sinks[0].Redis))
	}
	for _, s := range all {
		if strings.Contains(s, "hush") || strings.Contains(s, "68757368") {
			t.Errorf("printed: %s", s)
		}
	}
	if !strings.Contains(string(text), `"***"`) || !strings.Contains(string(yml), "***") {
		t.Errorf("nothing stands for the secret: %s\n%s", text, yml)
	}
	if got, want := c.Bus.URL.String(), "nats://***@h:4222,tls://***@i"; got != want {
		t.Errorf("URL %s, want %s", got, want)
	}
	for in, want := range map[string]string{"": "", "nats://h:1": "nats://h:1", "hush": "***", "nats://%zz": "***"} {
		if got := NewServerURL(in).String(); got != want {
			t.Errorf("URL %q prints as %q, want %q", in, got, want)
		}
	}
	if s := (Secret{}); s.String() != "" || s.Reveal() != "" || !s.IsZero() || NewSecret("") != s {
		t.Error("the zero Secret is not the empty text")
	}
}

func TestParseBytes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Bytes{
		"0": 0, "1": 1, "512MiB": 512 << 20, "4GiB": 4 << 30, "4 GiB": 4 << 30, "1.5KiB": 1536, "500MB": 5e8, "1kB": 1000, "2TiB": 2 << 40,
		"12B": 12, "0.5B": 0, "9223372036854775807": 1<<63 - 1,
	} {
		if got, err := ParseBytes(in); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "GiB", "-1", "1e3", "4Gib", "4G", "0x10", "1/2", "1..5GiB", ".", "9223372036854775808", "9000000TiB", "1 2", "1GiB GiB", "٣"} {
		if got, err := ParseBytes(in); err == nil {
			t.Errorf("%q: %d, want an error", in, got)
		}
	}
	for in, want := range map[Bytes]string{0: "0", 1: "1", 1024: "1KiB", 4 << 30: "4GiB", 3 << 29: "1536MiB", 1000: "1000"} {
		if got := in.String(); got != want {
			t.Errorf("%d prints as %s, want %s", in, got, want)
		}
		if back, err := ParseBytes(want); err != nil || back != in {
			t.Errorf("%s is read as %d, %v", want, back, err)
		}
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	a, b := Default(), Default()
	if got := Changes(a, b); got != nil {
		t.Errorf("of equals: %v", got)
	}
	b.Name, b.Source.Postgres, b.Sidecar.Stale = "x", NewSecret("y"), Stale{Fail: true}
	b.Source.Tables, b.Sidecar.Resync.Interval = []SourceTable{{Table: "a.b"}}, time.Hour
	want := []string{"name", "source.postgres", "source.tables", "sidecar.stale", "sidecar.resync.interval"}
	if got := Changes(a, b); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestEveryKeyIsDescribed holds that each key has a comment (the docs and the schema are made of them) and tags that can
// be read.
func TestEveryKeyIsDescribed(t *testing.T) {
	t.Parallel()
	all, err := readComments()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, v := range []any{&Config{}, &Source{}, &SourceTable{}, &Bus{}, &Embedded{}, &BusTLS{}, &Stream{}, &Sidecar{}, &SidecarTLS{}, &SQLiteSink{},
		&RedisSink{}, &PostgresSink{}, &SidecarTable{}, &Resync{}, &Checker{}, &Faults{}, &Log{}, &Metrics{}} {
		typ := reflect.TypeOf(v).Elem()
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.IsExported() && all[typ.Name()][f.Name] == "" {
				t.Errorf("%s.%s has no comment", typ.Name(), f.Name)
			}
			n++
		}
		k := &checker{c: Default()}
		k.ranges("", reflect.ValueOf(v).Elem()) // panics on a tag that can't be read
	}
	if n < 60 {
		t.Errorf("only %d fields", n)
	}
}

// update writes docs/configuration.md anew: go test ./internal/config -update.
var update = flag.Bool("update", false, "write docs/configuration.md")

func TestReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	const file = "../../docs/configuration.md"
	want, err := Reference()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the code says: go test ./internal/config -update", file)
	}
	for _, key := range Keys() {
		if last := key[strings.LastIndexByte(key, '.')+1:]; !strings.Contains(want, "| `"+last+"` |") {
			t.Errorf("%s is not in the reference", key)
		}
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	var schema node
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	var example any
	file, err := os.ReadFile("testdata/contract.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(file, &example); err != nil {
		t.Fatal(err)
	}
	if err := conforms(example, schema, ""); err != nil {
		t.Errorf("the example: %v", err)
	}
	for _, bad := range []string{"nam: a", "source: {manage: 7}", "source: {tables: [{tabel: x}]}", "sidecar: {sink: {redis: {}, sqlite: {}}}", "sidecar: {sink: paper}",
		"sidecar: {resync: {jitter: 2}}", "log: {level: loud}", "bus: {stream: {max_age: long}}", "bus: {stream: {max_bytes: much}}"} {
		var v any
		if err := yaml.Unmarshal([]byte(bad), &v); err != nil {
			t.Fatal(err)
		}
		if conforms(v, schema, "") == nil {
			t.Errorf("the schema takes %s", bad)
		}
	}
	interval := schema["properties"].(node)["sidecar"].(node)["properties"].(node)["resync"].(node)["properties"].(node)["interval"].(node)
	if interval["default"] != "10m0s" || !strings.HasPrefix(interval["description"].(string), "The time from one to the next") {
		t.Errorf("interval: %v", interval)
	}
}

// conforms checks a value against the keywords of JSON Schema that Schema uses.
func conforms(v any, schema node, path string) error {
	if any, ok := schema["anyOf"].([]any); ok {
		var errs []error
		for _, s := range any {
			err := conforms(v, s.(node), path)
			if err == nil {
				errs = nil
				break
			}
			errs = append(errs, err)
		}
		if errs != nil {
			return errors.Join(errs...)
		}
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, v) {
		return fmt.Errorf("%s: %v is none of %v", path, v, enum)
	}
	if err := conformsType(v, schema, path); err != nil {
		return err
	}
	switch v := v.(type) {
	case map[string]any:
		properties, ok := schema["properties"].(node)
		if !ok {
			return nil
		}
		for k, w := range v {
			s, ok := properties[k].(node)
			if !ok {
				return fmt.Errorf("%s.%s is not known", path, k)
			}
			if err := conforms(w, s, path+"."+k); err != nil {
				return err
			}
		}
	case []any:
		items, ok := schema["items"].(node)
		for i, w := range v {
			if !ok {
				return nil // anyOf has looked at them
			}
			if err := conforms(w, items, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func conformsType(v any, schema node, path string) error {
	var have string
	switch v := v.(type) {
	case map[string]any:
		have = "object"
	case []any:
		have = "array"
	case string:
		have = "string"
		if p, ok := schema["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(v) {
			return fmt.Errorf("%s: %q does not match %s", path, v, p)
		}
	case bool:
		have = "boolean"
	case float64, uint64, int64:
		have = "number"
		f := reflect.ValueOf(v).Convert(reflect.TypeFor[float64]()).Float()
		if low, ok := schema["minimum"].(float64); ok && f < low {
			return fmt.Errorf("%s: %v is below %v", path, v, low)
		}
		if high, ok := schema["maximum"].(float64); ok && f > high {
			return fmt.Errorf("%s: %v is above %v", path, v, high)
		}
	}
	want, ok := schema["type"]
	if !ok {
		return nil
	}
	if list, ok := want.([]any); ok && slices.Contains(list, any(have)) || want == have || have == "number" && (want == "integer" || ok && slices.Contains(list, any("integer"))) {
		return nil
	}
	return fmt.Errorf("%s: %v is a %s, not %v", path, v, have, want)
}

// FuzzLoad holds that no file makes the loader panic, and that what is wrong is said with Problems.
func FuzzLoad(f *testing.F) {
	for _, name := range []string{"testdata/contract.yaml", "testdata/mistakes.txt"} {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for block := range strings.SplitSeq(string(text), "=== ") {
			f.Add(block)
		}
	}
	for _, s := range []string{"a: &a [*a]", "a: &a *a", "- 1\n- 2", "? x\n: y", "name: !!binary x", "%YAML 1.2\n---\nname: a\n---\nname: b", "name: |\n", "<<: {name: a}", "name: [", "\"", "'", "\t", "&", "*", "? ", ": "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := load(text, env("SECRET", "hush-HUSH-\"hush"), 0)
		var problems Problems
		switch {
		case (c == nil) == (err == nil):
			t.Fatalf("%v, %v", c, err)
		case err != nil && !errors.As(err, &problems):
			t.Fatalf("not Problems: %v", err)
		case err != nil && strings.Contains(err.Error(), "hush-HUSH"):
			t.Fatalf("a secret is printed: %v", err)
		}
	})
}
