package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/syncd-io/syncd"
)

// Sidecar observes what keeps a cache: the feed, the cache, the resync. Its methods may be called from many goroutines.
type Sidecar struct {
	applied  *prometheus.CounterVec
	rejected *prometheus.CounterVec
	delay    *prometheus.HistogramVec
	gaps     prometheus.Counter
	behind   prometheus.Gauge
	resubs   prometheus.Counter
	resyncs  *prometheus.CounterVec
	took     *prometheus.HistogramVec
	repaired *prometheus.CounterVec
	fetched  *prometheus.CounterVec
	settled  *prometheus.CounterVec
	away     *prometheus.CounterVec
	saves    *prometheus.CounterVec
	saved    prometheus.Gauge
	saving   prometheus.Observer
	size     prometheus.Gauge
	was, not *prometheus.CounterVec // within a window consistent, and not

	families
	tables perTable[sidecarTable]
}

// repairs are the kinds of repair.
var repairs = [...]string{"missing", "stale", "ghost", "corrupt"}

type sidecarTable struct {
	applied opCounters
	delay   prometheus.Observer
}

// NewSidecar registers a sidecar's metrics. state is asked at each scrape for what is known then; it must be quick. It
// panics where they are registered already.
func NewSidecar(reg prometheus.Registerer, state func() SidecarState) *Sidecar {
	f := families{reg: reg, role: "sidecar"}
	s := &Sidecar{
		applied:  f.counters("syncd_sidecar_applied_total", "Deltas that changed the cache, by table and operation.", "table", "op"),
		rejected: f.counters("syncd_sidecar_rejected_total", "Deltas that the version gate did not take, by table and reason.", "table", "reason"),
		delay:    f.histograms("syncd_sidecar_delay_seconds", "Time from a commit in Postgres, by its clock, until it could be read from the cache.", delays, "table"),
		gaps:     f.counter("syncd_gaps_total", "Losses noticed: once for each table of which deltas were missing at a marker."),
		resubs:   f.counter("syncd_sidecar_resubscribes_total", "Times that the stream's consumer had to be made anew."),
		behind:   f.gauge("syncd_sidecar_pending_messages", "Messages on the stream behind the one read last."),
		resyncs:  f.counters("syncd_resync_total", "Resyncs ended, by table, mode and result (complete, stopped, busy, canceled, failed).", "table", "mode", "result"),
		took:     f.histograms("syncd_resync_seconds", "Length of the resyncs that completed.", prometheus.ExponentialBuckets(0.01, 3, 12), "table", "mode"),
		repaired: f.counters("syncd_resync_repaired_total", "Rows put right by a list or a get, by table and kind (missing, stale, ghost, corrupt).", "table", "kind"),
		fetched:  f.counters("syncd_fetched_keys_total", "Open keys asked for singly, by table.", "table"),
		settled:  f.counters("syncd_settled_keys_total", "Open keys that an answer settled, by table.", "table"),
		away:     f.counters("syncd_resync_source_errors_total", "Lists and gets that the source did not answer, by table; each is tried again.", "table"),
		saves:    f.counters("syncd_checkpoint_saves_total", "Checkpoints written, by result (saved, failed).", "result"),
		saved:    f.gauge("syncd_checkpoint_timestamp_seconds", "When the last checkpoint was written, in Unix time; 0: none was since the start."),
		saving:   f.histogram("syncd_checkpoint_seconds", "Time to write a checkpoint.", delays),
		size:     f.gauge("syncd_checkpoint_bytes", "Size of the last checkpoint that was written; 0: none was since the start."),
		was: f.counters("syncd_consistent_within_total",
			"Rows of the cache, sampled at random, that were as Postgres has them within a time after (1s, 10s, 1m, 5m), by table.", "table", "window"),
		not: f.counters("syncd_inconsistent_within_total",
			"Rows of the cache, sampled at random, that were still otherwise than Postgres has them a time after (1s, 10s, 1m, 5m), by table.", "table", "window"),
	}
	s.tables.make = func(table string) *sidecarTable {
		for _, kind := range repairs {
			s.repaired.WithLabelValues(table, kind)
		}
		return &sidecarTable{applied: newOpCounters(s.applied, table), delay: s.delay.WithLabelValues(table)}
	}
	for _, result := range []string{"saved", "failed"} {
		s.saves.WithLabelValues(result)
	}
	f.state(func() SidecarState {
		now := state()
		for _, t := range now.Tables {
			s.tables.of(t.Table) // its counters are there before they count, so that the first increase is seen as one
		}
		return now
	})
	s.families = f
	return s
}

// Applied counts n deltas of a table that changed the cache.
func (s *Sidecar) Applied(t syncd.Table, op syncd.Op, n int) {
	s.tables.of(t).applied.add(op, n)
}

// Rejected counts n deltas that the gate did not take, and why.
func (s *Sidecar) Rejected(t syncd.Table, reason string, n int) {
	s.rejected.WithLabelValues(t.String(), reason).Add(float64(n))
}

// Delay is the time from a commit in Postgres to the commit in the cache.
func (s *Sidecar) Delay(t syncd.Table, d time.Duration) { s.tables.of(t).delay.Observe(seconds(d)) }

// Gap counts a loss.
func (s *Sidecar) Gap(syncd.Table) { s.gaps.Inc() }

// Resubscribed counts a consumer of the stream that had to be made anew.
func (s *Sidecar) Resubscribed(error) { s.resubs.Inc() }

// Behind says how many messages the stream has behind the one read last.
func (s *Sidecar) Behind(messages uint64) { s.behind.Set(float64(messages)) }

// Repaired counts n rows that a list or a get put right.
func (s *Sidecar) Repaired(t syncd.Table, kind string, n int) {
	s.repaired.WithLabelValues(t.String(), kind).Add(float64(n))
}

// Resynced counts a run. Only the length of complete ones says anything.
func (s *Sidecar) Resynced(t syncd.Table, mode, result string, took time.Duration) {
	s.resyncs.WithLabelValues(t.String(), mode, result).Inc()
	if result == "complete" {
		s.took.WithLabelValues(t.String(), mode).Observe(seconds(took))
	}
}

// Fetched counts keys that were asked for singly, and those of them that were settled.
func (s *Sidecar) Fetched(t syncd.Table, n, settled int) {
	s.fetched.WithLabelValues(t.String()).Add(float64(n))
	s.settled.WithLabelValues(t.String()).Add(float64(settled))
}

// Checked counts a sampled row that was as Postgres has it within a window, or was not. Both counters are there from the first
// sample on, so that a rate over them is never without its other half.
func (s *Sidecar) Checked(t syncd.Table, window string, consistent bool) {
	was, not := s.was.WithLabelValues(t.String(), window), s.not.WithLabelValues(t.String(), window)
	if consistent {
		was.Inc()
	} else {
		not.Inc()
	}
}

// Away counts a list or a get that the source did not answer.
func (s *Sidecar) Away(t syncd.Table, _ error) { s.away.WithLabelValues(t.String()).Inc() }

// Saved counts an attempt to write a checkpoint: when it ended, how long it took and how large the file is; err says why the
// one before is still there.
func (s *Sidecar) Saved(at time.Time, took time.Duration, bytes int64, err error) {
	if err != nil {
		s.saves.WithLabelValues("failed").Inc()
		return
	}
	s.saves.WithLabelValues("saved").Inc()
	s.saved.Set(float64(at.UnixMilli()) / 1000)
	s.saving.Observe(seconds(took))
	s.size.Set(float64(bytes))
}
