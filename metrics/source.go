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
	publish    prometheus.Observer
	retained   prometheus.Gauge
	lag        prometheus.Gauge
	pages      *prometheus.CounterVec
	rows       *prometheus.CounterVec
	read       *prometheus.CounterVec
	leader     prometheus.Gauge
	reconnects prometheus.Counter
	bytes      prometheus.Counter
	ack        prometheus.Observer
	messages   prometheus.Gauge
	inFlight   prometheus.Gauge
	retries    prometheus.Counter
	requests   *prometheus.CounterVec
	served     *prometheus.HistogramVec
	replied    *prometheus.CounterVec

	families
	tables perTable[sourceTable]
}

type sourceTable struct {
	changes opCounters
	pages   prometheus.Counter
	rows    prometheus.Counter
	read    prometheus.Counter
}

// NewSource registers a source's metrics. It panics where they are registered already.
func NewSource(reg prometheus.Registerer) *Source {
	f := families{reg: reg, role: "source"}
	s := &Source{
		changes:    f.counters("syncd_source_changes_total", "Changes handed to the publisher, by table and operation.", "table", "op"),
		publish:    f.histogram("syncd_source_publish_seconds", "Time from the arrival of a flush's last commit until JetStream acknowledged the flush.", delays),
		retained:   f.gauge("syncd_source_slot_retained_bytes", "Write-ahead log that the replication slot keeps the server from removing."),
		lag:        f.gauge("syncd_source_slot_lag_bytes", "How far the slot's confirmed position is behind the server's."),
		pages:      f.counters("syncd_source_list_pages_total", "Pages read from Postgres for lists and digests, by table.", "table"),
		rows:       f.counters("syncd_source_list_rows_total", "Rows read from Postgres for lists and digests, by table.", "table"),
		read:       f.counters("syncd_source_list_bytes_total", "Bytes of JSON of the pages read for lists, by table; digests move no rows.", "table"),
		leader:     f.gauge("syncd_source_leader", "1 where this source is the one that publishes, 0 where it stands by."),
		reconnects: f.counter("syncd_source_reconnects_total", "Connections to Postgres, and attempts to publish, that were made anew."),
		bytes:      f.counter("syncd_source_published_bytes_total", "Bytes of the messages that JetStream acknowledged."),
		ack:        f.histogram("syncd_source_ack_seconds", "Time until JetStream acknowledged a message.", delays),
		messages:   f.gauge("syncd_source_unacknowledged_messages", "Messages handed over that JetStream has not acknowledged."),
		inFlight:   f.gauge("syncd_source_unacknowledged_bytes", "Bytes handed over that JetStream has not acknowledged."),
		retries:    f.counter("syncd_source_publish_retries_total", "Times that publishing stopped and what was not known to be stored was settled."),
		requests: f.counters("syncd_source_requests_total",
			"Requests of the list service answered, by endpoint (tables, list, digest, get, mark) and code (200, 429 come again, as HTTP has them).", "endpoint", "code"),
		served:  f.histograms("syncd_source_request_seconds", "Time to answer a request of the list service, by endpoint.", delays, "endpoint"),
		replied: f.counters("syncd_source_replied_bytes_total", "Bytes of the list service's answers, by endpoint.", "endpoint"),
	}
	s.families = f
	s.tables.make = func(table string) *sourceTable {
		return &sourceTable{
			changes: newOpCounters(s.changes, table), pages: s.pages.WithLabelValues(table),
			rows: s.rows.WithLabelValues(table), read: s.read.WithLabelValues(table),
		}
	}
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

// Listed counts a page that was read for a list or a digest: its rows, and the bytes of JSON it sends, which a digest does not.
func (s *Source) Listed(t syncd.Table, rows, bytes int) {
	c := s.tables.of(t)
	c.pages.Inc()
	c.rows.Add(float64(rows))
	c.read.Add(float64(bytes))
}

// Served counts an answer of the list service: its code, how long it took, and its size in bytes.
func (s *Source) Served(endpoint, code string, took time.Duration, bytes int) {
	s.requests.WithLabelValues(endpoint, code).Inc()
	s.served.WithLabelValues(endpoint).Observe(seconds(took))
	s.replied.WithLabelValues(endpoint).Add(float64(bytes))
}

// Leader says whether this source is the one that publishes.
func (s *Source) Leader(is bool) {
	s.leader.Set(one(is))
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
