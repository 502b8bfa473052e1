package resync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/syncd-io/syncd"
)

// Progress is how far a run has come.
type Progress struct {
	Table syncd.Table
	Mode  Mode
	Dry   bool
	// Rows and Bytes count what was received, Expected the rows that the cache held when the run began.
	Rows     uint64
	Bytes    int64
	Expected int
}

// job is what one run is asked to do.
type job struct {
	table    syncd.Table
	mode     Mode
	dry      bool
	approve  bool // delete also more than maxPrune
	progress func(Progress)
}

// run is one comparison of one table, from its first page to its report. It is used once.
type run struct {
	job
	lister   Lister
	cache    Cache
	catalog  *Catalog // nil: the cache's tables are as they should be
	wait     wait
	maxPrune float64
	pageRows int
	settle   time.Duration

	state  State // as it was at the start
	report Report

	first *origin // where the first page came from; all must come from there
	sent  syncd.Totals
	seen  []uint64 // hashes of the keys received
	// only are the hash buckets that are listed, the others being proved by their digests; nil: all.
	only     *syncd.BucketSet
	digested *digested
	proof    []*syncd.Snapshot // the digest's
	odd      []int             // buckets that were unequal and did not differ
	snaps    []*syncd.Snapshot
	safe     syncd.LSN
	high     syncd.LSN
	early    bool // a page was judged before the stream had passed it, because that stood still
	// unlike are the hashes of the listed keys that the cache lacks, in a dry run; a real one has put them in.
	unlike []uint64
	// unclear are the keys that a dry run could not decide, to be asked for singly; a real run leaves that to the cache,
	// which keeps them marked.
	unclear []syncd.Key
	singly  bool // the unclear ones are being asked for
}

// origin is what all pages of a list have in common.
type origin struct {
	epoch    syncd.Epoch
	system   uint64
	timeline uint32
	schema   uint64
	selector string
}

func originOf(p *syncd.Page) origin {
	return origin{p.Snapshot.Epoch, p.System, p.Timeline, p.Schema, p.Selector}
}

// ErrStopped says that a run would have deleted more than MaxPrune lets it, and stopped before it deleted anything.
var ErrStopped = errors.New("stopped before deleting")

// do makes the run. The report is filled in whatever happens; its Complete is true where the error is nil.
func (r *run) do(ctx context.Context) error {
	start := time.Now()
	r.report = Report{Table: r.table.String(), Mode: Full, Samples: []Sample{}}
	err := r.compare(ctx)
	r.report.Complete = err == nil
	if err != nil {
		r.report.Error = err.Error()
	}
	if !r.dry {
		r.report.Repaired = r.report.Differences()
		if s, ok := stateOf(r.cache, r.table); ok {
			r.report.Undecided = s.Open
		}
	}
	r.report.Version = r.cache.Through().String()
	r.report.Seconds = time.Since(start).Round(time.Microsecond).Seconds()
	return err
}

func (r *run) compare(ctx context.Context) error {
	if r.catalog != nil {
		if err := r.catalog.Step(ctx); err != nil {
			return err
		}
	}
	s, ok := stateOf(r.cache, r.table)
	switch {
	case !ok:
		return fmt.Errorf("resync %s: %w", r.table, syncd.ErrNoTable)
	case s.Refused != "":
		return fmt.Errorf("resync %s: %s", r.table, s.Refused)
	case r.dry && !s.Listed:
		return fmt.Errorf("diff %s: not listed yet: wait for its first list", r.table)
	}
	r.state = s
	if s.Loss != 0 || s.Cause != "" {
		// A list heals only what lies below its Safe, which a marker of now brings up to date.
		r.wait.mark(ctx, s.Loss)
	}
	if r.mode == Digest {
		if err := r.compareDigest(ctx); err != nil {
			return fmt.Errorf("digest %s: %w", r.table, err)
		}
	}
	if err := r.rows(ctx); err != nil {
		return err
	}
	if r.dry {
		return nil
	}
	return r.finish(ctx)
}

