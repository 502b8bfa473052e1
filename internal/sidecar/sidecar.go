package sidecar

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/checkpoint"
	"github.com/syncd-io/syncd/metrics"
	"github.com/syncd-io/syncd/resync"
	"github.com/syncd-io/syncd/sink"
)

// Config says what a sidecar keeps and how.
type Config struct {
	// Name is the sync's.
	Name string
	// Tables are those to keep; nil: all that the source syncs.
	Tables []syncd.Table
	// Selectors say which rows of tables are kept, in the form of syncd.ParseSelector; of those not named, all.
	Selectors map[syncd.Table]string
	// Indexes gives those that are declared now, which NewStore's stores have; nil: none are. It is asked to say which can't be made.
	Indexes func() map[syncd.Table][][]string
	// Interval is the time between two resyncs of a table; 0: only on a cause or on request. Jitter is the share by which
	// it is spread, 0 to 1.
	Interval time.Duration
	Jitter   float64
	// Mode is how scheduled resyncs compare; empty: digest.
	Mode resync.Mode
	// MaxPrune is the share of a table's rows, 0 to 1, that a resync may delete without being told to.
	MaxPrune float64
	// Checks is how many keys a second are sampled and compared with Postgres; 0: none.
	Checks float64
	// OpenStore opens the store that is read at the start, where it keeps by itself what an earlier process left; nil: that is
	// one of NewStore.
	OpenStore func() (sink.Store, error)
	// NewStore makes an empty store for the cache of each new epoch; nil: a new epoch begins again in the store that is read,
	// and its tables are not served until they were listed.
	NewStore func() (sink.Store, error)
	// History bounds what is kept of the last commits, for those who watch the cache.
	History sink.HistoryLimits
	// Data is the directory that the cache is kept in between two runs, by stores that can be written to a file; it is made
	// where there is none. Empty: nothing is kept.
	Data string
	// Seed decides what is left to chance: the jitter of resyncs, and which keys are sampled; 0: another at each start.
	Seed uint64
	// Registerer takes the metrics; nil: nobody sees them.
	Registerer prometheus.Registerer
	// Logger gets what stages do and can't do; nil: quiet.
	Logger *slog.Logger
}

// Source is the list service, and who has a marker sent. bus.Client implements it.
type Source interface {
	resync.Lister
	resync.Marks
}

// Sidecar keeps one cache. Open makes one, Run keeps it, Close gives it up.
type Sidecar struct {
	config  Config
	log     *slog.Logger
	source  Source
	cache   *sink.Cache
	feed    *sink.Feed
	catalog *resync.Catalog
	runner  *resync.Runner
	fetcher *resync.Fetcher
	checker *resync.Checker
	metrics *metrics.Sidecar
	dir     *checkpoint.Dir   // nil: nothing is kept
	saver   *checkpoint.Saver // nil: nothing is kept
}

// Open makes a sidecar of what is on disk, or of an empty cache; it can be read from then on. It starts nothing and waits for
// neither stream nor source. A file that is no good is put aside with a warning, and everything is listed anew; a directory
// that another process uses, and a cache on disk that is too large for the store, are errors.
func Open(c Config, stream sink.Stream, source Source) (*Sidecar, error) {
	s := &Sidecar{config: c, log: c.Logger, source: source}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	reg := c.Registerer
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	store, err := s.load()
	if err != nil {
		return nil, errors.Join(err, s.unlock())
	}
	s.metrics = metrics.NewSidecar(reg, s.state)
	s.cache = sink.New(sink.Options{Store: store, New: c.NewStore, History: c.History, Observer: s.metrics, Log: s.log.With("stage", "cache")})
	s.source = &selecting{source, s.cache}
	s.feed = &sink.Feed{Stream: stream, Cache: s.cache, Log: s.log.With("stage", "feed")}
	if s.saver != nil {
		s.saver.Observer = s.metrics
	}
	s.compose()
	return s, nil
}

// compose makes the stages of the pull half.
func (s *Sidecar) compose() {
	pull := cache{s.cache}
	seed := s.config.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	s.catalog = &resync.Catalog{Lister: s.source, Cache: &tableSet{Cache: s.cache, indexes: s.config.Indexes, log: s.log.With("stage", "catalog")}, Logger: s.log.With("stage", "catalog")}
	s.catalog.Want(s.config.Tables)
	s.catalog.Select(s.config.Selectors)
	s.runner = &resync.Runner{
		Lister: s.source, Cache: pull, Marks: s.source, Catalog: s.catalog, Mode: s.config.Mode, MaxPrune: s.config.MaxPrune,
		Schedule: resync.Schedule{Interval: s.config.Interval, Jitter: s.config.Jitter, Spread: spread(s.config.Interval), Seed: seed},
		Observer: s.metrics, Logger: s.log.With("stage", "resync"),
	}
	s.fetcher = &resync.Fetcher{Lister: s.source, Cache: pull, Marks: s.source, Observer: s.metrics, Logger: s.log.With("stage", "fetcher")}
	s.checker = &resync.Checker{
		Lister: s.source, Cache: pull, Asker: s.runner, Rate: s.config.Checks, Seed: seed,
		Observer: s.metrics, Logger: s.log.With("stage", "checker"),
	}
}

