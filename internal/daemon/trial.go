package daemon

import (
	"context"
	"sync"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/internal/sidecar"
	"github.com/syncd-io/syncd/sink"
)

// Trial spoils what a sidecar gets from outside, to show what it does then. It may be changed while the sidecar runs.
type Trial struct {
	faults bus.Faults

	mu   sync.Mutex
	held chan struct{} // closed when lists go on; nil while they are not held up
}

// Spoil spoils the push from now on. The zero FaultRates spoils nothing.
func (t *Trial) Spoil(r bus.FaultRates) { t.faults.Set(r) }

// HoldLists says whether requests to the list service are held up from now on.
func (t *Trial) HoldLists(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case on && t.held == nil:
		t.held = make(chan struct{})
	case !on && t.held != nil:
		close(t.held)
		t.held = nil
	}
}

// pass waits for as long as lists are held up.
func (t *Trial) pass(ctx context.Context) error {
	t.mu.Lock()
	held := t.held
	t.mu.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// spoil puts the faults that are asked for between a sidecar and its way to NATS.
func (p *process) spoil(l *link) (sink.Stream, sidecar.Source) {
	f := p.Config.Sidecar.Faults
	t := p.Trial
	if t == nil {
		if f.Drop == 0 && f.Duplicate == 0 && f.Reorder == 0 {
			return l, l
		}
		p.Log.Warn("the push is spoiled on purpose, as sidecar.faults says", "drop", f.Drop, "duplicate", f.Duplicate, "reorder", f.Reorder)
		t = &Trial{}
	}
	t.faults.Stream = l
	t.Spoil(bus.FaultRates{Drop: f.Drop, Duplicate: f.Duplicate, Reorder: f.Reorder, Seed: uint64(f.Seed)})
	return &t.faults, holdable{l, t}
}

// holdable is a source whose lists a trial can hold up.
type holdable struct {
	sidecar.Source
	trial *Trial
}

// List gives a page, once lists are not held up.
func (h holdable) List(ctx context.Context, r syncd.ListRequest) (*syncd.Page, error) {
	if err := h.trial.pass(ctx); err != nil {
		return nil, err
	}
	return h.Source.List(ctx, r)
}

// Digest gives a digest, once lists are not held up.
func (h holdable) Digest(ctx context.Context, r syncd.DigestRequest) (*syncd.Digest, error) {
	if err := h.trial.pass(ctx); err != nil {
		return nil, err
	}
	return h.Source.Digest(ctx, r)
}

// Get gives single keys, once lists are not held up.
func (h holdable) Get(ctx context.Context, r syncd.GetRequest) (*syncd.Page, error) {
	if err := h.trial.pass(ctx); err != nil {
		return nil, err
	}
	return h.Source.Get(ctx, r)
}
