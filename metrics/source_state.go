package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/syncd-io/syncd"
)

// SourceState is what a source knows at one moment.
type SourceState struct {
	// Now is the moment, Sent when the last marker was sent; zero: none is known of.
	Now, Sent time.Time
	Epoch     syncd.Epoch
	// SlotLimit is how many bytes of log the slot may hold before it is given up; 0: no limit.
	SlotLimit int64
	// Tables are the configured ones.
	Tables []syncd.TableInfo
}

// sourceStateMetrics are those of a SourceState.
type sourceStateMetrics struct{ families }

// NewSourceState registers what a source is asked for at each scrape; state must be quick. It panics where it is registered
// already.
func NewSourceState(reg prometheus.Registerer, state func() SourceState) { newSourceState(reg, state) }

func newSourceState(reg prometheus.Registerer, state func() SourceState) *sourceStateMetrics {
	f := families{reg: reg, role: "source"}
	age := f.observed("gauge", "syncd_source_marker_age_seconds", "Time since the last commit marker on the stream, by whichever source; infinite where none is known of.")
	epoch := f.observed("gauge", "syncd_source_epoch", "The epoch of the last marker: about when it began, in Unix milliseconds. It changes where the slot or the server did.")
	limit := f.observed("gauge", "syncd_source_slot_limit_bytes", "What the slot may hold (max_slot_wal) before it is given up and every cache lists anew; 0: no limit.")
	refused := f.observed("gauge", "syncd_source_table_refused", "1 where the table can't be synced; the log and /v1/tables of a sidecar say why.", "table")
	reg.MustRegister(asked{[]observed{age, epoch, limit, refused}, func(ch chan<- prometheus.Metric) {
		s := state()
		since := math.Inf(1)
		if !s.Sent.IsZero() {
			since = seconds(s.Now.Sub(s.Sent))
		}
		age.send(ch, since)
		epoch.send(ch, float64(s.Epoch))
		limit.send(ch, float64(s.SlotLimit))
		for _, t := range s.Tables {
			refused.send(ch, one(t.Error != ""), t.Table.String())
		}
	}})
	return &sourceStateMetrics{f}
}
