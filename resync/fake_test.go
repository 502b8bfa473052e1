package resync

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/syncd-io/syncd"
)

// server is a table of Postgres and its list service in memory. Commits are visible at once.
type server struct {
	mu       sync.Mutex
	origin   origin
	lsn      syncd.LSN
	xid      syncd.XID // of the last commit
	rows     map[syncd.Key]string
	pageRows int
	// before, if set, is called ahead of each answer and may fail it; after may change a page.
	before      func(ctx context.Context, what any) error
	after       func(*syncd.Page) *syncd.Page
	lists       int             // pages asked for
	since       *syncd.Snapshot // of the last
	sentRows    int             // in pages
	digests     int
	afterDigest func(*syncd.Digest)
	gets        []syncd.Key
	marks       int
	onMark      func(syncd.LSN)
}

func newServer() *server {
	return &server{origin: origin{epoch: 7, system: 1, timeline: 1, schema: 5}, lsn: 1000, xid: 100, rows: map[syncd.Key]string{}, pageRows: 3}
}

// commit sets (or, with an empty row, deletes) a row and gives the change.
func (s *server) commit(k syncd.Key, row string) syncd.Delta {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lsn += 8
	s.xid++
	d := syncd.Delta{Table: users, Op: syncd.Upsert, Key: k, Row: []byte(row), XID: s.xid, Version: syncd.Version{Epoch: s.origin.epoch, LSN: s.lsn, Ordinal: 1}}
	if row == "" {
		d.Op, d.Row = syncd.Delete, nil
		delete(s.rows, k)
	} else {
		s.rows[k] = row
	}
	return d
}

func (s *server) position() syncd.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return syncd.Position{Epoch: s.origin.epoch, LSN: s.lsn}
}

func (s *server) page() *syncd.Page {
	return &syncd.Page{
		Table: users, Schema: s.origin.schema, System: s.origin.system, Timeline: s.origin.timeline, Safe: s.lsn,
		Snapshot: &syncd.Snapshot{Epoch: s.origin.epoch, Xmin: s.xid + 1, Xmax: s.xid + 1, H: s.lsn}, Bytes: 100,
	}
}

func (s *server) Tables(context.Context) ([]syncd.TableInfo, error) {
	return []syncd.TableInfo{{Table: users, Schema: s.origin.schema}}, nil
}

func (s *server) List(ctx context.Context, q syncd.ListRequest) (*syncd.Page, error) {
	if s.before != nil {
		if err := s.before(ctx, q); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	s.since = q.Since
	p := s.page()
	p.Sent = q.Sent
	keys := slices.Sorted(maps.Keys(s.rows))
	keys = slices.DeleteFunc(keys, func(k syncd.Key) bool { return !q.Buckets.Holds(k.Hash()) })
	if q.Started {
		i, found := slices.BinarySearch(keys, q.After)
		if found {
			i++
		}
		keys = keys[i:]
	}
	n := min(s.pageRows, len(keys))
	for _, k := range keys[:n] {
		p.Rows = append(p.Rows, syncd.Row{Key: k, JSON: []byte(s.rows[k])})
		p.Sent.Add(k, []byte(s.rows[k]))
		p.After = k
	}
	p.Last = n == len(keys)
	s.sentRows += n
	if s.after != nil {
		p = s.after(p)
	}
	return p, nil
}

func (s *server) Digest(ctx context.Context, q syncd.DigestRequest) (*syncd.Digest, error) {
	if s.before != nil {
		if err := s.before(ctx, q); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.digests++
	p := s.page()
	d := &syncd.Digest{Table: users, Schema: p.Schema, System: p.System, Timeline: p.Timeline, Form: syncd.DigestForm,
		Snapshot: p.Snapshot, Safe: p.Safe, Bits: q.Bits, Buckets: make([]syncd.Totals, 1<<q.Bits), Bytes: 50}
	for k, row := range s.rows {
		d.Buckets[syncd.BucketOf(k.Hash(), q.Bits)].Add(k, []byte(row))
	}
	if s.afterDigest != nil {
		s.afterDigest(d)
	}
	return d, nil
}

func (s *server) Get(ctx context.Context, q syncd.GetRequest) (*syncd.Page, error) {
	if s.before != nil {
		if err := s.before(ctx, q); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.page()
	p.Asked = q.Keys
	s.gets = append(s.gets, q.Keys...)
	for _, k := range q.Keys {
		if row, ok := s.rows[k]; ok {
			p.Rows = append(p.Rows, syncd.Row{Key: k, JSON: []byte(row)})
		}
	}
	if s.after != nil {
		p = s.after(p)
	}
	return p, nil
}

func (s *server) Mark(_ context.Context, at syncd.LSN) (syncd.Position, error) {
	s.mu.Lock()
	s.marks++
	f := s.onMark
	s.mu.Unlock()
	if f != nil {
		f(at)
	}
	return s.position(), nil
}

// asked counts the markers asked for.
func (s *server) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.marks
}

// got gives the keys asked for singly.
func (s *server) got() []syncd.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.gets)
}

