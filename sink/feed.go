package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/syncd-io/syncd"
)

// Feed follows the stream and brings its flushes to a Cache. It takes messages up to a marker, proves by the marker's counts
// and by the marker before it that nothing is missing, and has the Cache apply them as one commit. Where something is missing
// it reads the stretch again, and where it is missing there too it has the Cache record the loss. Where the cache is behind,
// flushes that have arrived already are applied together, as if one marker had ended them all.
//
// What it can't do now (the stream is away, the store can't commit) it tries again later, from the cache's cursor; nothing
// is skipped meanwhile. Its fields are set before the first Step and not changed later.
type Feed struct {
	Stream Stream
	Cache  *Cache
	Log    *slog.Logger // nil: quiet
	// MaxBuffer is how many bytes are held back for a marker at most; what is more is applied in parts, so that until the
	// marker comes readers may see half a transaction, and, where a delta is missing that nobody has noticed yet, an
	// unchanged value of before it. 0: 64 MiB.
	MaxBuffer int
	// MinWait and MaxWait bound the wait after an error, which doubles from one to the other. 0: 100 ms and 10 s.
	MinWait, MaxWait time.Duration

	sub    Subscription
	cursor syncd.Cursor // of the last whole marker that this subscription brought
	buffer buffer
	held   held // empty between two Steps
}

