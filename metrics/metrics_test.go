package metrics_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/checkpoint"
	"github.com/syncd-io/syncd/metrics"
	"github.com/syncd-io/syncd/resync"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/source"
)

// The stages take these as their observers.
var (
	_ source.Observer      = (*metrics.Source)(nil)
	_ bus.PublishObserver  = (*metrics.Source)(nil)
	_ bus.ServiceObserver  = (*metrics.Source)(nil)
	_ bus.StreamObserver   = (*metrics.Sidecar)(nil)
	_ sink.Observer        = (*metrics.Sidecar)(nil)
	_ resync.Observer      = (*metrics.Sidecar)(nil)
	_ resync.CheckObserver = (*metrics.Sidecar)(nil)
	_ checkpoint.Observer  = (*metrics.Sidecar)(nil)
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	users = syncd.Table{Schema: "public", Name: "users"}
	odd   = syncd.Table{Schema: "public", Name: "Odd Name"}
	now   = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
)

// all gives a registry with every metric, each touched once.
func all() *prometheus.Registry {
	reg := prometheus.NewPedanticRegistry()
	s := metrics.NewSource(reg)
	s.Changed(users, syncd.Upsert, 3)
	s.Changed(users, syncd.Op(99), 3)
	s.Published(3 * time.Millisecond)
	s.Slot(1<<20, 4096)
	s.Listed(users, 500, 4096)
	s.Served("list", "200", 3*time.Millisecond, 4096)
	s.Served("list", "429", time.Millisecond, 30)
	s.Leader(true)
	s.Reconnected()
	s.Acknowledged(512, time.Millisecond)
	s.InFlight(2, 1024)
	s.Retried(errors.New("x"))

	metrics.NewProcess(reg, metrics.Build{Version: "v1.2.3", Commit: "abc"})
	metrics.NewBus(reg, "source", func() metrics.BusState { return metrics.BusState{Connected: true, Reconnects: 2} })
	metrics.NewBus(reg, "sidecar", func() metrics.BusState { return metrics.BusState{} })
	metrics.NewSourceState(reg, func() metrics.SourceState {
		return metrics.SourceState{Now: now, Sent: now.Add(-2 * time.Second), Epoch: 7, Tables: []syncd.TableInfo{{Table: users}, {Table: odd, Error: "no key"}}}
	})

	c := metrics.NewSidecar(reg, func() metrics.SidecarState {
		return metrics.SidecarState{
			Now: now, Age: 250 * time.Millisecond, Ready: true, Epoch: 7,
			Tables: []metrics.TableState{
				{Table: users, Rows: 7, Verified: now.Add(-time.Minute), Open: 3, Parked: 1, Listed: true},
				{Table: odd, Lossy: true, Stopped: true, Refused: true},
			},
		}
	})
	c.Applied(users, syncd.Delete, 2)
	c.Rejected(users, "duplicate", 1)
	c.Delay(users, 20*time.Millisecond)
	c.Delay(users, -time.Second) // the clocks differ
	c.Gap(users)
	h := metrics.NewHTTP(reg, func() int { return 3 })
	h.Answered("row", 200, 2*time.Millisecond)
	h.Answered("watch", 200, time.Hour)
	c.Behind(12)
	c.Resubscribed(errors.New("a heartbeat was missed"))
	c.Repaired(users, "missing", 4)
	c.Resynced(users, "full", "complete", 2*time.Second)
	c.Resynced(users, "full", "failed", time.Hour)
	c.Fetched(users, 5, 4)
	c.Checked(users, "1s", true)
	c.Checked(users, "1s", false)
	c.Checked(users, "5m", true)
	c.Away(users, errors.New("no responders"))
	c.Saved(now, 2*time.Second, 1<<20, nil)
	c.Saved(now, time.Hour, 0, errors.New("disk full"))
	if _, err := reg.Gather(); err != nil { // the first scrape makes the counters of tables that nothing was counted of
		panic(err)
	}
	return reg
}

