package metrics

import (
	"math"
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
	resubs   prometheus.Counter
	resyncs  *prometheus.CounterVec
	took     *prometheus.HistogramVec
	repaired *prometheus.CounterVec
	fetched  *prometheus.CounterVec
	settled  *prometheus.CounterVec
	away     *prometheus.CounterVec
	saves    *prometheus.CounterVec
	saved    prometheus.Gauge
	saving   prometheus.Histogram
	size     prometheus.Gauge
	was, not *prometheus.CounterVec // within a window consistent, and not

	tables perTable[sidecarTable]
}

type sidecarTable struct {
	applied opCounters
	delay   prometheus.Observer
}

// NewSidecar registers a sidecar's metrics. state is asked at each scrape for what is known then; it must be quick. It
// panics where they are registered already.
func NewSidecar(reg prometheus.Registerer, state func() SidecarState) *Sidecar {
	s := &Sidecar{
		applied: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "syncd_sidecar_applied_total", Help: "Deltas that changed the cache, by table and operation."}, []string{"table", "op"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "syncd_sidecar_rejected_total", Help: "Deltas that the version gate did not take, by table and reason."}, []string{"table", "reason"}),
		delay: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "syncd_sidecar_delay_seconds", Help: "Time from a commit in Postgres, by its clock, until it could be read from the cache.", Buckets: delays}, []string{"table"}),
		gaps: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "syncd_gaps_total", Help: "Losses noticed: once for each table of which deltas were missing at a marker."}),
		resubs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "syncd_sidecar_resubscribes_total", Help: "Times that the stream's consumer had to be made anew."}),
		resyncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "syncd_resync_total", Help: "Resyncs ended, by table, mode and result (complete, stopped, busy, canceled, failed)."}, []string{"table", "mode", "result"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "syncd_resync_seconds", Help: "Length of the resyncs that completed.", Buckets: prometheus.ExponentialBuckets(0.01, 3, 12)}, []string{"table", "mode"}),
		repaired: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "syncd_resync_repaired_total", Help: "Rows put right by a list or a get, by table and kind (missing, stale, ghost, corrupt)."}, []string{"table", "kind"}),
		fetched: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "syncd_fetched_keys_total", Help: "Open keys asked for singly, by table."}, []string{"table"}),
		settled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "syncd_settled_keys_total", Help: "Open keys that an answer settled, by table."}, []string{"table"}),
		away: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "syncd_resync_source_errors_total", Help: "Lists and gets that the source did not answer, by table; each is tried again."}, []string{"table"}),
		saves: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "syncd_checkpoint_saves_total", Help: "Checkpoints written, by result (saved, failed)."}, []string{"result"}),
		saved: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "syncd_checkpoint_timestamp_seconds", Help: "When the last checkpoint was written, in Unix time; 0: none was since the start."}),
		saving: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "syncd_checkpoint_seconds", Help: "Time to write a checkpoint.", Buckets: delays}),
		size: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "syncd_checkpoint_bytes", Help: "Size of the last checkpoint that was written; 0: none was since the start."}),
	}
	s.was = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "syncd_consistent_within_total", Help: "Rows of the cache, sampled at random, that were as Postgres has them within a time after (1s, 10s, 1m, 5m), by table."}, []string{"table", "window"})
	s.not = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "syncd_inconsistent_within_total", Help: "Rows of the cache, sampled at random, that were still otherwise than Postgres has them a time after (1s, 10s, 1m, 5m), by table."}, []string{"table", "window"})
	s.tables.make = func(table string) *sidecarTable {
		return &sidecarTable{applied: newOpCounters(s.applied, table), delay: s.delay.WithLabelValues(table)}
	}
	for _, result := range []string{"saved", "failed"} {
		s.saves.WithLabelValues(result)
	}
	reg.MustRegister(s.applied, s.rejected, s.delay, s.gaps, s.resubs, s.resyncs, s.took, s.repaired, s.fetched, s.settled, s.away, s.saves, s.saved, s.saving, s.size, s.was, s.not, stateCollector{state})
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

// SidecarState is what a sidecar knows at one moment.
type SidecarState struct {
	Tables []TableState
	// Age is how long ago the cache was all of Postgres; below zero: not known yet.
	Age time.Duration
	// Ready: reads behind a readiness probe can't go back.
	Ready bool
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
	// Listed: the table is served. Lossy: a loss is open. Stopped: a resync would have deleted too much.
	Listed, Lossy, Stopped bool
}

var (
	rowsDesc     = prometheus.NewDesc("syncd_sidecar_rows", "Rows in the cache, by table.", []string{"table"}, nil)
	verifiedDesc = prometheus.NewDesc("syncd_verified_age_seconds", "Time since the table was last proved equal to Postgres; infinite where it never was.", []string{"table"}, nil)
	parkedDesc   = prometheus.NewDesc("syncd_parked_keys", "Keys whose delta could not be applied, by table.", []string{"table"}, nil)
	openDesc     = prometheus.NewDesc("syncd_open_keys", "Keys that are undecided, being fetched or parked, by table.", []string{"table"}, nil)
	listedDesc   = prometheus.NewDesc("syncd_sidecar_listed", "1 where the table's first list is complete and it is served.", []string{"table"}, nil)
	lossyDesc    = prometheus.NewDesc("syncd_sidecar_loss_open", "1 while deltas of the table are known to be missing.", []string{"table"}, nil)
	stoppedDesc  = prometheus.NewDesc("syncd_resync_stopped", "1 where a resync would have deleted more than max_prune allows and waits for approval.", []string{"table"}, nil)
	ageDesc      = prometheus.NewDesc("syncd_sidecar_through_age_seconds", "How long ago the cache was all of Postgres; infinite before the first marker.", nil, nil)
	readyDesc    = prometheus.NewDesc("syncd_sidecar_ready", "1 once the cache has caught up with where the stream ended at the start.", nil, nil)
)

// stateCollector gives the gauges of a SidecarState.
type stateCollector struct{ state func() SidecarState }

// Describe implements prometheus.Collector.
func (stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{rowsDesc, verifiedDesc, parkedDesc, openDesc, listedDesc, lossyDesc, stoppedDesc, ageDesc, readyDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c stateCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.state()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	age := math.Inf(1)
	if s.Age >= 0 {
		age = s.Age.Seconds()
	}
	gauge(ageDesc, age)
	gauge(readyDesc, one(s.Ready))
	for _, t := range s.Tables {
		name, verified := t.Table.String(), math.Inf(1)
		if !t.Verified.IsZero() {
			verified = seconds(s.Now.Sub(t.Verified))
		}
		gauge(rowsDesc, float64(t.Rows), name)
		gauge(verifiedDesc, verified, name)
		gauge(parkedDesc, float64(t.Parked), name)
		gauge(openDesc, float64(t.Open), name)
		gauge(listedDesc, one(t.Listed), name)
		gauge(lossyDesc, one(t.Lossy), name)
		gauge(stoppedDesc, one(t.Stopped), name)
	}
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
