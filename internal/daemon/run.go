package daemon

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/natsserver"
	"github.com/syncd-io/syncd/metrics"
)

// Options say what a process runs.
type Options struct {
	Config *config.Config
	// Roles are source, sidecar or both.
	Roles config.Role
	// Recreate lets the source make a stream anew that was deleted.
	Recreate bool
	// Program names the program's version to people, Commit what it was built from.
	Program, Commit string
	// Reload reads the configuration again, at each SIGHUP; nil: never.
	Reload func() (*config.Config, error)
	// Log takes what happens; Level, where it is set, is the level of it.
	Log   *slog.Logger
	Level *slog.LevelVar
	// Trial spoils what a sidecar gets, for demonstrations; nil: nothing.
	Trial *Trial
	// Listening is told the API's address once it listens; nil: nobody.
	Listening func(address string)
}

// process is one running process.
type process struct {
	Options
	registry *prometheus.Registry
	started  time.Time
	embedded *natsserver.Server // nil where NATS is elsewhere
	// apply takes over single keys of a changed configuration.
	apply   map[string]func(*config.Config) error
	closers []io.Closer
	readies []func() error
}

// Run runs the stages of a configuration until ctx ends, and then gives nil, or until one of them can't go on. Everything
// it started has ended when it returns.
func Run(ctx context.Context, o Options) (err error) {
	p := &process{Options: o, registry: prometheus.NewRegistry(), started: time.Now(), apply: map[string]func(*config.Config) error{}}
	if o.Level != nil {
		p.apply["log.level"] = func(c *config.Config) error { setLevel(o.Level, c.Log); return nil }
	}
	metrics.NewProcess(p.registry, metrics.Build{Version: o.Program, Commit: o.Commit})
	defer tuneMemory(o.Roles)()
	if o.Config.Bus.URL.IsZero() {
		if p.embedded, err = natsserver.Start(embeddedConfig(o.Config, o.Log.With("stage", "nats"))); err != nil {
			return err
		}
		defer func() {
			if e := p.embedded.Close(); err == nil {
				err = e
			}
		}()
	}
	defer p.close()
	var parts []part
	for _, open := range p.opens() {
		run, err := open()
		if err != nil {
			return err
		}
		parts = append(parts, run)
	}
	g, all := errgroup.WithContext(ctx)
	for _, run := range append(parts, p.reload) {
		g.Go(func() error { return run(all) })
	}
	return ended(ctx, g.Wait())
}

// part runs until ctx ends, and then gives nil, or until it can't go on.
type part = func(ctx context.Context) error

// opens gives what makes the parts that the roles ask for. None of it waits for a server; what is wrong on this machine (a
// port that is taken, a directory that can't be written) is said at once.
func (p *process) opens() (all []func() (part, error)) {
	if p.Roles&config.SidecarRole != 0 {
		all = append(all, p.openSidecar)
	}
	if p.Roles&config.SourceRole != 0 {
		all = append(all, p.openSource)
	}
	return append(all, p.openMetrics)
}

// close gives up what was opened, in case it never ran.
func (p *process) close() {
	for _, c := range p.closers {
		_ = c.Close() // a second time where it ran, which does nothing
	}
}

// reload reads the configuration again at each SIGHUP.
func (p *process) reload(ctx context.Context) error {
	if p.Reload == nil {
		return nil
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	defer signal.Stop(signals)
	r := &reloader{started: p.Config, now: p.Config, read: p.Reload, apply: p.apply, log: p.Log}
	return r.run(ctx, signals)
}
