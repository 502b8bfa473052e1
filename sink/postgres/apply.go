package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/codec"
	"github.com/syncd-io/syncd/sink/remote"
)

// valueError says that a value of a table does not fit its column.
type valueError struct {
	table syncd.Table
	err   error
}

func (e *valueError) Error() string { return fmt.Sprintf("write rows of %s: %v", e.table, e.err) }
func (e *valueError) Unwrap() error { return e.err }

// misfit wraps an error of a statement that writes a table's columns, where it is about their values.
func misfit(t syncd.Table, err error) error {
	c := code(err)
	if strings.HasPrefix(c, "22") || c == "42846" || c == "42804" || strings.HasPrefix(c, "23") || c == "0A000" {
		return &valueError{t, err}
	}
	return err
}

// Apply implements remote.Place.
func (p *place) Apply(ctx context.Context, c *remote.Change) error {
	plain := map[syncd.Table]bool{}
	for {
		err := p.apply(ctx, c, plain)
		v, ok := errors.AsType[*valueError](err)
		if !ok || plain[v.table] {
			return err
		}
		p.log.Warn("a value does not fit its column in the sink: every column of the table becomes text", "table", v.table.String(), "error", v.err)
		plain[v.table] = true
	}
}

// apply makes a commit, with the columns of some tables all turned to text.
func (p *place) apply(ctx context.Context, c *remote.Change, plain map[syncd.Table]bool) error {
	fitted := map[syncd.Table]syncd.TableInfo{}
	err := p.transaction(ctx, "commit", func(tx pgx.Tx) error {
		moved, err := tx.Exec(ctx, "UPDATE "+p.in(own+"state")+" SET seq = $1, nonce = $2, state = $3 WHERE gen = $4 AND seq = $5 AND nonce = $6",
			c.To.Seq, c.To.Nonce, codec.AppendState(nil, c.State), c.From.Gen, c.From.Seq, c.From.Nonce)
		if err != nil {
			return err
		}
		if moved.RowsAffected() != 1 {
			return remote.ErrMoved
		}
		if err := p.tables(ctx, tx, c, plain, fitted); err != nil {
			return err
		}
		return p.rows(ctx, tx, c, fitted)
	})
	if err != nil {
		return err
	}
	for t, info := range fitted {
		p.shapes[t] = info
	}
	for _, t := range c.Drop {
		if c.State.Tables[t] == nil {
			delete(p.shapes, t)
		}
	}
	return nil
}

// tables drops tables and gives those of the state their shape.
func (p *place) tables(ctx context.Context, tx pgx.Tx, c *remote.Change, plain map[syncd.Table]bool, fitted map[syncd.Table]syncd.TableInfo) error {
	for _, t := range slices.Concat(c.Drop, c.New) {
		s := c.State.Tables[t]
		if s == nil || s.Info.Error != "" {
			if err := p.drop(ctx, tx, t); err != nil {
				return fmt.Errorf("drop %s: %w", t, err)
			}
			continue
		}
		// Rows are deleted, not truncated away: who reads the table with SQL is not held up.
		var there bool
		err := tx.QueryRow(ctx, "SELECT pg_catalog.to_regclass($1) IS NOT NULL", p.in(base(t))).Scan(&there)
		if err == nil && there {
			_, err = tx.Exec(ctx, "DELETE FROM "+p.in(base(t)))
		}
		if err != nil {
			return fmt.Errorf("empty %s: %w", t, err)
		}
	}
	for t, s := range c.State.Tables {
		if have, ok := p.shapes[t]; s.Info.Error != "" || ok && same(have, s.Info) && !plain[t] {
			continue
		}
		if err := p.fit(ctx, tx, s.Info, plain[t]); err != nil {
			return fmt.Errorf("give %s its shape: %w", t, misfit(t, err))
		}
		fitted[t] = s.Info
	}
	return nil
}

func same(a, b syncd.TableInfo) bool {
	return slices.Equal(a.Columns, b.Columns) && slices.Equal(a.Types, b.Types) && slices.Equal(a.Key, b.Key)
}

// What one statement writes at most, and from how many entries on they are sent by COPY.
const (
	partWrites = 5000
	partBytes  = 16 << 20
	copyFrom   = 300
)

// rows writes the entries.
func (p *place) rows(ctx context.Context, tx pgx.Tx, c *remote.Change, fitted map[syncd.Table]syncd.TableInfo) error {
	byTable := map[syncd.Table][]*sink.Write{}
	for i := range c.Writes {
		w := &c.Writes[i]
		byTable[w.Table] = append(byTable[w.Table], w)
	}
	for t, writes := range byTable {
		for len(writes) > 0 {
			n, bytes := 0, 0
			for n < len(writes) && n < partWrites && bytes < partBytes {
				bytes += len(writes[n].Entry.Row)
				n++
			}
			if err := p.write(ctx, tx, t, writes[:n], c.To.Seq); err != nil {
				return fmt.Errorf("write %d entries of %s: %w", n, t, misfit(t, err))
			}
			writes = writes[n:]
		}
	}
	return nil
}