func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(all())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestValues holds the values, by the names and labels that users' rules and dashboards rely on.
func TestValues(t *testing.T) {
	const want = `
# HELP syncd_bus_connected 1 while NATS is connected, by role (source, sidecar).
# TYPE syncd_bus_connected gauge
syncd_bus_connected{role="sidecar"} 0
syncd_bus_connected{role="source"} 1
# HELP syncd_bus_reconnects_total Times that the connection to NATS was lost and made anew, by role.
# TYPE syncd_bus_reconnects_total counter
syncd_bus_reconnects_total{role="sidecar"} 0
syncd_bus_reconnects_total{role="source"} 2
# HELP syncd_consistent_within_total Rows of the cache, sampled at random, that were as Postgres has them within a time after (1s, 10s, 1m, 5m), by table.
# TYPE syncd_consistent_within_total counter
syncd_consistent_within_total{table="public.users",window="1s"} 1
syncd_consistent_within_total{table="public.users",window="5m"} 1
# HELP syncd_gaps_total Losses noticed: once for each table of which deltas were missing at a marker.
# TYPE syncd_gaps_total counter
syncd_gaps_total 1
# HELP syncd_http_requests_total Requests answered, by endpoint and status; 200 stands for 304 too, and a watch counts when it ends.
# TYPE syncd_http_requests_total counter
syncd_http_requests_total{code="200",endpoint="row"} 1
syncd_http_requests_total{code="200",endpoint="watch"} 1
# HELP syncd_http_watches Watches that are open.
# TYPE syncd_http_watches gauge
syncd_http_watches 3
# HELP syncd_inconsistent_within_total Rows of the cache, sampled at random, that were still otherwise than Postgres has them a time after (1s, 10s, 1m, 5m), by table.
# TYPE syncd_inconsistent_within_total counter
syncd_inconsistent_within_total{table="public.users",window="1s"} 1
syncd_inconsistent_within_total{table="public.users",window="5m"} 0
# HELP syncd_parked_keys Keys whose delta could not be applied, by table.
# TYPE syncd_parked_keys gauge
syncd_parked_keys{table="public.\"Odd Name\""} 0
syncd_parked_keys{table="public.users"} 1
# HELP syncd_resync_repaired_total Rows put right by a list or a get, by table and kind (missing, stale, ghost, corrupt).
# TYPE syncd_resync_repaired_total counter
syncd_resync_repaired_total{kind="corrupt",table="public.\"Odd Name\""} 0
syncd_resync_repaired_total{kind="corrupt",table="public.users"} 0
syncd_resync_repaired_total{kind="ghost",table="public.\"Odd Name\""} 0
syncd_resync_repaired_total{kind="ghost",table="public.users"} 0
syncd_resync_repaired_total{kind="missing",table="public.\"Odd Name\""} 0
syncd_resync_repaired_total{kind="missing",table="public.users"} 4
syncd_resync_repaired_total{kind="stale",table="public.\"Odd Name\""} 0
syncd_resync_repaired_total{kind="stale",table="public.users"} 0
# HELP syncd_resync_total Resyncs ended, by table, mode and result (complete, stopped, busy, canceled, failed).
# TYPE syncd_resync_total counter
syncd_resync_total{mode="full",result="complete",table="public.users"} 1
syncd_resync_total{mode="full",result="failed",table="public.users"} 1
# HELP syncd_sidecar_applied_total Deltas that changed the cache, by table and operation.
# TYPE syncd_sidecar_applied_total counter
syncd_sidecar_applied_total{op="delete",table="public.\"Odd Name\""} 0
syncd_sidecar_applied_total{op="delete",table="public.users"} 2
syncd_sidecar_applied_total{op="truncate",table="public.\"Odd Name\""} 0
syncd_sidecar_applied_total{op="truncate",table="public.users"} 0
syncd_sidecar_applied_total{op="upsert",table="public.\"Odd Name\""} 0
syncd_sidecar_applied_total{op="upsert",table="public.users"} 0
# HELP syncd_sidecar_pending_messages Messages on the stream behind the one read last.
# TYPE syncd_sidecar_pending_messages gauge
syncd_sidecar_pending_messages 12
# HELP syncd_sidecar_refused 1 where the table can't be synced; /v1/tables says why.
# TYPE syncd_sidecar_refused gauge
syncd_sidecar_refused{table="public.\"Odd Name\""} 1
syncd_sidecar_refused{table="public.users"} 0
# HELP syncd_sidecar_rejected_total Deltas that the version gate did not take, by table and reason.
# TYPE syncd_sidecar_rejected_total counter
syncd_sidecar_rejected_total{reason="duplicate",table="public.users"} 1
# HELP syncd_sidecar_rows Rows in the cache, by table.
# TYPE syncd_sidecar_rows gauge
syncd_sidecar_rows{table="public.\"Odd Name\""} 0
syncd_sidecar_rows{table="public.users"} 7
# HELP syncd_sidecar_through_age_seconds How long ago the cache was all of Postgres; infinite before the first marker.
# TYPE syncd_sidecar_through_age_seconds gauge
syncd_sidecar_through_age_seconds 0.25
# HELP syncd_source_changes_total Changes handed to the publisher, by table and operation.
# TYPE syncd_source_changes_total counter
syncd_source_changes_total{op="delete",table="public.users"} 0
syncd_source_changes_total{op="truncate",table="public.users"} 0
syncd_source_changes_total{op="upsert",table="public.users"} 3
# HELP syncd_source_leader 1 where this source is the one that publishes, 0 where it stands by.
# TYPE syncd_source_leader gauge
syncd_source_leader 1
# HELP syncd_source_list_bytes_total Bytes of JSON of the pages read for lists, by table; digests move no rows.
# TYPE syncd_source_list_bytes_total counter
syncd_source_list_bytes_total{table="public.users"} 4096
# HELP syncd_source_list_pages_total Pages read from Postgres for lists and digests, by table.
# TYPE syncd_source_list_pages_total counter
syncd_source_list_pages_total{table="public.users"} 1
# HELP syncd_source_list_rows_total Rows read from Postgres for lists and digests, by table.
# TYPE syncd_source_list_rows_total counter
syncd_source_list_rows_total{table="public.users"} 500
# HELP syncd_source_marker_age_seconds Time since the last commit marker on the stream, by whichever source; infinite where none is known of.
# TYPE syncd_source_marker_age_seconds gauge
syncd_source_marker_age_seconds 2
# HELP syncd_source_replied_bytes_total Bytes of the list service's answers, by endpoint.
# TYPE syncd_source_replied_bytes_total counter
syncd_source_replied_bytes_total{endpoint="list"} 4126
# HELP syncd_source_requests_total Requests of the list service answered, by endpoint (tables, list, digest, get, mark) and code (200, 429 come again, as HTTP has them).
# TYPE syncd_source_requests_total counter
syncd_source_requests_total{code="200",endpoint="list"} 1
syncd_source_requests_total{code="429",endpoint="list"} 1
# HELP syncd_source_slot_lag_bytes How far the slot's confirmed position is behind the server's.
# TYPE syncd_source_slot_lag_bytes gauge
syncd_source_slot_lag_bytes 4096
# HELP syncd_source_slot_retained_bytes Write-ahead log that the replication slot keeps the server from removing.
# TYPE syncd_source_slot_retained_bytes gauge
syncd_source_slot_retained_bytes 1.048576e+06
# HELP syncd_source_table_refused 1 where the table can't be synced; the log and /v1/tables of a sidecar say why.
# TYPE syncd_source_table_refused gauge
syncd_source_table_refused{table="public.\"Odd Name\""} 1
syncd_source_table_refused{table="public.users"} 0
# HELP syncd_verified_age_seconds Time since the table was last proved equal to Postgres; infinite where it never was.
# TYPE syncd_verified_age_seconds gauge
syncd_verified_age_seconds{table="public.\"Odd Name\""} +Inf
syncd_verified_age_seconds{table="public.users"} 60
`
	var names []string
	for line := range strings.Lines(want) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == "TYPE" {
			names = append(names, f[2])
		}
	}
	if err := testutil.GatherAndCompare(all(), strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

// TestHistograms holds the names of the histograms, how much they saw, and that none saw a time below zero.
func TestHistograms(t *testing.T) {
	families, err := all().Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if h := m.GetHistogram(); h != nil {
				got[f.GetName()] = fmt.Sprintf("%d in %g s", h.GetSampleCount(), h.GetSampleSum())
			}
		}
	}
	for name, want := range map[string]string{
		"syncd_source_publish_seconds": "1 in 0.003 s",
		"syncd_source_ack_seconds":     "1 in 0.001 s",
		"syncd_sidecar_delay_seconds":  "2 in 0.02 s",
		"syncd_resync_seconds":         "1 in 2 s",
		"syncd_checkpoint_seconds":     "1 in 2 s",
	} {
		if got[name] != want {
			t.Errorf("%s saw %s, want %s", name, got[name], want)
		}
	}
}

