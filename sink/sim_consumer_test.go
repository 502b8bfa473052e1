package sink_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/memory"
	"github.com/syncd-io/syncd/sink/storetest"
)

// This file simulates the consumer: the real Feed and Cache over a store of maps, lists and gets as a resync makes them, and
// what may happen to the process. After every step reader_check looks at what readers see.

// list is a list of a table that is being made.
type list struct {
	table   int
	standby bool
	pages   []*syncd.Page
	held    []*syncd.Page // not judged yet
	absent  bool          // the answers about absent keys were judged
	seen    map[syncd.Key]bool
	account sink.List
	spoilt  int // how many rows were spoilt when it began

	digest bool             // a digest of the table is compared first
	sums   []*syncd.Page    // the pages of the digest
	only   *syncd.BucketSet // what was unequal, and is listed
}

// answer is a get's, waiting for the stream.
type answer struct{ page *syncd.Page }

// flaky is a store whose commits fail when they are told to.
type flaky struct {
	sink.Store
	fail bool
}

func (f *flaky) Commit(b *sink.Batch) error {
	if f.fail {
		f.fail = false
		return errors.New("disk full")
	}
	return f.Store.Commit(b)
}

func (f *flaky) Digest(t syncd.Table, bits int) ([]syncd.Totals, syncd.Epoch, error) {
	return f.Store.(sink.Digester).Digest(t, bits)
}

// simulation is the whole.
type simulation struct {
	*upstream
	store    *flaky
	cache    *sink.Cache
	feed     *sink.Feed
	sub      *subscription // the feed's
	rules    func(*sink.Cache)
	reader   reader
	follower follower

	lists   []*list
	answers []answer
	log     []string
	verbose bool
	claims  [simTables]int
	spoilt  int // rows
	err     error
}

func newSimulation(d dice, m mix) *simulation {
	s := &simulation{upstream: newUpstream(d, m), reader: reader{}}
	s.reader.s, s.follower.s = s, s
	s.store = s.newStore().(*flaky)
	s.boot()
	return s
}

// newStore makes an empty store.
func (s *simulation) newStore() sink.Store {
	if s.mix.memory {
		return &flaky{Store: memory.New(memory.Options{})}
	}
	return &flaky{Store: storetest.NewMap()}
}

// Subscribe keeps the subscription at hand, to know when it has something.
func (s *simulation) Subscribe(ctx context.Context, c syncd.Cursor) (sink.Subscription, error) {
	sub, err := s.upstream.Subscribe(ctx, c)
	if err != nil {
		return nil, err
	}
	s.sub = sub.(*subscription)
	return s.sub, nil
}

// boot begins a process over what the store holds.
func (s *simulation) boot() {
	beside := func() (sink.Store, error) { return s.newStore(), nil }
	if s.mix.inPlace {
		beside = nil
	}
	s.cache = sink.New(sink.Options{
		Store: s.store,
		New:   beside,
		Now:   func() time.Time { return time.Unix(1_764_534_000, 0) },
		// So little is kept that who is slow finds it forgotten.
		History: sink.HistoryLimits{Commits: 4, Bytes: 20000},
	})
	if s.rules != nil {
		s.rules(s.cache)
	}
	s.feed = &sink.Feed{Stream: s, Cache: s.cache}
	if s.mix.small {
		s.feed.MaxBuffer = 900
	}
	s.sub, s.lists, s.answers, s.late = nil, nil, nil, nil
	infos := make([]syncd.TableInfo, simTables)
	for t := range infos {
		infos[t] = s.info(t)
	}
	if err := s.cache.SetTables(infos); err != nil {
		s.bad("set tables: %v", err)
	}
}

func (s *simulation) note(format string, args ...any) {
	if s.verbose {
		s.log = append(s.log, fmt.Sprintf(format, args...))
	}
}

func (s *simulation) bad(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
		s.note("** %v", s.err)
	}
}

// receive lets the feed take a step, if that would not wait.
func (s *simulation) receive() {
	if s.sub != nil && s.sub.pending() {
		return
	}
	err := s.feed.Step(context.Background())
	if err != nil {
		s.sub = nil
		s.note("feed: %v", err)
		if !s.faults && !errors.Is(err, syncd.ErrTooOld) {
			s.bad("feed: %v", err)
		}
	}
	s.note("receive: cache at %s%s", s.cache.Through(), s.dump())
}

// behind says whether there is something to be received.
func (s *simulation) behind() bool { return s.sub == nil || !s.sub.pending() }

