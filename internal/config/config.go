// Package config reads syncd.yaml. A flag beats the environment, which beats the file, which beats the defaults. The file
// is read strictly: an unknown key, a value of the wrong type, a variable that is not set and a value out of range are
// all reported at once, each with its line and column and what mends it. Nothing is half read: where there is a mistake
// there is no Config.
//
// The comments and tags of the types in this file are the reference: the JSON Schema (Schema) is made of them.
package config

import (
	"time"

	"github.com/syncd-io/syncd/sink/redis"
)

// DefaultMetricsListen is where a source without a sidecar serves its metrics.
const DefaultMetricsListen = "127.0.0.1:9464"

// Config is syncd.yaml. Make one with Load, or with Default and Defaults.
type Config struct {
	// Name names the sync: 1 to 50 of a-z, 0-9 and _. It is the prefix of slot, publication, stream and subjects, so
	// processes of one sync share it. Required.
	Name string `yaml:"name" pattern:"^[a-z0-9_]{1,50}$" says:"1 to 50 of a-z, 0-9 and _"`
	// Source is where the rows come from: the Postgres side.
	Source Source `yaml:"source"`
	// Bus is NATS JetStream, over which source and sidecars talk.
	Bus Bus `yaml:"bus"`
	// Sidecar is the cache and its HTTP API.
	Sidecar Sidecar `yaml:"sidecar"`
	// Log says what is logged and how.
	Log Log `yaml:"log"`
	// Metrics says where Prometheus reads.
	Metrics Metrics `yaml:"metrics"`

	origins map[string]origin
}

// Source is the Postgres side.
type Source struct {
	// Postgres is the connection string of the primary, a URL or keyword/value pairs; a Unix socket's directory as host
	// works too. Its role needs REPLICATION, and SELECT on the tables. Required for a source.
	Postgres Secret `yaml:"postgres"`
	// PostgresFile is a file that holds Postgres's value.
	PostgresFile string `yaml:"postgres_file"`
	// ListPostgres is the connection string of the server that lists are read from, a replica's say. Default: Postgres.
	ListPostgres Secret `yaml:"list_postgres"`
	// ListPostgresFile is a file that holds ListPostgres's value.
	ListPostgresFile string `yaml:"list_postgres_file"`
	// ListConcurrency is how many lists and digests are read at a time; more are told to come again
	// (429 with Retry-After). Default 2.
	ListConcurrency int `yaml:"list_concurrency" min:"1" max:"100"`
	// ListRate bounds the rows a second that lists read. Default 0: no limit.
	ListRate int `yaml:"list_rate" min:"0"`
	// Slot is the replication slot's name. Default: syncd_<name>.
	Slot string `yaml:"slot" pattern:"^[a-z0-9_]{1,63}$" says:"1 to 63 of a-z, 0-9 and _"`
	// Publication is the publication's name. Default: syncd_<name>.
	Publication string `yaml:"publication"`
	// Manage makes the publication where it is missing and keeps it to Tables. With false it is taken as it is, and only
	// checked. Default true.
	Manage bool `yaml:"manage"`
	// MaxSlotWAL is how much WAL the slot may hold on the server: before it holds more, the slot is given up and every
	// cache relists. Default 4GiB; 0: no limit.
	MaxSlotWAL Bytes `yaml:"max_slot_wal" min:"0"`
	// Tables are what is synced. Required for a source, but with Manage false: then the default is all that the publication holds.
	Tables []SourceTable `yaml:"tables"`
}

// SourceTable is one table to sync; its name alone where nothing else is to be said.
type SourceTable struct {
	// Table is the name as SQL writes it: public.users, or public."Odd Name".
	Table string `yaml:"table"`
	// Columns are the columns to sync; they must cover the key. Default: all.
	Columns []string `yaml:"columns"`
	// Where is a row filter in SQL on columns of the key (Postgres 15 and newer): only rows it holds for are synced.
	Where string `yaml:"where"`
	// Generated says what happens to stored generated columns, which the stream lacks before Postgres 18: omit leaves them
	// out of push and list alike, fetch reads them for each changed row. Default omit.
	Generated string `yaml:"generated" enum:"omit,fetch"`
}