// cache is a cache of one table in memory, with the gate's rules for a primary: a page wins over a delta that its snapshot
// sees and over an earlier page.
type cache struct {
	mu      sync.Mutex
	state   State
	through syncd.Position
	rows    map[syncd.Key]held
	open    map[syncd.Key]syncd.XID // settled by an answer that sees the transaction
	done    []List
	// relistAt is where the stream stood when state.Cause came.
	relistAt  syncd.LSN
	others    []State // other tables, of which nothing is held
	judged    []judgement
	changed   chan struct{}
	onJudge   func(*syncd.Page, How) error
	onCompare func(*syncd.Digest) error
}

type held struct {
	Held
	json string
}

type judgement struct {
	rows int
	get  bool
	How
	through syncd.Position
	h       syncd.LSN
}

func newCache(s *server) *cache {
	return &cache{
		state:   State{Table: users, Listed: true, Resynced: time.Now()},
		through: s.position(), rows: map[syncd.Key]held{}, open: map[syncd.Key]syncd.XID{}, changed: make(chan struct{}),
	}
}

// update changes the cache's state and wakes who waits for it.
func (c *cache) update(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
}

// apply takes deltas and moves the stream's position to p.
func (c *cache) apply(p syncd.Position, ds ...syncd.Delta) {
	c.update(func() {
		for _, d := range ds {
			c.rows[d.Key] = held{Held{Row: d.Op == syncd.Upsert, Version: d.Version, XID: d.XID}, string(d.Row)}
		}
		c.through = p
	})
}

func (c *cache) count() (n int) {
	for _, h := range c.rows {
		if h.Row {
			n++
		}
	}
	return n
}

func (c *cache) States() []State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state
	s.Rows, s.Open = c.count(), len(c.open)+s.Parked
	return append([]State{s}, c.others...)
}

// cause opens a cause for a run.
func (c *cache) cause(why string) {
	c.update(func() { c.state.Cause, c.relistAt = why, c.through.LSN })
}

func (c *cache) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

func (c *cache) Through() syncd.Position {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.through
}

func (c *cache) Open(_ syncd.Table, fn func(syncd.Key) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.open {
		if !fn(k) {
			return
		}
	}
}

func (c *cache) Judge(p *syncd.Page, how How) (found []Finding, err error) {
	if c.onJudge != nil {
		if err := c.onJudge(p, how); err != nil {
			return nil, err
		}
	}
	h := syncd.Position{Epoch: p.Snapshot.Epoch, LSN: p.Snapshot.H}
	if at := c.Through(); c.state.Listed && !how.Early && at.Compare(h) < 0 {
		return nil, fmt.Errorf("the page is ahead: it wants %v, the cache is at %v", h, at)
	}
	c.update(func() {
		c.judged = append(c.judged, judgement{len(p.Rows), p.Asked != nil, how, c.through, p.Snapshot.H})
		left := map[syncd.Key]bool{}
		for _, k := range p.Asked {
			left[k] = true
		}
		for _, row := range p.Rows {
			delete(left, row.Key)
			found = c.judge(found, row.Key, string(row.JSON), true, p.Snapshot, how)
		}
		for k := range left {
			found = c.judge(found, k, "", false, p.Snapshot, how)
		}
	})
	return found, nil
}

func (c *cache) Compare(d *syncd.Digest, how How) (*Comparison, error) {
	if c.onCompare != nil {
		if err := c.onCompare(d); err != nil {
			return nil, err
		}
	}
	if at, h := c.Through(), (syncd.Position{Epoch: d.Snapshot.Epoch, LSN: d.Snapshot.H}); !how.Early && at.Compare(h) < 0 {
		return nil, fmt.Errorf("the digest is ahead: it wants %v, the cache is at %v", h, at)
	}
	held, err := c.Digest(d.Table, d.Bits)
	out := &Comparison{Held: held}
	for b := range held {
		if held[b] != d.Buckets[b] {
			out.Unequal = append(out.Unequal, b)
		}
	}
	return out, err
}

