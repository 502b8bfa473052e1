package source

import (
	"context"
	"fmt"
	"sync"

	"github.com/syncd-io/syncd"
)

// Memory is a Publisher that keeps the stream in memory, for tests. The zero Memory is a stream that does not exist. Unlike a
// stream on JetStream it can be told to take nothing in, to hold its acks back, to refuse, and to lose its tail.
type Memory struct {
	mu      sync.Mutex
	exists  bool
	flushes []syncd.Flush
	seqs    []uint64 // of each flush's marker
	seq     uint64   // of the last message
	acked   int      // flushes acknowledged
	held    bool
	blocked chan struct{} // closed when flushes are taken in again; nil while they are
	err     error
	moved   chan struct{} // closed when acked or err changes
	grown   chan struct{} // closed when flushes grow or shrink
}

// Last implements Publisher.
func (m *Memory) Last(context.Context) (syncd.Marker, uint64, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = nil
	if !m.exists {
		return syncd.Marker{}, 0, false, fmt.Errorf("read the last marker: %w", syncd.ErrNoStream)
	}
	n := len(m.flushes)
	m.acked = n
	if n == 0 {
		return syncd.Marker{}, 0, false, nil
	}
	return m.flushes[n-1].Marker, m.seqs[n-1], true, nil
}

// Create implements Publisher.
func (m *Memory) Create(context.Context, bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.exists = true
	return nil
}

// Publish implements Publisher.
func (m *Memory) Publish(ctx context.Context, f *syncd.Flush) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.blocked != nil {
		blocked := m.blocked
		m.mu.Unlock()
		select {
		case <-blocked:
		case <-ctx.Done():
		}
		m.mu.Lock()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	switch {
	case m.err != nil:
		return m.err
	case !m.exists:
		return fmt.Errorf("publish: %w", syncd.ErrNoStream)
	}
	f.Marker.First = m.seq + 1
	m.seq += uint64(len(f.Deltas)) + 1
	m.flushes, m.seqs = append(m.flushes, *f), append(m.seqs, m.seq)
	if !m.held {
		m.acked = len(m.flushes)
	}
	m.change()
	return nil
}

// Acked implements Publisher.
func (m *Memory) Acked() (syncd.Position, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moved == nil {
		m.moved = make(chan struct{})
	}
	if m.acked == 0 {
		return syncd.Position{}, m.moved
	}
	return m.flushes[m.acked-1].Marker.Position(), m.moved
}

// Err implements Publisher.
func (m *Memory) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// change wakes whoever waits. m.mu is held.
func (m *Memory) change() {
	for _, c := range [...]*chan struct{}{&m.moved, &m.grown} {
		if *c != nil {
			close(*c)
			*c = nil
		}
	}
}

// Hold keeps acks back from now on, or sends those that were.
func (m *Memory) Hold(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held = on; !on {
		m.acked = len(m.flushes)
	}
	m.change()
}

// Block has Publish wait from now on, or go on.
func (m *Memory) Block(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case on && m.blocked == nil:
		m.blocked = make(chan struct{})
	case !on && m.blocked != nil:
		close(m.blocked)
		m.blocked = nil
	}
}

// Break makes publishing fail, until Last is called.
func (m *Memory) Break(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
	m.change()
}

// Lose takes the last n flushes away, as a power loss takes what JetStream had acknowledged from memory.
func (m *Memory) Lose(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flushes, m.seqs = m.flushes[:len(m.flushes)-n], m.seqs[:len(m.seqs)-n]
	m.acked = min(m.acked, len(m.flushes))
	m.change()
}

// Delete takes the whole stream away.
func (m *Memory) Delete() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.exists, m.flushes, m.seqs, m.acked = false, nil, nil, 0
	m.change()
}

// Flushes gives what is in the stream. The caller must not change it. The channel is closed when there is more or less.
func (m *Memory) Flushes() ([]syncd.Flush, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.grown == nil {
		m.grown = make(chan struct{})
	}
	return m.flushes[:len(m.flushes):len(m.flushes)], m.grown
}
