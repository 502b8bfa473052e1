//lint:file-ignore SA1019 The older form is what every Grafana since 8 takes from files; the newer one needs 12.

// Package grafana makes the dashboards: fleet, one source, one sidecar. What it makes lies in dashboards/ as JSON, for
// Grafana's provisioning and for import by hand; a test holds the files to the code:
//
//	go test ./grafana -run Current -update
package grafana

import (
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// Files gives the dashboards by the names of their files.
func Files() (map[string][]byte, error) {
	all := map[string][]byte{}
	for name, b := range map[string]*dashboard.DashboardBuilder{
		"fleet.json": fleet(), "source.json": oneSource(), "sidecar.json": oneSidecar(),
	} {
		d, err := b.Build()
		if err != nil {
			return nil, fmt.Errorf("build %s: %w", name, err)
		}
		text, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", name, err)
		}
		all[name] = append(text, '\n')
	}
	return all, nil
}

func fleet() *dashboard.DashboardBuilder {
	return board("syncd-fleet", "syncd: fleet", "Every source and sidecar: who publishes, how fresh and how true the caches are.", "").
		WithPanel(number("Sources that lead", "One of each sync publishes.", plain, 1, 0.5, query{`sum(syncd_source_leader{sync=~"$sync"})`, ""})).
		WithPanel(number("Sidecars ready", "The share that may be read behind a readiness probe.", share, 1, 0.9, query{`avg(syncd_sidecar_ready{sync=~"$sync"})`, ""})).
		WithPanel(number("Oldest cache", "How long ago the least fresh cache was all of Postgres.", seconds, 10, 60, query{`max(syncd_sidecar_through_age_seconds{sync=~"$sync"})`, ""})).
		WithPanel(number("Longest unproved", "The longest time since a table was proved equal to Postgres.", seconds, 1800, 3600, query{`max(syncd_verified_age_seconds{sync=~"$sync"})`, ""})).
		WithPanel(number("Rows repaired", "Within the time shown: rows that were otherwise than in Postgres, beyond lag.", plain, 1, 100, query{`sum(increase(syncd_resync_repaired_total{sync=~"$sync"}[$__range]))`, ""})).
		WithPanel(number("Most log retained", "What a slot keeps the server from removing.", bytes, 2e9, 4e9, query{`max(syncd_source_slot_retained_bytes{sync=~"$sync"})`, ""})).
		WithRow(dashboard.NewRowBuilder("Fresh and true")).
		WithPanel(plot("Age of each cache", "How long ago it was all of Postgres. An idle database has markers too, so it stays near zero.", seconds,
			query{`syncd_sidecar_through_age_seconds{sync=~"$sync"}`, "{{instance}}"})).
		WithPanel(plot("Commit to cache, 99th percentile", "From the commit in Postgres until it could be read.", seconds,
			query{`histogram_quantile(0.99, sum by (le, instance) (rate(syncd_sidecar_delay_seconds_bucket{sync=~"$sync"}[$__rate_interval])))`, "{{instance}}"})).
		WithPanel(plot("Time since proved equal", "By table, of the sidecar that has waited longest. It is a saw: each resync brings it down.", seconds,
			query{`max by (sync, table) (syncd_verified_age_seconds{sync=~"$sync"})`, "{{table}}"})).
		WithPanel(plot("Drift repaired", "Rows that a comparison put right, by kind.", plain,
			query{`sum by (kind) (increase(syncd_resync_repaired_total{sync=~"$sync"}[$__rate_interval]))`, "{{kind}}"})).
		WithRow(dashboard.NewRowBuilder("Traffic and faults")).
		WithPanel(plot("Changes published", "By table.", perSecond,
			query{`sum by (table) (rate(syncd_source_changes_total{sync=~"$sync"}[$__rate_interval]))`, "{{table}}"})).
		WithPanel(plot("Losses noticed", "Deltas that were missing at a marker, by sidecar; each is healed by a list.", plain,
			query{`increase(syncd_gaps_total{sync=~"$sync"}[$__rate_interval])`, "{{instance}}"})).
		WithPanel(plot("Keys parked, losses open, prunes stopped", "Each should be zero.", plain,
			query{`sum(syncd_parked_keys{sync=~"$sync"})`, "keys parked"}, query{`sum(syncd_sidecar_loss_open{sync=~"$sync"})`, "tables with an open loss"},
			query{`sum(syncd_resync_stopped{sync=~"$sync"})`, "prunes that wait for approval"}, query{`sum(syncd_sidecar_refused{sync=~"$sync"})`, "tables refused"})).
		WithPanel(plot("Versions", "How many processes run each.", plain,
			query{`count by (version) (syncd_build_info{sync=~"$sync"})`, "{{version}}"}))
}