// Bus is NATS.
type Bus struct {
	// URL is the NATS server's, or several parted by commas. Default: a NATS embedded in this process.
	URL ServerURL `yaml:"url"`
	// Embedded is the NATS in this process, used where URL is absent.
	Embedded Embedded `yaml:"embedded"`
	// Creds is a file with the credentials that nsc makes.
	Creds string `yaml:"creds"`
	// NKey is a file with an nkey seed.
	NKey string `yaml:"nkey"`
	// User is a user's name, with Password.
	User string `yaml:"user"`
	// Password is User's password.
	Password Secret `yaml:"password"`
	// PasswordFile is a file that holds Password's value.
	PasswordFile string `yaml:"password_file"`
	// Token is a token that NATS asks for.
	Token Secret `yaml:"token"`
	// TokenFile is a file that holds Token's value.
	TokenFile string `yaml:"token_file"`
	// TLS is for servers that ask for it. A tls:// address needs none of it.
	TLS BusTLS `yaml:"tls"`
	// Stream bounds the stream that the source makes.
	Stream Stream `yaml:"stream"`
}

// Embedded is the NATS server in this process.
type Embedded struct {
	// Dir is where JetStream keeps its files. Default ./syncd-data/nats.
	Dir string `yaml:"dir"`
	// Listen is a host:port on loopback for other processes of this machine. Nobody is asked to sign in. Default: none, no
	// port is opened.
	Listen string `yaml:"listen"`
}

// BusTLS is how NATS is spoken to over TLS.
type BusTLS struct {
	// CA is a file with the certificates to trust. Default: the system's.
	CA string `yaml:"ca"`
	// Cert is a file with this client's certificate, with Key.
	Cert string `yaml:"cert"`
	// Key is a file with Cert's private key.
	Key string `yaml:"key"`
}

// Stream bounds the JetStream stream. The oldest messages go first; a consumer behind them lists again.
type Stream struct {
	// MaxAge is how long a message is kept. Default 24h; 0: no limit.
	MaxAge time.Duration `yaml:"max_age" min:"0s"`
	// MaxBytes is how much is kept. Default 10GiB; 0: no limit.
	MaxBytes Bytes `yaml:"max_bytes" min:"0"`
	// Replicas is on how many servers of a NATS cluster the stream is kept. Default 1.
	Replicas int `yaml:"replicas" min:"1" max:"5"`
}

// Sidecar is the cache and its API.
type Sidecar struct {
	// Listen is the API's host:port, or unix:/path of a socket. Elsewhere than on loopback Token or TLS is required, or
	// Insecure. Default 127.0.0.1:7070.
	Listen string `yaml:"listen"`
	// Token is what requests must carry as "Authorization: Bearer …". Default: none is asked for.
	Token Secret `yaml:"token"`
	// TokenFile is a file that holds Token's value.
	TokenFile string `yaml:"token_file"`
	// TLS makes the API speak HTTPS.
	TLS SidecarTLS `yaml:"tls"`
	// Insecure lets the API listen elsewhere than on loopback with neither Token nor TLS: whoever reaches it reads every row.
	Insecure bool `yaml:"insecure"`
	// Data is the directory of the checkpoint and the persisted cache. Default ./syncd-data/sidecar.
	Data string `yaml:"data"`
	// Sink is where the cache is kept. Default memory.
	Sink Sink `yaml:"sink"`
	// Sinks are several sinks in the place of Sink; HTTP reads the first.
	Sinks []Sink `yaml:"sinks"`
	// MaxMemory is how much memory the cache's rows, keys and indexes may take. A change that needs more is refused: what is
	// there is served on and grows older, and the status, the log and reads of tables not listed yet say so. Default 0: no limit.
	MaxMemory Bytes `yaml:"max_memory" min:"0"`
	// Stale says what reads get when the source is gone: serve what there is and say how old it is, or fail: {after: 5m}, which
	// answers 503 once nothing has come for that long. Default serve.
	Stale Stale `yaml:"stale"`
	// Watch bounds what watches of the tables' changes take.
	Watch Watch `yaml:"watch"`
	// Tables are the tables to cache. Default: all of the source's.
	Tables []SidecarTable `yaml:"tables"`
	// Resync is how often and how the cache is compared with Postgres.
	Resync Resync `yaml:"resync"`
	// Checker compares single keys all the time.
	Checker Checker `yaml:"checker"`
	// Faults spoil the push before deltas are counted or judged. For trials only.
	Faults Faults `yaml:"faults"`
}