func (s *simulation) startList() {
	l := &list{table: s.roll(simTables), seen: map[syncd.Key]bool{}}
	l.standby = s.mix.standby && chance(s, 2)
	l.digest = chance(s, 2)
	if s.startListOf(l) {
		s.note("list of t%d starts, standby %v, digest %v", l.table, l.standby, l.digest)
	}
}

func (s *simulation) startListOf(l *list) bool {
	same := 0
	for _, o := range s.lists {
		if o.table == l.table {
			same++
		}
	}
	if same > 0 && (!s.mix.together || same > 1) {
		return false
	}
	l.account = sink.List{Table: tableName(l.table), Schema: simShape, Selector: s.selectorOf(l.table), Safe: ^syncd.LSN(0)}
	l.spoilt = s.spoilt
	s.lists = append(s.lists, l)
	return true
}

func (s *simulation) drop(l *list) {
	s.lists = slices.DeleteFunc(s.lists, func(o *list) bool { return o == l })
}

const pagesOfList = 2

// stepList takes a list one step on.
func (s *simulation) stepList() {
	if len(s.lists) == 0 {
		return
	}
	l := s.lists[s.roll(len(s.lists))]
	if s.faults && chance(s, 20) {
		s.note("list of t%d fails", l.table)
		s.drop(l)
		return
	}
	if err := s.advance(l); err != nil {
		var ahead *sink.AheadError
		if errors.As(err, &ahead) {
			return // later
		}
		s.note("list of t%d: %v", l.table, err)
		s.drop(l)
		if !errors.Is(err, sink.ErrDiscard) && !s.faults {
			s.bad("list of t%d: %v", l.table, err)
		}
	}
}

func (s *simulation) advance(l *list) error {
	switch {
	case l.digest:
		return s.advanceDigest(l)
	case len(l.pages) < pagesOfList && (len(l.held) == 0 || chance(s, 2)):
		p := l.wanted(s.page(pageID{l.table, len(l.pages), l.standby}))
		s.note("page %d of t%d read at %s H=%s R=%s safe=%s: %d rows", len(l.pages), l.table, p.Snapshot.Text(), p.Snapshot.H, p.Snapshot.R, p.Safe, len(p.Rows))
		l.pages = append(l.pages, p)
		l.held = append(l.held, p)
		return nil
	case len(l.held) > 0:
		if err := s.judge(l, l.held[0]); err != nil {
			return err
		}
		l.held = l.held[1:]
		return nil
	case !l.absent:
		return s.judgeAbsent(l)
	}
	return s.endList(l)
}

// simBits has most keys of a table in a bucket of their own, and some not.
const simBits = 2

// advanceDigest reads the pages of a digest, and has it compared when the stream has passed them all. What is unequal is
// listed then.
func (s *simulation) advanceDigest(l *list) error {
	if len(l.sums) < pagesOfList {
		p := s.page(pageID{l.table, len(l.sums), l.standby})
		l.sums = append(l.sums, s.bentPage(p))
		s.note("page %d of a digest of t%d read at %s H=%s R=%s safe=%s: %d rows", len(l.sums)-1, l.table, p.Snapshot.Text(), p.Snapshot.H, p.Snapshot.R, p.Safe, len(p.Rows))
		return nil
	}
	d := digestOf(l.sums)
	if d == nil {
		return fmt.Errorf("the pages' snapshots have no order: %w", sink.ErrDiscard)
	}
	if s.bend.digest != nil {
		s.bend.digest(d, l.sums)
	}
	c, err := s.cache.Compare(d, sink.How{})
	if errors.Is(err, sink.ErrNoDigest) {
		l.digest = false
		return nil
	}
	if err != nil {
		return err
	}
	if s.bend.proof != nil {
		s.bend.proof(c)
	}
	s.note("compared the digest of t%d: unequal are %v%s", l.table, c.Unequal, s.dump())
	l.digest, l.only = false, syncd.NewBucketSet(simBits, c.Unequal)
	l.account.Snapshots = append(l.account.Snapshots, d.Snapshot)
	l.account.Safe = min(l.account.Safe, d.Safe)
	if len(c.Unequal) == 0 {
		l.pages, l.absent = l.sums, true
	}
	return nil
}

