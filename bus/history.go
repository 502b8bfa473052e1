package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/syncd-io/syncd"
)

// HistoryLimits bound how far back a history looks. Zero fields are set to the defaults.
type HistoryLimits struct {
	Deltas   int           // of the key, at most; default 10
	Messages int           // of the stream, of whichever table, that are looked behind at most; default 100,000
	Bytes    int           // of the table's messages that are read at most, a step more may be; default 32 MiB
	Time     time.Duration // default 5 s
}

func (l HistoryLimits) withDefaults() HistoryLimits {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&l.Deltas, 10)
	def(&l.Messages, 100_000)
	def(&l.Bytes, 32<<20)
	if l.Time <= 0 {
		l.Time = 5 * time.Second
	}
	return l
}

// History is what a stream holds of one key, as far as it was looked back.
type History struct {
	Changes []Change // of the key, and TRUNCATEs of its table; oldest first
	// From and To are the sequences between which every message of the table was looked at; both 0 where the stream holds
	// nothing. Whole says that From is the stream's first message, so that it holds no more.
	From, To uint64
	Whole    bool
	// Unread counts the messages that could not be read.
	Unread int
}

// Change is one delta as it lies on the stream.
type Change struct {
	Seq   uint64    // of its message
	Time  time.Time // when JetStream stored it
	Delta syncd.Delta
}

// historyStep is how many sequences are looked at in the first step back; each step takes twice as many as the one before.
const historyStep = 512

// History reads the last deltas of a key back from the stream's end, by the subject of its table, within limits; where one of
// them is reached it gives what was found until then.
func (s *Stream) History(ctx context.Context, t syncd.Table, k syncd.Key, l HistoryLimits) (*History, error) {
	l = l.withDefaults()
	within, cancel := context.WithTimeout(ctx, l.Time)
	defer cancel()
	h := &History{}
	err := s.history(within, t, k, l, h)
	if err != nil && (ctx.Err() != nil || h.From == 0 || !errors.Is(err, context.DeadlineExceeded)) {
		return nil, fmt.Errorf("read the history of a key of %s from stream %s: %w", t, StreamName(s.Name), err)
	}
	if n := len(h.Changes) - l.Deltas; n > 0 {
		h.Changes = h.Changes[n:]
	}
	return h, nil
}

func (s *Stream) history(ctx context.Context, t syncd.Table, k syncd.Key, l HistoryLimits, h *History) error {
	info, err := s.api().info(ctx)
	if err != nil {
		return err
	}
	if info.State.Messages == 0 {
		h.Whole = true
		return nil
	}
	first, to := info.State.FirstSeq, info.State.LastSeq
	js, err := jetstream.New(s.Conn)
	if err != nil {
		return err
	}
	size := 0
	for step := uint64(historyStep); ; step *= 2 {
		from := first
		if to-first >= step {
			from = to - step + 1
		}
		found, n, err := s.stretch(ctx, js, t, k, from, to, h)
		if err != nil {
			return err
		}
		h.Changes = append(found, h.Changes...)
		if h.From, size = from, size+n; h.To == 0 {
			h.To = to
		}
		h.Whole = from == first
		if h.Whole || len(h.Changes) >= l.Deltas || size >= l.Bytes || h.To-h.From+1 >= uint64(l.Messages) {
			return nil
		}
		to = from - 1
	}
}

// stretch gives the changes of a key among the messages from..to, and how many bytes of the table's were read.
func (s *Stream) stretch(ctx context.Context, js jetstream.JetStream, t syncd.Table, k syncd.Key, from, to uint64, h *History) ([]Change, int, error) {
	name := "syncd_" + newID()
	cons, err := js.CreateConsumer(ctx, StreamName(s.Name), jetstream.ConsumerConfig{
		Name: name, Description: "syncd: history of a key", AckPolicy: jetstream.AckNonePolicy,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from, FilterSubject: DeltaSubject(s.Name, t),
		InactiveThreshold: 30 * time.Second, MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		return nil, 0, s.api().explain(ctx, err)
	}
	defer func() { _ = s.Conn.Publish("$JS.API.CONSUMER.DELETE."+StreamName(s.Name)+"."+name, nil) }() // else the server does, when it is idle
	r := historyReader{dec: decoder{name: s.Name}, key: k, to: to}
	for r.left = cons.CachedInfo().NumPending; r.left > 0; {
		batch, err := cons.FetchNoWait(64)
		if err != nil {
			return nil, 0, err
		}
		n := 0
		for m := range batch.Messages() { // to its end, so that nothing goes on behind it
			n++
			err = errors.Join(err, r.take(m))
		}
		if err := errors.Join(err, batch.Error(), ctx.Err()); err != nil {
			return nil, 0, err
		}
		if n == 0 {
			break // dropped by the stream's limits meanwhile
		}
	}
	h.Unread += r.unread
	return r.found, r.size, nil
}

// historyReader picks the changes of a key out of messages up to a sequence.
type historyReader struct {
	dec    decoder
	key    syncd.Key
	to     uint64
	left   uint64 // messages that are still to come
	found  []Change
	size   int
	unread int
}

func (r *historyReader) take(m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	r.left = meta.NumPending
	if meta.Sequence.Stream > r.to {
		r.left = 0
		return nil
	}
	r.size += len(m.Data())
	msg, err := r.dec.message(m.Subject(), meta.Sequence.Stream, m.Headers(), m.Data())
	if err != nil {
		r.unread++
		return nil
	}
	for _, d := range msg.Deltas {
		if d.Key == r.key || d.Op == syncd.Truncate {
			r.found = append(r.found, Change{msg.Seq, meta.Timestamp, owned(d)})
		}
	}
	return nil
}

// owned gives a delta that keeps no message in memory.
func owned(d syncd.Delta) syncd.Delta {
	d.Key, d.From = syncd.Key([]byte(d.Key)), syncd.Key([]byte(d.From))
	d.Row = slices.Clone(d.Row)
	return d
}
