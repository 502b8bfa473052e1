package resync

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"
	"time"

	"github.com/syncd-io/syncd"
)

// Schedule says when tables are listed again. The zero value runs on causes and requests only.
type Schedule struct {
	// Interval is the time between the end of one complete run and the next; 0: none at intervals.
	Interval time.Duration
	// Jitter spreads the interval: 0.2 makes it 80 to 120 % of itself, another share each time.
	Jitter float64
	// Spread is the time after the start over which runs that are overdue by then are spread, so that many caches that
	// start together don't list together. Causes don't wait for it.
	Spread time.Duration
	// MinBackoff and MaxBackoff bound the wait after a failed run, which doubles with each failure in a row.
	// Defaults: 250 ms and 1 min.
	MinBackoff, MaxBackoff time.Duration
	// Seed makes the spread differ from one cache to the next.
	Seed uint64
}

func (s Schedule) withDefaults() Schedule {
	s.MinBackoff = cmp.Or(s.MinBackoff, 250*time.Millisecond)
	s.MaxBackoff = cmp.Or(s.MaxBackoff, time.Minute)
	return s
}

// Candidate is a table as the schedule sees it: what the cache knows of it, and what the Runner remembers of its runs.
type Candidate struct {
	Table syncd.Table
	// Refused: the source can't sync the table; it is never due.
	Refused bool
	// Listed: a first complete list was applied.
	Listed bool
	// Cause says why the table is to be listed at once (a loss, a new shape, too old); empty where no cause is open.
	Cause string
	// Parked counts the keys whose delta could not be applied; each is a cause.
	Parked int
	// Stopped: a run would have deleted too much. Causes wait; the interval goes on, to see whether the rows are back.
	Stopped bool
	// Resynced is when the last complete run ended, kept across restarts; zero: never.
	Resynced time.Time

	// Running: a run of the table is under way; it is due again at the earliest when that has ended.
	Running bool
	// Requested: somebody waits for a run that has not begun.
	Requested bool
	// Ended is when the last run since the start ended, however it ended; zero: none yet.
	Ended time.Time
	// Failures counts the runs in a row that did not complete. Repeats counts the complete runs in a row that left the
	// present cause open (a loss that no page was late enough to heal; a key that stays parked).
	Failures, Repeats int
}

// Due says which tables are to be run now, the most urgent first, and when to look again: the earliest time at which
// another comes due, zero if none does by itself. It is a function of its arguments alone; the spread comes from a hash of
// the seed, the table and the times, so that asking twice gives the same answer.
func Due(now, started time.Time, s Schedule, tables []Candidate) (run []syncd.Table, wake time.Time) {
	s = s.withDefaults()
	type due struct {
		table syncd.Table
		rank  int
		at    time.Time
	}
	var all []due
	for _, c := range tables {
		at, rank, ok := s.next(now, started, c)
		switch {
		case !ok:
		case !at.After(now):
			all = append(all, due{c.Table, rank, at})
		case wake.IsZero() || at.Before(wake):
			wake = at
		}
	}
	slices.SortStableFunc(all, func(a, b due) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), a.at.Compare(b.at))
	})
	for _, d := range all {
		run = append(run, d.table)
	}
	return run, wake
}

// The ranks order tables that are due at once: those somebody waits for, those that serve nothing yet, those with a cause,
// those whose time has come.
const (
	rankRequest = iota
	rankFirst
	rankCause
	rankInterval
)

// next says when a table is to be run next, and how urgent that is then; ok is false where it is not.
func (s Schedule) next(now, started time.Time, c Candidate) (at time.Time, rank int, ok bool) {
	if c.Running || c.Refused {
		return time.Time{}, 0, false
	}
	if c.Requested {
		return time.Time{}, rankRequest, true
	}
	if (!c.Listed || c.Cause != "" || c.Parked > 0) && !c.Stopped {
		rank = rankCause
		if !c.Listed {
			rank = rankFirst
		}
		at = s.afterCause(c)
		if t, ok := s.atInterval(now, started, c); ok && t.Before(at) {
			at = t
		}
		return at, rank, true
	}
	at, ok = s.atInterval(now, started, c)
	return at, rankInterval, ok
}

// afterCause is at once, but for what was tried already: failed runs wait up to MaxBackoff, runs that changed nothing about
// the cause up to the interval.
func (s Schedule) afterCause(c Candidate) time.Time {
	switch {
	case c.Failures > 0:
		return c.Ended.Add(s.backoff(c, c.Failures, s.MaxBackoff))
	case c.Repeats > 0:
		return c.Ended.Add(s.backoff(c, c.Repeats, max(s.MaxBackoff, s.Interval)))
	}
	return time.Time{}
}

func (s Schedule) atInterval(now, started time.Time, c Candidate) (time.Time, bool) {
	if s.Interval <= 0 {
		return time.Time{}, false
	}
	at := started
	switch {
	case c.Resynced.After(now): // the clock was set back
		at = started.Add(s.Interval)
	case !c.Resynced.IsZero():
		at = c.Resynced.Add(scale(s.Interval, 1+s.Jitter*(2*s.spread(c.Table, c.Resynced)-1)))
	}
	if !at.After(started) { // overdue when the process started
		at = started.Add(scale(s.Spread, s.spread(c.Table, started)))
	}
	if c.Failures > 0 {
		if t := c.Ended.Add(s.backoff(c, c.Failures, s.MaxBackoff)); t.After(at) {
			at = t
		}
	}
	if t := c.Ended.Add(s.Interval); c.Stopped && !c.Ended.IsZero() && t.After(at) {
		at = t // a stopped run completes nothing, so Resynced stays where it was
	}
	return at, true
}

// backoff is MinBackoff doubled n-1 times, at most limit, less up to half of it by chance.
func (s Schedule) backoff(c Candidate, n int, limit time.Duration) time.Duration {
	d := min(s.MinBackoff, limit)
	for ; n > 1 && d < limit; n-- {
		d = min(2*d, limit)
	}
	return scale(d, 0.5+0.5*s.spread(c.Table, c.Ended))
}

// spread gives a number from 0 to 1 that looks like chance and is the same for the same arguments.
func (s Schedule) spread(t syncd.Table, at time.Time) float64 {
	h := fnv.New64a()
	var b [16]byte
	binary.LittleEndian.PutUint64(b[:], s.Seed)
	binary.LittleEndian.PutUint64(b[8:], uint64(at.UnixNano()))
	h.Write(b[:])
	h.Write([]byte(t.Schema))
	h.Write([]byte{0})
	h.Write([]byte(t.Name))
	x := h.Sum64()
	x = (x ^ x>>32) * 0x9E3779B97F4A7C15 // FNV's high bits hardly depend on its last bytes
	return float64(x>>11) / (1 << 53)
}

func scale(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }
