package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/syncd-io/syncd"
)

// Lister reads pages of tables, and single rows, out of Postgres. Each page is read in a short transaction of its own, so
// that no long snapshot holds vacuum back, and carries the snapshot that it was read in, by which a cache judges it. A page
// is given only whole, and only once the server's log is on disk up to where the page was read: what a crash takes back
// was never listed. It needs the Watch of the same process for what it knows of the tables and of the stream.
//
// The same page asked for by many at a time is read once. Methods may be called by any number of goroutines, until Close.
type Lister struct {
	Watch *Watch
	// PageRows and PageBytes bound a page; they are 10,000 rows and 4 MiB of JSON where they are 0.
	PageRows  int
	PageBytes int
	// Wait is how long a page may wait for its turn before it is told ErrBusy; 0 is 250 ms.
	Wait time.Duration

	cfg     Config
	scans   chan struct{} // a slot for each scan that may run
	gets    chan struct{}
	idle    chan *session
	rate    pacer
	widths  widths
	flights flights

	mu     sync.Mutex
	closed bool
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

const (
	defaultPageRows  = 10_000
	defaultPageBytes = 4 << 20
	defaultWait      = 250 * time.Millisecond
	// getsAtATime is how many answers to Get are read at a time; more wait.
	getsAtATime = 2
	// rosterAge is how old what is known of the tables may be.
	rosterAge = 5 * time.Second
)

// NewLister makes the Lister of w's tables. It starts nothing; Close ends what lists have started.
func NewLister(w *Watch) *Lister {
	l := &Lister{
		Watch: w, cfg: w.Config,
		scans: make(chan struct{}, w.Config.ListConcurrency), gets: make(chan struct{}, getsAtATime),
		idle: make(chan *session, w.Config.ListConcurrency+getsAtATime),
		rate: pacer{perSecond: w.Config.ListRate}, widths: widths{}, flights: flights{},
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Close ends all lists, and the sessions.
func (l *Lister) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.wg.Wait()
	l.flights.drop()
	for {
		select {
		case s := <-l.idle:
			s.close()
		default:
			return
		}
	}
}

// Tables tells of the configured tables: their shape, or why they can't be synced.
func (l *Lister) Tables(ctx context.Context) ([]syncd.TableInfo, error) {
	if l.Watch.roster.age() > rosterAge {
		if err := l.look(ctx); err != nil {
			return nil, fmt.Errorf("read the tables: %w", err)
		}
	}
	return l.Watch.Tables(), nil
}

// look brings what is known of the tables up to date.
func (l *Lister) look(ctx context.Context) error {
	s, err := openSession(ctx, l.cfg.Postgres, true)
	if err != nil {
		return err
	}
	defer s.close()
	return l.Watch.roster.look(ctx, s, lookOnly)
}

// List gives one page of a table in the order of its key. The error wraps syncd.ErrBusy while as many scans run as may, and
// syncd.ErrNoTable where the table is not synced.
func (l *Lister) List(ctx context.Context, r syncd.ListRequest) (*syncd.Page, error) {
	p, err := l.list(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", r.Table, err)
	}
	return p, nil
}

func (l *Lister) list(ctx context.Context, r syncd.ListRequest) (*syncd.Page, error) {
	m, ok := l.Watch.Last()
	if !ok {
		return nil, errNoEpoch
	}
	if r.Buckets != nil && !r.Buckets.Valid() {
		return nil, fmt.Errorf("buckets %+v: there are no such", *r.Buckets)
	}
	limit := l.pageRows()
	if r.Limit > 0 {
		limit = min(limit, r.Limit)
	}
	id := flightID{table: r.Table, started: r.Started, after: r.After, limit: limit, epoch: m.Epoch}
	read, err := l.share(ctx, id, r.Since)
	if err != nil {
		return nil, err
	}
	p, totals := read.page, read.totals // a copy: the totals are of who asks
	if r.Buckets != nil || r.Selector != "" {
		keeps, err := l.selector(&p, r.Selector)
		if err != nil {
			return nil, err
		}
		p.Rows, totals, p.Bytes = read.some(r.Buckets, keeps)
	}
	p.Sent = syncd.Totals{Rows: r.Sent.Rows + totals.Rows, Digest: r.Sent.Digest + totals.Digest}
	if !p.Last {
		next := id
		next.started, next.after = true, p.After
		l.prefetch(next)
	}
	return &p, nil
}

// errNoEpoch says that there is nothing yet by which a page could be judged.
var errNoEpoch = errors.New("the source has no place in a stream yet; try again")

// reading is a page as it was read, with its own totals; or a digest.
type reading struct {
	page   syncd.Page
	totals syncd.Totals
	digest *syncd.Digest
}

// readPage reads the page that id asks for.
func (l *Lister) readPage(ctx context.Context, id flightID) (*reading, error) {
	return l.withTable(ctx, id.table, func(s *session, t *rosterTable) (*reading, error) {
		limit := l.widths.limit(t, id.limit, l.pageBytes())
		stmt, err := t.page(id.started, id.after, limit)
		if err != nil {
			return nil, err
		}
		if err := l.rate.wait(ctx); err != nil {
			return nil, err
		}
		q := pageQuery{table: t, statement: stmt, bytes: 4 * l.pageBytes()}
		res, err := l.read(ctx, s, &q)
		if err != nil {
			return nil, err
		}
		n := len(res.page.Rows)
		l.rate.took(n)
		l.widths.learn(id.table, n, res.page.Bytes)
		l.cfg.Observer.Listed(id.table, n, res.page.Bytes)
		res.page.Last = n < limit && !q.cut
		if n > 0 {
			res.page.After = res.page.Rows[n-1].Key
		}
		return res, nil
	})
}

func (l *Lister) pageRows() int {
	if l.PageRows <= 0 {
		return defaultPageRows
	}
	return l.PageRows
}

func (l *Lister) pageBytes() int {
	if l.PageBytes <= 0 {
		return defaultPageBytes
	}
	return l.PageBytes
}

// Get gives the rows under some keys. Keys of the answer's Asked that have no row in it are absent in its snapshot; that
// includes those that no value of the key's type can have. The error wraps syncd.ErrNoTable where the table is not synced.
func (l *Lister) Get(ctx context.Context, r syncd.GetRequest) (*syncd.Page, error) {
	p, err := l.get(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("get %d keys of %s: %w", len(r.Keys), r.Table, err)
	}
	return p, nil
}

func (l *Lister) get(ctx context.Context, r syncd.GetRequest) (*syncd.Page, error) {
	if _, ok := l.Watch.Last(); !ok {
		return nil, errNoEpoch
	}
	select {
	case l.gets <- struct{}{}:
		defer func() { <-l.gets }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	res, err := l.withTable(ctx, r.Table, func(s *session, t *rosterTable) (*reading, error) {
		var keys []syncd.Key
		for _, k := range r.Keys {
			if len(k.Values()) == len(t.verdict.Key) {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		return l.getKeys(ctx, s, t, slices.Compact(keys))
	})
	if err != nil {
		return nil, err
	}
	res.page.Asked = slices.Clone(r.Keys)
	if r.Selector != "" {
		keeps, err := l.selector(&res.page, r.Selector)
		if err != nil {
			return nil, err
		}
		res.page.Rows, _, res.page.Bytes = res.some(nil, keeps)
	}
	return &res.page, nil
}

// getKeys reads the rows under keys. A key that the key's type can't read (it is of before a change of the type) has no row:
// such are found by halves, and left out.
func (l *Lister) getKeys(ctx context.Context, s *session, t *rosterTable, keys []syncd.Key) (*reading, error) {
	for {
		res, err := l.read(ctx, s, &pageQuery{table: t, statement: t.get(keys), keys: keys})
		if !isDataException(err) {
			return res, err
		}
		if keys, err = l.readable(ctx, s, t, keys); err != nil {
			return nil, err
		}
	}
}

// readable gives those of keys that the key's type can read.
func (l *Lister) readable(ctx context.Context, s *session, t *rosterTable, keys []syncd.Key) ([]syncd.Key, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	_, err := l.read(ctx, s, &pageQuery{table: t, statement: t.get(keys), keys: keys})
	switch {
	case err == nil:
		return keys, nil
	case !isDataException(err):
		return nil, err
	case len(keys) == 1:
		return nil, nil
	}
	half := len(keys) / 2
	first, err := l.readable(ctx, s, t, keys[:half])
	if err != nil {
		return nil, err
	}
	second, err := l.readable(ctx, s, t, keys[half:])
	if err != nil {
		return nil, err
	}
	return slices.Concat(first, second), nil
}

func isDataException(err error) bool {
	state := sqlState(err)
	return len(state) == 5 && state[:2] == stateDataException
}

// withTable runs fn with a session and what is known of the table. Where that proves out of date it is read anew, and fn
// runs once more.
func (l *Lister) withTable(ctx context.Context, table syncd.Table, fn func(*session, *rosterTable) (*reading, error)) (*reading, error) {
	for again := false; ; again = true {
		t := l.Watch.roster.get(table)
		again = again || (t == nil || t.shape == nil) && l.Watch.roster.age() < stewardPause
		if t == nil && again {
			return nil, syncd.ErrNoTable
		}
		if t != nil && t.shape == nil && again {
			return nil, fmt.Errorf("%w: %s", syncd.ErrNoTable, t.info.Error)
		}
		if t != nil && t.shape != nil {
			res, err := l.withSession(ctx, func(s *session) (*reading, error) { return fn(s, t) })
			if again || !outOfDate(err) {
				return res, err
			}
		}
		if err := l.look(ctx); err != nil {
			return nil, err
		}
	}
}

// errShape says that a table is not as it was at the last look.
var errShape = errors.New("the table's shape has changed")

// outOfDate says whether an error comes of a table that is not as it was at the last look.
func outOfDate(err error) bool {
	switch sqlState(err) {
	case "42P01", "42703", "42804", "42883", "42809", "3F000": // table, column, type, operator, kind, schema
		return true
	}
	var text *TextError
	return errors.Is(err, errShape) || errors.As(err, &text)
}

// withSession runs fn with a session out of the idle ones, or a new one.
func (l *Lister) withSession(ctx context.Context, fn func(*session) (*reading, error)) (*reading, error) {
	for {
		s, fresh, err := l.open(ctx)
		if err != nil {
			return nil, err
		}
		res, err := fn(s)
		broke := connectionBroke(s, err) // while it is ours
		l.putBack(s)
		if err == nil || fresh || !broke || ctx.Err() != nil {
			return res, err
		}
		// an idle session had died meanwhile: a new one may do
	}
}

func connectionBroke(s *session, err error) bool {
	var pg *pgconn.PgError
	return s.IsClosed() && (!errors.As(err, &pg) || pg.Severity == "FATAL")
}

func (l *Lister) open(ctx context.Context) (s *session, fresh bool, err error) {
	for {
		select {
		case s := <-l.idle:
			if !s.IsClosed() {
				return s, false, nil
			}
		default:
			s, err := openSession(ctx, l.cfg.ListPostgres, false)
			return s, true, err
		}
	}
}

func (l *Lister) putBack(s *session) {
	if s.IsClosed() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		select {
		case l.idle <- s:
			return
		default:
		}
	}
	s.close()
}
