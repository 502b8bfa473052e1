package daemon

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/syncd-io/syncd/internal/api"
	"github.com/syncd-io/syncd/internal/config"
)

// openMetrics opens the port of the metrics where they have one of their own: where it is configured, and for a source
// alone in any case.
func (p *process) openMetrics() (part, error) {
	listen := p.Config.Metrics.Listen
	if listen == "" {
		if p.Roles&config.SidecarRole != 0 {
			return func(context.Context) error { return nil }, nil
		}
		listen = config.DefaultMetricsListen
	}
	l, err := api.Listen(listen)
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, l)
	server := &api.Server{Listener: l, Handler: p.metricsHandler(), Logger: p.Log.With("stage", "metrics")}
	return func(ctx context.Context) error {
		p.Log.Info("metrics are served", "address", addressOf(l, false)+"/metrics")
		return ended(ctx, server.Run(ctx))
	}, nil
}

// metricsHandler serves metrics and probes, and nothing of any row.
func (p *process) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, p.ready()) })
	return mux
}

// ready says whether everything that runs here is.
func (p *process) ready() error {
	for _, ready := range p.readies {
		if err := ready(); err != nil {
			return err
		}
	}
	return nil
}

// answer answers a probe.
func answer(w http.ResponseWriter, err error) {
	body := map[string]string{"status": "ok"}
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		body = map[string]string{"error": err.Error()}
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(body) // a client that went away needs no answer
}