func (c *cache) Digest(_ syncd.Table, bits int) ([]syncd.Totals, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]syncd.Totals, 1<<bits)
	for k, h := range c.rows {
		if h.Row {
			all[syncd.BucketOf(k.Hash(), bits)].Add(k, []byte(h.json))
		}
	}
	return all, nil
}

func (c *cache) judge(found []Finding, k syncd.Key, json string, row bool, s *syncd.Snapshot, how How) []Finding {
	if x, open := c.open[k]; open && !how.Dry && x < s.Xmax {
		delete(c.open, k)
	}
	old, ok := c.rows[k]
	switch {
	case ok && old.Snap != nil && !s.Later(old.Snap), ok && old.Snap == nil && s.Visible(old.XID, old.Version.LSN) == syncd.Invisible:
		return found
	case old.Row == row && old.json == json:
		return found
	}
	kind := Stale
	switch {
	case !old.Row:
		kind = Missing
	case !row:
		kind = Ghost
	case old.json == "corrupt":
		kind = Corrupt
	}
	if !how.Dry {
		c.rows[k] = held{Held{Row: row, Version: syncd.Version{Epoch: s.Epoch}, Snap: s}, json}
	}
	if !c.state.Listed {
		return found
	}
	return append(found, Finding{k, kind})
}

// sorted gives the keys in the order of Walk.
func (c *cache) sorted() []syncd.Key {
	hash := map[syncd.Key]uint64{}
	for k := range c.rows {
		hash[k] = k.Hash()
	}
	return slices.SortedFunc(maps.Keys(hash), func(a, b syncd.Key) int {
		return cmp.Or(cmp.Compare(hash[a], hash[b]), cmp.Compare(a, b))
	})
}

func (c *cache) Walk(_ syncd.Table, from uint64, fn func(syncd.Key, Held) bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.sorted() {
		if k.Hash() >= from && !fn(k, c.rows[k].Held) {
			return nil
		}
	}
	return nil
}

func (c *cache) Done(_ context.Context, l *List) (syncd.Position, bool, error) {
	var claimed bool
	c.update(func() {
		c.done = append(c.done, *l)
		c.state.Listed, c.state.Stopped, c.state.Resynced = true, "", time.Now()
		if c.state.Loss != 0 && l.Safe >= c.state.Loss {
			c.state.Loss = 0
		}
		if l.Safe >= c.relistAt {
			c.state.Cause = ""
		}
		claimed = !l.Early && c.state.Loss == 0 && len(c.open)+c.state.Parked == 0
	})
	return syncd.Position{Epoch: l.Snapshots[0].Epoch, LSN: l.Safe}, claimed, nil
}

func (c *cache) Stop(_ syncd.Table, why string) error {
	c.update(func() { c.state.Stopped = why })
	return nil
}

func (c *cache) judgements() []judgement {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.judged)
}

// content gives the cache's rows.
func (c *cache) content() map[syncd.Key]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := map[syncd.Key]string{}
	for k, h := range c.rows {
		if h.Row {
			m[k] = h.json
		}
	}
	return m
}

func key(i int) syncd.Key { return syncd.MakeKey(fmt.Sprint(i)) }

// pair gives a server of n rows and a cache that holds them.
func pair(n int) (*server, *cache) {
	s := newServer()
	var ds []syncd.Delta
	for i := range n {
		ds = append(ds, s.commit(key(i), fmt.Sprintf(`{"id":%d}`, i)))
	}
	c := newCache(s)
	c.apply(s.position(), ds...)
	return s, c
}

// runner gives a Runner over both that runs on requests alone, and lists whole tables unless it is told otherwise.
func runner(s *server, c *cache) *Runner {
	return &Runner{Lister: s, Cache: c, Marks: s, Mode: Full, MaxPrune: 0.5, Patience: time.Second, Settle: time.Second}
}

// once makes one run by hand.
func once(ctx context.Context, r *Runner, o Options) (*Report, error) {
	r.init()
	one := r.newRun(job{table: users, mode: o.Mode, dry: o.Dry, approve: o.ApprovePrune})
	err := one.do(ctx)
	return &one.report, err
}
