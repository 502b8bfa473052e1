package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/syncd-io/syncd"
)

// SidecarState is what a sidecar knows at one moment.
type SidecarState struct {
	Tables []TableState
	// Age is how long ago the cache was all of Postgres; below zero: not known yet.
	Age time.Duration
	// Ready: reads behind a readiness probe can't go back.
	Ready bool
	// Epoch is that of the cache that is read.
	Epoch syncd.Epoch
	// Now is the moment.
	Now time.Time
}

// TableState is what a sidecar knows of one table.
type TableState struct {
	Table syncd.Table
	Rows  int
	// Verified is when the table was last proved equal to Postgres; zero: never.
	Verified time.Time
	// Open counts the keys that are undecided, being fetched or parked; Parked those alone.
	Open, Parked int
	// Refused: the source can't sync the table, or the cache can't keep it.
	Refused bool
	// Listed: the table is served. Lossy: a loss is open. Stopped: a resync would have deleted too much.
	Listed, Lossy, Stopped bool
}

// state registers the gauges of a SidecarState.
func (f *families) state(state func() SidecarState) {
	age := f.observed("gauge", "syncd_sidecar_through_age_seconds", "How long ago the cache was all of Postgres; infinite before the first marker.")
	ready := f.observed("gauge", "syncd_sidecar_ready", "1 once the cache has caught up with where the stream ended at the start.")
	epoch := f.observed("gauge", "syncd_sidecar_epoch", "The epoch of the cache that is read: about when it began, in Unix milliseconds.")
	first := len(f.all)
	all := []observed{age, ready, epoch}
	for _, g := range tableGauges {
		all = append(all, f.observed("gauge", g.name, g.help, "table"))
	}
	tables := all[len(all)-(len(f.all)-first):]
	f.reg.MustRegister(asked{all, func(ch chan<- prometheus.Metric) {
		s := state()
		since := math.Inf(1)
		if s.Age >= 0 {
			since = s.Age.Seconds()
		}
		age.send(ch, since)
		ready.send(ch, one(s.Ready))
		epoch.send(ch, float64(s.Epoch))
		for _, t := range s.Tables {
			for i, g := range tableGauges {
				tables[i].send(ch, g.value(&s, &t), t.Table.String())
			}
		}
	}})
}

// tableGauges are what is known of each table.
var tableGauges = [...]struct {
	name, help string
	value      func(*SidecarState, *TableState) float64
}{
	{"syncd_sidecar_rows", "Rows in the cache, by table.", func(_ *SidecarState, t *TableState) float64 { return float64(t.Rows) }},
	{"syncd_verified_age_seconds", "Time since the table was last proved equal to Postgres; infinite where it never was.",
		func(s *SidecarState, t *TableState) float64 {
			if t.Verified.IsZero() {
				return math.Inf(1)
			}
			return seconds(s.Now.Sub(t.Verified))
		}},
	{"syncd_parked_keys", "Keys whose delta could not be applied, by table.", func(_ *SidecarState, t *TableState) float64 { return float64(t.Parked) }},
	{"syncd_open_keys", "Keys that are undecided, being fetched or parked, by table.", func(_ *SidecarState, t *TableState) float64 { return float64(t.Open) }},
	{"syncd_sidecar_listed", "1 where the table's first list is complete and it is served.", func(_ *SidecarState, t *TableState) float64 { return one(t.Listed) }},
	{"syncd_sidecar_refused", "1 where the table can't be synced; /v1/tables says why.", func(_ *SidecarState, t *TableState) float64 { return one(t.Refused) }},
	{"syncd_sidecar_loss_open", "1 while deltas of the table are known to be missing.", func(_ *SidecarState, t *TableState) float64 { return one(t.Lossy) }},
	{"syncd_resync_stopped", "1 where a resync would have deleted more than max_prune allows and waits for approval.",
		func(_ *SidecarState, t *TableState) float64 { return one(t.Stopped) }},
}
