package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/internal/sidecar"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/memory"
)

// warmup is how long the load runs before samples count.
const warmup = time.Second

// latency measures from the commit's time, as Postgres puts it into the log, to the moment at which a bare pglogrepl reader
// holds the commit, and to that at which the row can be read from a sidecar's cache (source and NATS are one process, the
// sidecar is in this one). The load is the same; readers take turns, so that none bears the other's.
func latency(ctx context.Context, r *rig, o options) error {
	if err := r.fill(ctx, 10_000); err != nil {
		return err
	}
	if err := r.exec(ctx, "CREATE PUBLICATION bare FOR TABLE item"); err != nil {
		return err
	}
	var floor, ours []quantiles
	for range o.rounds {
		f, err := r.bare(ctx, o)
		if err != nil {
			return fmt.Errorf("bare reader: %w", err)
		}
		u, err := r.cached(ctx, o)
		if err != nil {
			return fmt.Errorf("syncd: %w", err)
		}
		floor, ours = append(floor, f), append(ours, u)
	}
	f50, f99 := medians(floor)
	u50, u99 := medians(ours)
	fmt.Printf("latency at 1,000 commits a second, p50 / p99 ms: bare reader %s, syncd %s: ratio of medians p50 %.2f (want 3.00 or less), p99 %.2f (want 6.00 or less)\n",
		each(floor, quantiles.String), each(ours, quantiles.String), u50/f50, u99/f99)
	return nil
}

type quantiles struct{ p50, p99 time.Duration }

func (q quantiles) String() string {
	return fmt.Sprintf("%.2f / %.2f", q.p50.Seconds()*1000, q.p99.Seconds()*1000)
}

func medians(qs []quantiles) (p50, p99 float64) {
	var a, b []float64
	for _, q := range qs {
		a, b = append(a, q.p50.Seconds()), append(b, q.p99.Seconds())
	}
	return median(a), median(b)
}

// samples collects delays; those of the warm-up are dropped.
type samples struct {
	mu    sync.Mutex
	from  time.Time
	delay []time.Duration
}

func (s *samples) add(committed, seen time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if committed.After(s.from) {
		s.delay = append(s.delay, seen.Sub(committed))
	}
}

func (s *samples) quantiles() (quantiles, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.delay) < 100 {
		return quantiles{}, fmt.Errorf("only %d samples", len(s.delay))
	}
	return quantiles{quantile(s.delay, 0.5), quantile(s.delay, 0.99)}, nil
}

