package bus

import (
	"context"
	"sync/atomic"

	"github.com/syncd-io/syncd"
)

// FaultRates says how much of the push is spoiled: the share, from 0 to 1, of deltas that are dropped, doubled, or held
// back until after their flush. Seed chooses which.
type FaultRates struct {
	Drop, Duplicate, Reorder float64
	Seed                     uint64
}

// Faults spoils a stream on its way to a consumer, for trials: what a broken network or a bug would do to the push, before
// deltas are counted or judged. Whether a delta is spoiled is a function of the seed and the delta's version, so that one
// that is read again is spoiled in the same way; markers always arrive. Rates can be set at any time.
type Faults struct {
	Stream interface {
		Subscribe(ctx context.Context, c syncd.Cursor) (Subscription, error)
		Tail(ctx context.Context) (m syncd.Marker, seq uint64, ok bool, err error)
		Read(ctx context.Context, from, to uint64) ([]syncd.Message, error)
	}

	rates atomic.Pointer[FaultRates]
}

// Set sets the rates. The zero FaultRates spoils nothing.
func (f *Faults) Set(r FaultRates) { f.rates.Store(&r) }

// Rates gives the rates in force.
func (f *Faults) Rates() FaultRates {
	if r := f.rates.Load(); r != nil {
		return *r
	}
	return FaultRates{}
}

// Tail gives the stream's last marker, as it is.
func (f *Faults) Tail(ctx context.Context) (m syncd.Marker, seq uint64, ok bool, err error) {
	return f.Stream.Tail(ctx)
}

// Read gives messages again, spoiled as before. What is held back is missing from it.
func (f *Faults) Read(ctx context.Context, from, to uint64) ([]syncd.Message, error) {
	list, err := f.Stream.Read(ctx, from, to)
	rates := f.Rates()
	kept := list[:0]
	for _, m := range list {
		if m, _ = rates.spoil(m); m.Marker != nil || len(m.Deltas) > 0 {
			kept = append(kept, m)
		}
	}
	return kept, err
}

// Subscribe gives the messages behind the cursor, spoiled.
func (f *Faults) Subscribe(ctx context.Context, c syncd.Cursor) (Subscription, error) {
	sub, err := f.Stream.Subscribe(ctx, c)
	if err != nil {
		return nil, err
	}
	return &faulty{Subscription: sub, faults: f}, nil
}

type faulty struct {
	Subscription
	faults *Faults
	held   []syncd.Delta   // held back until their flush has ended
	late   []syncd.Delta   // of flushes that have ended, to come before the next message
	queue  []syncd.Message // to come before anything that is read
}

// Next gives the next message. What was held back comes right before the first message of a later flush, under its
// sequence.
func (s *faulty) Next(ctx context.Context) (syncd.Message, error) {
	for len(s.queue) == 0 { // a message may have lost all it held
		m, err := s.Subscription.Next(ctx)
		if err != nil {
			return m, err
		}
		s.enqueue(m)
	}
	m := s.queue[0]
	s.queue = s.queue[1:]
	return m, nil
}

func (s *faulty) enqueue(m syncd.Message) {
	for _, d := range s.late {
		s.queue = append(s.queue, syncd.Message{Seq: m.Seq, Deltas: []syncd.Delta{d}})
	}
	s.late = nil
	m, held := s.faults.Rates().spoil(m)
	s.held = append(s.held, held...)
	if m.Marker != nil {
		s.late, s.held = s.held, nil
	}
	if m.Marker != nil || len(m.Deltas) > 0 {
		s.queue = append(s.queue, m)
	}
}

// spoil gives a message without the deltas that are dropped or held back, and with those doubled that are.
func (r FaultRates) spoil(m syncd.Message) (spoiled syncd.Message, held []syncd.Delta) {
	if m.Marker != nil || r.Drop <= 0 && r.Duplicate <= 0 && r.Reorder <= 0 {
		return m, nil
	}
	spoiled = syncd.Message{Seq: m.Seq, Deltas: make([]syncd.Delta, 0, len(m.Deltas))}
	for _, d := range m.Deltas {
		switch {
		case r.hits(1, d.Version, r.Drop):
			continue
		case r.hits(2, d.Version, r.Reorder):
			held = append(held, d)
			continue
		case r.hits(3, d.Version, r.Duplicate):
			spoiled.Deltas = append(spoiled.Deltas, d)
		}
		spoiled.Deltas = append(spoiled.Deltas, d)
	}
	return spoiled, held
}

// hits says whether a delta is among the share that a fault hits.
func (r FaultRates) hits(fault uint64, v syncd.Version, share float64) bool {
	h := r.Seed
	for _, x := range [4]uint64{fault, uint64(v.Epoch), uint64(v.LSN), uint64(v.Ordinal)} {
		h = mix(h ^ mix(x+0x9E3779B97F4A7C15))
	}
	return float64(h>>11)/(1<<53) < share
}

// mix is the finalizer of SplitMix64: every bit of x moves half the bits of the answer.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
