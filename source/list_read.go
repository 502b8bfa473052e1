package source

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unsafe"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/syncd-io/syncd"
)

// pageQuery is one read of a table.
type pageQuery struct {
	table     *rosterTable
	statement statement
	keys      []syncd.Key    // a get: rows under others are left out
	bytes     int            // of JSON from which on the page is cut; 0 never
	cut       bool           // it was
	buckets   []syncd.Totals // a digest: rows are summed up in these, and not kept
	keeps     syncd.Filter   // a digest: other rows are left out
	rows      int            // a digest: how many were read, also of those
}

// head is what is read beside the rows.
type head struct {
	snapshot syncd.Snapshot
	timeline uint32
}

const (
	// headQuery is the first statement that takes the transaction's snapshot, which the rows are read in too. The log's
	// insert position is read after it, so it lies behind every commit that the snapshot sees. How many columns the table
	// has had tells whether it has one that the last look at the catalog did not see: a page without it would be of no shape
	// that the table has in the snapshot. The others are looked at with the rows.
	headQuery = `SELECT pg_catalog.pg_current_snapshot()::text, pg_catalog.pg_current_wal_insert_lsn()::text,
		pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), ` + attributesQuery + `::text`
	attributesQuery = `(SELECT t.relnatts FROM pg_catalog.pg_class t WHERE t.oid = $1)`
	// On a standby visibility follows replay, which stands at R before the snapshot and at R2 after it.
	replayQuery      = `SELECT pg_catalog.pg_last_wal_replay_lsn()::text`
	headStandbyQuery = `SELECT pg_catalog.pg_current_snapshot()::text, pg_catalog.pg_last_wal_replay_lsn()::text,
		pg_catalog.lpad(pg_catalog.to_hex(` + replayTimeline + `), 8, '0'), ` + attributesQuery + `::text,
		pg_catalog.pg_is_in_recovery()::text`
	flushedQuery = `SELECT pg_catalog.pg_current_wal_flush_lsn()::text`
)

// read reads a page in a transaction of its own, all statements of which go to the server at once.
func (l *Lister) read(ctx context.Context, s *session, q *pageQuery) (*reading, error) {
	m, ok := l.Watch.Last() // before the snapshot is taken
	if !ok {
		return nil, errNoEpoch
	}
	if l.Watch.onStandby.Load() && !s.server.standby {
		return nil, errListOnPrimary
	}
	p := s.PgConn().StartPipeline(ctx)
	if s.server.standby {
		p.SendQueryParams(replayQuery, nil, nil, nil, nil)
		p.SendPipelineSync()
	}
	p.SendQueryParams("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", nil, nil, nil, nil)
	p.SendQueryParams(q.table.lockSQL(), nil, nil, nil, nil)
	headSQL, oid := headQuery, strconv.FormatUint(uint64(q.table.facts.OID), 10)
	if s.server.standby {
		headSQL = headStandbyQuery
	}
	p.SendQueryParams(headSQL, [][]byte{[]byte(oid)}, []uint32{pgtype.OIDOID}, nil, nil)
	p.SendQueryParams(q.statement.sql, q.statement.params, q.statement.types, nil, nil)
	p.SendQueryParams("COMMIT", nil, nil, nil, nil)
	if !s.server.standby {
		p.SendQueryParams(flushedQuery, nil, nil, nil, nil)
	}
	p.SendPipelineSync()
	res, flushed, err := l.receive(p, s, q, m.Epoch)
	if closeErr := p.Close(); err == nil && !q.cut {
		err = closeErr
	}
	if err != nil {
		l.recover(ctx, s)
		return nil, err
	}
	res.page.System = s.server.system
	if res.page.System == 0 {
		res.page.System = m.System // the role may not read it
	}
	res.page.Safe = m.Safe
	if err := l.flushed(ctx, s, q, res, flushed, m); err != nil {
		return nil, err
	}
	return res, nil
}

// recover ends a transaction that failed, or the session where that can't be.
func (l *Lister) recover(ctx context.Context, s *session) {
	if s.IsClosed() || s.PgConn().TxStatus() == 'I' {
		return
	}
	if _, err := s.PgConn().Exec(ctx, "ROLLBACK").ReadAll(); err != nil {
		s.close()
	}
}