// Watch bounds what watches take.
type Watch struct {
	// History is how much of the last changes is kept in memory, for watches that are slow or were cut off. Default 32MiB.
	History Bytes `yaml:"history" min:"64KiB"`
	// Limit is how many watches run at a time. Default 10000.
	Limit int `yaml:"limit" min:"1" max:"1000000"`
}

// SidecarTLS is the API's certificate.
type SidecarTLS struct {
	// Cert is a file with the certificate chain.
	Cert string `yaml:"cert"`
	// Key is a file with Cert's private key.
	Key string `yaml:"key"`
	// ClientCA is a file with the certificates that clients' must be signed by. Default: none is asked for.
	ClientCA string `yaml:"client_ca"`
}

// SQLiteSink is a SQLite file.
type SQLiteSink struct {
	// Path is the file, made where there is none; docs/sinks.md says what others find in it. Required.
	Path string `yaml:"path"`
}

// RedisSink is a Redis server.
type RedisSink struct {
	// URL is the server's, such as redis://127.0.0.1:6379/0. Required.
	URL Secret `yaml:"url"`
	// URLFile is a file that holds URL's value.
	URLFile string `yaml:"url_file"`
	// Prefix begins every key. Two sidecars in one database need two, neither of which begins the other. Default: the sync's name and a colon.
	Prefix string `yaml:"prefix"`
	// Key is the template of a row's key behind the prefix: {table} as SQL writes it, a separator, {key} as in HTTP. Default {table}:{key}.
	Key string `yaml:"key"`
	// Value is the form of a row: json, a string as HTTP serves it; or hash, a hash of its columns. Default json.
	Value string `yaml:"value" enum:"json,hash"`
}

// PostgresSink is another Postgres.
type PostgresSink struct {
	// URL is its connection string. Required.
	URL Secret `yaml:"url"`
	// URLFile is a file that holds URL's value.
	URLFile string `yaml:"url_file"`
	// Schema is the schema that the tables are made in. Default: the sync's name.
	Schema string `yaml:"schema"`
}

// SidecarTable is one table to cache; its name alone where nothing else is to be said.
type SidecarTable struct {
	// Table is the name as SQL writes it.
	Table string `yaml:"table"`
	// Indexes are columns, or lists of columns, that filters are answered from, such as [email, [tenant_id, name]]: those that
	// fix the first columns of one with eq, in or is, or bound the next with gt, gte, lt, lte. One on a column that the table
	// lacks is left out, which /v1/tables says.
	Indexes []Index `yaml:"indexes"`
	// Selector is a filter as in HTTP, written as in a URL's query, such as status=eq.active&total=gt.10: only rows it holds
	// for are kept, and lists ask only for them. When it changes the table is listed again. Default: all rows.
	Selector string `yaml:"selector"`
}