func BenchmarkApplied(b *testing.B) {
	c := metrics.NewSidecar(prometheus.NewRegistry(), func() metrics.SidecarState { return metrics.SidecarState{} })
	b.ReportAllocs()
	for b.Loop() {
		c.Applied(users, syncd.Upsert, 1)
		c.Delay(users, time.Millisecond)
	}
}

func ExampleNewSidecar() {
	reg := prometheus.NewRegistry()
	metrics.NewProcess(reg, metrics.Build{Version: "v1.2.3", Commit: "abc"})
	metrics.NewBus(reg, "source", func() metrics.BusState { return metrics.BusState{Connected: true, Reconnects: 2} })
	metrics.NewBus(reg, "sidecar", func() metrics.BusState { return metrics.BusState{} })
	metrics.NewSourceState(reg, func() metrics.SourceState {
		return metrics.SourceState{Now: now, Sent: now.Add(-2 * time.Second), Epoch: 7, Tables: []syncd.TableInfo{{Table: users}, {Table: odd, Error: "no key"}}}
	})

	c := metrics.NewSidecar(reg, func() metrics.SidecarState { return metrics.SidecarState{Age: -1} })
	c.Gap(users) // sink.Cache does this
	n, err := testutil.GatherAndCount(reg, "syncd_gaps_total")
	fmt.Println(n, err)
	// Output: 1 <nil>
}
