package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// HTTP observes a sidecar's API. Its methods may be called from many goroutines.
type HTTP struct {
	families
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
}

// NewHTTP registers the API's metrics. watches is asked at each scrape for how many are open. It panics where they are registered
// already.
func NewHTTP(reg prometheus.Registerer, watches func() int) *HTTP {
	f := families{reg: reg, role: "sidecar"}
	h := &HTTP{
		requests: f.counters("syncd_http_requests_total", "Requests answered, by endpoint and status; 200 stands for 304 too, and a watch counts when it ends.", "endpoint", "code"),
		took:     f.histograms("syncd_http_request_seconds", "Time to answer a request, waiting for min_version included, by endpoint; without watches.", delays, "endpoint"),
	}
	open := f.observed("gauge", "syncd_http_watches", "Watches that are open.")
	reg.MustRegister(asked{[]observed{open}, func(ch chan<- prometheus.Metric) { open.send(ch, float64(watches())) }})
	h.families = f
	return h
}

// Answered counts a request.
func (h *HTTP) Answered(endpoint string, status int, took time.Duration) {
	h.requests.WithLabelValues(endpoint, strconv.Itoa(status)).Inc()
	if endpoint != "watch" {
		h.took.WithLabelValues(endpoint).Observe(took.Seconds())
	}
}
