package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/syncd-io/syncd"
)

// Source observes a source: the reading of Postgres, the publishing, the list service. Its methods may be called from many
// goroutines.
type Source struct {
	changes    *prometheus.CounterVec
	publish    prometheus.Histogram
	retained   prometheus.Gauge
	lag        prometheus.Gauge
	pages      *prometheus.CounterVec
	leader     prometheus.Gauge
	reconnects prometheus.Counter
	bytes      prometheus.Counter
	ack        prometheus.Histogram
	messages   prometheus.Gauge
	inFlight   prometheus.Gauge
	retries    prometheus.Counter

	tables perTable[sourceTable]
}

type sourceTable struct {
	changes opCounters
	pages   prometheus.Counter
}

// NewSource registers a source's metrics. It panics where they are registered already.
func NewSource(reg prometheus.Registerer) *Source {
	s := &Source{
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "syncd_source_changes_total", Help: "Changes handed to the publisher, by table and operation."}, []string{"table", "op"}),
		publish: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "syncd_source_publish_seconds", Help: "Time from the arrival of a flush's last commit until JetStream acknowledged the flush.", Buckets: delays}),
		retained: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "syncd_source_slot_retained_bytes", Help: "Write-ahead log that the replication slot keeps the server from removing."}),
		lag: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "syncd_source_slot_lag_bytes", Help: "How far the slot's confirmed position is behind the server's."}),
		pages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "syncd_source_list_pages_total", Help: "Pages read from Postgres for lists, by table."}, []string{"table"}),
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "syncd_source_leader", Help: "1 where this source is the one that publishes, 0 where it stands by."}),
		reconnects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "syncd_source_reconnects_total", Help: "Connections to Postgres, and attempts to publish, that were made anew."}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "syncd_source_published_bytes_total", Help: "Bytes of the messages that JetStream acknowledged."}),
		ack: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "syncd_source_ack_seconds", Help: "Time until JetStream acknowledged a message.", Buckets: delays}),
		messages: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "syncd_source_unacknowledged_messages", Help: "Messages handed over that JetStream has not acknowledged."}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "syncd_source_unacknowledged_bytes", Help: "Bytes handed over that JetStream has not acknowledged."}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "syncd_source_publish_retries_total", Help: "Times that publishing stopped and what was not known to be stored was settled."}),
	}
	s.tables.make = func(table string) *sourceTable {
		return &sourceTable{changes: newOpCounters(s.changes, table), pages: s.pages.WithLabelValues(table)}
	}
	reg.MustRegister(s.changes, s.publish, s.retained, s.lag, s.pages, s.leader, s.reconnects, s.bytes, s.ack, s.messages, s.inFlight, s.retries)
	return s
}

// Changed counts n changes of a table that were handed to the publisher.
func (s *Source) Changed(t syncd.Table, op syncd.Op, n int) {
	s.tables.of(t).changes.add(op, n)
}

// Published says how long a flush took until JetStream acknowledged it.
func (s *Source) Published(d time.Duration) { s.publish.Observe(seconds(d)) }

// Slot says how many bytes of log the slot holds back, and how far its confirmed position is behind the server's.
func (s *Source) Slot(retained, lag uint64) {
	s.retained.Set(float64(retained))
	s.lag.Set(float64(lag))
}

// Listed counts a page that was read for a list.
func (s *Source) Listed(t syncd.Table) { s.tables.of(t).pages.Inc() }

// Leader says whether this source is the one that publishes.
func (s *Source) Leader(is bool) {
	s.leader.Set(0)
	if is {
		s.leader.Set(1)
	}
}

// Reconnected counts a connection to Postgres or an attempt to publish that had to be made anew.
func (s *Source) Reconnected() { s.reconnects.Inc() }

// Acknowledged takes note of an acknowledged message: its size, and how long after it was handed over.
func (s *Source) Acknowledged(bytes int, took time.Duration) {
	s.bytes.Add(float64(bytes))
	s.ack.Observe(seconds(took))
}

// InFlight says how much was handed over and is not acknowledged.
func (s *Source) InFlight(messages, bytes int) {
	s.messages.Set(float64(messages))
	s.inFlight.Set(float64(bytes))
}

// Retried counts a stop of publishing.
func (s *Source) Retried(error) { s.retries.Inc() }
