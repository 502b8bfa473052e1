package daemon

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/internal/sidecar"
	"github.com/syncd-io/syncd/metrics"
	"github.com/syncd-io/syncd/sink"
)

// link is a sidecar's way to NATS before there is one: what follows the stream waits until it is connected, what asks the
// source is told at once that it is not. So a cache that was kept on disk is read while NATS is away.
type link struct {
	config   bus.Config
	name     string
	observer bus.StreamObserver // set before run; nil: none
	up       chan struct{}      // closed once connected
	relisted chan struct{}      // gets a hint when a marker names tables that are to be listed, which may be new ones
	ends     atomic.Pointer[ends]
}

// ends are what a connection is used for.
type ends struct {
	conn   *nats.Conn
	stream *bus.Stream
	client *bus.Client
}

var (
	_ sink.Stream    = (*link)(nil)
	_ sidecar.Source = (*link)(nil)
)

// errNoBus says that NATS has not been reached since the start.
var errNoBus = errors.New("NATS has not been reached yet: is it running, and is bus.url right?")

func newLink(c bus.Config, name string) *link {
	return &link{config: c, name: name, up: make(chan struct{}), relisted: make(chan struct{}, 1)}
}

// run connects, which may take as long as NATS is away, and closes the connection when ctx ends.
func (l *link) run(ctx context.Context) error {
	conn, err := bus.ConnectWait(ctx, l.config)
	if err != nil {
		return ended(ctx, err)
	}
	defer conn.Close()
	l.ends.Store(&ends{conn, &bus.Stream{Conn: conn, Name: l.name, Log: l.config.Log, Observer: l.observer}, &bus.Client{Conn: conn, Name: l.name}})
	close(l.up)
	<-ctx.Done()
	return nil
}

// ended drops the error of what ended because it was told to.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// state says in a word or two whether NATS can be reached.
func (l *link) state() string {
	e := l.ends.Load()
	switch {
	case e == nil:
		return "never reached"
	case e.conn.IsConnected():
		return "connected"
	}
	return "away"
}

// metrics says how the connection to NATS is.
func (l *link) metrics() metrics.BusState {
	if e := l.ends.Load(); e != nil {
		return busState(e.conn)
	}
	return busState(nil)
}

func (l *link) wait(ctx context.Context) (*ends, error) {
	select {
	case <-l.up:
		return l.ends.Load(), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *link) client() (*bus.Client, error) {
	if e := l.ends.Load(); e != nil {
		return e.client, nil
	}
	return nil, errNoBus
}

// Subscribe waits for NATS and subscribes.
func (l *link) Subscribe(ctx context.Context, c syncd.Cursor) (sink.Subscription, error) {
	e, err := l.wait(ctx)
	if err != nil {
		return nil, err
	}
	sub, err := e.stream.Subscribe(ctx, c)
	if err != nil {
		return nil, err
	}
	return hearing{sub, l.relisted}, nil
}

// hearing is a subscription that gives a hint of markers which name tables to be listed.
type hearing struct {
	sink.Subscription
	relisted chan<- struct{}
}

// Next gives the next message.
func (h hearing) Next(ctx context.Context) (syncd.Message, error) {
	m, err := h.Subscription.Next(ctx)
	h.hear(m, err)
	return m, err
}

// Poll gives the next message where it has arrived already.
func (h hearing) Poll(ctx context.Context) (m syncd.Message, ok bool, err error) {
	p, can := h.Subscription.(sink.Poller)
	if !can {
		return m, false, nil
	}
	m, ok, err = p.Poll(ctx)
	h.hear(m, err)
	return m, ok, err
}

func (h hearing) hear(m syncd.Message, err error) {
	if err == nil && m.Marker != nil && len(m.Marker.Relist) > 0 {
		select {
		case h.relisted <- struct{}{}:
		default:
		}
	}
}

// Tail waits for NATS and gives the last marker.
func (l *link) Tail(ctx context.Context) (m syncd.Marker, seq uint64, ok bool, err error) {
	e, err := l.wait(ctx)
	if err != nil {
		return m, 0, false, err
	}
	return e.stream.Tail(ctx)
}

// Read waits for NATS and reads messages again.
func (l *link) Read(ctx context.Context, from, to uint64) ([]syncd.Message, error) {
	e, err := l.wait(ctx)
	if err != nil {
		return nil, err
	}
	return e.stream.Read(ctx, from, to)
}

// History reads a key's last changes back, or says that NATS was not reached.
func (l *link) History(ctx context.Context, t syncd.Table, k syncd.Key, limits bus.HistoryLimits) (*bus.History, error) {
	e := l.ends.Load()
	if e == nil {
		return nil, errNoBus
	}
	return e.stream.History(ctx, t, k, limits)
}

// Tables asks the source for its tables.
func (l *link) Tables(ctx context.Context) ([]syncd.TableInfo, error) {
	c, err := l.client()
	if err != nil {
		return nil, err
	}
	return c.Tables(ctx)
}

// List asks the source for a page.
func (l *link) List(ctx context.Context, r syncd.ListRequest) (*syncd.Page, error) {
	c, err := l.client()
	if err != nil {
		return nil, err
	}
	return c.List(ctx, r)
}

// Get asks the source for single keys.
func (l *link) Get(ctx context.Context, r syncd.GetRequest) (*syncd.Page, error) {
	c, err := l.client()
	if err != nil {
		return nil, err
	}
	return c.Get(ctx, r)
}

// Mark asks the source for a marker.
func (l *link) Mark(ctx context.Context, at syncd.LSN) (syncd.Position, error) {
	c, err := l.client()
	if err != nil {
		return syncd.Position{}, err
	}
	return c.Mark(ctx, at)
}
