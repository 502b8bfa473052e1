package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/source"
)

// lists is the list service: it reads the stand-in by the rules of source.Lister, from the primary or from the standby.
type lists struct {
	pg    *postgres
	fates *fates
	rows  int // of a page
	watch atomic.Pointer[source.Watch]
	// spoil, where there is one, has the last word on a page.
	spoil func(*syncd.Page)
}

var errGone = errors.New("no responders")

// number names a request by what it asks for and when, so that the order in which goroutines ask at one instant decides nothing.
func number(what string, keys ...syncd.Key) uint64 {
	b := be(uint64(time.Now().UnixNano()), what)
	for _, k := range keys {
		b = append(b, be(string(k))...)
	}
	return syncd.KeyHash(b)
}

// answer waits as long as an answer takes, and fails where it is to.
func (l *lists) answer(ctx context.Context, n uint64) error {
	d := time.Duration(l.fates.number("answers after", n) * float64(8*time.Millisecond))
	if l.fates.strikes("answers late", n) {
		d *= 60
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
	}
	switch {
	case l.watch.Load() == nil:
		return errGone
	case l.fates.strikes("busy", n):
		return fmt.Errorf("list: %w", syncd.ErrBusy)
	case l.fates.strikes("fails", n):
		return errGone
	}
	return nil
}

// Tables implements resync.Lister. It answers at once: the catalog holds a lock while it asks, and fake time stands still
// while somebody waits for one.
func (l *lists) Tables(context.Context) ([]syncd.TableInfo, error) {
	w := l.watch.Load()
	if w == nil || l.fates.strikes("fails", number("tables")) {
		return nil, errGone
	}
	w.LookAt(l.pg)
	return w.Tables(), nil
}

// page reads what a page is about. The server's lock is held while fn reads the rows.
func (l *lists) page(n uint64, fn func(*syncd.Page)) (*syncd.Page, error) {
	w := l.watch.Load()
	if w == nil {
		return nil, errGone
	}
	m, ok := w.Last() // before the snapshot is taken
	if !ok {
		return nil, errGone
	}
	for {
		w.LookAt(l.pg) // the page has the shape that the table has in the snapshot
		info := w.Tables()[0]
		l.pg.mu.Lock()
		if len(info.Columns) != len(l.pg.columns()) {
			l.pg.mu.Unlock()
			continue
		}
		p := &syncd.Page{Table: things, Schema: info.Schema, System: system, Timeline: l.pg.timeline, Safe: m.Safe}
		if l.fates.strikes("standby", n) {
			p.Snapshot = l.pg.standby()
			p.Safe = p.Snapshot.R
		} else {
			p.Snapshot = l.pg.snapshot()
		}
		p.Snapshot.Epoch = m.Epoch
		fn(p)
		l.pg.mu.Unlock()
		if p.Snapshot.Standby && p.Snapshot.R < m.Start {
			return nil, errGone
		}
		if l.spoil != nil {
			l.spoil(p)
		}
		return p, nil
	}
}

// List implements resync.Lister.
func (l *lists) List(ctx context.Context, q syncd.ListRequest) (*syncd.Page, error) {
	n := number("list", q.After)
	p, err := l.page(n, func(p *syncd.Page) {
		p.Sent, p.Last = q.Sent, true
		for _, k := range l.pg.keys() {
			if q.Started && k <= q.After || !q.Buckets.Holds(k.Hash()) {
				continue
			}
			if r := l.pg.read(k, p.Snapshot); r != nil {
				if len(p.Rows) == l.rows {
					p.Last = false
					break
				}
				json := []byte(r.json(k, l.pg.added))
				p.Rows = append(p.Rows, syncd.Row{Key: k, JSON: json})
				p.Sent.Add(k, json)
				p.After = k
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return p, l.answer(ctx, n)
}

// Digest implements resync.Lister: it reads the table in pages, each of another moment.
func (l *lists) Digest(ctx context.Context, q syncd.DigestRequest) (*syncd.Digest, error) {
	d := &syncd.Digest{Table: things, Form: syncd.DigestForm, Bits: q.Bits, Buckets: make([]syncd.Totals, 1<<q.Bits)}
	var snaps []*syncd.Snapshot
	var high syncd.LSN
	r := syncd.ListRequest{Table: things}
	for last := false; !last; {
		p, err := l.List(ctx, r)
		if err != nil {
			return nil, err
		}
		for _, row := range p.Rows {
			d.Buckets[syncd.BucketOf(row.Key.Hash(), q.Bits)].Add(row.Key, row.JSON)
		}
		if len(snaps) == 0 {
			d.Schema, d.System, d.Timeline, d.Safe = p.Schema, p.System, p.Timeline, p.Safe
		}
		if p.Schema != d.Schema || p.Timeline != d.Timeline || len(snaps) > 0 && p.Snapshot.Epoch != snaps[0].Epoch {
			return nil, errors.New("the shape, the server or the epoch changed while the table was read")
		}
		snaps = append(snaps, p.Snapshot)
		high, d.Safe = max(high, p.Snapshot.H), min(d.Safe, p.Safe)
		last, r.Started, r.After = p.Last, true, p.After
	}
	oldest := syncd.Oldest(snaps)
	if oldest == nil {
		return nil, errors.New("the pages can't be ordered")
	}
	snap := *oldest
	snap.H = high
	d.Snapshot = &snap
	return d, nil
}

// Get implements resync.Lister.
func (l *lists) Get(ctx context.Context, q syncd.GetRequest) (*syncd.Page, error) {
	n := number("get", q.Keys...)
	p, err := l.page(n, func(p *syncd.Page) {
		p.Asked = slices.Clone(q.Keys)
		for _, k := range q.Keys {
			if r := l.pg.read(k, p.Snapshot); r != nil {
				p.Rows = append(p.Rows, syncd.Row{Key: k, JSON: []byte(r.json(k, l.pg.added))})
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return p, l.answer(ctx, n)
}

// Mark implements resync.Marks.
func (l *lists) Mark(ctx context.Context, at syncd.LSN) (syncd.Position, error) {
	w := l.watch.Load()
	if w == nil {
		return syncd.Position{}, errGone
	}
	return w.Mark(ctx, at)
}
