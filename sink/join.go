package sink

import (
	"context"
	"fmt"
	"slices"

	"github.com/syncd-io/syncd"
)

// Poller is a Subscription that can say whether its next message has arrived already. Where the cache is behind, its feed joins
// the flushes that have: one commit of many rows takes less time than many of a few.
type Poller interface {
	// Poll is Next without the wait: ok is false where the next message has not arrived yet.
	Poll(ctx context.Context) (m syncd.Message, ok bool, err error)
}

// maxJoined is how many deltas the flushes of one commit may have together, where they are more than one.
const maxJoined = 10_000

// held are flushes in a row, complete ones of one epoch, that are to be applied as one.
type held struct {
	flushes []*Flush
	deltas  int
}

// through is how far the cache will have come with what is held.
func (h *held) through() (p syncd.Position, ok bool) {
	if len(h.flushes) == 0 {
		return p, false
	}
	return h.flushes[len(h.flushes)-1].Marker.Position(), true
}

// takes says whether a marker's flush may be joined to what is held: as if the source had sent one marker for both. Whatever
// is not plain is applied alone, so that what it says is said of its own place.
func (h *held) takes(m *syncd.Marker) bool {
	p, ok := h.through()
	return !m.Part && len(m.Relist) == 0 && (!ok || m.Epoch == p.Epoch && m.Through >= p.LSN)
}

func (h *held) add(f *Flush) {
	h.flushes = append(h.flushes, f)
	for _, run := range f.Deltas {
		h.deltas += len(run)
	}
}

// join makes one flush of all: the last one's marker, and the deltas of each up to its own.
func (h *held) join() *Flush {
	last := h.flushes[len(h.flushes)-1]
	if len(h.flushes) == 1 {
		return last
	}
	m := *last.Marker
	counts := map[syncd.Table]int{}
	for _, f := range h.flushes {
		m.Safe = max(m.Safe, f.Marker.Safe)
		for name, run := range f.Deltas {
			counts[name] += len(run)
		}
	}
	deltas := make(map[syncd.Table][]syncd.Delta, len(counts))
	for _, f := range h.flushes {
		for name, run := range f.Deltas {
			if deltas[name] == nil {
				deltas[name] = make([]syncd.Delta, 0, counts[name])
			}
			deltas[name] = append(deltas[name], upTo(run, f.Marker.Through)...)
		}
	}
	for name, run := range deltas {
		deltas[name] = inOrder(run)
	}
	return &Flush{Deltas: deltas, Marker: &m, Seq: last.Seq}
}

// upTo gives the deltas up to a marker. What lies above it, it left out.
func upTo(run []syncd.Delta, through syncd.LSN) []syncd.Delta {
	above := func(d syncd.Delta) bool { return d.Version.LSN > through }
	if !slices.ContainsFunc(run, above) {
		return run
	}
	return slices.DeleteFunc(slices.Clone(run), above)
}

// more takes in the messages that have arrived behind a flush that is held.
func (f *Feed) more(ctx context.Context) error {
	for len(f.held.flushes) > 0 && f.held.deltas < maxJoined {
		m, arrived, err := f.sub.(Poller).Poll(ctx)
		if err == nil && !arrived {
			return nil
		}
		if err := f.received(ctx, m, err); err != nil {
			return err
		}
	}
	return nil
}

// settle brings what is held to the cache.
func (f *Feed) settle() error {
	if len(f.held.flushes) == 0 {
		return nil
	}
	flush := f.held.join()
	f.held = held{}
	if err := f.Cache.Flush(flush); err != nil {
		return fmt.Errorf("apply the flush through %s: %w", flush.Marker.Position(), err)
	}
	f.Cache.SetTarget(flush.Marker.Position())
	return nil
}
