package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/syncd-io/syncd"
)

// slotQuery reads a slot through to_jsonb, since the columns that say why a slot is lost differ between versions:
// wal_status (13), conflicting (16), invalidation_reason (17).
const slotQuery = `SELECT coalesce(s.plugin, ''), coalesce(s.database, ''), s.temporary, s.two_phase, coalesce(s.active_pid, 0),
       coalesce(s.wal_status = 'lost', false) OR coalesce((to_jsonb(s)->>'conflicting')::bool, false)
         OR to_jsonb(s)->>'invalidation_reason' IS NOT NULL,
       coalesce(to_jsonb(s)->>'invalidation_reason', s.wal_status, ''),
       coalesce((s.restart_lsn - '0/0')::int8, 0), coalesce((s.confirmed_flush_lsn - '0/0')::int8, 0),
       (` + endOnDisk + ` - '0/0')::int8
  FROM pg_catalog.pg_replication_slots s WHERE s.slot_name = $1`

// readSlot reads the slot's state, and how far the server's log is on disk.
func readSlot(ctx context.Context, s *session, name string) (SlotState, syncd.LSN, error) {
	var st SlotState
	var flushed syncd.LSN
	err := s.QueryRow(ctx, slotQuery, name).Scan(&st.Plugin, &st.Database, &st.Temporary, &st.TwoPhase, &st.ActivePID,
		&st.Lost, &st.LostWhy, &st.Restart, &st.Confirmed, &flushed)
	if errors.Is(err, pgx.ErrNoRows) {
		return SlotState{}, 0, nil
	}
	if err != nil {
		return SlotState{}, 0, fmt.Errorf("read replication slot %s: %w", name, err)
	}
	st.Exists = true
	return st, flushed, nil
}

// identity is what IDENTIFY_SYSTEM says.
type identity struct {
	system   uint64
	timeline uint32
	flushed  syncd.LSN
}

func identify(ctx context.Context, c *pgconn.PgConn) (identity, error) {
	results, err := c.Exec(ctx, "IDENTIFY_SYSTEM").ReadAll()
	if err != nil {
		return identity{}, fmt.Errorf("identify the server: %w", err)
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) < 3 {
		return identity{}, errors.New("identify the server: the answer to IDENTIFY_SYSTEM is not one row of three columns")
	}
	row := results[0].Rows[0]
	system, err1 := strconv.ParseUint(string(row[0]), 10, 64)
	timeline, err2 := strconv.ParseUint(string(row[1]), 10, 32)
	flushed, err3 := syncd.ParseLSN(string(row[2]))
	if err := errors.Join(err1, err2, err3); err != nil {
		return identity{}, fmt.Errorf("identify the server: %w", err)
	}
	return identity{system, uint32(timeline), flushed}, nil
}

// dropSlot drops a slot that nobody uses. One that is gone already is no error.
func dropSlot(ctx context.Context, s *session, name string) error {
	_, err := s.Exec(ctx, "SELECT pg_catalog.pg_drop_replication_slot($1)", name)
	if err != nil && sqlState(err) != stateUndefinedObject {
		return fmt.Errorf("drop replication slot %s: %w", name, err)
	}
	return nil
}

// slotMaker makes a new slot, whose start lies above everything that was ever published and is visible to every snapshot
// taken once Make has returned.
type slotMaker struct {
	SQL         *session
	Replication *pgconn.PgConn
	Name        string
	Log         *slog.Logger
	// Patience is how long to wait before saying for whom.
	Patience time.Duration
}

// Make makes the slot and gives its consistent point. The server waits for the transactions that run; lock_timeout bounds
// each attempt, which leaves nothing behind, and the next one follows.
func (m *slotMaker) Make(ctx context.Context) (syncd.LSN, error) {
	for {
		start, err := m.attempt(ctx)
		switch {
		case err == nil:
			return start, m.settle(ctx)
		case sqlState(err) != stateLockNotAvailable:
			return 0, fmt.Errorf("make replication slot %s: %w", m.Name, err)
		}
	}
}

