package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/metrics"
	"github.com/syncd-io/syncd/source"
)

// sourcePart reads Postgres, publishes what changes and answers lists.
type sourcePart struct {
	*process
	config    source.Config
	bus       bus.Config
	metrics   *metrics.Source
	publisher *bus.Publisher // its Conn is set once there is one
	watch     *source.Watch
	conn      atomic.Pointer[nats.Conn]
}

// openSource makes the stages' configuration. It connects to nothing.
func (p *process) openSource() (part, error) {
	s := &sourcePart{process: p, metrics: metrics.NewSource(p.registry)}
	log := p.Log.With("role", "source")
	var err error
	if s.config, err = sourceConfig(p.Config, log.With("stage", "watch"), s.metrics); err != nil {
		return nil, err
	}
	if err := s.config.Validate(); err != nil {
		return nil, err
	}
	s.bus = busConfig(p.Config, p.embedded, "syncd-source-"+p.Config.Name, log.With("stage", "bus"))
	s.publisher = &bus.Publisher{Name: p.Config.Name, Limits: limits(p.Config), Log: s.bus.Log, Observer: s.metrics}
	s.watch = source.NewWatch(s.config, s.publisher)
	s.watch.Recreate = p.Recreate
	metrics.NewBus(p.registry, "source", func() metrics.BusState { return busState(s.conn.Load()) })
	metrics.NewSourceState(p.registry, s.state)
	p.apply["source.tables"] = s.setTables
	p.readies = append(p.readies, s.ready)
	return s.run, nil
}

// run waits for NATS and then follows Postgres until ctx ends.
func (s *sourcePart) run(ctx context.Context) error {
	conn, err := bus.ConnectWait(ctx, s.bus)
	if err != nil {
		return ended(ctx, err)
	}
	defer conn.Close()
	s.conn.Store(conn)
	s.publisher.Conn = conn
	lister := source.NewLister(s.watch)
	defer lister.Close()
	service := &bus.Service{Conn: conn, Name: s.Config.Name, Lister: lister, Marks: s.watch, Version: s.Program, Log: s.bus.Log, Observer: s.metrics}
	g, all := errgroup.WithContext(ctx)
	announcer := &bus.Announcer{Conn: conn, Tell: s.tell}
	for _, run := range []part{s.publisher.Run, s.watch.Run, service.Run, announcer.Run} {
		g.Go(func() error { return run(all) })
	}
	if err := ended(ctx, g.Wait()); err != nil {
		return fmt.Errorf("source: %w", err)
	}
	return nil
}

func (s *sourcePart) setTables(c *config.Config) error {
	next, err := sourceConfig(c, s.config.Logger, s.metrics)
	if err != nil {
		return err
	}
	s.watch.SetTables(next.Tables)
	return nil
}

// state is what metrics ask for.
func (s *sourcePart) state() metrics.SourceState {
	m, _ := s.watch.Last()
	return metrics.SourceState{Now: time.Now(), Sent: m.Sent, Epoch: m.Epoch, SlotLimit: s.config.MaxSlotWAL, Tables: s.watch.Tables()}
}

// busState says how a connection to NATS is; nil: there never was one.
func busState(conn *nats.Conn) metrics.BusState {
	if conn == nil {
		return metrics.BusState{}
	}
	return metrics.BusState{Connected: conn.IsConnected(), Reconnects: conn.Stats().Reconnects}
}

// ready says whether the source follows Postgres, or stands by for one that does.
func (s *sourcePart) ready() error {
	if conn := s.conn.Load(); conn == nil || !conn.IsConnected() {
		return errors.New("NATS can't be reached")
	}
	if _, ok := s.watch.Last(); !ok {
		return errors.New("the source has not found its place yet")
	}
	return nil
}