// digestOf makes the digest of pages, as a source does; nil where their snapshots can't be ordered.
func digestOf(pages []*syncd.Page) *syncd.Digest {
	p := pages[0]
	d := &syncd.Digest{Table: p.Table, Selector: p.Selector, Schema: p.Schema, System: p.System, Timeline: p.Timeline, Form: syncd.DigestForm, Bits: simBits,
		Safe: p.Safe, Buckets: make([]syncd.Totals, 1<<simBits)}
	var snaps []*syncd.Snapshot
	high := syncd.LSN(0)
	for _, p := range pages {
		if p.Snapshot.Epoch != pages[0].Snapshot.Epoch || p.Selector != d.Selector || p.System != d.System || p.Timeline != d.Timeline {
			return nil
		}
		snaps = append(snaps, p.Snapshot)
		high, d.Safe = max(high, p.Snapshot.H), min(d.Safe, p.Safe)
		for _, r := range p.Rows {
			d.Buckets[syncd.BucketOf(r.Key.Hash(), simBits)].Add(r.Key, r.JSON)
		}
	}
	oldest := syncd.Oldest(snaps)
	if oldest == nil {
		return nil
	}
	snap := *oldest
	snap.H = high
	d.Snapshot = &snap
	return d
}

// wanted leaves out of a page what was not asked for.
func (l *list) wanted(p *syncd.Page) *syncd.Page {
	if l.only == nil {
		return p
	}
	c := *p
	c.Rows = nil
	for _, r := range p.Rows {
		if l.only.Holds(r.Key.Hash()) {
			c.Rows = append(c.Rows, r)
		}
	}
	return &c
}

// judge puts a page of a list, or an answer for one, before the cache.
func (s *simulation) judge(l *list, p *syncd.Page) error {
	p = s.bentPage(p)
	found, err := s.cache.Judge(p, sink.How{})
	if err != nil {
		return err
	}
	s.note("judged a page of %s: %v%s", p.Table, found, s.dump())
	s.reader.found(p.Table, found)
	for _, r := range p.Rows {
		l.seen[r.Key] = true
	}
	l.account.Snapshots = append(l.account.Snapshots, p.Snapshot)
	l.account.Safe = min(l.account.Safe, p.Safe)
	return nil
}

// bentPage gives a page as the bend has it.
func (s *simulation) bentPage(p *syncd.Page) *syncd.Page {
	if s.bend.page == nil {
		return p
	}
	c, snap := *p, *p.Snapshot
	c.Snapshot = &snap
	s.bend.page(&c)
	return &c
}

// judgeAbsent asks for the keys that the cache holds and no page returned.
func (s *simulation) judgeAbsent(l *list) error {
	var keys []int
	err := s.cache.Walk(tableName(l.table), 0, func(k syncd.Key, e sink.Entry) bool {
		if e.Row != nil && !l.seen[k] && l.only.Holds(k.Hash()) {
			keys = append(keys, keyIndex(k))
		}
		return true
	})
	if err != nil {
		return err
	}
	l.absent = true
	if len(keys) > 0 {
		l.held = append(l.held, s.get(l.table, keys, l.standby))
	}
	return nil
}

// endList hands the complete list over, and checks what the cache claims.
func (s *simulation) endList(l *list) error {
	at := s.cache.Through()
	high := syncd.Position{Epoch: at.Epoch, LSN: s.cache.State().Tables[l.account.Table].Ahead}
	for _, snap := range l.account.Snapshots {
		if h := (syncd.Position{Epoch: snap.Epoch, LSN: snap.H}); h.Compare(high) > 0 {
			high = h
		}
	}
	if at.Compare(high) < 0 {
		return &sink.AheadError{Table: l.account.Table, H: high, At: at}
	}
	s.drop(l)
	if s.bend.list != nil {
		s.bend.list(&l.account)
	}
	at, claimed, err := s.cache.Done(context.Background(), &l.account)
	if err != nil {
		return err
	}
	s.note("list of t%d is complete, safe=%s: claimed %v%s", l.table, l.account.Safe, claimed, s.dump())
	if claimed {
		s.claims[l.table]++
		s.reader.verified(l.table, at, l.spoilt == s.spoilt)
	}
	return nil
}

// fetch asks for a key that is open.
func (s *simulation) fetch() {
	for name, t := range s.sorted() {
		if len(t.Open) == 0 || len(s.answers) >= 4 {
			continue
		}
		keys := slices.Sorted(maps.Keys(t.Open))
		k := keyIndex(keys[s.roll(len(keys))])
		standby := s.faults && s.mix.standby && chance(s, 2)
		p := s.get(tableIndex(name), []int{k}, standby)
		s.note("get t%d/%d at %s H=%s R=%s: %d rows", tableIndex(name), k, p.Snapshot.Text(), p.Snapshot.H, p.Snapshot.R, len(p.Rows))
		s.answers = append(s.answers, answer{p})
		return
	}
}

