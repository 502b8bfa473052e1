package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Family is what a metric is: its name, kind, help and labels.
type Family struct {
	Name   string
	Kind   string // counter, gauge or histogram
	Help   string
	Labels []string
	Role   string // which process has it: source, sidecar, or any
}

// Families gives every metric of syncd's own, by role and name. What a process has beside them is of the Go runtime (go_…)
// and of the process (process_…).
func Families() []Family {
	var all []Family
	note := func(f *families) { all = append(all, f.all...) }
	reg := prometheus.NewRegistry()
	note(&newProcess(reg, Build{}).families)
	note(&newBus(reg, "source", nil).families)
	note(&NewSource(reg).families)
	note(&newSourceState(reg, nil).families)
	note(&NewSidecar(reg, nil).families)
	note(&NewHTTP(reg, nil).families)
	slices.SortFunc(all, func(a, b Family) int {
		if c := strings.Compare(a.Role, b.Role); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all
}

// families registers metrics of a role and remembers what they are. It panics where one is registered already.
type families struct {
	reg  prometheus.Registerer
	role string
	all  []Family
}

func (f *families) note(kind, name, help string, labels []string) {
	f.all = append(f.all, Family{Name: name, Kind: kind, Help: help, Labels: labels, Role: f.role})
}

func (f *families) counters(name, help string, labels ...string) *prometheus.CounterVec {
	f.note("counter", name, help, labels)
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	f.reg.MustRegister(v)
	return v
}

func (f *families) counter(name, help string) prometheus.Counter {
	return f.counters(name, help).WithLabelValues()
}

func (f *families) gauge(name, help string) prometheus.Gauge {
	f.note("gauge", name, help, nil)
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	f.reg.MustRegister(g)
	return g
}

func (f *families) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	f.note("histogram", name, help, labels)
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	f.reg.MustRegister(v)
	return v
}

func (f *families) histogram(name, help string, buckets []float64) prometheus.Observer {
	return f.histograms(name, help, buckets).WithLabelValues()
}

// observed is a gauge or counter that is asked for at a scrape.
type observed struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func (f *families) observed(kind, name, help string, labels ...string) observed {
	f.note(kind, name, help, labels)
	o := observed{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
	if kind == "counter" {
		o.kind = prometheus.CounterValue
	}
	return o
}

func (o observed) send(ch chan<- prometheus.Metric, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(o.desc, o.kind, v, labels...)
}

// asked is a collector of what is asked for at a scrape.
type asked struct {
	all     []observed
	collect func(chan<- prometheus.Metric)
}

// Describe implements prometheus.Collector.
func (a asked) Describe(ch chan<- *prometheus.Desc) {
	for _, o := range a.all {
		ch <- o.desc
	}
}

// Collect implements prometheus.Collector.
func (a asked) Collect(ch chan<- prometheus.Metric) { a.collect(ch) }