// Resync is the comparison with Postgres.
type Resync struct {
	// Interval is the time from one to the next. Default 10m.
	Interval time.Duration `yaml:"interval" min:"1s"`
	// Jitter is the share of Interval by which it varies, so that sidecars don't list at one moment. Default 0.2.
	Jitter float64 `yaml:"jitter" min:"0" max:"1"`
	// Mode is digest (buckets with equal digests are not listed) or full (every row is). Default digest.
	Mode string `yaml:"mode" enum:"digest,full"`
	// MaxPrune is the share of a table's rows that one resync may delete: it stops and asks before it deletes more. Default 0.5.
	MaxPrune float64 `yaml:"max_prune" min:"0" max:"1"`
}

// Checker reads sampled keys from cache and source.
type Checker struct {
	// KeysPerSecond is how many keys are compared a second. Default 1; 0: none.
	KeysPerSecond float64 `yaml:"keys_per_second" min:"0" max:"1000"`
}

// Faults are for trials: shares of the push's messages that are spoilt on their way in.
type Faults struct {
	// Drop is the share of messages that are lost. Default 0.
	Drop float64 `yaml:"drop" min:"0" max:"1"`
	// Duplicate is the share that come twice. Default 0.
	Duplicate float64 `yaml:"duplicate" min:"0" max:"1"`
	// Reorder is the share that come later than their successors. Default 0.
	Reorder float64 `yaml:"reorder" min:"0" max:"1"`
	// Seed makes the choice of messages repeatable. Default 1.
	Seed int64 `yaml:"seed"`
}

// Log is the process's log, on standard error.
type Log struct {
	// Level is the least severity that is logged: debug, info, warn or error. Default info.
	Level string `yaml:"level" enum:"debug,info,warn,error"`
	// Format is text or json. Default text.
	Format string `yaml:"format" enum:"text,json"`
}

// Metrics is the Prometheus endpoint, /metrics.
type Metrics struct {
	// Listen is a host:port of its own. Default: the sidecar's address; for a source alone 127.0.0.1:9464.
	Listen string `yaml:"listen"`
}

// Default gives the values of keys that nobody sets. Those that follow from others (slot, publication) are empty:
// Config.Defaults fills them.
func Default() *Config {
	return &Config{
		Source: Source{ListConcurrency: 2, Manage: true, MaxSlotWAL: 4 << 30},
		Bus: Bus{
			Embedded: Embedded{Dir: "./syncd-data/nats"},
			Stream:   Stream{MaxAge: 24 * time.Hour, MaxBytes: 10 << 30, Replicas: 1},
		},
		Sidecar: Sidecar{
			Listen:  "127.0.0.1:7070",
			Data:    "./syncd-data/sidecar",
			Watch:   Watch{History: 32 << 20, Limit: 10000},
			Resync:  Resync{Interval: 10 * time.Minute, Jitter: 0.2, Mode: "digest", MaxPrune: 0.5},
			Checker: Checker{KeysPerSecond: 1},
			Faults:  Faults{Seed: 1},
		},
		Log:     Log{Level: "info", Format: "text"},
		origins: map[string]origin{},
	}
}

// Defaults fills what is empty and follows from other keys.
func (c *Config) Defaults() {
	fill(&c.Source.Slot, "syncd_"+c.Name)
	fill(&c.Source.Publication, "syncd_"+c.Name)
	for i := range c.Source.Tables {
		fill(&c.Source.Tables[i].Generated, "omit")
	}
	fill(&c.Sidecar.Sink.Kind, "memory")
	if len(c.Sidecar.Sinks) == 0 {
		c.Sidecar.Sinks = []Sink{c.Sidecar.Sink}
	}
	for i := range c.Sidecar.Sinks {
		s := &c.Sidecar.Sinks[i]
		if s.Redis != nil {
			fill(&s.Redis.Prefix, c.Name+":")
			fill(&s.Redis.Key, redis.DefaultKey)
			fill(&s.Redis.Value, string(redis.JSON))
		}
		if s.Postgres != nil {
			fill(&s.Postgres.Schema, c.Name)
		}
	}
}

func fill(s *string, value string) {
	if *s == "" {
		*s = value
	}
}
