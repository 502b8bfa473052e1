package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Build says what a program was made of.
type Build struct{ Version, Commit string }

type process struct{ families }

// NewProcess registers what every process has: the build, the Go runtime, the process. It panics where they are registered
// already.
func NewProcess(reg prometheus.Registerer, b Build) {
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	newProcess(reg, b)
}

func newProcess(reg prometheus.Registerer, b Build) *process {
	p := &process{families{reg: reg, role: "any"}}
	const name, help = "syncd_build_info", "Always 1; the labels say what runs."
	labels := prometheus.Labels{"version": b.Version, "commit": b.Commit, "goversion": runtime.Version()}
	p.note("gauge", name, help, []string{"version", "commit", "goversion"})
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
	info.Set(1)
	reg.MustRegister(info)
	return p
}

// BusState is what a connection to NATS knows at one moment.
type BusState struct {
	Connected bool
	// Reconnects counts since the start of the process; a bus never reached has none.
	Reconnects uint64
}

type busMetrics struct{ families }

// NewBus registers the state of one role's connection to NATS, which is asked for at each scrape. It panics where the role's is
// registered already.
func NewBus(reg prometheus.Registerer, role string, state func() BusState) { newBus(reg, role, state) }

func newBus(reg prometheus.Registerer, role string, state func() BusState) *busMetrics {
	b := &busMetrics{families{reg: prometheus.WrapRegistererWith(prometheus.Labels{"role": role}, reg), role: "any"}}
	connected := b.observed("gauge", "syncd_bus_connected", "1 while NATS is connected, by role (source, sidecar).")
	reconnects := b.observed("counter", "syncd_bus_reconnects_total", "Times that the connection to NATS was lost and made anew, by role.")
	for i := range b.all {
		b.all[i].Labels = []string{"role"}
	}
	b.reg.MustRegister(asked{[]observed{connected, reconnects}, func(ch chan<- prometheus.Metric) {
		s := state()
		connected.send(ch, one(s.Connected))
		reconnects.send(ch, float64(s.Reconnects))
	}})
	return b
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