// receive takes the answers in the order of the statements.
func (l *Lister) receive(p *pgconn.Pipeline, s *session, q *pageQuery, epoch syncd.Epoch) (*reading, syncd.LSN, error) {
	if err := p.Flush(); err != nil {
		return nil, 0, err
	}
	var replayed string
	if s.server.standby {
		row, err := oneRow(p)
		if err != nil {
			return nil, 0, err
		}
		replayed = row[0]
		if _, err := p.GetResults(); err != nil { // the synchronisation
			return nil, 0, err
		}
	}
	for range 2 { // BEGIN, LOCK
		if err := noRows(p); err != nil {
			return nil, 0, err
		}
	}
	row, err := oneRow(p)
	if err != nil {
		return nil, 0, err
	}
	if row[3] != strconv.Itoa(int(q.table.facts.Attributes)) {
		return nil, 0, errShape
	}
	h, err := readHead(s, row, replayed, epoch)
	if err != nil {
		return nil, 0, err
	}
	res := &reading{page: syncd.Page{Table: q.table.config.Table, Schema: q.table.shape.Hash(), Snapshot: &h.snapshot, Timeline: h.timeline}}
	if err := receiveRows(p, q, res); err != nil {
		return nil, 0, err
	}
	if q.cut { // the rest would be read only to be thrown away
		s.close()
		return res, 0, nil
	}
	if err := noRows(p); err != nil { // COMMIT
		return nil, 0, err
	}
	if s.server.standby {
		return res, h.snapshot.H, nil
	}
	if row, err = oneRow(p); err != nil {
		return nil, 0, err
	}
	flushed, err := syncd.ParseLSN(row[0])
	return res, flushed, err
}

// readHead reads what came with the snapshot.
func readHead(s *session, row []string, replayed string, epoch syncd.Epoch) (*head, error) {
	snap, err := syncd.ParseSnapshot(row[0])
	if err != nil {
		return nil, err
	}
	end, err := syncd.ParseLSN(row[1])
	if err != nil {
		return nil, err
	}
	h := &head{snapshot: *snap}
	h.snapshot.Epoch = epoch
	if len(row[2]) < 8 {
		return nil, fmt.Errorf("%q does not begin with a timeline", row[2])
	}
	if _, err := fmt.Sscanf(row[2][:8], "%08X", &h.timeline); err != nil {
		return nil, fmt.Errorf("%q does not begin with a timeline: %w", row[2], err)
	}
	if !s.server.standby {
		h.snapshot.H = s.server.pageStart(end)
		return h, nil
	}
	if row[4] != "true" { // what it replayed last says no more what is visible
		s.close()
		return nil, errTimeline
	}
	h.snapshot.Standby, h.snapshot.R2, h.snapshot.H = true, end, end
	h.snapshot.R, err = syncd.ParseLSN(replayed)
	return h, err
}

// receiveRows prints the rows into the page.
func receiveRows(p *pgconn.Pipeline, q *pageQuery, res *reading) error {
	rr, err := nextResult(p)
	if err != nil {
		return err
	}
	if err := q.table.asExpected(rr.FieldDescriptions()); err != nil {
		_, _ = rr.Close() // the error of what is left does not matter
		return err
	}
	if q.buckets != nil {
		return receiveSums(rr, q, res)
	}
	asked := map[syncd.Key]bool{}
	for _, k := range q.keys {
		asked[k] = true
	}
	var mem arena
	var values []Value
	page := &res.page
	for rr.NextRow() {
		values = TextValues(values[:0], rr.Values())
		row, err := q.table.print(&mem, values)
		if err != nil {
			_, _ = rr.Close()
			return err
		}
		if q.keys != nil {
			if !asked[row.Key] {
				continue // its key is equal to one that was asked for, and reads otherwise; or it was asked for in two ways
			}
			delete(asked, row.Key)
		}
		page.Rows = append(page.Rows, row)
		page.Bytes += len(row.Key) + len(row.JSON)
		res.totals.Add(row.Key, row.JSON)
		if q.bytes > 0 && page.Bytes > q.bytes {
			q.cut = true
			return nil
		}
	}
	_, err = rr.Close()
	return err
}

