package resync

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/syncd-io/syncd"
)

// Observer hears of what the stages do. Its methods are called from many goroutines and must be quick.
type Observer interface {
	// Resynced: a run ended. result is "complete", "stopped" (it would have deleted too much), "busy" (the source runs as many
	// lists as it may), "canceled" or "failed".
	Resynced(t syncd.Table, mode, result string, took time.Duration)
	// Fetched: n keys of a table were asked for singly, and so many of them settled.
	Fetched(t syncd.Table, n, settled int)
	// Away: the source could not be asked about a table; it is tried again.
	Away(t syncd.Table, err error)
}

type quiet struct{}

func (quiet) Resynced(syncd.Table, string, string, time.Duration) {}
func (quiet) Fetched(syncd.Table, int, int)                       {}
func (quiet) Away(syncd.Table, error)                             {}

// Runner runs the tables of a cache as they come due: at intervals, at once on a cause, and on request. At most one run of
// a table is under way at a time.
type Runner struct {
	Lister Lister
	Cache  Cache
	// Marks is asked for a marker where a page waits for the stream; nil: the markers of an idle source must do.
	Marks Marks
	// Catalog, where there is one, looks at the source's tables before each run.
	Catalog  *Catalog
	Schedule Schedule
	// Mode is how scheduled runs compare; default Digest.
	Mode Mode
	// MaxPrune is the share of a table's rows, 0 to 1, that a run may delete without being told to.
	MaxPrune float64
	// Parallel bounds the tables that are run at a time; default 2.
	Parallel int
	// PageRows bounds the rows of a page; 0 leaves it to the source.
	PageRows int
	// Patience is how long a page waits for a stream that does not move before it is judged as it is; default 30 s.
	Patience time.Duration
	// Settle is how long the end of a run waits for keys that are being fetched, before it claims nothing; default 5 s.
	Settle   time.Duration
	Observer Observer
	// Logger gets a line for each run that found or changed something or failed; nil means quiet.
	Logger *slog.Logger

	once    sync.Once
	started time.Time

	mu      sync.Mutex
	closed  error // why Run returned
	memory  map[syncd.Table]*memory
	changed chan struct{} // closed and made anew whenever a table comes free or is asked for
	reports map[syncd.Table]*Report
}

// memory is what the Runner remembers of a table.
type memory struct {
	running           *Progress // nil: none is
	waiting           []*request
	ended             time.Time
	failures, repeats int
	cause             string // as it was when the last run began
	parked            int
	lastErr           error
	// unexplained are the buckets, of 2^unexplainedBits, whose digests differed in the last run though their rows did not.
	unexplained     []int
	unexplainedBits int
}

// Options say how a requested run is made.
type Options struct {
	Mode Mode // empty: the Runner's
	// Dry compares and repairs nothing.
	Dry bool
	// ApprovePrune lets the run delete more than MaxPrune.
	ApprovePrune bool
}

// request is a run that somebody waits for, or several who want the same.
type request struct {
	Options
	done   chan struct{}
	report *Report
	err    error
	wants  int // waiters; a request that nobody waits for any more is not run
}

func (r *Runner) init() {
	r.once.Do(func() {
		r.Mode = cmp.Or(r.Mode, Digest)
		r.Parallel = max(r.Parallel, 0)
		if r.Parallel == 0 {
			r.Parallel = 2
		}
		r.Patience = cmp.Or(r.Patience, 30*time.Second)
		r.Settle = cmp.Or(r.Settle, 5*time.Second)
		if r.Observer == nil {
			r.Observer = quiet{}
		}
		if r.Logger == nil {
			r.Logger = slog.New(slog.DiscardHandler)
		}
		r.started = time.Now()
		r.memory = map[syncd.Table]*memory{}
		r.reports = map[syncd.Table]*Report{}
		r.changed = make(chan struct{})
	})
}

// Run runs tables as they come due, until ctx ends; it returns ctx's error once all runs have ended. What a run can't do
// (the source is away, the list fails) is tried again later, so nothing else ends it.
func (r *Runner) Run(ctx context.Context) error {
	r.init()
	var workers sync.WaitGroup
	for range r.Parallel {
		workers.Go(func() { r.work(ctx) })
	}
	workers.Wait()
	r.giveUp(context.Cause(ctx))
	return context.Cause(ctx)
}

