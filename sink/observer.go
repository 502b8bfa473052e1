package sink

import (
	"time"

	"github.com/syncd-io/syncd"
)

// Observer is told what a cache does, for metrics. Its methods are called while the cache is being changed, so they must be
// quick; they must not call the cache.
type Observer interface {
	// Applied counts n deltas of a table that changed the cache.
	Applied(t syncd.Table, op syncd.Op, n int)
	// Rejected counts n deltas that the gate did not take, and why.
	Rejected(t syncd.Table, reason string, n int)
	// Delay is the time from the commit in Postgres, by its clock, to the commit in the cache, of one transaction's deltas of
	// one table.
	Delay(t syncd.Table, d time.Duration)
	// Gap counts the losses noticed: once for each table of which deltas are missing.
	Gap(t syncd.Table)
	// Repaired counts n rows that a list or a get put right, by kind.
	Repaired(t syncd.Table, kind string, n int)
}

// quiet is the Observer that tells nobody.
type quiet struct{}

func (quiet) Applied(syncd.Table, syncd.Op, int) {}
func (quiet) Rejected(syncd.Table, string, int)  {}
func (quiet) Delay(syncd.Table, time.Duration)   {}
func (quiet) Gap(syncd.Table)                    {}
func (quiet) Repaired(syncd.Table, string, int)  {}
