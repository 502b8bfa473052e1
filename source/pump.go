package source

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/syncd-io/syncd"
)

// pump takes what has queued up and hands it to the publisher as flushes, each with its marker. When idle it sends markers
// alone: one a second, one when somebody waits for it, and one when more has become visible.
type pump struct {
	Publisher Publisher
	Queue     *queue
	Visible   *visibility
	Tables    *roster
	Observer  Observer

	wake chan struct{} // a hint to look whether a marker is due

	mu      sync.Mutex
	last    syncd.Marker // the last one handed over
	sent    time.Time    // when
	waiters []waiter
	timings []timing
}

// waiter waits for a marker at or past a position.
type waiter struct {
	at   syncd.LSN
	done chan<- syncd.Position
}

// timing says when what a marker ends had arrived.
type timing struct {
	through syncd.LSN
	arrived time.Time
}

const (
	flushBytes   = 8 << 20
	markerEvery  = time.Second
	followUp     = 40 * time.Millisecond // a marker that says more is safe, after one that could not yet
	maxInTimings = 4096
)

// run publishes until ctx or publishing ends. It begins behind p.last.
func (p *pump) run(ctx context.Context) error {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.Queue.wake:
		case <-p.wake:
		case <-t.C:
		}
		for {
			did, err := p.step(ctx)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			if !did {
				break
			}
		}
		t.Reset(p.pause())
	}
}

// step publishes one flush, where there is one to publish or a marker is due.
func (p *pump) step(ctx context.Context) (bool, error) {
	b, through := p.Queue.take(flushBytes)
	if b.spill != nil {
		return p.large(ctx, b, through)
	}
	relist, seen, whole := p.Tables.demanded(max(through, p.marker().Through))
	if len(b.deltas) == 0 && len(relist) == 0 && !p.due(through) {
		return false, nil
	}
	m := p.next(b, through, relist)
	m.Counts = p.count(b.deltas)
	if whole {
		m.Catalog = seen.String()
	}
	if err := p.publish(ctx, b.deltas, m); err != nil {
		return false, err
	}
	p.Tables.told(relist, m.Through)
	p.done(m, b)
	return true, nil
}

// publish hands over a flush. It gives no error where ctx has ended.
func (p *pump) publish(ctx context.Context, deltas []syncd.Delta, m syncd.Marker) error {
	err := p.Publisher.Publish(ctx, &syncd.Flush{Deltas: deltas, Marker: m})
	if err != nil {
		return fmt.Errorf("publish up to %s: %w", m.Position(), err)
	}
	return nil
}

// large publishes a transaction that is on disk: in parts, whose markers leave Through where it is, and a last flush whose
// marker counts them all.
func (p *pump) large(ctx context.Context, b batch, through syncd.LSN) (bool, error) {
	defer b.spill.close()
	for {
		deltas, last, err := b.spill.next(flushBytes)
		if err != nil {
			return false, err
		}
		p.count(deltas)
		if !last {
			m := p.next(batch{}, 0, nil)
			m.Part = true
			if err := p.publish(ctx, deltas, m); err != nil {
				return false, err
			}
			continue
		}
		b.deltas = deltas
		m := p.next(b, through, nil)
		m.Counts = b.spill.counts
		if err := p.publish(ctx, deltas, m); err != nil {
			return false, err
		}
		p.done(m, b)
		return true, nil
	}
}

// next makes the marker behind the last one.
func (p *pump) next(b batch, through syncd.LSN, relist map[syncd.Table]string) syncd.Marker {
	p.mu.Lock()
	m := p.last
	p.mu.Unlock()
	m.Previous = m.Through
	m.Through = max(through, m.Through)
	m.First, m.Part, m.Counts, m.Relist = 0, false, nil, relist
	if len(b.deltas) > 0 {
		m.Commit, m.XID = b.end, b.xid
	}
	m.Safe = max(m.Safe, p.Visible.safe(m.Through))
	m.Sent = time.Now()
	return m
}

// count gives how many deltas each table has, and tells the observer.
func (p *pump) count(deltas []syncd.Delta) map[syncd.Table]int {
	if len(deltas) == 0 {
		return nil
	}
	type kind struct {
		table syncd.Table
		op    syncd.Op
	}
	counts := map[syncd.Table]int{}
	for i := 0; i < len(deltas); {
		k := kind{deltas[i].Table, deltas[i].Op}
		n := 1
		for i+n < len(deltas) && deltas[i+n].Op == k.op && deltas[i+n].Table == k.table {
			n++
		}
		i += n
		counts[k.table] += n
		p.Observer.Changed(k.table, k.op, n)
	}
	return counts
}

// done takes note of a marker that was handed over.
func (p *pump) done(m syncd.Marker, b batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.sent = m, time.Now()
	if len(b.deltas) > 0 && len(p.timings) < maxInTimings {
		p.timings = append(p.timings, timing{m.Through, b.arrived})
	}
	kept := p.waiters[:0]
	for _, w := range p.waiters {
		if w.at > m.Through {
			kept = append(kept, w)
			continue
		}
		w.done <- m.Position()
	}
	p.waiters = kept
}

// due says whether a marker without deltas is to be sent now.
func (p *pump) due(through syncd.LSN) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.waiters {
		if w.at <= through {
			return true
		}
	}
	since := time.Since(p.sent)
	return since >= markerEvery || since >= followUp && p.last.Safe < p.last.Through && p.Visible.safe(p.last.Through) > p.last.Safe
}

// pause is how long nothing is due by time alone. What becomes safe later wakes the pump.
func (p *pump) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	since := time.Since(p.sent)
	if p.last.Safe < p.last.Through && since < followUp {
		return followUp - since
	}
	return max(markerEvery-since, time.Millisecond)
}

// marker gives the last marker that was handed over.
func (p *pump) marker() syncd.Marker {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// await registers for the next marker at or past at. done must have room for one.
func (p *pump) await(at syncd.LSN, done chan<- syncd.Position) {
	p.mu.Lock()
	if p.last.Through >= at {
		done <- p.last.Position()
		p.mu.Unlock()
		return
	}
	p.waiters = append(p.waiters, waiter{at, done})
	p.mu.Unlock()
	signal(p.wake)
}

// forget takes back what await registered.
func (p *pump) forget(done chan<- syncd.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range p.waiters {
		if w.done == done {
			p.waiters = append(p.waiters[:i], p.waiters[i+1:]...)
			return
		}
	}
}

// awaited gives the highest position that somebody waits for; 0 where nobody does.
func (p *pump) awaited() syncd.LSN {
	p.mu.Lock()
	defer p.mu.Unlock()
	var at syncd.LSN
	for _, w := range p.waiters {
		at = max(at, w.at)
	}
	return at
}

// acknowledged takes note that everything up to l is in the stream.
func (p *pump) acknowledged(l syncd.LSN, now time.Time) {
	p.mu.Lock()
	n := 0
	for n < len(p.timings) && p.timings[n].through <= l {
		n++
	}
	done := append([]timing(nil), p.timings[:n]...)
	p.timings = append(p.timings[:0], p.timings[n:]...)
	p.mu.Unlock()
	for _, t := range done {
		p.Observer.Published(now.Sub(t.arrived))
	}
}
