package resync

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/syncd-io/syncd"
)

// claim takes the most urgent table that is due and marks it as running, with the request that it serves, if any.
func (r *Runner) claim(now time.Time) (job, *request, time.Time, bool) {
	states := r.Cache.States()
	r.mu.Lock()
	defer r.mu.Unlock()
	candidates := make([]Candidate, 0, len(states))
	can := map[syncd.Table]string{}
	for _, s := range states {
		candidates = append(candidates, r.candidate(s))
		can[s.Table] = s.Refused
	}
	r.forget(can)
	due, wake := Due(now, r.started, r.Schedule, candidates)
	if len(due) == 0 {
		return job{}, nil, wake, false
	}
	t := due[0]
	m := r.of(t)
	j := job{table: t, mode: r.Mode}
	var q *request
	if len(m.waiting) > 0 {
		q, m.waiting = m.waiting[0], m.waiting[1:]
		j.mode, j.dry, j.approve = q.Mode, q.Dry, q.ApprovePrune
	}
	m.running = &Progress{Table: t, Mode: j.mode, Dry: j.dry}
	j.progress = func(p Progress) {
		r.mu.Lock()
		defer r.mu.Unlock()
		*m.running = p
	}
	if len(due) > 1 {
		r.wakeAll() // for another worker
	}
	return j, q, time.Time{}, true
}

// forget answers who waits for a run of a table that is gone or is refused now, and forgets those that are gone. tables says
// which there are, and why they are refused. r.mu is held.
func (r *Runner) forget(tables map[syncd.Table]string) {
	for t, m := range r.memory {
		refused, ok := tables[t]
		if ok && refused == "" {
			continue
		}
		for _, q := range m.waiting {
			q.err = fmt.Errorf("resync %s: %w", t, syncd.ErrNoTable)
			if ok {
				q.err = fmt.Errorf("resync %s: %s", t, refused)
			}
			close(q.done)
		}
		m.waiting = nil
		if !ok && m.running == nil {
			delete(r.memory, t)
			delete(r.reports, t)
		}
	}
}

// candidate joins what the cache says of a table and what is remembered of it. A cause that is new since the last run
// has not been tried yet. r.mu is held.
func (r *Runner) candidate(s State) Candidate {
	m := r.of(s.Table)
	waiting := m.waiting[:0]
	for _, q := range m.waiting {
		if q.wants > 0 {
			waiting = append(waiting, q)
		}
	}
	m.waiting = waiting
	if s.Cause != m.cause || s.Parked > m.parked {
		m.repeats = 0
	}
	return Candidate{
		Table: s.Table, Refused: s.Refused != "", Listed: s.Listed, Cause: s.Cause, Parked: s.Parked, Stopped: s.Stopped != "" && !s.Changed,
		Resynced: s.Resynced, Running: m.running != nil, Requested: len(m.waiting) > 0,
		Ended: m.ended, Failures: m.failures, Repeats: m.repeats,
	}
}

func (r *Runner) newRun(j job) *run {
	return &run{
		job: j, lister: r.Lister, cache: r.Cache, catalog: r.Catalog, maxPrune: r.MaxPrune, pageRows: r.PageRows, settle: r.Settle,
		wait: wait{cache: r.Cache, marks: r.Marks, patience: r.Patience, log: r.Logger},
	}
}

// release takes note of how a run ended, answers who asked for it, and lets the table be claimed again.
func (r *Runner) release(one *run, q *request, err error) {
	r.observe(one, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.of(one.table)
	m.running = nil
	if err == nil && one.only != nil {
		if both := m.again(one.only.Bits, one.odd); len(both) > 0 {
			r.Logger.Error("hash buckets differ again though their rows, compared one by one, are equal: the source and this process don't print rows alike, "+
				"or digest them otherwise; mode full does without digests", "table", one.table, "buckets", both, "of", 1<<one.only.Bits)
		}
	}
	if !one.dry {
		m.ended = time.Now()
		m.cause, m.parked = one.state.Cause, one.state.Parked
		m.lastErr = err
		r.reports[one.table] = &one.report
		switch {
		case err == nil:
			m.failures, m.repeats = 0, m.repeats+1
		case errors.Is(err, ErrStopped):
			m.failures, m.repeats = 0, 0
		default:
			m.failures++
		}
	}
	if q != nil {
		q.report, q.err = &one.report, err
		close(q.done)
	}
	r.wakeAll()
}

func (r *Runner) observe(one *run, err error) {
	result, rep := outcome(err), &one.report
	log := r.Logger.With("table", one.table, "mode", rep.Mode, "dry", one.dry)
	facts := []any{"rows", rep.Rows, "missing", rep.Missing, "stale", rep.Stale, "ghost", rep.Ghost, "corrupt", rep.Corrupt,
		"undecided", rep.Undecided, "seconds", rep.Seconds}
	if !one.dry {
		r.Observer.Resynced(one.table, string(rep.Mode), result, time.Duration(rep.Seconds*float64(time.Second)))
	}
	switch {
	case result == "canceled":
		log.Debug("resync given up", "error", err)
	case result == "stopped":
		log.Error("resync stopped", append(facts, "error", err)...)
	case err != nil:
		if away := (*sourceError)(nil); errors.As(err, &away) {
			r.Observer.Away(one.table, err)
		}
		log.Warn("resync did not complete; it is tried again", append(facts, "error", err)...)
	case rep.Differences() > 0 || one.early || !one.state.Listed:
		log.Info("resync complete", append(facts, "verified", rep.Verified, "note", rep.Note)...)
	default:
		log.Debug("resync complete", append(facts, "verified", rep.Verified)...)
	}
}

// outcome names how a run ended.
func outcome(err error) string {
	switch {
	case err == nil:
		return "complete"
	case errors.Is(err, ErrStopped):
		return "stopped"
	case errors.Is(err, syncd.ErrBusy):
		return "busy"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "failed"
}
