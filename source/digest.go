package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/syncd-io/syncd"
)

// digestPages is how much larger the pages of a digest are than those of a list: nothing of them is kept or sent.
const digestPages = 4

// Digest counts the rows of a table's hash buckets and sums their digests. The rows are the same as those of a list, read
// in pages of the same kind, each in a short transaction of its own, and forgotten as they are read. The same table's digest
// asked for by many at a time is made once, for those who ask while it is made or a moment later. While it is made, each of its pages takes its turn among the lists. The error
// wraps syncd.ErrBusy where the first has to wait too long for that, and syncd.ErrNoTable where the table is not synced.
func (l *Lister) Digest(ctx context.Context, r syncd.DigestRequest) (*syncd.Digest, error) {
	d, err := l.digest(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("digest %s: %w", r.Table, err)
	}
	return d, nil
}

func (l *Lister) digest(ctx context.Context, r syncd.DigestRequest) (*syncd.Digest, error) {
	if r.Bits < 0 || r.Bits > syncd.MaxDigestBits {
		return nil, fmt.Errorf("2^%d buckets: want 2^0 to 2^%d", r.Bits, syncd.MaxDigestBits)
	}
	m, ok := l.Watch.Last()
	if !ok {
		return nil, errNoEpoch
	}
	read, err := l.share(ctx, flightID{table: r.Table, digest: true, selector: r.Selector, epoch: m.Epoch}, r.Since)
	if err != nil {
		return nil, err
	}
	d := *read.digest // a copy: how many buckets is of who asks
	d.Bits, d.Buckets = r.Bits, syncd.Fold(d.Buckets, r.Bits)
	return &d, nil
}

// readDigest reads a table and sums its rows up in as many buckets as there may be.
func (l *Lister) readDigest(ctx context.Context, id flightID) (*reading, error) {
	d := digesting{selector: id.selector, page: make([]syncd.Totals, 1<<syncd.MaxDigestBits), sums: make([]syncd.Totals, 1<<syncd.MaxDigestBits)}
	wait := l.patience()
	for !d.last {
		if err := l.turn(ctx, wait); err != nil {
			return nil, err
		}
		res, err := l.withTable(ctx, id.table, func(s *session, t *rosterTable) (*reading, error) { return l.digestPage(ctx, s, t, &d) })
		l.pass()
		if err != nil {
			return nil, err
		}
		if err := d.add(&res.page); err != nil {
			return nil, err
		}
		wait = 0 // what has begun goes on when it may
	}
	return d.end()
}

// digestPage reads the next page of a digest. Run again after an error it begins that page anew.
func (l *Lister) digestPage(ctx context.Context, s *session, t *rosterTable, d *digesting) (*reading, error) {
	limit := digestPages * l.pageRows()
	limit = l.widths.limit(t, limit, digestPages*l.pageBytes())
	stmt, err := t.page(len(d.snaps) > 0, d.after, limit)
	if err != nil {
		return nil, err
	}
	if err := l.rate.wait(ctx); err != nil {
		return nil, err
	}
	clear(d.page)
	keeps, err := selectorOf(&t.info, d.selector)
	if err != nil {
		return nil, err
	}
	q := pageQuery{table: t, statement: stmt, buckets: d.page, keeps: keeps}
	res, err := l.read(ctx, s, &q)
	if err != nil {
		return nil, err
	}
	n := q.rows
	l.rate.took(n)
	l.widths.learn(t.config.Table, n, res.page.Bytes)
	l.cfg.Observer.Listed(t.config.Table, n, 0)
	res.page.Last = n < limit
	return res, nil
}

// digesting is a digest in the making.
type digesting struct {
	selector string
	page     []syncd.Totals // of the page that is being read
	sums     []syncd.Totals // of those before
	first    syncd.Page     // the first page, for where it came from
	snaps    []*syncd.Snapshot
	safe     syncd.LSN
	high     syncd.LSN
	after    syncd.Key
	last     bool
}

var errOrigin = errors.New("the table's shape, the server or the epoch changed while it was read: ask again")

// add takes in a page that was read whole.
func (d *digesting) add(p *syncd.Page) error {
	if len(d.snaps) == 0 {
		d.first, d.safe = *p, p.Safe
	}
	if p.Schema != d.first.Schema || p.System != d.first.System || p.Timeline != d.first.Timeline || p.Snapshot.Epoch != d.first.Snapshot.Epoch {
		return errOrigin
	}
	d.snaps = append(d.snaps, p.Snapshot)
	d.safe, d.high = min(d.safe, p.Safe), max(d.high, p.Snapshot.H)
	d.after, d.last = p.After, p.Last
	for i := range d.page {
		d.sums[i].Rows += d.page[i].Rows
		d.sums[i].Digest += d.page[i].Digest
	}
	return nil
}

// end makes the digest. Its snapshot is one that every page's is provably later than, its H the greatest.
func (d *digesting) end() (*reading, error) {
	oldest := syncd.Oldest(d.snaps)
	if oldest == nil {
		return nil, errOrigin
	}
	snap := *oldest
	snap.H = d.high
	return &reading{page: syncd.Page{Snapshot: &snap}, digest: &syncd.Digest{
		Table: d.first.Table, Selector: d.selector, Schema: d.first.Schema, System: d.first.System, Timeline: d.first.Timeline, Form: syncd.DigestForm,
		Snapshot: &snap, Safe: d.safe, Bits: syncd.MaxDigestBits, Buckets: d.sums,
	}}, nil
}

// receiveSums sums the rows of a page up, and keeps the last one's key.
func receiveSums(rr *pgconn.ResultReader, q *pageQuery, res *reading) error {
	var key, row []byte
	var values []Value
	var err error
	for rr.NextRow() {
		values = TextValues(values[:0], rr.Values())
		if key, err = q.table.shape.AppendKey(key[:0], values); err == nil {
			row, err = q.table.shape.AppendRow(row[:0], values)
		}
		if err != nil {
			_, _ = rr.Close() // the error of what is left does not matter
			return err
		}
		q.rows++
		res.page.Bytes += len(key) + len(row)
		if !q.keeps.Match(row) {
			continue
		}
		hash := syncd.KeyHash(key)
		b := &q.buckets[syncd.BucketOf(hash, syncd.MaxDigestBits)]
		b.Rows++
		b.Digest += syncd.RowDigestOf(hash, row)
		res.totals.Rows++
	}
	res.page.After = syncd.Key(key)
	_, err = rr.Close()
	return err
}

// some leaves out of a page the rows in other buckets than those that were asked for, and those that a selector does not keep.
func (r *reading) some(set *syncd.BucketSet, keeps syncd.Filter) (rows []syncd.Row, totals syncd.Totals, bytes int) {
	rows = []syncd.Row{}
	for _, row := range r.page.Rows {
		hash := row.Key.Hash()
		if !set.Holds(hash) || !keeps.Match(row.JSON) {
			continue
		}
		rows = append(rows, row)
		totals.Rows++
		totals.Digest += syncd.RowDigestOf(hash, row.JSON)
		bytes += len(row.Key) + len(row.JSON)
	}
	return rows, totals, bytes
}
