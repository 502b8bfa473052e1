package e2e

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
)

// patience is how long a wait may last before its test fails: long, since it says that something hangs or is wrong for
// good, never that something is slow.
const patience = harness.HangGuard

// eventually waits until holds gives nil, and fails the test with its last error when patience is over.
func (f *fleet) eventually(what string, holds func() error) {
	f.t.Helper()
	guard := time.After(patience)
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-f.t.Context().Done():
			f.t.Fatalf("waiting for %s: %v: %v", what, f.t.Context().Err(), err)
		case <-guard:
			f.t.Fatalf("waiting for %s: not after %v: %v", what, patience, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// converges waits until each cache holds what Postgres does, all of it settled: nothing is open, nothing to be listed, and
// the cache has passed the server's log as it is now. Nobody asks for a resync: what the stream does not tell, syncd has to
// notice by itself.
func (f *fleet) converges(caches ...*cache) {
	f.t.Helper()
	for _, c := range caches {
		f.eventually("cache "+c.name+" to equal Postgres", c.equals)
	}
}

// equals says what a cache holds otherwise than Postgres does, or what it still has under way.
func (c *cache) equals() error {
	wants, lsn, err := c.f.wants()
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(wants, func(w want) bool { return w.refused == nil }); i >= 0 {
		if err := c.reach(wants[i].table, lsn); err != nil {
			return err
		}
	}
	states, err := c.tables()
	if err != nil {
		return err
	}
	var wrong []error
	for _, w := range wants {
		s, ok := states[w.table]
		delete(states, w.table)
		if !ok {
			wrong = append(wrong, fmt.Errorf("%s: the cache does not know it", w.table))
			continue
		}
		if err := c.compare(&w, &s, lsn); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", w.table, err))
		}
		if len(wrong) == 5 {
			break
		}
	}
	for t := range states {
		if len(wrong) == 0 {
			wrong = append(wrong, fmt.Errorf("%s: the cache has it, and nobody configured it", t))
		}
	}
	return errors.Join(wrong...)
}

func (c *cache) compare(w *want, s *tableState, lsn syncd.LSN) error {
	if w.refused != nil {
		if !strings.Contains(s.Error, w.table.String()) || !w.refused.MatchString(s.Error) || s.Ready || s.Rows != 0 {
			return fmt.Errorf("it has to be refused with %q; ready %v, %d rows, error %q", w.refused, s.Ready, s.Rows, s.Error)
		}
		return nil
	}
	if err := s.settled(lsn); err != nil {
		return err
	}
	rows, _, err := c.rows(w.table)
	if err != nil {
		return err
	}
	if err := sameRows(rows, w.rows); err != nil {
		return err
	}
	return c.sameKeys(w)
}

// sameRows compares rows without their keys.
func sameRows(got []string, want map[syncd.Key]string) error {
	wanted := slices.Sorted(maps.Values(want))
	got = slices.Sorted(slices.Values(got))
	if slices.Equal(got, wanted) {
		return nil
	}
	surplus := slices.DeleteFunc(slices.Clone(got), func(r string) bool { _, ok := slices.BinarySearch(wanted, r); return ok })
	lacking := slices.DeleteFunc(slices.Clone(wanted), func(r string) bool { _, ok := slices.BinarySearch(got, r); return ok })
	return fmt.Errorf("%d rows, want %d; too many: %s; missing: %s", len(got), len(wanted), some(surplus), some(lacking))
}

// some gives the first of texts, cut to a length that people read.
func some(texts []string) string {
	const most, longest = 4, 300
	more := ""
	if len(texts) > most {
		more = fmt.Sprintf(" and %d more", len(texts)-most)
		texts = texts[:most]
	}
	cut := make([]string, len(texts))
	for i, s := range texts {
		if len(s) > longest {
			s = s[:longest] + "…"
		}
		cut[i] = s
	}
	return fmt.Sprintf("%q%s", cut, more)
}

// keysAsked is how many keys of a table are read one by one.
const keysAsked = 100

// sameKeys reads keys one by one, of large tables some.
func (c *cache) sameKeys(w *want) error {
	keys := slices.Sorted(maps.Keys(w.rows))
	step := max(len(keys)/keysAsked, 1)
	for i := 0; i < len(keys); i += step {
		row, err := c.row(w.table, keys[i])
		if err != nil {
			return err
		}
		if row != w.rows[keys[i]] {
			return fmt.Errorf("key %s has the row %q, want %q", keys[i], row, w.rows[keys[i]])
		}
	}
	return nil
}

// resyncFindsNothing lists tables anew, at most so many, and wants no row to differ: what was pushed and what is listed
// have one form. The source may be away for a moment.
func (c *cache) resyncFindsNothing(most int) {
	c.f.t.Helper()
	wants, _, err := c.f.wants()
	if err != nil {
		c.f.t.Fatal(err)
	}
	for _, w := range wants {
		if w.refused != nil || most == 0 {
			continue
		}
		most--
		c.f.eventually("a resync of "+w.table.String(), func() error {
			r, err := c.resync(w.table)
			if err == nil && (!r.Equal() || !r.Complete) {
				c.f.t.Errorf("a resync of %s after the cache has settled found %+v", w.table, r)
			}
			return err
		})
	}
}
