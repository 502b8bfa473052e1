package source

import (
	"context"
	"fmt"
	"time"

	"github.com/syncd-io/syncd"
)

const (
	// askEvery is how often the server is asked how far it has decoded while somebody waits for a position.
	askEvery = 10 * time.Millisecond
	// moveEvery is how often it is made to move.
	moveEvery = 200 * time.Millisecond
)

// mark waits for a marker at or past at.
func (t *term) mark(ctx context.Context, at syncd.LSN) (syncd.Position, error) {
	if at == 0 {
		var err error
		if at, err = t.insertPosition(ctx); err != nil {
			return syncd.Position{}, err
		}
	}
	done := make(chan syncd.Position, 1)
	t.pump.await(at, done)
	signal(t.move)
	select {
	case p := <-done:
		return p, nil
	case <-ctx.Done():
		t.pump.forget(done)
		return syncd.Position{}, context.Cause(ctx)
	case <-t.ended:
		return syncd.Position{}, ErrStandby
	}
}

// want has a marker sent at or past at as soon as can be.
func (t *term) want(at syncd.LSN) {
	if at > t.pump.marker().Through && at > t.pump.awaited() {
		t.pump.await(at, make(chan syncd.Position, 1))
		signal(t.move)
	}
}

// insertPosition gives where the server's log goes on.
func (t *term) insertPosition(ctx context.Context) (syncd.LSN, error) {
	t.asking.Lock()
	defer t.asking.Unlock()
	return t.sql.insertPosition(ctx)
}

// insertPosition gives where the server's log goes on, as pg_current_wal_insert_lsn has it; on a standby the end of what it
// has replayed. Just behind a page's header it is more than the end of the log, and a reader who waits for what the function
// gave waits for that: the log has to be made longer for it, which it is where it is waited for.
func (s *session) insertPosition(ctx context.Context) (syncd.LSN, error) {
	if s.server.standby {
		l, _, err := s.replayed(ctx)
		return l, err
	}
	var l syncd.LSN
	if err := s.QueryRow(ctx, "SELECT (pg_catalog.pg_current_wal_insert_lsn() - '0/0')::int8").Scan(&l); err != nil {
		return 0, fmt.Errorf("read the end of the log: %w", err)
	}
	return l, nil
}

// insertEnd gives the end of the server's log; on a standby the end of what it has replayed.
func (s *session) insertEnd(ctx context.Context) (syncd.LSN, error) {
	l, err := s.insertPosition(ctx)
	return s.server.pageStart(l), err
}

// serveMarks brings the server to where somebody waits for a marker. However many wait, it is moved and asked once.
func (t *term) serveMarks(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.move:
		}
		var moved time.Time
		for at := t.pump.awaited(); at > t.queue.reached(); at = t.pump.awaited() {
			if time.Since(moved) > moveEvery {
				moved = time.Now()
				if err := t.flush(ctx, at); err != nil {
					return err
				}
			}
			t.ask.Store(true)
			signal(t.answer)
			if sleep(ctx, askEvery) != nil {
				return nil
			}
		}
		signal(t.pump.wake)
	}
}

// flush makes the server flush its log up to at, where it has not: by a message in the log of its own.
func (t *term) flush(ctx context.Context, at syncd.LSN) error {
	t.asking.Lock()
	defer t.asking.Unlock()
	return t.sql.flush(ctx, at)
}

// flush makes the server's log reach the disk up to at: a transaction that writes a message into the log is committed, and
// with it everything before. Nothing is written where the disk has it already, nor on a standby, which has to wait for its
// primary.
func (s *session) flush(ctx context.Context, at syncd.LSN) error {
	if s.server.standby {
		return nil
	}
	_, err := s.Exec(ctx, `SELECT CASE WHEN pg_catalog.pg_current_wal_flush_lsn() < $1::pg_catalog.pg_lsn
		THEN pg_catalog.pg_logical_emit_message(true, 'syncd', '') END`, at.String())
	if err != nil {
		return fmt.Errorf("make the server flush its log: %w", err)
	}
	return nil
}
