package source

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/syncd-io/syncd"
)

// intake reads the replication stream, makes transactions of it and hands them to the queue: all whole ones each time when
// it has to wait for more, so one at a time where there is little, and many where there is much.
type intake struct {
	Stream  *walStream
	Build   builder
	Replay  Replay
	Queue   *queue
	Visible *visibility
	// Recent is the xmax of a recent snapshot, next to which transaction ids are widened.
	Recent *atomic.Uint64
	// Answer is called when the server wants a status update at once.
	Answer func()
	// Heard is called when something was read, and when the intake stops waiting for the publisher.
	Heard func()

	waiting atomic.Bool // for the publisher: what the server says meanwhile is not heard

	dec     Decoder
	frame   Frame
	xid     syncd.XID // of the open transaction
	through syncd.LSN // everything up to here was decoded
	// replayed says that the slot has replayed all that the stream has.
	replayed bool
	commits  []commitRef
	last     commitRef // the last with deltas
}

// behindAfter is how long before it was sent a commit must have been made for us to be behind. Both times are the server's.
const behindAfter = 20 * time.Millisecond

// epochOverError says that what the slot replays is not what the stream holds.
type epochOverError struct{ why string }

// Error gives the reason.
func (e *epochOverError) Error() string { return e.why }

// run reads until ctx or the stream ends.
func (in *intake) run(ctx context.Context) error {
	drained := func() error { return in.drained(ctx) }
	for {
		body, err := in.Stream.next(drained)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if err := in.take(ctx, body); err != nil {
			return err
		}
	}
}

// drained hands over the whole transactions, and waits while there is no room for more.
func (in *intake) drained(ctx context.Context) error {
	in.handOver()
	in.waiting.Store(true)
	err := in.Queue.wait(ctx)
	in.Heard()
	in.waiting.Store(false)
	return err
}

// handOver hands over the whole transactions that are in memory.
func (in *intake) handOver() {
	deltas, bytes := in.Build.take()
	in.Visible.add(in.commits)
	in.commits = in.commits[:0]
	if in.replayed {
		in.Visible.lift() // whatever was replayed and may be invisible still is known now
	}
	b := batch{deltas: deltas, bytes: bytes, end: in.last.lsn, xid: in.last.xid}
	if len(deltas) > 0 {
		b.arrived = time.Now()
	}
	in.Queue.put(b, in.through)
	if len(deltas) > 0 {
		// The read that comes next blocks this thread. Let the publisher have it first: to wake another would take longer than
		// to publish.
		runtime.Gosched()
	}
}

// take takes one frame.
func (in *intake) take(ctx context.Context, body []byte) error {
	f := &in.frame
	if err := f.Decode(body); err != nil {
		return &ProtocolError{in.through, err}
	}
	if f.Kind == Keepalive {
		if f.Reply {
			in.Answer()
		}
		return in.pass(f.End)
	}
	kind, err := in.dec.Decode(f.Data)
	if err != nil {
		return &ProtocolError{f.Start, err}
	}
	switch kind {
	case KindRelation:
		return in.Build.relate(ctx, &in.dec.Relation)
	case KindBegin:
		if err := in.Build.meet(ctx); err != nil {
			return err
		}
	}
	if err := in.message(kind); err != nil {
		return protocolError(f.Start, kind, err)
	}
	return nil
}

// protocolError says where in the stream a message makes no sense, unless the trouble lies elsewhere.
func protocolError(at syncd.LSN, kind Kind, err error) error {
	var over *epochOverError
	var local *localError
	if errors.As(err, &over) || errors.As(err, &local) {
		return err
	}
	return &ProtocolError{at, fmt.Errorf("%s: %w", kind, err)}
}

func (in *intake) message(kind Kind) error {
	switch kind {
	case KindInsert, KindUpdate, KindDelete:
		return in.Build.change(&in.dec.Change)
	case KindBegin:
		in.xid = syncd.WidenXID(in.dec.Begin.XID, syncd.XID(in.Recent.Load()))
		return in.Build.start(in.dec.Begin, in.dec.Begin.Final < in.Replay.After.Through)
	case KindCommit:
		return in.commit(&in.dec.Commit)
	case KindTruncate:
		return in.Build.truncate(&in.dec.Truncate)
	case KindMessage:
		if m := &in.dec.Message; !m.Transactional {
			return in.pass(m.LSN)
		}
		return nil
	case KindOrigin, KindType, KindStreamAbort:
		return nil
	}
	return errors.New("it was not asked for")
}

func (in *intake) commit(c *Commit) error {
	b := &in.Build
	if !b.inside || c.LSN != b.begin.Final {
		return fmt.Errorf("it does not end the transaction that was begun for %s", b.begin.Final)
	}
	in.Stream.behind = in.frame.Sent.Sub(c.Committed) > behindAfter
	skip, err := in.Replay.Skip(c.End, in.xid, b.changed)
	if err != nil {
		return &epochOverError{err.Error()}
	}
	if skip != b.skipping {
		return fmt.Errorf("the commit record from %s to %s lies across the end of the stream, %s", c.LSN, c.End, in.Replay.After.Through)
	}
	in.replayed = in.replayed || c.End > in.Replay.After.Through
	if b.spill != nil {
		return in.commitSpilled(c)
	}
	if skip {
		// The stream has it, and it may be invisible still.
		if b.changed || b.strange {
			in.commits = append(in.commits, commitRef{c.End, in.xid, c.LSN})
		}
		b.drop()
	} else if b.commit(c.End, c.Committed, in.xid) > 0 {
		in.last = commitRef{c.End, in.xid, c.LSN}
		in.commits = append(in.commits, in.last)
	} else if b.strange {
		// The first list of a table that is about to be synced has to have seen it.
		in.commits = append(in.commits, commitRef{c.End, in.xid, c.LSN})
	}
	in.through = max(in.through, c.End)
	return nil
}

// commitSpilled hands over a transaction that is on disk.
func (in *intake) commitSpilled(c *Commit) error {
	s, err := in.Build.commitSpilled(c.End, c.Committed, in.xid)
	if err != nil {
		return err
	}
	in.handOver() // what was before it
	in.last = commitRef{c.End, in.xid, c.LSN}
	in.Visible.add([]commitRef{in.last})
	in.through = max(in.through, c.End)
	// It counts as a full queue, so that not many of its kind pile up on disk.
	in.Queue.put(batch{spill: s, bytes: in.Queue.limit, end: c.End, xid: in.xid, arrived: time.Now()}, in.through)
	return nil
}

// pass says that there is no commit up to lsn that was not read. In the midst of a transaction it says nothing.
func (in *intake) pass(lsn syncd.LSN) error {
	if in.Build.inside {
		return nil
	}
	if !in.replayed && lsn >= in.Replay.After.Through {
		in.replayed = true
		in.handOver() // so that it is known also where nothing follows
	}
	if lsn <= in.through {
		return nil
	}
	if err := in.Replay.Pass(lsn); err != nil {
		return &epochOverError{err.Error()}
	}
	in.through = lsn
	return nil
}