// giveUp answers those who wait for a run that won't be made any more.
func (r *Runner) giveUp(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = err
	for t, m := range r.memory {
		for _, q := range m.waiting {
			q.err = fmt.Errorf("resync %s: %w", t, err)
			close(q.done)
		}
		m.waiting = nil
	}
}

// gather is how long a change of the cache is left alone before the schedule looks at it: caches change with each commit.
const gather = 50 * time.Millisecond

// work makes one run after the other, as one of Parallel, until ctx ends.
func (r *Runner) work(ctx context.Context) {
	for ctx.Err() == nil {
		hint, changed := r.hint(), r.Cache.Changed()
		ran, wake := r.Step(ctx)
		if ran {
			continue
		}
		_ = sleep(ctx, wake, hint, changed)
		select {
		case <-changed:
			_ = sleep(ctx, time.Now().Add(gather), hint)
		default:
		}
	}
}

// Step makes the most urgent run that is due and returns when it has ended. Where none is due it returns ran false, and
// when to look again if nothing happens before; zero: only when something happens. It may be called from several
// goroutines: each takes another table.
func (r *Runner) Step(ctx context.Context) (ran bool, wake time.Time) {
	r.init()
	job, req, wake, ok := r.claim(time.Now())
	if !ok {
		return false, wake
	}
	one := r.newRun(job)
	err := one.do(ctx)
	r.release(one, req, err)
	return true, time.Time{}
}

// Request has a table run, after a run of it that is under way, and returns its report when it has ended. The report is
// there also where the run could not complete: its Error says why, and so does the error. Who asks for the same while the
// run has not begun shares it. ctx ends the wait, not the run.
func (r *Runner) Request(ctx context.Context, t syncd.Table, o Options) (*Report, error) {
	r.init()
	o.Mode = cmp.Or(o.Mode, r.Mode)
	s, ok := stateOf(r.Cache, t)
	switch {
	case !ok:
		return nil, fmt.Errorf("resync %s: %w", t, syncd.ErrNoTable)
	case s.Refused != "":
		return nil, fmt.Errorf("resync %s: %s", t, s.Refused)
	}
	q := r.enqueue(t, o)
	select {
	case <-q.done:
		return q.report, q.err
	case <-ctx.Done():
		r.mu.Lock()
		q.wants--
		r.mu.Unlock()
		return nil, fmt.Errorf("resync %s: %w", t, context.Cause(ctx))
	}
}

// Ask has a table run in full, after a run of it that is under way, and waits for nothing. Who asks again before it has begun
// gets the same run.
func (r *Runner) Ask(t syncd.Table) {
	r.init()
	r.enqueue(t, Options{Mode: Full})
}

// Running says how far the runs are that are under way.
func (r *Runner) Running() []Progress {
	r.init()
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Progress
	for _, m := range r.memory {
		if m.running != nil {
			all = append(all, *m.running)
		}
	}
	return all
}

// Last gives the report of a table's last run that was there to repair (not of a dry one), however it ended; nil before the
// first since the start. It must not be changed.
func (r *Runner) Last(t syncd.Table) *Report {
	r.init()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reports[t]
}

func (r *Runner) hint() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// wakeAll tells all who wait that something changed. r.mu is held.
func (r *Runner) wakeAll() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *Runner) of(t syncd.Table) *memory {
	m := r.memory[t]
	if m == nil {
		m = &memory{}
		r.memory[t] = m
	}
	return m
}

func (r *Runner) enqueue(t syncd.Table, o Options) *request {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.of(t)
	for _, q := range m.waiting {
		if q.Options == o {
			q.wants++
			return q
		}
	}
	q := &request{Options: o, done: make(chan struct{}), wants: 1}
	if r.closed != nil {
		q.err = fmt.Errorf("resync %s: %w", t, r.closed)
		close(q.done)
		return q
	}
	m.waiting = append(m.waiting, q)
	r.wakeAll()
	return q
}
