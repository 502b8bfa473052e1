package source

import (
	"context"
	"sync"
	"time"

	"github.com/syncd-io/syncd"
)

// flightID names a page: who asks for the same is given the same. A page carries its own snapshot, so that it is right for
// whoever it reaches, whenever; it is kept for a moment because consumers that began together don't stay in step.
type flightID struct {
	table   syncd.Table
	started bool
	after   syncd.Key
	limit   int
	digest  bool // not a page but the whole table's digest
	// selector is that of a digest. A page is read whole, and each who asks is given the rows of his own.
	selector string
	epoch    syncd.Epoch
}

// flight is the reading of one page.
type flight struct {
	number  uint64        // of those begun
	done    chan struct{} // closed when res and err are set
	res     *reading
	err     error
	waiting int                // who wants it
	cancel  context.CancelFunc // ends the reading
	timer   *time.Timer        // forgets the page
}

// flights are the pages that are being read or were a moment ago.
type flights struct {
	mu    sync.Mutex
	byID  map[flightID]*flight
	begun uint64
	bytes int // of finished pages
}

const (
	keepPage      = time.Second
	keepDigest    = 100 * time.Millisecond // or as long as it took to make, at most keepPage
	keepPageBytes = 64 << 20               // of all pages that are kept
	prefetchMax   = 30 * time.Second
)

// share gives the page that id names: the one that is being read, or was a moment ago, or reads it. One that was begun
// before is of no use where it is not later than since.
func (l *Lister) share(ctx context.Context, id flightID, since *syncd.Snapshot) (*reading, error) {
	before := l.flights.number()
	for {
		f := l.join(id, true)
		if f == nil {
			return nil, context.Canceled
		}
		select {
		case <-f.done:
			l.leave(id, f)
		case <-ctx.Done():
			l.leave(id, f)
			return nil, context.Cause(ctx)
		}
		if f.err != nil || since == nil || f.number > before || f.res.page.Snapshot.Later(since) {
			return f.res, f.err
		}
		l.flights.remove(id, f)
	}
}

// number gives the last flight's.
func (fs *flights) number() uint64 {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.begun
}

// prefetch begins to read a page that is likely to be asked for next, where a scan is free.
func (l *Lister) prefetch(id flightID) {
	if len(l.scans) < cap(l.scans) && l.cfg.ListRate == 0 {
		l.join(id, false)
	}
}

// join finds the flight of a page or begins it. wait says that the caller waits for it and will leave it. It is nil after
// Close.
func (l *Lister) join(id flightID, wait bool) *flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	fs := &l.flights
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f := fs.byID[id]
	if f == nil {
		fs.begun++
		f = &flight{number: fs.begun, done: make(chan struct{})}
		var ctx context.Context
		if wait {
			ctx, f.cancel = context.WithCancel(l.ctx)
		} else {
			ctx, f.cancel = context.WithTimeout(l.ctx, prefetchMax)
		}
		if fs.byID == nil {
			fs.byID = map[flightID]*flight{}
		}
		fs.byID[id] = f
		l.wg.Go(func() { l.fly(ctx, id, f) })
	}
	if wait {
		f.waiting++
	}
	return f
}

// fly reads the page.
func (l *Lister) fly(ctx context.Context, id flightID, f *flight) {
	defer f.cancel()
	began := time.Now()
	res, err := l.scan(ctx, id)
	fs := &l.flights
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.res, f.err = res, err
	close(f.done)
	if err != nil || fs.bytes+res.page.Bytes > keepPageBytes {
		fs.forget(id, f)
		return
	}
	keep := keepPage
	if id.digest { // it grows old: what is written meanwhile makes it differ
		keep = min(max(keepDigest, time.Since(began)), keep)
	}
	fs.bytes += res.page.Bytes
	f.timer = time.AfterFunc(keep, func() { fs.remove(id, f) })
}

// remove forgets a finished page that is kept.
func (fs *flights) remove(id flightID, f *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.byID[id] == f {
		f.timer.Stop()
		fs.bytes -= f.res.page.Bytes
		fs.forget(id, f)
	}
}

// scan waits for its turn and reads.
func (l *Lister) scan(ctx context.Context, id flightID) (*reading, error) {
	if id.digest {
		return l.readDigest(ctx, id)
	}
	if err := l.turn(ctx, l.patience()); err != nil {
		return nil, err
	}
	defer l.pass()
	return l.readPage(ctx, id)
}

// patience is how long a page may wait for its turn.
func (l *Lister) patience() time.Duration {
	if l.Wait == 0 {
		return defaultWait
	}
	return l.Wait
}

// turn waits until one scan more may run, for at most so long; 0: as long as it takes. pass ends the turn.
func (l *Lister) turn(ctx context.Context, wait time.Duration) error {
	var late <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		late = t.C
	}
	select {
	case l.scans <- struct{}{}:
		return nil
	case <-late:
		return syncd.ErrBusy
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Lister) pass() { <-l.scans }

// leave ends a wait. A page that nobody waits for any more is not read to its end.
func (l *Lister) leave(id flightID, f *flight) {
	fs := &l.flights
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.waiting--
	select {
	case <-f.done:
	default:
		if f.waiting == 0 {
			f.cancel()
			fs.forget(id, f)
		}
	}
}

func (fs *flights) forget(id flightID, f *flight) {
	if fs.byID[id] == f {
		delete(fs.byID, id)
	}
}

// drop forgets all pages.
func (fs *flights) drop() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for id, f := range fs.byID {
		if f.timer != nil {
			f.timer.Stop()
		}
		delete(fs.byID, id)
	}
	fs.bytes = 0
}

// pacer keeps lists below a number of rows a second.
type pacer struct {
	perSecond int // 0: without limit
	mu        sync.Mutex
	next      time.Time
}

// wait waits until the rows taken so far have used up their time.
func (p *pacer) wait(ctx context.Context) error {
	if p.perSecond <= 0 {
		return nil
	}
	p.mu.Lock()
	d := time.Until(p.next)
	p.mu.Unlock()
	if d <= 0 {
		return nil
	}
	return sleep(ctx, d)
}

// took says that n rows were read.
func (p *pacer) took(n int) {
	if p.perSecond <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(n) * time.Second / time.Duration(p.perSecond))
}

// widths remembers how wide the rows of tables are, so that a page does not ask for many more than fit into it.
type widths struct {
	mu    sync.Mutex
	table map[syncd.Table]float64 // bytes of JSON a row
}

// firstRows is how many rows are asked for where nothing is known of their width.
const firstRows = 500

// limit gives how many rows to ask for, at most limit.
func (w *widths) limit(t *rosterTable, limit, bytes int) int {
	w.mu.Lock()
	width := w.table[t.config.Table]
	w.mu.Unlock()
	if width == 0 {
		width = t.facts.RowBytes
	}
	if width == 0 {
		return min(limit, firstRows)
	}
	return max(1, min(limit, int(float64(bytes)/width)))
}

// learn takes in a page.
func (w *widths) learn(t syncd.Table, rows, bytes int) {
	if rows == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.table == nil {
		w.table = map[syncd.Table]float64{}
	}
	w.table[t] = float64(bytes) / float64(rows)
}
