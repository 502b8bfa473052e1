package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/api"
	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/sidecar"
	"github.com/syncd-io/syncd/resync"
	"github.com/syncd-io/syncd/sink"
)

// member is one sink with all that keeps it.
type member struct {
	*sidecar.Sidecar
	name string // the sink's kind; with a number where there are several of it
}

// group is the sinks of a sidecar: consumers of one stream that know nothing of each other. The first is read over HTTP;
// resyncs, readiness and the set of tables are of all.
type group []member

// openGroup opens the configured sinks.
func (p *process) openGroup(l *link, k kept, indexes func() map[syncd.Table][][]string) (g group, err error) {
	defer func() {
		if err != nil {
			for _, m := range g {
				err = errors.Join(err, m.Close())
			}
		}
	}()
	c := p.Config.Sidecar
	names := sinkNames(p.Config.Sidecar.Sinks)
	for i, one := range c.Sinks {
		log, reg := p.Log.With("role", "sidecar"), prometheus.Registerer(p.registry)
		if len(c.Sinks) > 1 {
			log = log.With("sink", names[i])
			reg = prometheus.WrapRegistererWith(prometheus.Labels{"sink": names[i]}, reg)
		}
		made, err := sinkSpec{Sink: one, sync: p.Config.Name, sidecar: c, indexes: indexes, log: log}.stores()
		if err != nil {
			return g, err
		}
		o := sidecar.Config{
			Name: p.Config.Name, Tables: k.tables, Selectors: k.selectors, Indexes: indexes, Interval: c.Resync.Interval, Jitter: c.Resync.Jitter, Mode: resync.Mode(c.Resync.Mode),
			MaxPrune: c.Resync.MaxPrune, Checks: c.Checker.KeysPerSecond, OpenStore: made.open, NewStore: made.next, Registerer: reg, Logger: log,
		}
		o.History = sink.HistoryLimits{Bytes: int(c.Watch.History)}
		if i > 0 {
			o.History = sink.HistoryLimits{Bytes: 1, Commits: 1} // watches are of the sink that is read
		}
		if made.inFile {
			o.Data = c.Data
		}
		stream, source := p.spoil(l)
		s, err := sidecar.Open(o, stream, source)
		if err != nil {
			return g, err
		}
		p.closers = append(p.closers, s)
		g = append(g, member{s, names[i]})
	}
	return g, nil
}

// sinkNames names sinks by their kinds, the second of a kind with a 2 behind it.
func sinkNames(all []config.Sink) []string {
	n := map[string]int{}
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Kind
		if n[s.Kind]++; n[s.Kind] > 1 {
			names[i] = fmt.Sprintf("%s%d", s.Kind, n[s.Kind])
		}
	}
	return names
}

// first is the one that is read.
func (g group) first() *sidecar.Sidecar { return g[0].Sidecar }

// runs gives what keeps each sink.
func (g group) runs() (all []part) {
	for _, m := range g {
		all = append(all, m.Run)
	}
	return all
}

// Close gives all up.
func (g group) Close() (err error) {
	for _, m := range g {
		err = errors.Join(err, m.Close())
	}
	return err
}

var _ io.Closer = group{}

// in says which sink an error is of, where there are several.
func (g group) in(m member, err error) error {
	if err == nil || len(g) == 1 {
		return err
	}
	return fmt.Errorf("sink %s: %w", m.name, err)
}

// Ready says whether every sink may be read behind a readiness probe.
func (g group) Ready() error {
	for _, m := range g {
		if err := m.Ready(); err != nil {
			return g.in(m, err)
		}
	}
	return nil
}

// declare says which rows every sink keeps, and by what they are found.
func (g group) declare(k kept) error {
	for _, m := range g {
		m.Select(k.selectors)
		if err := m.Cache().SetIndexes(k.indexes); err != nil {
			return g.in(m, fmt.Errorf("make the indexes: %w", err))
		}
	}
	return nil
}

// SetTables says which tables every sink keeps.
func (g group) SetTables(ctx context.Context, tables []syncd.Table) error {
	var all errgroup.Group
	for _, m := range g {
		all.Go(func() error { return g.in(m, m.SetTables(ctx, tables)) })
	}
	return all.Wait()
}

// Request has every sink compared, at the same time, and gives one report: that of the first, with the differences of all.
// Each is repaired as far as it can be, also where another one can't; then the error says which.
func (g group) Request(ctx context.Context, t syncd.Table, o resync.Options) (*resync.Report, error) {
	if len(g) == 1 {
		return g.first().Request(ctx, t, o)
	}
	reports, errs := make([]*resync.Report, len(g)), make([]error, len(g))
	var all errgroup.Group
	for i, m := range g {
		all.Go(func() error {
			reports[i], errs[i] = m.Request(ctx, t, o)
			errs[i] = g.in(m, errs[i])
			return nil
		})
	}
	_ = all.Wait() // none of them gives one
	return joined(reports), errors.Join(errs...)
}

// joined gives one report of several of one table: complete where all are.
func joined(all []*resync.Report) *resync.Report {
	all = slices.DeleteFunc(all, func(r *resync.Report) bool { return r == nil })
	if len(all) == 0 {
		return nil
	}
	sum := *all[0]
	sum.Samples = slices.Clone(sum.Samples)
	for _, r := range all[1:] {
		sum.Missing += r.Missing
		sum.Stale += r.Stale
		sum.Ghost += r.Ghost
		sum.Corrupt += r.Corrupt
		sum.Repaired += r.Repaired
		sum.Undecided += r.Undecided
		sum.Bytes += r.Bytes
		sum.Seconds = max(sum.Seconds, r.Seconds)
		sum.Complete = sum.Complete && r.Complete
		sum.Samples = append(sum.Samples, r.Samples...)
		if sum.Error == "" {
			sum.Error = r.Error
		}
		if sum.Verified.Compare(r.Verified) > 0 {
			sum.Verified = r.Verified
		}
	}
	sum.Samples = sum.Samples[:min(len(sum.Samples), resync.MaxSamples)]
	return &sum
}

// statuses says how each sink stands, where there are several.
func (g group) statuses() (all []api.SinkStatus) {
	if len(g) == 1 {
		return nil
	}
	for _, m := range g {
		s := api.SinkStatus{Sink: m.name, Ready: true, Version: m.Cache().Through().String()}
		if err := m.Ready(); err != nil {
			s.Ready, s.WaitsFor = false, err.Error()
		}
		for _, t := range m.Cache().State().Tables {
			s.Rows += t.Rows
			if t.Loss != 0 || !t.Listed {
				s.Incomplete++
			}
		}
		all = append(all, s)
	}
	return all
}
