package source

import (
	"context"
	"sync"
	"time"

	"github.com/syncd-io/syncd"
)

// batch is one or more whole transactions on their way from the reader to the publisher.
type batch struct {
	deltas  []syncd.Delta
	bytes   int
	end     syncd.LSN // of the last transaction with deltas
	xid     syncd.XID // and whose it was
	arrived time.Time // when the last was read
	spill   *spill    // one transaction that is on disk, in place of deltas
}

// empty says whether there is nothing in it.
func (b *batch) empty() bool { return len(b.deltas) == 0 && b.spill == nil }

// queue holds what the reader has read and the publisher has not yet taken. The reader waits where it is full.
type queue struct {
	limit int // bytes of rows from which on the reader waits
	wake  chan struct{}
	room  chan struct{}

	mu      sync.Mutex
	batches []batch
	bytes   int
	through syncd.LSN // everything up to here was decoded, and is in the queue or was taken
}

func newQueue(limit int, through syncd.LSN) *queue {
	return &queue{limit: limit, through: through, wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// put adds b, which may be empty, and says that everything up to through is in.
func (q *queue) put(b batch, through syncd.LSN) {
	q.mu.Lock()
	moved := through > q.through
	q.through = max(q.through, through)
	if !b.empty() {
		q.batches = append(q.batches, b)
		q.bytes += b.bytes
	}
	q.mu.Unlock()
	if moved || !b.empty() {
		signal(q.wake)
	}
}

// wait waits until there is room.
func (q *queue) wait(ctx context.Context) error {
	for {
		q.mu.Lock()
		full := q.bytes >= q.limit
		q.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-q.room:
		}
	}
}

// take gives what has queued up, in one, about limit bytes of it at most but a whole batch at least; and up to where that
// is everything.
func (q *queue) take(limit int) (b batch, through syncd.LSN) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.batches) && (n == 0 || b.spill == nil && q.batches[n].spill == nil && b.bytes+q.batches[n].bytes <= limit) {
		b = b.join(q.batches[n])
		n++
	}
	q.bytes -= b.bytes
	clear(q.batches[:n])
	q.batches = q.batches[n:]
	if n > 0 {
		signal(q.room)
	}
	if len(q.batches) > 0 {
		return b, b.end
	}
	q.batches = nil
	return b, q.through
}

func (b batch) join(next batch) batch {
	if b.empty() {
		return next
	}
	return batch{deltas: append(b.deltas, next.deltas...), bytes: b.bytes + next.bytes, end: next.end, xid: next.xid, arrived: next.arrived}
}

// close gives up what was not taken.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, b := range q.batches {
		if b.spill != nil {
			b.spill.close()
		}
	}
	q.batches = nil
}

// reached says up to where everything was decoded.
func (q *queue) reached() syncd.LSN {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.through
}
