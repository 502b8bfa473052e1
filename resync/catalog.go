package resync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/syncd-io/syncd"
)

// TableSet is a cache's set of tables.
type TableSet interface {
	// SetTables says which tables the cache is to keep, and their shapes. A table that is not among them loses its rows.
	SetTables(infos []syncd.TableInfo) error
}

// Catalog keeps a cache's tables and their shapes to what the source syncs.
type Catalog struct {
	Lister Lister
	Cache  TableSet
	// Every is the time between two looks; default 10 s. A run looks too, before it begins.
	Every time.Duration
	// MinBackoff and MaxBackoff bound the wait after an error, which doubles. Defaults: 50 ms and 10 s.
	MinBackoff, MaxBackoff time.Duration
	// Logger gets a line when the source can't be asked, and when it can again; nil means quiet.
	Logger *slog.Logger

	step      sync.Mutex // held by a look, so that an older answer does not come after a newer
	mu        sync.Mutex
	wanted    []syncd.Table // nil: all of the source's
	selectors map[syncd.Table]string
}

// Want says which tables are kept, from the next look on; nil: all that the source syncs.
func (c *Catalog) Want(tables []syncd.Table) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = slices.Clone(tables)
}

// Select says which rows of tables are kept, from the next look on, in the form of syncd.ParseSelector; of tables that are
// not named, all. A table whose selector does not fit its columns is refused.
func (c *Catalog) Select(selectors map[syncd.Table]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.selectors = maps.Clone(selectors)
}

// errNoTables says that a source syncs nothing: no reason to throw a cache away.
var errNoTables = errors.New("the source names no tables")

// Step asks the source for its tables and hands those that are wanted to the cache. It may be called from several
// goroutines.
func (c *Catalog) Step(ctx context.Context) error {
	c.step.Lock()
	defer c.step.Unlock()
	infos, err := c.Lister.Tables(ctx)
	if err == nil && len(infos) == 0 {
		err = errNoTables
	}
	if err != nil {
		return fmt.Errorf("ask the source for its tables: %w", &sourceError{err})
	}
	c.mu.Lock()
	wanted, selectors := c.wanted, c.selectors
	c.mu.Unlock()
	return c.Cache.SetTables(selected(choose(infos, wanted), selectors))
}

// selected gives the tables with their selectors, in their own words.
func selected(infos []syncd.TableInfo, selectors map[syncd.Table]string) []syncd.TableInfo {
	if len(selectors) == 0 {
		return infos
	}
	all := slices.Clone(infos)
	for i := range all {
		info := &all[i]
		text := selectors[info.Table]
		if text == "" || info.Error != "" {
			continue
		}
		f, err := syncd.ParseSelector(*info, text)
		if err != nil {
			*info = syncd.TableInfo{Table: info.Table, Error: fmt.Sprintf("its selector %q can't be used: %v; mend sidecar.tables[].selector", text, err)}
			continue
		}
		info.Selector = f.String()
	}
	return all
}

// choose gives the tables that are wanted. One that the source does not sync is refused, so that somebody sees it.
func choose(infos []syncd.TableInfo, wanted []syncd.Table) []syncd.TableInfo {
	if wanted == nil {
		return infos
	}
	all := make([]syncd.TableInfo, 0, len(wanted))
	for _, t := range wanted {
		i := slices.IndexFunc(infos, func(info syncd.TableInfo) bool { return info.Table == t })
		if i < 0 {
			all = append(all, syncd.TableInfo{Table: t, Error: "the source does not sync it: add it to the source's tables"})
			continue
		}
		all = append(all, infos[i])
	}
	return all
}

// notable is how many failures in a row are worth a line: a source that starts beside the cache takes a moment.
const notable = 5

// Run looks at once, then every so often, until ctx ends, and returns its error. Errors are tried again.
func (c *Catalog) Run(ctx context.Context) error {
	log := c.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	every, low, high := cmp.Or(c.Every, 10*time.Second), cmp.Or(c.MinBackoff, 50*time.Millisecond), cmp.Or(c.MaxBackoff, 10*time.Second)
	for failures := 0; ; {
		err := c.Step(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		wait := every
		switch {
		case err != nil:
			wait = min(low<<min(failures, 20), high)
			if failures++; failures == notable {
				log.Warn("the source can't be asked for its tables; it is asked again", "error", err)
			}
		case failures >= notable:
			log.Info("the source answers", "failures", failures)
			failures = 0
		default:
			failures = 0
		}
		if err := sleep(ctx, time.Now().Add(wait)); err != nil {
			return err
		}
	}
}