func oneSource() *dashboard.DashboardBuilder {
	const of = `{sync=~"$sync",instance=~"$instance"}`
	return board("syncd-source", "syncd: source", "One source: reading Postgres, publishing, lists.", "syncd_source_leader").
		WithPanel(number("Leads", "1: this one publishes. 0: it stands by.", plain, 1, 0.5, query{`max(syncd_source_leader` + of + `)`, ""})).
		WithPanel(number("Last marker", "A source sends one every second.", seconds, 5, 60, query{`max(syncd_source_marker_age_seconds` + of + `)`, ""})).
		WithPanel(number("Log retained", "Write-ahead log that the slot keeps.", bytes, 2e9, 4e9, query{`max(syncd_source_slot_retained_bytes` + of + `)`, ""})).
		WithPanel(number("Slot's limit used", "At 100 % the slot is given up and every cache lists anew.", share, 0.5, 0.85,
			query{`max(syncd_source_slot_retained_bytes` + of + ` / syncd_source_slot_limit_bytes` + of + `)`, ""})).
		WithPanel(number("Not acknowledged", "Handed over to JetStream and not stored yet.", bytes, 8e6, 16e6, query{`max(syncd_source_unacknowledged_bytes` + of + `)`, ""})).
		WithPanel(number("NATS", "1: connected.", plain, 1, 0.5, query{`min(syncd_bus_connected{role="source",sync=~"$sync",instance=~"$instance"})`, ""})).
		WithRow(dashboard.NewRowBuilder("Push")).
		WithPanel(plot("Changes by operation", "Final states a second: one for each key and transaction.", perSecond,
			query{`sum by (op) (rate(syncd_source_changes_total` + of + `[$__rate_interval]))`, "{{op}}"})).
		WithPanel(plot("Changes by table", "", perSecond, query{`sum by (table) (rate(syncd_source_changes_total` + of + `[$__rate_interval]))`, "{{table}}"})).
		WithPanel(plot("Commit to stored", "From a commit's arrival until JetStream acknowledged its flush.", seconds,
			query{`histogram_quantile(0.5, sum by (le) (rate(syncd_source_publish_seconds_bucket` + of + `[$__rate_interval])))`, "half"},
			query{`histogram_quantile(0.99, sum by (le) (rate(syncd_source_publish_seconds_bucket` + of + `[$__rate_interval])))`, "99 %"},
			query{`histogram_quantile(0.99, sum by (le) (rate(syncd_source_ack_seconds_bucket` + of + `[$__rate_interval])))`, "99 % of single messages"})).
		WithPanel(plot("Published", "Bytes that JetStream stored.", bytesRate, query{`sum(rate(syncd_source_published_bytes_total` + of + `[$__rate_interval]))`, "stored"})).
		WithPanel(plot("Log held by the slot", "Retained counts from the oldest open transaction, lag from what was confirmed.", bytes,
			query{`max by (instance) (syncd_source_slot_retained_bytes` + of + `)`, "retained {{instance}}"}, query{`max by (instance) (syncd_source_slot_lag_bytes` + of + `)`, "lag {{instance}}"})).
		WithPanel(plot("Interruptions", "Connections made anew, publishing settled anew.", plain,
			query{`sum(increase(syncd_source_reconnects_total` + of + `[$__rate_interval]))`, "Postgres and publishing"},
			query{`sum(increase(syncd_source_publish_retries_total` + of + `[$__rate_interval]))`, "publishing settled"},
			query{`sum(increase(syncd_bus_reconnects_total{role="source",sync=~"$sync",instance=~"$instance"}[$__rate_interval]))`, "NATS"})).
		WithRow(dashboard.NewRowBuilder("Pull")).
		WithPanel(plot("Rows read for lists and digests", "What caches cost Postgres. The same page asked for by many is read once.", perSecond,
			query{`sum by (table) (rate(syncd_source_list_rows_total` + of + `[$__rate_interval]))`, "{{table}}"})).
		WithPanel(plot("Requests", "By endpoint and code; 429 tells to come again.", perSecond,
			query{`sum by (endpoint, code) (rate(syncd_source_requests_total` + of + `[$__rate_interval]))`, "{{endpoint}} {{code}}"})).
		WithPanel(plot("Time to answer, 99th percentile", "", seconds,
			query{`histogram_quantile(0.99, sum by (le, endpoint) (rate(syncd_source_request_seconds_bucket` + of + `[$__rate_interval])))`, "{{endpoint}}"})).
		WithPanel(plot("Answers", "Bytes of the list service on the bus.", bytesRate, query{`sum by (endpoint) (rate(syncd_source_replied_bytes_total` + of + `[$__rate_interval]))`, "{{endpoint}}"})).
		WithRow(dashboard.NewRowBuilder("Process")).
		WithPanel(memory(of)).WithPanel(cpu(of))
}

