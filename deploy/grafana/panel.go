//lint:file-ignore SA1019 The older form is what every Grafana since 8 takes from files; the newer one needs 12.

package grafana

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// Units as Grafana names them.
const (
	seconds   = "s"
	bytes     = "bytes"
	perSecond = "cps"
	bytesRate = "Bps"
	share     = "percentunit"
	plain     = "short"
)

// query is an expression and the name of its series.
type query struct{ expr, legend string }

// source is the Prometheus that the variable of a dashboard chooses.
var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}

func target(q query, instant bool) *prometheus.DataqueryBuilder {
	b := prometheus.NewDataqueryBuilder().Datasource(source).Expr(q.expr).LegendFormat(q.legend)
	if instant {
		return b.Instant()
	}
	return b.Range()
}

// plot shows how series went; what says how to read it.
func plot(title, what, unit string, queries ...query) cog.Builder[dashboard.Panel] {
	p := timeseries.NewPanelBuilder().Title(title).Description(what).Datasource(source).Unit(unit).Min(0).
		Height(8).Span(12).LineWidth(1).FillOpacity(8).ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeTable).
			Placement(common.LegendPlacementBottom).Calcs([]string{"lastNotNull", "max"}))
	for i, q := range queries {
		p.WithTarget(target(q, false).RefId(string(rune('A' + i))))
	}
	return p
}

// number shows what is now, green below warn, red from bad on. With warn above bad it is the other way round.
func number(title, what, unit string, warn, bad float64, q query) cog.Builder[dashboard.Panel] {
	steps := []dashboard.Threshold{{Color: "green"}, {Color: "orange", Value: &warn}, {Color: "red", Value: &bad}}
	if warn > bad {
		steps = []dashboard.Threshold{{Color: "red"}, {Color: "orange", Value: &bad}, {Color: "green", Value: &warn}}
	}
	return stat.NewPanelBuilder().Title(title).Description(what).Datasource(source).Unit(unit).Height(4).Span(4).
		GraphMode(common.BigValueGraphModeArea).ColorMode(common.BigValueColorModeValue).
		Thresholds(dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)).
		ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
		WithTarget(target(q, false))
}

// board begins a dashboard whose instances are those that have a metric of it.
func board(uid, title, what, instances string) *dashboard.DashboardBuilder {
	b := dashboard.NewDashboardBuilder(title).Uid(uid).Description(what).Tags([]string{"syncd"}).Readonly().
		Time("now-1h", "now").Refresh("30s").Timezone("browser").Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("syncd").Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{"syncd"}).
			IncludeVars(true).KeepTime(true)).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(choice("sync", "Sync", "label_values(syncd_build_info, sync)"))
	if instances != "" {
		b.WithVariable(choice("instance", "Instance", "label_values("+instances+`{sync=~"$sync"}, instance)`))
	}
	return b
}

// choice is a variable of one or several values, or all of them: also of series that lack the label.
func choice(name, label, values string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(source).Query(dashboard.StringOrMap{String: &values}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Multi(true).IncludeAll(true).AllValue(".*").
		Current(dashboard.VariableOption{
			Text:  dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		})
}

func memory(of string) cog.Builder[dashboard.Panel] {
	return plot("Memory", "Resident, and what Go's heap has live.", bytes,
		query{`max by (instance) (process_resident_memory_bytes` + of + ` and on (instance, job) syncd_build_info)`, "resident {{instance}}"},
		query{`max by (instance) (go_memstats_heap_inuse_bytes` + of + ` and on (instance, job) syncd_build_info)`, "heap {{instance}}"})
}

func cpu(of string) cog.Builder[dashboard.Panel] {
	return plot("CPU", "Cores in use.", plain,
		query{`sum by (instance) (rate(process_cpu_seconds_total` + of + `[$__rate_interval]) and on (instance, job) syncd_build_info)`, "{{instance}}"})
}
