package source

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/syncd-io/syncd"
)

// A source can follow a standby, from Postgres 16 on and where its connection string asks for one. What differs there:
// nothing can be written, so the publication is made on the primary, and nobody makes the log move on; a slot comes about
// only when the primary has said in its log which transactions run; and what is visible is what was replayed, whatever
// pg_current_snapshot says. A promotion begins a new timeline, and so a new epoch.

// standbyVersion is the oldest server whose standbys decode.
const standbyVersion = 160000

// endOnDisk is, in SQL, how far the log is safe from a crash of this server; on a standby how far it is replayed.
const endOnDisk = `CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_flush_lsn() END`

// replayTimeline is, in SQL, the timeline that a standby replays, as its control file has it. It gives the new one as soon as
// the server is promoted, before anything is written on it.
const replayTimeline = `(SELECT greatest(c.timeline_id, r.min_recovery_end_timeline)
	FROM pg_catalog.pg_control_checkpoint() c, pg_catalog.pg_control_recovery() r)`

var (
	// errTimeline says that a session's standby was promoted, or follows another primary.
	errTimeline = errors.New("the server was a standby, and has been promoted or follows another timeline")
	// errListOnPrimary says why pages of the primary are of no use to a source on a standby: a commit that was replayed there
	// may not yet be visible here, and nothing would say so.
	errListOnPrimary = errors.New("the source follows a standby, so lists can't be read on the primary: leave list_postgres out, or name a standby there")
)

// primaryOnly refuses a standby where the connection string does not ask for one.
func primaryOnly(ctx context.Context, c *pgconn.PgConn) error {
	err := pgconn.ValidateConnectTargetSessionAttrsPrimary(ctx, c)
	if err == nil || c.IsClosed() || sqlState(err) != "" {
		return err
	}
	return errors.New("the server is a standby: name the primary; or, from Postgres 16 on, put target_session_attrs=prefer-standby into the connection string")
}

// followable says why a source can't follow a standby; nil for a primary.
func (s *server) followable() error {
	if !s.standby || s.version >= standbyVersion {
		return nil
	}
	return fmt.Errorf("the server is a standby of Postgres %d, and a source can follow one from Postgres 16 on: name the primary", s.version/10000)
}

// replayed gives how far a standby has replayed, and on which timeline.
func (s *session) replayed(ctx context.Context) (l syncd.LSN, timeline uint32, err error) {
	var still bool
	err = s.QueryRow(ctx, "SELECT (pg_catalog.pg_last_wal_replay_lsn() - '0/0')::int8, "+replayTimeline+"::int8, pg_catalog.pg_is_in_recovery()").
		Scan(&l, &timeline, &still)
	if err != nil {
		return 0, 0, fmt.Errorf("read how far the standby has replayed: %w", err)
	}
	return l, timeline, s.onTimeline(timeline, still)
}

// onTimeline is errTimeline where the session's server is not the standby that it was when this was first asked.
func (s *session) onTimeline(timeline uint32, standby bool) error {
	if s.timeline == 0 {
		s.timeline = timeline
	}
	if !standby || timeline != s.timeline {
		return errTimeline
	}
	return nil
}

// replaySnapshot takes a standby's snapshot: where replay stood before it and after it says what is visible.
func (s *session) replaySnapshot(ctx context.Context) (*syncd.Snapshot, error) {
	r, _, err := s.replayed(ctx)
	if err != nil {
		return nil, err
	}
	var text string
	var r2 syncd.LSN
	var timeline uint32
	var still bool
	err = s.QueryRow(ctx, "SELECT pg_catalog.pg_current_snapshot()::text, (pg_catalog.pg_last_wal_replay_lsn() - '0/0')::int8, "+
		replayTimeline+"::int8, pg_catalog.pg_is_in_recovery()").Scan(&text, &r2, &timeline, &still)
	if err != nil {
		return nil, fmt.Errorf("take a snapshot: %w", err)
	}
	if err := s.onTimeline(timeline, still); err != nil {
		return nil, err
	}
	snap, err := syncd.ParseSnapshot(text)
	if err != nil {
		return nil, err
	}
	snap.Standby, snap.R, snap.R2, snap.H = true, r, r2, r2
	return snap, nil
}

// createSQL makes the publication of the tables that it can hold, as a source on the primary would.
func (r *roster) createSQL(s *session) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var members []string
	for _, name := range r.order {
		t := r.state[name]
		w := r.surroundings(s, nil)
		w.manage = true
		if judge(t.config, t.facts, w).Refused.none() {
			members = append(members, t.config.member())
		}
	}
	if len(members) == 0 {
		return fmt.Sprintf("CREATE PUBLICATION %s FOR TABLE …", syncd.QuoteIdent(r.cfg.Publication))
	}
	return fmt.Sprintf("CREATE PUBLICATION %s FOR TABLE %s WITH (publish_via_partition_root = true)",
		syncd.QuoteIdent(r.cfg.Publication), strings.Join(members, ", "))
}

// member is a table as a statement on a publication names it, with the columns and the filter that are configured.
func (t TableConfig) member() string {
	text := "ONLY " + t.Table.SQL()
	if len(t.Columns) > 0 {
		text += " (" + quoteList(t.Columns) + ")"
	}
	if t.Where != "" {
		text += " WHERE (" + t.Where + ")"
	}
	return text
}

// where says, before a statement that mends, on which server it is to be run.
func (w surroundings) where() string {
	if w.standby {
		return "on the primary: "
	}
	return ""
}

// anew is what gives the publication a table anew.
func (w surroundings) anew(t TableConfig) string {
	name := syncd.QuoteIdent(w.publication)
	return w.where() + fmt.Sprintf("ALTER PUBLICATION %s DROP TABLE ONLY %s; ALTER PUBLICATION %s ADD TABLE %s", name, t.Table.SQL(), name, t.member())
}

// standby looks at what a source on a standby needs.
func (k *checker) standby(ctx context.Context) error {
	if !k.s.server.standby {
		return nil
	}
	var feedback, replayed string
	if err := k.ask(ctx, "SELECT pg_catalog.current_setting('hot_standby_feedback'), pg_catalog.pg_last_wal_replay_lsn()::text", &feedback, &replayed); err != nil {
		return err
	}
	r := Result{Name: "standby", OK: true, Detail: "the server is a standby, replayed up to " + replayed}
	if feedback != "on" {
		r.Detail += "; hot_standby_feedback is off: a vacuum on the primary may invalidate the slot, after which everything is listed again"
		r.Mend = "ALTER SYSTEM SET hot_standby_feedback = on; SELECT pg_reload_conf()"
	}
	k.add(r)
	return nil
}

// publicationOnPrimary says how the publication is made that a standby does not have.
func (k *checker) publicationOnPrimary(ctx context.Context) error {
	r := newRoster(k.cfg)
	if err := r.look(ctx, k.s, lookOnly); err != nil {
		return err
	}
	k.add(Result{
		Name: "publication", Detail: "there is no publication " + k.cfg.Publication + ", and none can be made on a standby",
		Mend: "on the primary: " + r.createSQL(k.s),
	})
	return nil
}