// print makes a row of a list out of the texts of its columns.
func (t *rosterTable) print(mem *arena, values []Value) (syncd.Row, error) {
	key, err := t.shape.AppendKey(mem.tail(), values)
	if err != nil {
		return syncd.Row{}, err
	}
	key = mem.keep(key)
	row, err := t.shape.AppendRow(mem.tail(), values)
	if err != nil {
		return syncd.Row{}, err
	}
	return syncd.Row{Key: syncd.Key(unsafe.String(unsafe.SliceData(key), len(key))), JSON: mem.keep(row)}, nil
}

// asExpected says whether the rows are of the table and the types that its shape was made of. Where a column has a domain,
// the server names the type behind it.
func (t *rosterTable) asExpected(fields []pgconn.FieldDescription) error {
	if len(fields) != len(t.verdict.Columns)+len(t.shape.printed) {
		return errShape
	}
	for i, c := range t.verdict.Columns {
		f, typ := &fields[i], t.shape.Columns()[i].Type
		if f.DataTypeOID != typ.root().OID || typ.Base == nil && f.TypeModifier != c.Typmod || f.TableOID != t.facts.OID || f.TableAttributeNumber != uint16(c.Num) {
			return errShape
		}
	}
	return nil
}

// flushed sees to it that the page's H is on disk, and that what a standby shows is of this epoch.
func (l *Lister) flushed(ctx context.Context, s *session, q *pageQuery, res *reading, flushed syncd.LSN, m syncd.Marker) error {
	snap := res.page.Snapshot
	if snap.Standby {
		if snap.R < m.Start {
			return fmt.Errorf("the standby has replayed up to %s, the stream's epoch begins at %s: try again", snap.R, m.Start)
		}
		res.page.Safe = snap.R
		return nil
	}
	if q.cut {
		var err error
		if s, err = openSession(ctx, l.cfg.ListPostgres, false); err != nil {
			return err
		}
		defer s.close()
	}
	return s.waitFlushed(ctx, snap.H, flushed)
}

const (
	// flushTries is how often it is looked whether somebody else's commit has flushed the log, before ours does.
	flushTries = 3
	flushPause = time.Millisecond
)

var errNotFlushed = errors.New("the server has not flushed its log")

// waitFlushed waits until the log is on disk up to l; flushed is how far it was a moment ago.
func (s *session) waitFlushed(ctx context.Context, l, flushed syncd.LSN) error {
	for try := 0; flushed < l; try++ {
		switch {
		case try < flushTries:
			if err := sleep(ctx, flushPause); err != nil {
				return err
			}
		case try < 2*flushTries:
			if err := s.flush(ctx, l); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%w up to %s, where the page was read, though a commit behind that was: it is at %s", errNotFlushed, l, flushed)
		}
		if err := s.QueryRow(ctx, "SELECT (pg_catalog.pg_current_wal_flush_lsn() - '0/0')::int8").Scan(&flushed); err != nil {
			return fmt.Errorf("read how far the log is flushed: %w", err)
		}
	}
	return nil
}

// nextResult gives the next statement's result.
func nextResult(p *pgconn.Pipeline) (*pgconn.ResultReader, error) {
	r, err := p.GetResults()
	if err != nil {
		return nil, err
	}
	rr, ok := r.(*pgconn.ResultReader)
	if !ok {
		return nil, fmt.Errorf("the server answered with %T where rows were due", r)
	}
	return rr, nil
}

func noRows(p *pgconn.Pipeline) error {
	rr, err := nextResult(p)
	if err != nil {
		return err
	}
	_, err = rr.Close()
	return err
}

func oneRow(p *pgconn.Pipeline) ([]string, error) {
	rr, err := nextResult(p)
	if err != nil {
		return nil, err
	}
	res := rr.Read()
	if res.Err != nil {
		return nil, res.Err
	}
	if len(res.Rows) != 1 {
		return nil, fmt.Errorf("the server answered with %d rows where one was due", len(res.Rows))
	}
	row := make([]string, len(res.Rows[0]))
	for i, v := range res.Rows[0] {
		row[i] = string(v)
	}
	return row, nil
}
