package source

import (
	"context"
	"errors"
	"testing"

	"github.com/syncd-io/syncd"
)

func flushAt(previous, through syncd.LSN, n int) *syncd.Flush {
	f := &syncd.Flush{Marker: syncd.Marker{Epoch: 1, Previous: previous, Through: through}}
	if n > 0 {
		f.Deltas = deltasOf(through, n)
		f.Marker.Counts = map[syncd.Table]int{tableT: n}
	}
	return f
}

// publisherContract is what a Watch relies on. Each Publisher passes it; fresh gives one whose stream does not exist.
func publisherContract(t *testing.T, fresh func(t *testing.T) Publisher) {
	t.Run("a stream that is not there is said to be", func(t *testing.T) {
		p := fresh(t)
		if _, _, _, err := p.Last(t.Context()); !errors.Is(err, syncd.ErrNoStream) {
			t.Errorf("the last marker of no stream: %v", err)
		}
	})
	t.Run("an empty one too", func(t *testing.T) {
		p := fresh(t)
		if err := p.Create(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if _, _, ok, err := p.Last(t.Context()); ok || err != nil {
			t.Errorf("the last marker of an empty stream: %v, %v", ok, err)
		}
	})
	t.Run("what is published is acknowledged in order and found again", func(t *testing.T) {
		p := fresh(t)
		if err := p.Create(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := p.Last(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range syncd.LSN(10) {
			if err := p.Publish(t.Context(), flushAt(10*i, 10*i+10, int(i%3))); err != nil {
				t.Fatal(err)
			}
		}
		var last syncd.LSN
		for last < 100 {
			pos, moved := p.Acked()
			if pos.LSN < last {
				t.Fatalf("acknowledged up to %s, and then up to %s", last, pos.LSN)
			}
			if last = pos.LSN; last < 100 {
				<-moved
			}
		}
		if err := p.Err(); err != nil {
			t.Error(err)
		}
		m, seq, ok, err := p.Last(t.Context())
		if err != nil || !ok || m.Through != 100 || seq != 19 || m.First != 19 {
			t.Errorf("the last marker is %+v at %d: %v, %v", m, seq, ok, err)
		}
	})
}

func TestMemoryIsAPublisher(t *testing.T) {
	publisherContract(t, func(*testing.T) Publisher { return new(Memory) })
}

func TestMemoryFailsAsAsked(t *testing.T) {
	m := new(Memory)
	if err := m.Create(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	m.Hold(true)
	for i := range syncd.LSN(3) {
		if err := m.Publish(t.Context(), flushAt(10*i, 10*i+10, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if pos, _ := m.Acked(); !pos.IsZero() {
		t.Errorf("acknowledged up to %s while held", pos)
	}
	_, moved := m.Acked()
	m.Break(syncd.ErrFenced)
	<-moved
	if err := m.Publish(t.Context(), flushAt(30, 40, 1)); !errors.Is(err, syncd.ErrFenced) || !errors.Is(m.Err(), syncd.ErrFenced) {
		t.Errorf("a flush after the fence: %v, %v", err, m.Err())
	}
	m.Lose(1)
	last, _, ok, err := m.Last(context.Background())
	if err != nil || !ok || last.Through != 20 || m.Err() != nil {
		t.Errorf("the last marker is %+v: %v, %v", last, ok, err)
	}
	if pos, _ := m.Acked(); pos.LSN != 20 {
		t.Errorf("acknowledged up to %s", pos)
	}
	m.Delete()
	if err := m.Publish(t.Context(), flushAt(20, 30, 1)); !errors.Is(err, syncd.ErrNoStream) {
		t.Errorf("a flush to no stream: %v", err)
	}
}
