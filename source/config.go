package source

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/syncd-io/syncd"
)

// Config says what a source reads, and how. Its zero values are filled by Defaults; Watch, Lister and Check call it.
type Config struct {
	// Name is the name of the sync: what slot and publication are called where they are not named.
	Name string
	// Postgres is the connection string (URL or keyword/value) of the primary. A unix socket is twice as fast as TCP.
	Postgres string
	// ListPostgres is where lists are read; empty means Postgres. It may be a standby of it.
	ListPostgres string
	// Slot and Publication default to syncd_<Name>.
	Slot, Publication string
	// Manage says that the publication is created, and kept to Tables. Without it the publication is taken as it is, and
	// tables that it does not hold as they must be are refused.
	Manage bool
	// Tables are what is synced. Empty, and without Manage, it is every table of the publication.
	Tables []TableConfig
	// MaxSlotWAL is how many bytes of log the slot may hold before it is given up and everything is listed again. 0 means
	// without limit.
	MaxSlotWAL int64
	// ListConcurrency is how many scans run at a time; 0 means 2.
	ListConcurrency int
	// ListRate is how many rows a second lists may read; 0 means without limit.
	ListRate int
	// TrailInterval is how long after JetStream's ack the slot is told of it, so that it can replay what JetStream acked
	// from memory and lost with the power: a little more than the NATS server's sync_interval. 0 means 130 s, below 0 at
	// once.
	TrailInterval time.Duration

	// Logger gets what people should know; nil is quiet.
	Logger *slog.Logger
	// Observer is told what happens, for metrics; nil is nobody.
	Observer Observer
}

// TableConfig names a table and the part of it that is synced.
type TableConfig struct {
	Table syncd.Table
	// Columns are the columns to publish; empty means all. They must cover the key.
	Columns []string
	// Where is the row filter, an SQL expression over the key's columns (Postgres 15 and later); empty means all rows.
	Where string
	// Generated says what becomes of stored generated columns, which the stream lacks: "omit" (the default) leaves them
	// out of push and list alike, "fetch" has each changed row read from the server.
	Generated string
}

// The values of TableConfig.Generated.
const (
	GeneratedOmit  = "omit"
	GeneratedFetch = "fetch"
)

// DefaultTrailInterval is a little more than the sync_interval that a NATS server has by default, 2 minutes.
const DefaultTrailInterval = 130 * time.Second

// Defaults fills what was left out.
func (c Config) Defaults() Config {
	if c.ListPostgres == "" {
		c.ListPostgres = c.Postgres
	}
	if c.Slot == "" {
		c.Slot = "syncd_" + c.Name
	}
	if c.Publication == "" {
		c.Publication = "syncd_" + c.Name
	}
	if c.ListConcurrency == 0 {
		c.ListConcurrency = 2
	}
	if c.TrailInterval == 0 {
		c.TrailInterval = DefaultTrailInterval
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Observer == nil {
		c.Observer = Unobserved{}
	}
	return c
}

// Validate lists every fault of the configuration at once.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if c.Name == "" && (c.Slot == "" || c.Publication == "") {
		fault("source: name is missing, and slot and publication are not both given")
	}
	if c.Postgres == "" {
		fault("source: postgres is missing: the connection string of the primary")
	}
	if c.Manage && len(c.Tables) == 0 {
		fault("source: tables is empty: name at least one, or set manage: false to take the publication as it is")
	}
	seen := map[syncd.Table]bool{}
	for _, t := range c.Tables {
		if seen[t.Table] {
			fault("source: table %s is named twice", t.Table)
		}
		seen[t.Table] = true
		if t.Generated != "" && t.Generated != GeneratedOmit && t.Generated != GeneratedFetch {
			fault("source: table %s: generated is %q: want %s or %s", t.Table, t.Generated, GeneratedOmit, GeneratedFetch)
		}
	}
	for what, n := range map[string]int64{
		"max_slot_wal": c.MaxSlotWAL, "list_concurrency": int64(c.ListConcurrency), "list_rate": int64(c.ListRate),
	} {
		if n < 0 {
			fault("source: %s is %d: want 0 or more", what, n)
		}
	}
	return errors.Join(faults...)
}
