// Package codec writes what a cache knows as bytes, for stores that keep it outside of this process. What it writes it reads
// back; the form belongs to the store that keeps it, which numbers it (memory.Store's file, sqlite.Store's format).
package codec

import (
	"fmt"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// AppendState appends a state to b.
func AppendState(b []byte, s *sink.State) []byte {
	e := Encoder{B: b}
	e.State(s)
	return e.B
}

// ParseState reads what AppendState wrote. What it gives shares nothing with b.
func ParseState(b []byte) (*sink.State, error) {
	d := Decoder{B: b}
	s := d.State()
	if err := d.End(); err != nil {
		return nil, fmt.Errorf("a cache's state: %w", err)
	}
	return s, nil
}

// AppendSnapshot appends a snapshot, or nil, to b.
func AppendSnapshot(b []byte, s *syncd.Snapshot) []byte {
	e := Encoder{B: b}
	e.Snapshot(s)
	return e.B
}

// ParseSnapshot reads what AppendSnapshot wrote.
func ParseSnapshot(b []byte) (*syncd.Snapshot, error) {
	d := Decoder{B: b}
	s := d.Snapshot()
	if err := d.End(); err != nil {
		return nil, fmt.Errorf("a snapshot: %w", err)
	}
	return s, nil
}

// End gives the first mistake, or an error where something is left over.
func (d *Decoder) End() error {
	if d.Err == nil && len(d.B) > 0 {
		return fmt.Errorf("%d bytes are left over", len(d.B))
	}
	return d.Err
}
