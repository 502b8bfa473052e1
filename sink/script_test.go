package sink_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/storetest"
)

// script is a stream that a test writes by hand.
type script struct {
	messages []syncd.Message
	next     uint64 // sequence of the next message
	// unread are sequences that can't be read, and lost those that no subscription brings; Read brings those.
	unread, lost map[uint64]bool
	broken       error     // what every call gives
	until        time.Time // when that ends; zero: not by itself
	remade       int       // how often it was made anew
	reads        []string
	sub          *scriptSub // the one that is open
	polls        bool       // it says whether there is more
}

func newScript() *script {
	return &script{next: 1, unread: map[uint64]bool{}, lost: map[uint64]bool{}}
}

func (s *script) add(m syncd.Message) uint64 {
	m.Seq = s.next
	s.next++
	s.messages = append(s.messages, m)
	return m.Seq
}

func (s *script) deltas(ds ...syncd.Delta) uint64 { return s.add(syncd.Message{Deltas: ds}) }

func (s *script) marker(m syncd.Marker) uint64 { return s.add(syncd.Message{Marker: &m}) }

// remake makes the stream anew, with nothing in it.
func (s *script) remake() {
	s.messages, s.next = nil, 1
	s.remade++
}

// fault is what a call gives now.
func (s *script) fault() error {
	if s.until.IsZero() || time.Now().Before(s.until) {
		return s.broken
	}
	return nil
}

func (s *script) find(seq uint64) (syncd.Message, bool) {
	i := slices.IndexFunc(s.messages, func(m syncd.Message) bool { return m.Seq == seq })
	if i < 0 {
		return syncd.Message{}, false
	}
	return s.messages[i], true
}

func (s *script) Tail(context.Context) (syncd.Marker, uint64, bool, error) {
	for _, m := range slices.Backward(s.messages) {
		if m.Marker != nil {
			return *m.Marker, m.Seq, true, s.fault()
		}
	}
	return syncd.Marker{}, 0, false, s.fault()
}

func (s *script) Read(_ context.Context, from, to uint64) (all []syncd.Message, err error) {
	s.reads = append(s.reads, fmt.Sprintf("%d-%d", from, to))
	for _, m := range s.messages {
		if m.Seq < from || m.Seq > to {
			continue
		}
		if s.unread[m.Seq] {
			err = fmt.Errorf("message %d: %w", m.Seq, syncd.ErrMalformed)
			continue
		}
		all = append(all, m)
	}
	return all, errors.Join(err, s.fault())
}

func (s *script) Subscribe(_ context.Context, c syncd.Cursor) (sink.Subscription, error) {
	if err := s.fault(); err != nil {
		return nil, err
	}
	if m, ok := s.find(c.Seq); c.Seq > 0 && (!ok || m.Marker == nil || m.Marker.Position() != c.Position) {
		return nil, fmt.Errorf("message %d is not the marker of %s: %w", c.Seq, c.Position, syncd.ErrTooOld)
	}
	s.sub = &scriptSub{s: s, at: c.Seq, remade: s.remade}
	return s.sub, nil
}

// idle says whether the subscription has nothing to bring, and would wait.
func (s *script) idle() bool {
	return s.sub != nil && s.fault() == nil && s.sub.remade == s.remade && !slices.ContainsFunc(s.messages, s.sub.brings)
}

type scriptSub struct {
	s      *script
	at     uint64
	remade int
}

func (u *scriptSub) Close() error {
	u.s.sub = nil
	return nil
}

// brings says whether a message is still to come.
func (u *scriptSub) brings(m syncd.Message) bool { return m.Seq > u.at && !u.s.lost[m.Seq] }

func (u *scriptSub) Next(ctx context.Context) (syncd.Message, error) {
	if err := u.s.fault(); err != nil {
		return syncd.Message{}, err
	}
	if u.remade != u.s.remade {
		return syncd.Message{}, fmt.Errorf("the stream was made anew: %w", syncd.ErrTooOld)
	}
	for _, m := range u.s.messages {
		if !u.brings(m) {
			continue
		}
		u.at = m.Seq
		if u.s.unread[m.Seq] {
			return syncd.Message{}, fmt.Errorf("message %d: %w", m.Seq, syncd.ErrMalformed)
		}
		return m, nil
	}
	<-ctx.Done()
	return syncd.Message{}, ctx.Err()
}

// Poll is Next where the script polls and there is something.
func (u *scriptSub) Poll(ctx context.Context) (m syncd.Message, ok bool, err error) {
	if !u.s.polls || u.s.idle() {
		return m, false, nil
	}
	m, err = u.Next(ctx)
	return m, true, err
}

// rig is a cache with a feed over a script.
type rig struct {
	t      *testing.T
	stream *script
	store  sink.Store
	cache  *sink.Cache
	feed   *sink.Feed
	seen   *observed
}

var clock = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newRig(t *testing.T, store sink.Store) *rig {
	t.Helper()
	r := &rig{t: t, stream: newScript(), store: store, seen: newObserved()}
	r.restart(store)
	return r
}

// restart begins another process over a store.
func (r *rig) restart(store sink.Store) {
	r.t.Helper()
	if r.feed != nil {
		if err := r.feed.Close(); err != nil {
			r.t.Fatal(err)
		}
	}
	r.store = store
	r.cache = sink.New(sink.Options{
		Store:    store,
		New:      func() (sink.Store, error) { return storetest.NewMap(), nil },
		Observer: r.seen,
		Now:      func() time.Time { return clock },
	})
	r.feed = &sink.Feed{Stream: r.stream, Cache: r.cache}
}

// drain has the feed take in what there is. It fails the test at errors other than those of a stream that moved on.
func (r *rig) drain() {
	r.t.Helper()
	for range 1000 {
		if r.stream.idle() {
			return
		}
		if err := r.feed.Step(r.t.Context()); err != nil && !errors.Is(err, syncd.ErrTooOld) {
			r.t.Fatalf("feed: %v", err)
		}
	}
	r.t.Fatal("the feed does not come to an end")
}

// observed counts what an Observer is told.
type observed struct {
	applied, rejected, repaired map[string]int
	gaps                        []syncd.Table
	delays                      []time.Duration
}

func newObserved() *observed {
	return &observed{applied: map[string]int{}, rejected: map[string]int{}, repaired: map[string]int{}}
}

func (o *observed) Applied(t syncd.Table, op syncd.Op, n int)  { o.applied[t.Name+" "+op.String()] += n }
func (o *observed) Rejected(t syncd.Table, why string, n int)  { o.rejected[t.Name+" "+why] += n }
func (o *observed) Delay(_ syncd.Table, d time.Duration)       { o.delays = append(o.delays, d) }
func (o *observed) Gap(t syncd.Table)                          { o.gaps = append(o.gaps, t) }
func (o *observed) Repaired(t syncd.Table, kind string, n int) { o.repaired[t.Name+" "+kind] += n }

// rows gives the rows of a table that readers see, by key.
func (r *rig) rows(t syncd.Table) map[syncd.Key]string {
	v := r.cache.View()
	defer v.Close()
	rows := map[syncd.Key]string{}
	v.Rows(t, 0, func(k syncd.Key, e sink.Entry) bool { rows[k] = string(e.Row); return true })
	return rows
}