// judgeAnswers puts the oldest answer before the cache, once the stream has passed it.
func (s *simulation) judgeAnswers() {
	if len(s.answers) == 0 {
		return
	}
	p := s.bentPage(s.answers[0].page)
	found, err := s.cache.Judge(p, sink.How{})
	var ahead *sink.AheadError
	if errors.As(err, &ahead) {
		return
	}
	s.answers = s.answers[1:]
	s.note("judged an answer of %s: %v %v%s", p.Table, found, err, s.dump())
	if err == nil {
		s.reader.found(p.Table, found)
	} else if !errors.Is(err, sink.ErrDiscard) && !s.faults {
		s.bad("judge an answer: %v", err)
	}
}

// sorted gives the tables of the newest generation in their order.
func (s *simulation) sorted() func(yield func(syncd.Table, *sink.TableState) bool) {
	return func(yield func(syncd.Table, *sink.TableState) bool) {
		for t := range simTables {
			if st := s.cache.State().Tables[tableName(t)]; st != nil && !yield(tableName(t), st) {
				return
			}
		}
	}
}

// restart ends the process and begins another, over what the store held: all of it, or as it was at an earlier cursor.
func (s *simulation) restart() {
	if err := s.feed.Close(); err != nil {
		s.bad("close the feed: %v", err)
	}
	s.note("the consumer is restarted")
	s.store = s.cache.Store().(*flaky)
	s.boot()
}

// rewind restarts over a store whose entries are ahead of its cursor, as if these were kept apart.
func (s *simulation) rewind() {
	at := s.cache.Store().State().Cursor.Position
	for _, t := range s.cache.Store().State().Tables {
		if t.Through.Compare(at) > 0 {
			at = t.Through // the stream had lost its end
		}
	}
	var older []syncd.Message
	for _, m := range s.stream.messages {
		if m.Marker != nil && !m.Marker.Part && m.Marker.Epoch == at.Epoch && m.Marker.Through < at.LSN {
			older = append(older, m.Message)
		}
	}
	if len(older) == 0 {
		return
	}
	m := older[s.roll(len(older))]
	s.store = s.cache.Store().(*flaky)
	st := *s.store.State()
	st.Cursor = syncd.Cursor{Seq: m.Seq, Position: m.Marker.Position()}
	st.Tables = map[syncd.Table]*sink.TableState{}
	for name, t := range s.store.State().Tables {
		c := *t
		if c.Through.Compare(st.Cursor.Position) > 0 {
			c.Through = st.Cursor.Position
		}
		st.Tables[name] = &c
	}
	if err := s.store.Commit(&sink.Batch{State: &st}); err != nil {
		s.bad("rewind: %v", err)
	}
	s.note("the cursor goes back to %s", st.Cursor.Position)
	s.reader.rewound(at)
	s.restart()
}

// garbage marks values that were never in the server.
const garbage = 1_000_000

// spoil changes a cached row behind the cache's back.
func (s *simulation) spoil() {
	store := s.cache.Store().(*flaky)
	at := place{s.roll(simTables), s.roll(simKeys)}
	e, ok, _ := store.Load(tableName(at.table), keyOf(at.key))
	if !ok || e.Row == nil || e.Pending {
		return
	}
	v, err := valueOf(e.Row)
	if err != nil {
		s.bad("%v", err)
		return
	}
	v.a += garbage
	if chance(s, 2) {
		v.x += garbage
	}
	e.Row = v.row(at.key, false)
	if err := store.Commit(&sink.Batch{Writes: []sink.Write{{Table: tableName(at.table), Key: keyOf(at.key), Entry: e}}}); err != nil {
		s.bad("spoil: %v", err)
	}
	s.spoilt++
	s.follower.spoil(at)
	s.note("t%d/%d is spoilt", at.table, at.key)
}

// dump describes the cache for the log.
func (s *simulation) dump() string {
	if !s.verbose {
		return ""
	}
	out := ""
	for name, t := range s.sorted() {
		out += fmt.Sprintf("\n      %s listed=%v through=%s loss=%s relist=%q open=%d floor=%v", name.Name, t.Listed, t.Through, t.Loss, t.Relist, len(t.Open), t.Floor != nil)
		_ = s.cache.Walk(name, 0, func(k syncd.Key, e sink.Entry) bool {
			from := e.Version.String()
			if e.Snap != nil {
				from = "list " + e.Snap.Text()
			}
			out += fmt.Sprintf(" [%s %s %s pending=%v]", k, e.Row, from, e.Pending)
			return true
		})
	}
	return out
}
