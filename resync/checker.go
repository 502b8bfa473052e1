package resync

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/syncd-io/syncd"
)

// CheckCache is what a Checker needs of a cache, beside what a Runner does.
type CheckCache interface {
	Cache
	// IsOpen says whether a key is undecided, to be fetched or parked: what readers get of it is not known to be true.
	IsOpen(t syncd.Table, k syncd.Key) bool
}

// Asker is told that a table is to be run, and returns at once. Runner implements it.
type Asker interface {
	Ask(t syncd.Table)
}

// CheckObserver hears of what a Checker finds. It must be quick.
type CheckObserver interface {
	// Checked: a sampled key of a table was consistent within a window after it was sampled ("1s", "10s", "1m", "5m"), or was
	// not. Each sample is heard of once for each window, but for those in which the source could not be asked.
	Checked(t syncd.Table, window string, consistent bool)
}

// window is a time within which a key that was found inconsistent may be consistent again.
type window struct {
	name  string
	after time.Duration
}

// windows are when an inconsistent key is asked for again, and what is counted then.
var windows = [...]window{{"1s", time.Second}, {"10s", 10 * time.Second}, {"1m", time.Minute}, {"5m", 5 * time.Minute}}

// Checker measures how true the cache is, in the share of its rows that are as Postgres has them: all the time it takes a
// few rows of the cache at random, asks the source for them, and has the answers judged by the rules of a resync, once
// the stream has passed them, so that a change that is still on its way is no fault. A key that differs is asked for again
// after each of the windows, and one that still differs after the last asks for a resync of its table. The Checker itself
// changes nothing.
//
// It takes its samples from what the cache holds, of tables that were listed. So it finds rows that are stale, corrupt, or gone
// from Postgres; a row that the cache lacks is found by a resync alone.
//
// While the source can't be asked, or the stream stands still, or an answer can't be judged (another shape, another epoch),
// nothing is counted. Its methods are called by one goroutine.
type Checker struct {
	Lister Lister
	Cache  CheckCache
	// Asker is asked for a resync; nil: nobody is.
	Asker Asker
	// Rate is how many keys a second are sampled; 0: none.
	Rate float64
	// Patience is how long an answer is held for the stream to pass it, before it is thrown away; default 30 s.
	Patience time.Duration
	// Seed makes the samples differ from one cache to the next.
	Seed     uint64
	Observer CheckObserver
	// Logger gets a line for each key that differs after the first and the last window; nil means quiet.
	Logger *slog.Logger

	once     sync.Once
	rand     *rand.Rand
	samples  []*sample
	next     time.Time // of the next sample
	away     time.Time // the source is not asked before
	failures int
	again    map[syncd.Table]time.Time // no resync is asked for before
}

// sample is one key that was taken from the cache.
type sample struct {
	table syncd.Table
	key   syncd.Key
	born  time.Time
	// window is what the next answer counts in first. first says that no answer was judged yet.
	window int
	first  bool
	due    time.Time // to be asked for; while an answer is held, until when it is
	asked  time.Time // when the answer that is held was asked for
	answer *syncd.Page
}

// The bounds of a Checker's memory: samples that wait, entries that are walked over for one, and rows that one is chosen
// among. (The row behind a random hash is chosen the more often the larger the gap before it; of many rows the gaps add up.)
const (
	maxSamples = 2048
	maxWalked  = 4096
	choices    = 64
)

func (c *Checker) init() {
	c.once.Do(func() {
		c.Patience = cmp.Or(c.Patience, 30*time.Second)
		if c.Logger == nil {
			c.Logger = slog.New(slog.DiscardHandler)
		}
		c.rand = rand.New(rand.NewPCG(c.Seed, 0x5eed))
		c.again = map[syncd.Table]time.Time{}
		c.next = time.Now().Add(c.period())
	})
}

// period is the time between two samples.
func (c *Checker) period() time.Duration { return time.Duration(float64(time.Second) / c.Rate) }

