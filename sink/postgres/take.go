package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/codec"
	"github.com/syncd-io/syncd/sink/remote"
)

// format numbers the form of what is in the schema. A place of an older one is begun anew; one of a newer is refused.
const format = 1

// lockClass is the first half of the number of the advisory lock, of which the schema's name gives the second.
const lockClass = 0x73796e63 // sync

// Take implements remote.Place. The lock belongs to a session, so one that ended is begun again.
func (p *place) Take(ctx context.Context) (remote.Mark, *sink.State, error) {
	if p.conn == nil || p.conn.IsClosed() {
		if err := p.lock(ctx); err != nil {
			return remote.Mark{}, nil, err
		}
	}
	var m remote.Mark
	var form int
	var text []byte
	err := p.conn.QueryRow(ctx, "SELECT format, gen, seq, nonce, state FROM "+p.in(own+"state")).Scan(&form, &m.Gen, &m.Seq, &m.Nonce, &text)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return remote.Mark{}, nil, nil
	case err != nil:
		// The schema was dropped, or the session has ended: what comes next begins from the start.
		return remote.Mark{}, nil, errors.Join(p.say("read the state", err), p.Release(ctx))
	case form > format:
		return remote.Mark{}, nil, &unusableError{fmt.Errorf("%s: it has form %d, this program knows %d: use the newer program, or another schema", p, form, format)}
	case form < format:
		return remote.Mark{}, nil, nil
	}
	state, err := codec.ParseState(text)
	if err != nil {
		p.log.Warn("the state in the sink can't be read: it is begun anew", "place", p.String(), "error", err)
		return remote.Mark{}, nil, nil
	}
	return m, state, nil
}

// lock begins the session that writes.
func (p *place) lock(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, p.config.ConnConfig)
	if err != nil {
		return p.say("connect", err)
	}
	clear(p.shapes)
	id := int32(uint32(syncd.Key(p.schema).Hash()))
	// The server takes a moment to notice that a process was killed, so the lock is waited for a little.
	err = waitForLock(ctx, conn, id)
	if code(err) == "55P03" {
		by := "another session"
		// Who that is may have ended by now, or be hidden from the role.
		_ = conn.QueryRow(ctx, `SELECT a.application_name || ' (server process ' || a.pid || ')' FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a USING (pid)
			WHERE l.locktype = 'advisory' AND l.granted AND l.classid = $1 AND l.objid = $2 AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())`,
			uint32(lockClass), uint32(id)).Scan(&by)
		return errors.Join(&remote.InUseError{Place: p.String(), By: by}, conn.Close(ctx))
	}
	if err != nil {
		return errors.Join(p.say("take the lock", err), conn.Close(ctx))
	}
	var encoding string
	if err = conn.QueryRow(ctx, "SHOW server_encoding").Scan(&encoding); err == nil && encoding != "UTF8" {
		return errors.Join(&unusableError{fmt.Errorf("%s: the database's encoding is %s, which can't hold every row: name one made with ENCODING 'UTF8'", p, encoding)}, conn.Close(ctx))
	}
	var there bool
	if err = conn.QueryRow(ctx, "SELECT pg_catalog.to_regclass($1) IS NOT NULL", p.in(own+"state")).Scan(&there); err == nil && !there {
		err = p.prepare(ctx, conn)
	}
	if err != nil {
		return errors.Join(p.say("prepare the schema", err), conn.Close(ctx))
	}
	p.conn = conn
	return nil
}

// waitForLock takes the lock for the session.
func waitForLock(ctx context.Context, conn *pgx.Conn, id int32) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err = tx.Exec(ctx, "SET LOCAL lock_timeout = '2s'"); err == nil {
		_, err = tx.Exec(ctx, "SELECT pg_catalog.pg_advisory_lock($1, $2)", lockClass, id)
	}
	if err != nil {
		return errors.Join(err, rolledBack(tx.Rollback(ctx)))
	}
	return tx.Commit(ctx)
}

// prepare makes the schema and the table of the state.
func (p *place) prepare(ctx context.Context, conn *pgx.Conn) error {
	var there bool
	if err := conn.QueryRow(ctx, "SELECT pg_catalog.to_regnamespace($1) IS NOT NULL", syncd.QuoteIdent(p.schema)).Scan(&there); err != nil {
		return err
	}
	if !there {
		if _, err := conn.Exec(ctx, "CREATE SCHEMA "+syncd.QuoteIdent(p.schema)); err != nil {
			return err
		}
	}
	_, err := conn.Exec(ctx, "CREATE TABLE "+p.in(own+"state")+` (
		one bool PRIMARY KEY DEFAULT true CHECK (one),
		format int NOT NULL, gen text NOT NULL, seq bigint NOT NULL, nonce text NOT NULL, state bytea NOT NULL)`)
	return err
}

// Begin implements remote.Place. Tables and views stay, empty, with what others were granted on them.
func (p *place) Begin(ctx context.Context, gen string, s *sink.State) (remote.Mark, error) {
	m := remote.Mark{Gen: gen, Nonce: rand.Text()[:10]}
	err := p.transaction(ctx, "begin anew", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = $1 AND c.relkind = 'r' AND c.relname LIKE '\_syncd\_rows\_%'`, p.schema)
		if err != nil {
			return err
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, name := range names {
			if _, err := tx.Exec(ctx, "DELETE FROM "+p.in(name)); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, "DELETE FROM "+p.in(own+"state")); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO "+p.in(own+"state")+" (format, gen, seq, nonce, state) VALUES ($1, $2, 0, $3, $4)", format, m.Gen, m.Nonce, codec.AppendState(nil, s))
		return err
	})
	return m, err
}

// transaction does something in a transaction of the session that writes. A session that failed for another reason than a
// statement's is given up, since nobody knows what it will do next.
func (p *place) transaction(ctx context.Context, what string, do func(tx pgx.Tx) error) error {
	if p.conn == nil {
		return p.say(what, errors.New("the session has ended"))
	}
	tx, err := p.conn.Begin(ctx)
	if err == nil {
		if err = do(tx); err == nil {
			err = tx.Commit(ctx)
		} else {
			err = errors.Join(err, rolledBack(tx.Rollback(ctx)))
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, remote.ErrMoved):
		return fmt.Errorf("%s: %s: %w", p, what, err)
	}
	clear(p.shapes)
	if p.conn.IsClosed() {
		p.conn = nil
	}
	return p.say(what, err)
}

// rolledBack drops the error of a rollback in a session that has ended anyway.
func rolledBack(err error) error {
	if errors.Is(err, pgx.ErrTxClosed) || code(err) == "" {
		return nil
	}
	return err
}