// spread is over how long overdue runs are spread after the start: a little of the interval.
func spread(interval time.Duration) time.Duration { return min(interval/20, 10*time.Second) }

// Run keeps the cache until ctx ends, or until a message needs a newer program, whose error it returns. When it returns
// everything it started has ended and the cache was written to disk; it can be read until Close.
func (s *Sidecar) Run(ctx context.Context) error {
	saved := s.save(ctx)
	g, ctx := errgroup.WithContext(ctx)
	for _, stage := range []func(context.Context) error{s.feed.Run, s.catalog.Run, s.runner.Run, s.fetcher.Run, s.checker.Run} {
		g.Go(func() error { return stage(ctx) })
	}
	err := g.Wait()
	saved()
	return err
}

// Close gives the cache and its directory up: views that are open stay valid, and no more are given. Run must have returned.
func (s *Sidecar) Close() error { return errors.Join(s.cache.Close(), s.unlock()) }

// Cache is the cache, to be read.
func (s *Sidecar) Cache() *sink.Cache { return s.cache }

// Ready gives nil once the cache may be read behind a readiness probe, and before that says what it waits for.
func (s *Sidecar) Ready() error { return s.cache.Ready() }

// Request lists a table and compares the cache with it, as resync.Runner does.
func (s *Sidecar) Request(ctx context.Context, t syncd.Table, o resync.Options) (*resync.Report, error) {
	return s.runner.Request(ctx, t, o)
}

// Mark has the source send a marker now.
func (s *Sidecar) Mark(ctx context.Context, at syncd.LSN) (syncd.Position, error) {
	return s.source.Mark(ctx, at)
}

// Get reads single keys from Postgres.
func (s *Sidecar) Get(ctx context.Context, q syncd.GetRequest) (*syncd.Page, error) {
	return s.source.Get(ctx, q)
}

// SetTables says which tables are kept from now on; nil: all that the source syncs. An added one is listed, a removed one's
// rows go, the others are left alone. Where the source can't be asked now, it is done when it can.
func (s *Sidecar) SetTables(ctx context.Context, tables []syncd.Table) error {
	s.catalog.Want(tables)
	return s.catalog.Step(ctx)
}

// Select says which rows of tables are kept from the next look at the source's tables on. A table whose selector changes is
// listed again.
func (s *Sidecar) Select(selectors map[syncd.Table]string) { s.catalog.Select(selectors) }

// Resubscribed counts that the stream's consumer had to be made anew, as bus.StreamObserver says.
func (s *Sidecar) Resubscribed(err error) { s.metrics.Resubscribed(err) }

// Behind says how much of the stream is still to be read, as bus.StreamObserver says.
func (s *Sidecar) Behind(messages uint64) { s.metrics.Behind(messages) }

// Running says how far the comparisons are that are under way, by table.
func (s *Sidecar) Running() []resync.Progress {
	all := s.runner.Running()
	slices.SortFunc(all, func(a, b resync.Progress) int { return strings.Compare(a.Table.String(), b.Table.String()) })
	return all
}

// Reports gives the report of the last resync of each table that had one since the start, by table. They must not be changed.
func (s *Sidecar) Reports() []*resync.Report {
	var all []*resync.Report
	for name := range s.cache.State().Tables {
		if r := s.runner.Last(name); r != nil {
			all = append(all, r)
		}
	}
	resync.SortReports(all)
	return all
}

// state is what the metrics show at a scrape: of the cache that is read.
func (s *Sidecar) state() metrics.SidecarState {
	now := time.Now()
	out := metrics.SidecarState{Now: now, Age: -1}
	v := s.cache.View()
	if v == nil {
		return out
	}
	defer v.Close()
	st := v.State()
	newest := s.cache.State() // of a new epoch's cache, while one is being built: that is where lists stop
	out.Ready, out.Epoch = s.cache.Ready() == nil, st.Cursor.Position.Epoch
	if !st.Applied.IsZero() {
		out.Age = max(now.Sub(st.Sent), now.Sub(st.Applied), 0)
	}
	for name, t := range st.Tables {
		out.Tables = append(out.Tables, metrics.TableState{
			Table: name, Rows: t.Rows, Verified: t.Verified.At, Open: len(t.Open), Parked: parked(t), Refused: t.Info.Error != "",
			Listed: t.Listed, Lossy: t.Loss != 0, Stopped: t.Stopped != "" || newest.Tables[name] != nil && newest.Tables[name].Stopped != "",
		})
	}
	return out
}
