package daemon

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/api"
	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/explain"
	"github.com/syncd-io/syncd/metrics"
)

// sidecarPart is the caches of one sidecar, their way to NATS and the API.
type sidecarPart struct {
	*process
	link     *link
	sinks    group
	api      *api.API
	token    *api.Token
	listener net.Listener

	mu   sync.Mutex
	kept kept
}

// openSidecar reads the cache on disk and opens the API's port.
func (p *process) openSidecar() (part, error) {
	s := &sidecarPart{process: p, token: &api.Token{}}
	log := p.Log.With("role", "sidecar")
	s.link = newLink(busConfig(p.Config, p.embedded, "syncd-sidecar-"+p.Config.Name, log.With("stage", "bus")), p.Config.Name)
	var err error
	if s.kept, err = keptOf(p.Config); err != nil {
		return nil, err
	}
	if s.sinks, err = p.openGroup(s.link, s.kept, s.indexes); err != nil {
		return nil, err
	}
	s.link.observer = s.sinks.first() // the connection is one, whoever counts what it does
	metrics.NewBus(p.registry, "sidecar", s.link.metrics)
	if err := s.openAPI(); err != nil {
		return nil, err
	}
	p.apply["sidecar.tables"] = s.setTables
	p.readies = append(p.readies, s.api.Ready)
	return s.run, nil
}

// indexes are those that are declared now.
func (s *sidecarPart) indexes() map[syncd.Table][][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.indexes
}

func (s *sidecarPart) openAPI() error {
	c := s.Config.Sidecar
	s.token.Set(c.Token.Reveal())
	for _, key := range []string{"sidecar.token", "sidecar.token_file"} {
		s.apply[key] = func(c *config.Config) error { s.token.Set(c.Sidecar.Token.Reveal()); return nil }
	}
	var err error
	if s.listener, err = api.Listen(c.Listen); err != nil {
		return err
	}
	s.closers = append(s.closers, s.listener)
	_, tcp := s.listener.(*net.TCPListener)
	why := &explain.Explainer{Cache: s.sinks.first().Cache(), Source: s.sinks.first(), History: s.link}
	s.api = api.New(api.Options{
		Cache: s.sinks.first().Cache(), History: s.sinks.first().Cache().History(), Stale: c.Stale.After, Limits: api.Limits{Watches: c.Watch.Limit},
		Resync: s.sinks, Explain: why, Node: s, Marks: s.sinks.first(), Gatherer: s.registry, Indexes: s.indexes, Logger: s.Log.With("stage", "api"),
		Access: api.Access{Token: s.token, LocalOnly: tcp && api.Loopback(c.Listen) && c.Token.IsZero() && c.TLS.Cert == ""},
	})
	s.api.Observer = metrics.NewHTTP(s.registry, s.api.Watches)
	return nil
}

// run keeps the cache and answers reads until ctx ends.
func (s *sidecarPart) run(ctx context.Context) error {
	tls, err := tlsConfig(s.Config.Sidecar.TLS)
	if err != nil {
		return err
	}
	address := addressOf(s.listener, tls != nil)
	s.Log.Info("reads are answered", "address", address)
	if s.Listening != nil {
		s.Listening(address)
	}
	server := &api.Server{Listener: s.listener, Handler: s.api, TLS: tls, Logger: s.Log.With("stage", "api")}
	g, all := errgroup.WithContext(ctx)
	for _, run := range append(s.sinks.runs(), s.link.run, s.follow, s.api.Run, server.Run, s.announce) {
		g.Go(func() error { return run(all) })
	}
	if err := ended(ctx, g.Wait()); err != nil {
		return fmt.Errorf("sidecar: %w", err)
	}
	return s.sinks.Close()
}

// addressOf gives a listener's address as client commands take it.
func addressOf(l net.Listener, tls bool) string {
	switch {
	case l.Addr().Network() == "unix":
		return "unix:" + l.Addr().String()
	case tls:
		return "https://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}

// setTables takes over which tables are kept.
func (s *sidecarPart) setTables(c *config.Config) error {
	kept, err := keptOf(c)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.kept = kept
	s.mu.Unlock()
	if err := s.sinks.declare(kept); err != nil {
		return err
	}
	return s.look(context.Background())
}

// follow looks at the source's tables when a marker says that some are to be listed: new ones come in at once, and not when
// the catalog looks next.
func (s *sidecarPart) follow(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.link.relisted:
		}
		if err := s.look(ctx); err != nil {
			s.Log.Debug("look at the source's tables", "error", err) // the catalog looks again, and says what is wrong
		}
	}
}

// lookTimeout bounds one look at the source's tables.
const lookTimeout = 5 * time.Second

func (s *sidecarPart) look(ctx context.Context) error {
	s.mu.Lock()
	tables := s.kept.tables
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return s.sinks.SetTables(ctx, tables)
}

// Ready says whether the cache may be read behind a readiness probe.
func (s *sidecarPart) Ready() error { return s.sinks.Ready() }

// Status says what runs.
func (s *sidecarPart) Status() api.Status {
	st := api.Status{Name: s.Config.Name, Program: s.Program, Started: s.started, Bus: s.link.state(), Reports: s.sinks.first().Reports(), Sinks: s.sinks.statuses()}
	if err := s.sinks.first().Cache().Fault(); err != nil {
		st.Fault = err.Error()
	}
	for _, p := range s.sinks.first().Running() {
		st.Running = append(st.Running, api.Progress{Table: p.Table.String(), Mode: p.Mode, Rows: p.Rows, Bytes: p.Bytes, Expected: p.Expected})
	}
	return st
}