// entries are some entries by column, as they are sent.
type entries struct {
	hashes                 []int64
	kids, keys, meta, rows [][]byte
}

func (e *entries) add(w *sink.Write) {
	e.hashes, e.kids = append(e.hashes, order(w.Key.Hash())), append(e.kids, kid(w.Key))
	if w.Remove {
		return
	}
	e.keys = append(e.keys, []byte(w.Key))
	e.meta = append(e.meta, remote.AppendHead(nil, &w.Entry, ""))
	e.rows = append(e.rows, w.Entry.Row)
}

// write writes some entries of a table.
func (p *place) write(ctx context.Context, tx pgx.Tx, t syncd.Table, writes []*sink.Write, seq uint64) error {
	var put, gone entries
	for _, w := range writes {
		if w.Remove {
			gone.add(w)
		} else {
			put.add(w)
		}
	}
	b := p.in(base(t))
	if len(gone.hashes) > 0 {
		_, err := tx.Exec(ctx, "DELETE FROM "+b+" b USING unnest($1::bigint[], $2::bytea[]) u(h, kid) WHERE b._syncd_hash = u.h AND b._syncd_kid = u.kid", gone.hashes, gone.kids)
		if err != nil {
			return err
		}
	}
	if len(put.hashes) == 0 {
		return nil
	}
	have, _, _, err := p.found(ctx, tx, t)
	if err != nil {
		return err
	}
	from, args, err := put.send(ctx, tx)
	if err != nil {
		return err
	}
	done, err := tx.Exec(ctx, upsert(b, have, from), append([]any{seq}, args...)...)
	if err != nil {
		return err
	}
	if n := done.RowsAffected(); n != int64(len(put.hashes)) {
		return fmt.Errorf("%d of %d entries are older than what is there: %w", int64(len(put.hashes))-n, len(put.hashes), remote.ErrMoved)
	}
	return nil
}

// send sends entries, and gives what stands behind FROM to read them, and its arguments, which begin with $2. Many go by COPY,
// into a table of the session's.
func (e *entries) send(ctx context.Context, tx pgx.Tx) (from string, args []any, err error) {
	if len(e.hashes) < copyFrom {
		return "unnest($2::bigint[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[]) u(h, kid, k, m, r)", []any{e.hashes, e.kids, e.keys, e.meta, e.rows}, nil
	}
	const make = "CREATE TEMP TABLE IF NOT EXISTS _syncd_stage (h bigint, kid bytea, k bytea, m bytea, r bytea) ON COMMIT DELETE ROWS"
	for _, s := range []string{make, "TRUNCATE pg_temp._syncd_stage"} {
		if _, err := tx.Exec(ctx, s); err != nil {
			return "", nil, err
		}
	}
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"pg_temp", "_syncd_stage"}, []string{"h", "kid", "k", "m", "r"},
		pgx.CopyFromSlice(len(e.hashes), func(i int) ([]any, error) {
			return []any{e.hashes[i], e.kids[i], e.keys[i], e.meta[i], e.rows[i]}, nil
		}))
	return "pg_temp._syncd_stage u", nil, err
}

// upsert is the statement that writes entries with their columns, where they are newer than what is there.
func upsert(b string, have []column, from string) string {
	names, values, sum, populate, set := "", "", "NULL", "", ""
	if len(have) > 0 {
		list, v := listOf(have, "p.")
		names, values = ", "+list, ", "+v
		sum = "CASE WHEN u.r IS NOT NULL THEN " + sumOf(have, "p.") + " END"
		populate = " LEFT JOIN LATERAL pg_catalog.json_populate_record(NULL::" + b + ", pg_catalog.convert_from(u.r, 'UTF8')::json) p ON u.r IS NOT NULL"
		for _, c := range have {
			q := syncd.QuoteIdent(c.Name)
			set += ", " + q + " = EXCLUDED." + q
		}
	}
	return "INSERT INTO " + b + " AS b (_syncd_hash, _syncd_kid, _syncd_key, _syncd_seq, _syncd_meta, _syncd_row, _syncd_sum" + names + ")" +
		" SELECT u.h, u.kid, u.k, $1::bigint, u.m, u.r, " + sum + values + " FROM " + from + populate +
		" ON CONFLICT (_syncd_hash, _syncd_kid) DO UPDATE SET _syncd_key = EXCLUDED._syncd_key, _syncd_seq = EXCLUDED._syncd_seq," +
		" _syncd_meta = EXCLUDED._syncd_meta, _syncd_row = EXCLUDED._syncd_row, _syncd_sum = EXCLUDED._syncd_sum" + set +
		" WHERE b._syncd_seq < EXCLUDED._syncd_seq"
}