// Run takes the stream in until ctx ends, or until a message needs a newer program: that error wraps syncd.ErrFormat.
func (f *Feed) Run(ctx context.Context) error {
	defer f.Close()
	for failures := 0; ; {
		err := f.Step(ctx)
		switch {
		case err == nil:
			failures = 0
			continue
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, syncd.ErrFormat):
			return err
		}
		wait := f.wait(failures, chance())
		failures++
		f.log().Warn("the stream can't be followed", "error", err, "retry_in", wait)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// wait is how long to wait after so many failures in a row: it doubles, less up to half of it by chance.
func (f *Feed) wait(failures int, chance float64) time.Duration {
	low, high := f.MinWait, f.MaxWait
	if low == 0 {
		low = 100 * time.Millisecond
	}
	if high == 0 {
		high = 10 * time.Second
	}
	d := high
	if failures < 32 {
		d = min(low<<failures, high)
	}
	return d - time.Duration(chance*float64(d)/2)
}

func (f *Feed) log() *slog.Logger {
	if f.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return f.Log
}

// Close gives the subscription up. The next Step takes it up again where the cache stands.
func (f *Feed) Close() error {
	f.buffer.reset()
	f.held = held{}
	if f.sub == nil {
		return nil
	}
	sub := f.sub
	f.sub = nil
	return sub.Close()
}

// Step takes up the stream, where it is not followed yet, or else takes in one message, and those behind it that can be applied
// with it. After an error the next Step goes on from the cache's cursor.
func (f *Feed) Step(ctx context.Context) error {
	if f.sub == nil {
		return f.subscribe(ctx)
	}
	m, err := f.sub.Next(ctx)
	if err = f.received(ctx, m, err); err == nil {
		err = f.more(ctx)
	}
	if err = errors.Join(err, f.settle()); err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

// received takes in what the subscription gave.
func (f *Feed) received(ctx context.Context, m syncd.Message, err error) error {
	if errors.Is(err, syncd.ErrMalformed) {
		f.log().Error("a message can't be read: what it held counts as lost", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	return f.take(ctx, m, true)
}

// chance gives a number below 1. It is made of the clock, whose nanoseconds differ from one process to the next, so that in fake
// time a history goes the same way each time.
func chance() float64 { return rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)).Float64() }

// subscribe takes the stream up behind the cache's cursor; where that is not to be had, behind the stream's last marker.
func (f *Feed) subscribe(ctx context.Context) error {
	tail, seq, ok, err := f.Stream.Tail(ctx)
	if err != nil {
		return fmt.Errorf("read the stream's last marker: %w", err)
	}
	at := f.Cache.Cursor()
	if ok || at.Seq == 0 {
		f.Cache.SetTarget(tail.Position())
	} // else its limits have emptied the stream, and how far it had come the first marker will say
	if at.Seq > 0 || !ok {
		f.sub, err = f.Stream.Subscribe(ctx, at)
		if !errors.Is(err, syncd.ErrTooOld) {
			f.cursor = at
			return subscribed(err)
		}
		f.log().Warn("the stream does not reach back to where the cache stands", "cursor", at.Seq, "position", at.Position, "error", err)
	}
	at = syncd.Cursor{}
	if ok {
		if err := f.Cache.Join(&tail, seq); err != nil {
			return fmt.Errorf("join the stream at message %d: %w", seq, err)
		}
		at = syncd.Cursor{Seq: seq, Position: tail.Position()}
	}
	f.sub, err = f.Stream.Subscribe(ctx, at)
	f.cursor = at
	return subscribed(err)
}

func subscribed(err error) error {
	if err != nil {
		return fmt.Errorf("subscribe to the stream: %w", err)
	}
	return nil
}

// take takes in one message. again says that what is missing may be read again.
func (f *Feed) take(ctx context.Context, m syncd.Message, again bool) error {
	if m.Marker != nil {
		return f.marker(ctx, m.Marker, m.Seq, again)
	}
	f.buffer.add(m)
	limit := f.MaxBuffer
	if limit == 0 {
		limit = 64 << 20
	}
	if f.buffer.size > limit {
		return f.overflow()
	}
	return nil
}

// overflow applies what is held back as a part.
func (f *Feed) overflow() error {
	const all = ^uint64(0)
	deltas := f.buffer.collect(0, all)
	part := syncd.Marker{Part: true}
	for _, run := range deltas {
		part.Epoch = max(part.Epoch, run[len(run)-1].Version.Epoch)
	}
	return f.part(&part, all, deltas)
}

// part applies the deltas before sequence to as a part of what the next whole marker will end. They are not proved complete
// yet: should some turn out to be missing then, the loss is recorded then.
func (f *Feed) part(m *syncd.Marker, to uint64, deltas map[syncd.Table][]syncd.Delta) error {
	if err := f.settle(); err != nil {
		return err
	}
	if err := f.Cache.Flush(&Flush{Deltas: deltas, Marker: m}); err != nil {
		return err
	}
	f.buffer.count(deltas, f.through(m.Epoch))
	f.buffer.discard(to)
	return nil
}

// through is how far the cache has come in an epoch: nowhere, in one that is new to it.
func (f *Feed) through(e syncd.Epoch) syncd.Position {
	if at, ok := f.held.through(); ok && at.Epoch == e {
		return at
	}
	if at := f.Cache.Through(); at.Epoch == e {
		return at
	}
	return syncd.Position{Epoch: e}
}

// marker ends a flush, or a part of one.
func (f *Feed) marker(ctx context.Context, m *syncd.Marker, seq uint64, again bool) error {
	if seq <= f.cursor.Seq {
		return nil // once more
	}
	if m.Part {
		return f.part(m, seq, f.buffer.collect(m.First, seq))
	}
	if !f.held.takes(m) {
		if err := f.settle(); err != nil {
			return err
		}
	}
	flush := f.whole(m, seq)
	if again && flush.incomplete() && f.cursor.Seq > 0 {
		return f.reread(ctx, flush)
	}
	return f.flush(flush)
}

// whole makes the flush that a marker ends, of what has arrived.
func (f *Feed) whole(m *syncd.Marker, seq uint64) *Flush {
	deltas := f.buffer.collect(m.First, seq)
	return &Flush{Deltas: deltas, Marker: m, Seq: seq, Lost: f.missing(m, deltas), Gap: f.gap(m)}
}

// flush brings a flush to the cache, or holds it for what may have arrived behind it.
func (f *Feed) flush(flush *Flush) error {
	alone := flush.incomplete() || !f.held.takes(flush.Marker)
	if alone {
		if err := f.settle(); err != nil {
			return err
		}
	}
	f.held.add(flush)
	if _, ok := f.sub.(Poller); !ok || alone {
		if err := f.settle(); err != nil {
			return err
		}
	}
	if flush.incomplete() {
		f.log().Warn("deltas are lost: the tables are to be listed", "through", flush.Marker.Position(), "tables", flush.Lost, "all", flush.Gap)
	}
	f.cursor = syncd.Cursor{Seq: flush.Seq, Position: flush.Marker.Position()}
	f.buffer.discard(flush.Seq)
	f.buffer.passed(flush.Marker.Position())
	return nil
}

// incomplete says whether deltas are missing.
func (f *Flush) incomplete() bool { return f.Gap || len(f.Lost) > 0 }

// gap says whether flushes before this marker's never arrived.
func (f *Feed) gap(m *syncd.Marker) bool {
	return m.Epoch >= f.Cache.Through().Epoch && m.Previous > f.through(m.Epoch).LSN
}

// missing gives the tables of which other deltas arrived than a marker counts.
func (f *Feed) missing(m *syncd.Marker, deltas map[syncd.Table][]syncd.Delta) []syncd.Table {
	if m.Epoch < f.Cache.Through().Epoch {
		return nil
	}
	after := syncd.Position{Epoch: m.Epoch, LSN: m.Previous}
	var tables []syncd.Table
	for name := range f.Cache.State().Tables {
		if f.buffer.distinct(name, deltas[name], after, m.Position()) != m.Counts[name] {
			tables = append(tables, name)
		}
	}
	return tables
}

// rereadMessages is how many messages are asked for at a time when a stretch is read again.
const rereadMessages = 64

// reread takes in once more what lies between the last whole marker and the one of a flush that is incomplete, beside what
// has arrived of it already. What is missing in the stream too is lost. Where parts of it were applied before anybody knew
// that something was missing, values may have been filled in wrongly, and what comes now can't mend that: so what was missing
// at first counts as lost, too.
func (f *Feed) reread(ctx context.Context, flush *Flush) error {
	from, to := f.cursor.Seq+1, flush.Seq
	f.log().Warn("the stream's messages don't add up: reading them again", "from", from, "to", to, "tables", flush.Lost, "gap", flush.Gap)
	inParts := len(f.buffer.parts) > 0
	f.buffer.parts = nil
	for ; from <= to; from += rereadMessages {
		messages, err := f.Stream.Read(ctx, from, min(from+rereadMessages-1, to))
		if err != nil && !errors.Is(err, syncd.ErrMalformed) {
			return fmt.Errorf("read messages %d to %d again: %w", from, to, err)
		}
		for _, m := range messages {
			if m.Seq < to {
				if err := f.take(ctx, m, false); err != nil {
					return err
				}
			}
		}
	}
	second := f.whole(flush.Marker, to)
	if inParts {
		second.Lost, second.Gap = append(second.Lost, flush.Lost...), second.Gap || flush.Gap
	}
	return f.flush(second)
}