func (m *slotMaker) attempt(ctx context.Context) (syncd.LSN, error) {
	done := make(chan struct{})
	told := make(chan struct{})
	go func() {
		defer close(told)
		m.tell(ctx, done)
	}()
	sql := fmt.Sprintf("CREATE_REPLICATION_SLOT %s LOGICAL pgoutput NOEXPORT_SNAPSHOT", syncd.QuoteIdent(m.Name))
	results, err := m.Replication.Exec(ctx, sql).ReadAll()
	close(done)
	<-told
	if err != nil {
		return 0, err
	}
	if len(results) != 1 || len(results[0].Rows) != 1 || len(results[0].Rows[0]) < 2 {
		return 0, errors.New("the answer is not one row of the slot's name and its consistent point")
	}
	return syncd.ParseLSN(string(results[0].Rows[0][1]))
}

// tell says, each time patience has run out, for which server processes the slot waits.
func (m *slotMaker) tell(ctx context.Context, done <-chan struct{}) {
	t := time.NewTicker(m.Patience)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case <-t.C:
			if m.SQL.server.standby {
				m.Log.Warn("the new replication slot waits for the primary to write into its log which transactions run, and for those to end",
					"slot", m.Name, "mend", "on the primary: SELECT pg_log_standby_snapshot()")
				continue
			}
			var pids []int32
			err := m.SQL.QueryRow(ctx, "SELECT pg_catalog.pg_blocking_pids($1)", int32(m.Replication.PID())).Scan(&pids)
			if err == nil && len(pids) > 0 {
				m.Log.Warn("the new replication slot waits for transactions that were open before it; end them to go on",
					"slot", m.Name, "pids", pids)
			}
		}
	}
}

// settle waits until every transaction that runs now has ended. The server has waited for those that it saw; one that began
// while it did may have its commit record below the slot's start and yet be invisible (with synchronous_standby_names naming
// a standby that is away, for long), and would be missed by push and by the next list alike.
func (m *slotMaker) settle(ctx context.Context) error {
	first, err := currentSnapshot(ctx, m.SQL)
	if err != nil {
		return err
	}
	since := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		now, err := currentSnapshot(ctx, m.SQL)
		if err != nil {
			return err
		}
		open := stillRunning(first, now)
		if len(open) == 0 {
			return nil
		}
		if time.Since(since) > m.Patience {
			since = time.Now()
			m.Log.Warn("the new replication slot waits for transactions that began while it was made; end them to go on",
				"slot", m.Name, "xids", open)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// stillRunning gives the transactions that ran in first and have not ended in now. A standby's snapshot does not say which
// ran: there it is the oldest that runs now, where it may have run then.
func stillRunning(first, now *syncd.Snapshot) []syncd.XID {
	if first.Standby {
		if first.Xmin < first.Xmax && now.Xmin < first.Xmax {
			return []syncd.XID{now.Xmin}
		}
		return nil
	}
	var open []syncd.XID
	for _, x := range first.Xip {
		if now.Visible(x, 0) != syncd.Visible {
			open = append(open, x)
		}
	}
	return open
}

// moment gives a snapshot, and where the log ends after it was taken.
func (s *session) moment(ctx context.Context) (moment, error) {
	snapshot, err := currentSnapshot(ctx, s)
	if err != nil {
		return moment{}, err
	}
	if snapshot.Standby {
		return moment{snapshot, snapshot.R2}, nil
	}
	end, err := s.insertEnd(ctx)
	return moment{snapshot, end}, err
}

func currentSnapshot(ctx context.Context, s *session) (*syncd.Snapshot, error) {
	if s.server.standby {
		return s.replaySnapshot(ctx)
	}
	var text string
	if err := s.QueryRow(ctx, "SELECT pg_catalog.pg_current_snapshot()::text").Scan(&text); err != nil {
		return nil, fmt.Errorf("take a snapshot: %w", err)
	}
	return syncd.ParseSnapshot(text)
}

func (s *session) snapshot(ctx context.Context) (*syncd.Snapshot, error) {
	return currentSnapshot(ctx, s)
}

func (s *session) columns(ctx context.Context, c *Catalog, rel []RelationColumn) ([]Column, error) {
	return c.Columns(ctx, s, rel)
}

// sleep waits for d, or until ctx ends and then gives its error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