// rows compares the rows that digests did not prove.
func (r *run) rows(ctx context.Context) error {
	if r.only != nil && r.only.Len() == 0 {
		return nil
	}
	if r.only == nil {
		r.seen = make([]uint64, 0, max(r.state.Rows, r.state.Served))
	}
	if err := r.list(ctx); err != nil {
		return fmt.Errorf("list %s: %w", r.table, err)
	}
	if err := r.absent(ctx); err != nil {
		return fmt.Errorf("compare %s: %w", r.table, err)
	}
	var err error
	r.odd, err = r.unexplained()
	return err
}

// asked is the answer to a request that was made ahead.
type asked struct {
	page *syncd.Page
	err  error
}

// ask requests a page in the background. The channel gives exactly one answer. A source that is busy is not asked for a
// first page again: whoever made the run decides when. A list that has begun goes on as soon as it may.
func (r *run) ask(ctx context.Context, q syncd.ListRequest) <-chan asked {
	c := make(chan asked, 1)
	list := func() (*syncd.Page, error) { return r.lister.List(ctx, q) }
	go func() {
		var a asked
		if q.Started {
			a.page, a.err = patiently(ctx, list)
		} else {
			a.page, a.err = list()
		}
		c <- a
	}()
	return c
}

// list takes the pages of the table, each asked for while the one before is judged, and proves them whole.
func (r *run) list(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	q := syncd.ListRequest{Table: r.table, Limit: r.pageRows, Buckets: r.only, Since: r.since()}
	next := r.ask(ctx, q)
	defer func() {
		cancel()
		if next != nil {
			<-next // ask's goroutine is waited for
		}
	}()
	for next != nil {
		a := <-next
		next = nil
		if a.err != nil {
			return &sourceError{a.err}
		}
		if err := r.check(a.page, q); err != nil {
			return err
		}
		if !a.page.Last {
			q.Started, q.After, q.Sent = true, a.page.After, r.sent
			next = r.ask(ctx, q)
		}
		r.snaps = append(r.snaps, a.page.Snapshot)
		if err := r.judge(ctx, a.page); err != nil {
			return err
		}
	}
	return nil
}

// since is what a page has to be later than to tell anything: what the last complete run rests on, or this run's digest.
func (r *run) since() *syncd.Snapshot {
	if len(r.proof) > 0 && (r.state.Floor == nil || r.proof[0].Later(r.state.Floor)) {
		return r.proof[0]
	}
	return r.state.Floor
}

// check proves a page to be the one that was asked for: of the list's table, shape, server and epoch, with nothing missing,
// doubled or out of place before it; and counts it in.
func (r *run) check(p *syncd.Page, q syncd.ListRequest) error {
	switch {
	case p.Table != r.table:
		return fmt.Errorf("got a page of %s", p.Table)
	case p.Asked != nil:
		return errors.New("got an answer to a get in place of a page")
	}
	for _, row := range p.Rows {
		r.receive(row)
	}
	switch {
	case r.sent != p.Sent:
		return fmt.Errorf("the source has sent %d rows with digest %016x, %d with %016x arrived: a page is missing, doubled or out of order",
			p.Sent.Rows, p.Sent.Digest, r.sent.Rows, r.sent.Digest)
	case !p.Last && q.Started && p.After == q.After:
		return fmt.Errorf("the page behind key %s ends where it began", q.After)
	}
	if r.only == nil {
		r.report.Rows = r.sent.Rows
	}
	return r.measure(p)
}

// receive counts a row of the list in. A source may send rows of buckets that were not asked for.
func (r *run) receive(row syncd.Row) {
	hash := row.Key.Hash()
	sum := syncd.RowDigestOf(hash, row.JSON)
	r.sent.Rows++
	r.sent.Digest += sum
	r.seen = append(r.seen, hash)
	if r.only != nil {
		b := &r.digested.listed[syncd.BucketOf(hash, r.only.Bits)]
		b.Rows++
		b.Digest += sum
	}
}

