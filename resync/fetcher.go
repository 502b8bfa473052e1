package resync

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/syncd-io/syncd"
)

// FetchCache is what a Fetcher needs of a cache, beside what a Runner does.
type FetchCache interface {
	Cache
	// Open calls fn for each open key of a table (undecided, to be fetched, parked), in no order, until fn gives false.
	// fn must be quick and must not call the cache.
	Open(t syncd.Table, fn func(syncd.Key) bool)
}

// Fetcher asks the source for the keys that the cache has marked open, and has the answers judged once the stream has
// passed their H. A key that an answer leaves open (it did not see the change in question yet) is asked for again, later
// each time. Its methods are called by one goroutine.
type Fetcher struct {
	Lister Lister
	Cache  FetchCache
	// Marks is asked for a marker where an answer waits for the stream; nil: the markers of an idle source must do.
	Marks Marks
	// MinBackoff and MaxBackoff bound the wait before a key that stayed open is asked for again, and before a table is
	// asked about again after an error. Defaults: 50 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// Patience is how long an answer waits for the stream to move before it is thrown away; default 10 s.
	Patience time.Duration
	Observer Observer
	// Logger gets a line for each error; nil means quiet.
	Logger *slog.Logger

	once   sync.Once
	tables map[syncd.Table]*openTable
}

// openTable is what the Fetcher remembers of a table with open keys.
type openTable struct {
	keys     map[syncd.Key]attempt
	next     time.Time // not before, after an error
	failures int
}

// attempt is how often a key was asked for, and when it is to be asked for next.
type attempt struct {
	n    int
	next time.Time
}

func (f *Fetcher) init() {
	f.once.Do(func() {
		f.MinBackoff = cmp.Or(f.MinBackoff, 50*time.Millisecond)
		f.MaxBackoff = cmp.Or(f.MaxBackoff, 30*time.Second)
		f.Patience = cmp.Or(f.Patience, 10*time.Second)
		if f.Observer == nil {
			f.Observer = quiet{}
		}
		if f.Logger == nil {
			f.Logger = slog.New(slog.DiscardHandler)
		}
		f.tables = map[syncd.Table]*openTable{}
	})
}

// Run fetches open keys until ctx ends, and returns its error. What can't be fetched is tried again, so nothing else ends it.
func (f *Fetcher) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		changed, start := f.Cache.Changed(), time.Now()
		did, wake := f.Step(ctx)
		if did {
			continue
		}
		// A cache changes with each commit; looking at its open keys must not take more than a tenth of the time.
		pause := max(10*time.Since(start), 2*time.Millisecond)
		if err := sleep(ctx, wake, changed); err != nil {
			return err
		}
		if err := sleep(ctx, time.Now().Add(pause)); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// Step asks for the keys of one table that are due and has the answer judged. Where none are due it returns did false,
// and when the next are; zero: none are open.
func (f *Fetcher) Step(ctx context.Context) (did bool, wake time.Time) {
	f.init()
	t, keys, wake := f.due(time.Now())
	if len(keys) == 0 {
		return false, wake
	}
	err := f.fetch(ctx, t, keys)
	if ctx.Err() != nil {
		return true, time.Time{}
	}
	o := f.tables[t]
	if err != nil {
		o.failures++
		o.next = time.Now().Add(f.backoff(o.failures))
		if away := (*sourceError)(nil); errors.As(err, &away) {
			f.Observer.Away(t, err)
		}
		f.Logger.Warn("fetch open keys; they are asked for again", "table", t, "keys", len(keys), "error", err)
		return true, time.Time{}
	}
	o.failures, o.next = 0, time.Time{}
	f.settle(t, keys)
	return true, time.Time{}
}

// due gives the keys of the table that has waited longest, the longest due first, as many as one get may hold.
func (f *Fetcher) due(now time.Time) (table syncd.Table, keys []syncd.Key, wake time.Time) {
	f.refresh()
	first := time.Time{}
	for t, o := range f.tables {
		at := o.earliest()
		if at.Before(o.next) {
			at = o.next
		}
		switch {
		case at.After(now):
			if wake.IsZero() || at.Before(wake) {
				wake = at
			}
		case table == (syncd.Table{}) || at.Before(first):
			table, first = t, at
		}
	}
	if table == (syncd.Table{}) {
		return table, nil, wake
	}
	return table, f.tables[table].batch(now), time.Time{}
}

// refresh takes over which keys are open.
func (f *Fetcher) refresh() {
	open := map[syncd.Table]bool{}
	for _, s := range f.Cache.States() {
		if s.Open == 0 || s.Refused != "" {
			continue
		}
		old := f.tables[s.Table]
		if old == nil {
			old = &openTable{}
		}
		keys := make(map[syncd.Key]attempt, s.Open)
		f.Cache.Open(s.Table, func(k syncd.Key) bool {
			keys[k] = old.keys[k]
			return true
		})
		if old.keys = keys; len(keys) > 0 {
			f.tables[s.Table], open[s.Table] = old, true
		}
	}
	for t := range f.tables {
		if !open[t] {
			delete(f.tables, t)
		}
	}
}

func (o *openTable) earliest() (at time.Time) {
	first := true
	for _, a := range o.keys {
		if first || a.next.Before(at) {
			at, first = a.next, false
		}
	}
	return at
}

func (o *openTable) batch(now time.Time) []syncd.Key {
	var keys []syncd.Key
	for k, a := range o.keys {
		if !a.next.After(now) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b syncd.Key) int {
		return cmp.Or(o.keys[a].next.Compare(o.keys[b].next), cmp.Compare(a, b))
	})
	size := 0
	for i, k := range keys {
		if size += len(k); i > 0 && (i == maxKeys || size > maxKeyBytes) {
			return slices.Clip(keys[:i])
		}
	}
	return keys
}

// fetch asks for keys, holds the answer until the stream has passed its H, and has it judged. An answer that the stream
// does not reach is thrown away.
func (f *Fetcher) fetch(ctx context.Context, t syncd.Table, keys []syncd.Key) error {
	p, err := get(ctx, f.Lister, syncd.GetRequest{Table: t, Keys: keys})
	if err != nil {
		return err
	}
	w := wait{cache: f.Cache, marks: f.Marks, patience: f.Patience, log: f.Logger}
	if err := w.reach(ctx, p.Snapshot); err != nil {
		return err
	}
	_, err = f.Cache.Judge(p, How{})
	return err
}

// settle takes note of which keys an answer left open.
func (f *Fetcher) settle(t syncd.Table, keys []syncd.Key) {
	asked := make(map[syncd.Key]bool, len(keys))
	for _, k := range keys {
		asked[k] = true
	}
	o, now, left := f.tables[t], time.Now(), 0
	f.Cache.Open(t, func(k syncd.Key) bool {
		if asked[k] {
			a := o.keys[k]
			o.keys[k] = attempt{a.n + 1, now.Add(f.backoff(a.n + 1))}
			left++
		}
		return true
	})
	f.Observer.Fetched(t, len(keys), len(keys)-left)
}

func (f *Fetcher) backoff(n int) time.Duration {
	d := f.MinBackoff
	for ; n > 1 && d < f.MaxBackoff; n-- {
		d *= 2
	}
	return min(d, f.MaxBackoff)
}