// Run checks until ctx ends, and returns its error; nothing else ends it.
func (c *Checker) Run(ctx context.Context) error {
	for c.Rate > 0 && ctx.Err() == nil {
		changed := c.Cache.Changed()
		did, wake := c.Step(ctx)
		if did {
			continue
		}
		if !c.holds() {
			changed = nil
		}
		if err := sleep(ctx, wake, changed); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// holds says whether an answer waits for the stream.
func (c *Checker) holds() bool {
	return slices.ContainsFunc(c.samples, func(s *sample) bool { return s.answer != nil })
}

// Step judges the answers that the stream has passed, takes the samples that are due, and asks for the keys of one table that are.
// Where nothing is due it returns did false, and when something will be.
func (c *Checker) Step(ctx context.Context) (did bool, wake time.Time) {
	c.init()
	now := time.Now()
	did = c.judgeHeld(now)
	if c.take(now) {
		did = true
	}
	if due := c.due(now); len(due) > 0 {
		c.ask(ctx, now, due)
		return true, time.Time{}
	}
	return did, c.wake(now)
}

// wake says when something is due next.
func (c *Checker) wake(now time.Time) time.Time {
	at := c.next
	for _, s := range c.samples {
		due := s.due
		if s.answer == nil && c.away.After(due) {
			due = c.away
		}
		if due.Before(at) {
			at = due
		}
	}
	if !at.After(now) {
		at = now.Add(time.Millisecond)
	}
	return at
}

// take takes the sample that is due. What could not be taken in time is not made up for.
func (c *Checker) take(now time.Time) bool {
	if now.Before(c.next) {
		return false
	}
	if c.next = c.next.Add(c.period()); c.next.Before(now) {
		c.next = now.Add(c.period())
	}
	if len(c.samples) >= maxSamples || now.Before(c.away) {
		return false
	}
	t, ok := c.table()
	if !ok {
		return false
	}
	if k, ok := c.key(t); ok {
		c.samples = append(c.samples, &sample{table: t, key: k, born: now, due: now, first: true})
	}
	return true
}

// table chooses a table that is listed, by its rows.
func (c *Checker) table() (syncd.Table, bool) {
	states := c.Cache.States()
	slices.SortFunc(states, func(a, b State) int { return cmp.Compare(a.Table.String(), b.Table.String()) })
	rows := 0
	for _, s := range states {
		if s.Listed && s.Refused == "" {
			rows += s.Rows
		}
	}
	if rows == 0 {
		return syncd.Table{}, false
	}
	n := c.rand.IntN(rows)
	for _, s := range states {
		if s.Listed && s.Refused == "" {
			if n -= s.Rows; n < 0 {
				return s.Table, true
			}
		}
	}
	return syncd.Table{}, false
}

// key chooses a row of a table: one of those that follow a random place in the order of the keys' hash.
func (c *Checker) key(t syncd.Table) (syncd.Key, bool) {
	keys := make([]syncd.Key, 0, choices)
	walked := 0
	gather := func(k syncd.Key, h Held) bool {
		if h.Row {
			keys = append(keys, k)
		}
		walked++
		return len(keys) < choices && walked < maxWalked
	}
	from := c.rand.Uint64()
	err := c.Cache.Walk(t, from, gather)
	if err == nil && len(keys) < choices && walked < maxWalked {
		err = c.Cache.Walk(t, 0, func(k syncd.Key, h Held) bool { return k.Hash() < from && gather(k, h) })
	}
	if err != nil {
		c.Logger.Error("take a sample of the cache", "table", t, "error", err)
	}
	if err != nil || len(keys) == 0 {
		return "", false
	}
	return keys[c.rand.IntN(len(keys))], true
}

// due gives the samples of one table to be asked for now, as many as one get may hold.
func (c *Checker) due(now time.Time) (due []*sample) {
	if now.Before(c.away) {
		return nil
	}
	keys := map[syncd.Key]bool{} // a get names no key twice
	size := 0
	for _, s := range c.samples {
		if s.answer != nil || s.due.After(now) || len(due) > 0 && s.table != due[0].table || keys[s.key] {
			continue
		}
		if size += len(s.key); len(due) > 0 && (len(due) == maxKeys || size > maxKeyBytes) {
			break
		}
		keys[s.key] = true
		due = append(due, s)
	}
	return due
}

// ask asks for samples and holds the answer. Where there is none, those that were judged before are asked for again, and
// the others given up: nothing is known of them.
func (c *Checker) ask(ctx context.Context, now time.Time, due []*sample) {
	keys := make([]syncd.Key, len(due))
	for i, s := range due {
		keys[i] = s.key
	}
	p, err := get(ctx, c.Lister, syncd.GetRequest{Table: due[0].table, Keys: keys})
	if err != nil {
		c.giveUp(due)
		c.failures++
		c.away = time.Now().Add(awayFor(c.failures))
		if ctx.Err() == nil {
			c.Logger.Debug("ask for sampled keys", "table", due[0].table, "error", err)
		}
		return
	}
	c.failures = 0
	for _, s := range due {
		s.answer, s.asked, s.due = p, now, time.Now().Add(c.Patience)
	}
}

// awayFor is how long a source that did not answer is left alone: a second, doubled each time, up to a minute.
func awayFor(failures int) time.Duration {
	return min(time.Second<<min(failures-1, 6), time.Minute)
}

// giveUp forgets samples that nothing is known of, and has those that differed asked for again.
func (c *Checker) giveUp(some []*sample) {
	for _, s := range some {
		s.answer, s.due = nil, time.Now()
	}
	c.samples = slices.DeleteFunc(c.samples, func(s *sample) bool { return s.first && slices.Contains(some, s) })
}

// judgeHeld judges the answers that the stream has passed, and throws away those that it does not reach.
func (c *Checker) judgeHeld(now time.Time) (did bool) {
	at := c.Cache.Through()
	var pages []*syncd.Page
	of := map[*syncd.Page][]*sample{}
	for _, s := range c.samples {
		if s.answer != nil {
			if of[s.answer] == nil {
				pages = append(pages, s.answer)
			}
			of[s.answer] = append(of[s.answer], s)
		}
	}
	for _, p := range pages {
		some := of[p]
		h := syncd.Position{Epoch: p.Snapshot.Epoch, LSN: p.Snapshot.H}
		switch {
		case at.Compare(h) >= 0:
			c.judge(p, some)
			did = true
		case !now.Before(some[0].due):
			c.giveUp(some)
			c.failures++
			c.away = now.Add(awayFor(c.failures))
			did = true
		}
	}
	return did
}

// judge draws the conclusions of an answer that the stream has passed.
func (c *Checker) judge(p *syncd.Page, some []*sample) {
	found, err := c.Cache.Judge(p, How{Dry: true})
	if err != nil { // of another epoch, server or shape than the cache by now: nothing can be said of these rows any more
		c.Logger.Debug("judge sampled keys", "table", p.Table, "error", err)
		c.samples = slices.DeleteFunc(c.samples, func(s *sample) bool { return slices.Contains(some, s) })
		return
	}
	kinds := make(map[syncd.Key]string, len(found))
	for _, f := range found {
		kinds[f.Key] = f.Kind
	}
	for _, s := range some {
		kind := kinds[s.key]
		if kind == "" && c.Cache.IsOpen(s.table, s.key) {
			kind = Unclear
		}
		c.conclude(s, kind)
	}
	c.samples = slices.DeleteFunc(c.samples, func(s *sample) bool { return s.window == len(windows) })
}

// conclude counts what an answer said of a sample.
func (c *Checker) conclude(s *sample, kind string) {
	o := weigh(s.asked.Sub(s.born), s.window, s.first, kind == "")
	for i := o.from; i < o.to; i++ {
		if c.Observer != nil {
			c.Observer.Checked(s.table, windows[i].name, kind == "")
		}
	}
	s.window, s.first, s.answer = o.next, false, nil
	switch {
	case o.ask:
		c.Logger.Error("a key of the cache has differed from Postgres for longer than 5 minutes", "table", s.table, "key", s.key.Path(), "kind", kind)
		c.resync(s.table)
	case o.next < len(windows):
		s.due = s.born.Add(windows[o.next].after)
		if kind != "" && o.to > o.from && o.from == 0 {
			c.Logger.Warn("a key of the cache differs from Postgres for longer than a second", "table", s.table, "kind", kind)
		}
	}
}

// resync asks for a resync of a table, once in as long as the last window is, however many of its keys differ. One that stopped
// before it deleted too much would stop again: that waits for a person.
func (c *Checker) resync(t syncd.Table) {
	now := time.Now()
	s, ok := stateOf(c.Cache, t)
	if c.Asker == nil || !ok || s.Stopped != "" || now.Before(c.again[t]) {
		return
	}
	c.again[t] = now.Add(windows[len(windows)-1].after)
	c.Asker.Ask(t)
}

// outcomeOf is what an answer means for a sample.
type outcomeOf struct {
	from, to int  // the windows that it counts in
	next     int  // the window that the next answer counts in; len(windows): none is asked for
	ask      bool // a resync is to be asked for
}

// weigh says what an answer means that was asked for so long after its sample was taken. window is the first that is not
// counted yet; first says that it is the first answer.
//
// A consistent key is consistent within every window that has not passed by more than half of itself; what was the case
// within the others, while the source was away, nobody knows. A key that differs has differed within all that have passed.
func weigh(elapsed time.Duration, window int, first, consistent bool) outcomeOf {
	if consistent {
		from := window
		for from < len(windows) && elapsed > windows[from].after*3/2 {
			from++
		}
		return outcomeOf{from: from, to: len(windows), next: len(windows)}
	}
	to := window
	for !first && to < len(windows) && elapsed >= windows[to].after {
		to++
	}
	return outcomeOf{from: window, to: to, next: to, ask: to == len(windows)}
}