// load commits 1,000 single-row updates a second, evenly, for the seconds asked for.
func (r *rig) load(ctx context.Context, o options) error {
	conn, err := pgx.Connect(ctx, r.pg.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	begin := time.Now()
	for i := range 1000 * o.seconds {
		// Pacing the load is the one thing here that time is waited for.
		time.Sleep(time.Until(begin.Add(time.Duration(i) * time.Millisecond)))
		if _, err := conn.Exec(ctx, "UPDATE item SET amount = amount + 1 WHERE id = $1", i%10_000+1); err != nil {
			return err
		}
	}
	return nil
}

// bare reads with pglogrepl and does nothing else.
func (r *rig) bare(ctx context.Context, o options) (quantiles, error) {
	sep := "?"
	if strings.Contains(r.url, "?") {
		sep = "&"
	}
	conn, err := pgconn.Connect(ctx, r.url+sep+"replication=database")
	if err != nil {
		return quantiles{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := pglogrepl.CreateReplicationSlot(ctx, conn, "bare", "pgoutput", pglogrepl.CreateReplicationSlotOptions{Temporary: true}); err != nil {
		return quantiles{}, err
	}
	if err := pglogrepl.StartReplication(ctx, conn, "bare", 0, pglogrepl.StartReplicationOptions{PluginArgs: []string{"proto_version '1'", "publication_names 'bare'"}}); err != nil {
		return quantiles{}, err
	}
	s := &samples{from: time.Now().Add(warmup)}
	reading, stop := context.WithCancel(ctx)
	read := make(chan error, 1)
	go func() { read <- s.read(reading, conn) }()
	err = r.load(ctx, o)
	stop()
	if e := <-read; err == nil && !errors.Is(e, context.Canceled) && !pgconn.Timeout(e) {
		err = e
	}
	if err != nil {
		return quantiles{}, err
	}
	return s.quantiles()
}

func (s *samples) read(ctx context.Context, conn *pgconn.PgConn) error {
	for {
		m, err := conn.ReceiveMessage(ctx)
		if err != nil {
			return err
		}
		data, ok := m.(*pgproto3.CopyData)
		if !ok || data.Data[0] != pglogrepl.XLogDataByteID {
			continue
		}
		x, err := pglogrepl.ParseXLogData(data.Data[1:])
		if err != nil {
			return err
		}
		parsed, err := pglogrepl.Parse(x.WALData)
		if err != nil {
			return err
		}
		if c, ok := parsed.(*pglogrepl.CommitMessage); ok {
			s.add(c.CommitTime, time.Now())
		}
	}
}

// cached reads through the source, the bus and a sidecar's cache.
func (r *rig) cached(ctx context.Context, o options) (quantiles, error) {
	source, url, err := r.source(ctx, "latency")
	if err != nil {
		return quantiles{}, err
	}
	conn, err := bus.ConnectWait(ctx, bus.Config{URL: url, Name: "bench"})
	if err != nil {
		return quantiles{}, err
	}
	defer conn.Close()
	w := &watched{Stream: &bus.Stream{Conn: conn, Name: "latency"}, samples: &samples{}, committed: map[syncd.Position]time.Time{}}
	cache, err := sidecar.Open(sidecar.Config{Name: "latency", NewStore: func() (sink.Store, error) {
		return &watchedStore{memory.New(memory.Options{}), w}, nil
	}}, w, &bus.Client{Conn: conn, Name: "latency"})
	if err != nil {
		return quantiles{}, err
	}
	running, stop := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() { err = cache.Run(running) })
	load := r.loadWhenReady(ctx, cache, w, o)
	stop()
	wait.Wait()
	if err = errors.Join(load, cache.Close(), source.stop()); err != nil {
		return quantiles{}, err
	}
	return w.samples.quantiles()
}

// source starts a source whose process carries NATS, and gives its URL.
func (r *rig) source(ctx context.Context, name string) (*daemon, string, error) {
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	config, addr, err := r.config(name, fmt.Sprintf("{embedded: {dir: %q, listen: %q}}", r.dir+"/"+name+"-nats", listen))
	if err != nil {
		return nil, "", err
	}
	d, err := r.start(ctx, "source", config, addr)
	return d, "nats://" + listen, err
}

func (r *rig) loadWhenReady(ctx context.Context, cache *sidecar.Sidecar, w *watched, o options) error {
	for cache.Ready() != nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-cache.Cache().Changed():
		}
	}
	w.samples.mu.Lock()
	w.samples.from = time.Now().Add(warmup)
	w.samples.mu.Unlock()
	return r.load(ctx, o)
}

// watched is a stream that takes note of the commits it hands out, until a store has made them visible.
type watched struct {
	*bus.Stream
	samples *samples

	mu        sync.Mutex
	committed map[syncd.Position]time.Time
}

// Subscribe wraps the subscription.
func (w *watched) Subscribe(ctx context.Context, c syncd.Cursor) (sink.Subscription, error) {
	s, err := w.Stream.Subscribe(ctx, c)
	return &watchedSubscription{s, w}, err
}

type watchedSubscription struct {
	sink.Subscription
	w *watched
}

// Next hands a message on.
func (s *watchedSubscription) Next(ctx context.Context) (syncd.Message, error) {
	m, err := s.Subscription.Next(ctx)
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for i := range m.Deltas {
		s.w.committed[m.Deltas[i].Version.Position()] = m.Deltas[i].Committed
	}
	return m, err
}

// watchedStore takes each commit's delay when its rows can be read.
type watchedStore struct {
	*memory.Store
	w *watched
}

// Commit makes a batch visible.
func (s *watchedStore) Commit(b *sink.Batch) error {
	err := s.Store.Commit(b)
	now := time.Now()
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	for i := range b.Writes {
		at := b.Writes[i].Entry.Version.Position()
		if c, ok := s.w.committed[at]; ok {
			s.w.samples.add(c, now)
			delete(s.w.committed, at)
		}
	}
	return err
}