func oneSidecar() *dashboard.DashboardBuilder {
	const of = `{sync=~"$sync",instance=~"$instance"}`
	return board("syncd-sidecar", "syncd: sidecar", "One sidecar: how fresh, how true, what it repairs.", "syncd_sidecar_ready").
		WithPanel(number("Ready", "1: it may be read behind a readiness probe.", plain, 1, 0.5, query{`min(syncd_sidecar_ready` + of + `)`, ""})).
		WithPanel(number("Age", "How long ago the cache was all of Postgres.", seconds, 10, 60, query{`max(syncd_sidecar_through_age_seconds` + of + `)`, ""})).
		WithPanel(number("Longest unproved", "The longest time since a table was proved equal.", seconds, 1800, 3600, query{`max(syncd_verified_age_seconds` + of + `)`, ""})).
		WithPanel(number("Rows", "In the cache.", plain, 1e9, 1e10, query{`sum(syncd_sidecar_rows` + of + `)`, ""})).
		WithPanel(number("Keys open", "Undecided, being fetched or parked.", plain, 100, 1000, query{`sum(syncd_open_keys` + of + `)`, ""})).
		WithPanel(number("Messages waiting", "On the stream behind the one read last.", plain, 1000, 100000, query{`max(syncd_sidecar_pending_messages` + of + `)`, ""})).
		WithRow(dashboard.NewRowBuilder("Push")).
		WithPanel(plot("Deltas applied", "By operation.", perSecond, query{`sum by (op) (rate(syncd_sidecar_applied_total` + of + `[$__rate_interval]))`, "{{op}}"})).
		WithPanel(plot("Deltas not taken", "By reason. Duplicates are usual after a restart.", perSecond, query{`sum by (reason) (rate(syncd_sidecar_rejected_total` + of + `[$__rate_interval]))`, "{{reason}}"})).
		WithPanel(plot("Commit to cache", "From the commit in Postgres until it could be read.", seconds,
			query{`histogram_quantile(0.5, sum by (le) (rate(syncd_sidecar_delay_seconds_bucket` + of + `[$__rate_interval])))`, "half"},
			query{`histogram_quantile(0.99, sum by (le) (rate(syncd_sidecar_delay_seconds_bucket` + of + `[$__rate_interval])))`, "99 %"})).
		WithPanel(plot("Losses and new consumers", "Deltas missing at a marker; times that the stream's consumer was made anew.", plain,
			query{`sum(increase(syncd_gaps_total` + of + `[$__rate_interval]))`, "losses"}, query{`sum(increase(syncd_sidecar_resubscribes_total` + of + `[$__rate_interval]))`, "new consumers"},
			query{`sum(increase(syncd_bus_reconnects_total{role="sidecar",sync=~"$sync",instance=~"$instance"}[$__rate_interval]))`, "NATS reconnects"})).
		WithRow(dashboard.NewRowBuilder("Pull and proof")).
		WithPanel(plot("Time since proved equal", "By table.", seconds, query{`max by (table) (syncd_verified_age_seconds` + of + `)`, "{{table}}"})).
		WithPanel(plot("Drift repaired", "By table and kind.", plain, query{`sum by (table, kind) (increase(syncd_resync_repaired_total` + of + `[$__rate_interval]))`, "{{table}} {{kind}}"})).
		WithPanel(plot("Sampled rows that are true", "The share of rows that were as Postgres has them within a time.", share,
			query{`sum by (window) (rate(syncd_consistent_within_total` + of + `[$__range])) / (sum by (window) (rate(syncd_consistent_within_total` + of + `[$__range])) + sum by (window) (rate(syncd_inconsistent_within_total` + of + `[$__range])))`, "within {{window}}"})).
		WithPanel(plot("Resyncs", "Ended, by result.", plain, query{`sum by (result) (increase(syncd_resync_total` + of + `[$__rate_interval]))`, "{{result}}"})).
		WithPanel(plot("Length of a resync", "The mean of those that completed.", seconds,
			query{`sum by (table, mode) (increase(syncd_resync_seconds_sum` + of + `[$__range])) / sum by (table, mode) (increase(syncd_resync_seconds_count` + of + `[$__range]))`, "{{table}} {{mode}}"})).
		WithPanel(plot("Keys parked, losses open, prunes stopped", "Each should be zero.", plain,
			query{`sum by (table) (syncd_parked_keys` + of + `)`, "{{table}} parked"}, query{`sum by (table) (syncd_sidecar_loss_open` + of + `)`, "{{table}} loss"},
			query{`sum by (table) (syncd_resync_stopped` + of + `)`, "{{table}} stopped"})).
		WithPanel(plot("Keys fetched singly", "Asked for, and settled by an answer.", perSecond,
			query{`sum(rate(syncd_fetched_keys_total` + of + `[$__rate_interval]))`, "asked"}, query{`sum(rate(syncd_settled_keys_total` + of + `[$__rate_interval]))`, "settled"})).
		WithPanel(plot("Source not answering", "Lists and gets that are tried again.", plain, query{`sum by (table) (increase(syncd_resync_source_errors_total` + of + `[$__rate_interval]))`, "{{table}}"})).
		WithRow(dashboard.NewRowBuilder("Reads")).
		WithPanel(plot("Requests", "By endpoint and status.", perSecond,
			query{`sum by (endpoint, code) (rate(syncd_http_requests_total` + of + `[$__rate_interval]))`, "{{endpoint}} {{code}}"})).
		WithPanel(plot("Time to answer, 99th percentile", "Waiting for min_version included.", seconds,
			query{`histogram_quantile(0.99, sum by (le, endpoint) (rate(syncd_http_request_seconds_bucket` + of + `[$__rate_interval])))`, "{{endpoint}}"})).
		WithPanel(plot("Watches", "Open now.", plain, query{`sum by (instance) (syncd_http_watches` + of + `)`, "{{instance}}"})).
		WithRow(dashboard.NewRowBuilder("Process")).
		WithPanel(plot("Rows by table", "", plain, query{`sum by (table) (syncd_sidecar_rows` + of + `)`, "{{table}}"})).
		WithPanel(plot("Age of the checkpoint", "What a restart begins from; saved every few minutes while rows change.", seconds,
			query{`time() - (max by (instance) (syncd_checkpoint_timestamp_seconds` + of + `) > 0)`, "{{instance}}"})).
		WithPanel(memory(of)).WithPanel(cpu(of))
}