// measure checks where a page or an answer came from, and takes note of what it can prove.
func (r *run) measure(p *syncd.Page) error {
	if p.Snapshot == nil {
		return errors.New("got a page without its snapshot")
	}
	o := originOf(p)
	if r.first == nil {
		r.first, r.safe = &o, p.Safe
	}
	switch f := *r.first; {
	case o.epoch != f.epoch:
		return fmt.Errorf("epoch %d ended in the middle, %d began", f.epoch, o.epoch)
	case o.system != f.system || o.timeline != f.timeline:
		return fmt.Errorf("the server changed in the middle: system %d timeline %d, before %d timeline %d", o.system, o.timeline, f.system, f.timeline)
	case o.schema != f.schema:
		return errors.New("the table's shape changed in the middle")
	case o.selector != f.selector:
		return errors.New("the table's selector changed in the middle")
	}
	r.safe, r.high = min(r.safe, p.Safe), max(r.high, p.Snapshot.H)
	r.report.Bytes += int64(p.Bytes)
	if r.progress != nil {
		r.progress(Progress{r.table, r.report.Mode, r.dry, r.report.Rows, r.report.Bytes, r.state.Rows})
	}
	return nil
}

// judge has the cache judge a page, once the stream has passed its H.
func (r *run) judge(ctx context.Context, p *syncd.Page) error {
	early, err := r.hold(ctx, p.Snapshot)
	if err != nil {
		return err
	}
	found, err := r.cache.Judge(p, How{Dry: r.dry, Early: early})
	if err != nil {
		return err
	}
	for _, f := range found {
		r.take(f)
	}
	return nil
}

// maxUnclear bounds the keys that a dry run asks for once more.
const maxUnclear = 100_000

// take counts a finding.
func (r *run) take(f Finding) {
	if r.only != nil {
		r.digested.differs[syncd.BucketOf(f.Key.Hash(), r.only.Bits)] = true
	}
	switch {
	case r.dry && f.Kind == Unclear && !r.singly && len(r.unclear) < maxUnclear:
		r.unclear = append(r.unclear, f.Key)
		return
	case r.dry && f.Kind == Unclear:
		r.report.Undecided++
	case r.dry && f.Kind == Missing:
		r.unlike = append(r.unlike, f.Key.Hash())
	}
	r.report.count(f.Kind)
	r.report.sample(f.Key, f.Kind)
}

// hold waits until the stream has passed a snapshot's H, and says whether the page has to be judged early, because the
// stream does not move. Where the table serves nothing yet there is nothing to wait for.
func (r *run) hold(ctx context.Context, s *syncd.Snapshot) (early bool, err error) {
	if !r.state.Listed {
		return false, nil
	}
	err = r.wait.reach(ctx, s)
	var stood errStood
	if errors.As(err, &stood) {
		r.early = true
		r.report.note("the stream stands still at %s: pages were compared without waiting for it, and rows still on their way count as different", stood.at)
		return true, nil
	}
	return false, err
}

// finish hands the complete list to the cache. The stream has to have passed all of it; and keys that are being fetched
// stand in the way of a claim, so they are waited for, a while.
func (r *run) finish(ctx context.Context) error {
	snaps := slices.Concat(r.proof, r.snaps)
	if !r.early {
		for _, s := range snaps {
			if err := r.wait.reach(ctx, s); err != nil {
				return fmt.Errorf("end the list of %s: %w", r.table, err)
			}
		}
	}
	if r.state.Loss == 0 && !r.early {
		r.settled(ctx)
	}
	at, claimed, err := r.cache.Done(ctx, &List{
		Table: r.table, Schema: r.first.schema, Selector: r.first.selector, Snapshots: snaps, Safe: r.safe, Early: r.early,
	})
	if err != nil {
		return err
	}
	if claimed {
		r.report.Verified = at
	}
	return nil
}

// settled waits until no key of the table is open, for at most the time of settle.
func (r *run) settled(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.settle)
	defer cancel()
	for {
		changed := r.cache.Changed()
		if s, ok := stateOf(r.cache, r.table); !ok || s.Open == 0 || s.Parked > 0 {
			return
		}
		if sleep(ctx, time.Time{}, changed) != nil || sleep(ctx, time.Now().Add(quick)) != nil {
			return
		}
	}
}

// sourceError is an error of the source: it did not answer, or not with what was asked for.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

func stateOf(c Cache, t syncd.Table) (State, bool) {
	for _, s := range c.States() {
		if s.Table == t {
			return s, true
		}
	}
	return State{}, false
}
