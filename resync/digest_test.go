package resync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/syncd-io/syncd"
)

func TestBitsFor(t *testing.T) {
	for rows, want := range map[int]int{0: 4, 4096: 4, 4097: 4, 16<<8 | 256: 5, 1_000_000: 12, 1 << 30: syncd.MaxDigestBits} {
		if got := bitsFor(rows); got != want {
			t.Errorf("%d rows: 2^%d buckets, want 2^%d", rows, got, want)
		}
	}
}

// TestEqualDigestMovesNoRow: a table in sync is proved without a page or a get, and all that a complete list concludes is
// concluded.
func TestEqualDigestMovesNoRow(t *testing.T) {
	s, c := pair(1000)
	got, err := once(t.Context(), runner(s, c), Options{Mode: Digest})
	if err != nil {
		t.Fatal(err)
	}
	if got.Mode != Digest || got.Rows != 1000 || got.Bytes != 50 || got.Note != "" || !got.Equal() || got.Verified != s.position() {
		t.Errorf("report %+v", *got)
	}
	if s.lists != 0 || len(s.gets) != 0 || len(c.done) != 1 || len(c.done[0].Snapshots) != 1 || c.done[0].Safe != s.lsn {
		t.Errorf("%d pages, %d gets; %+v", s.lists, len(s.gets), c.done)
	}
}

// TestOnlyWhatDiffersIsListed: each kind of difference is found, and of the other buckets no row moves.
func TestOnlyWhatDiffersIsListed(t *testing.T) {
	for kind, spoil := range map[string]func(*server, *cache){
		Corrupt: func(_ *server, c *cache) { h := c.rows[key(7)]; h.json = "corrupt"; c.rows[key(7)] = h },
		Missing: func(_ *server, c *cache) { delete(c.rows, key(7)) },
		Ghost:   func(s *server, c *cache) { s.commit(key(7), ""); c.apply(s.position()) },
		Stale:   func(s *server, c *cache) { s.commit(key(7), `{"id":7,"new":true}`); c.apply(s.position()) },
	} {
		t.Run(kind, func(t *testing.T) {
			s, c := pair(1000)
			spoil(s, c)
			before := c.content()
			r := runner(s, c)
			for _, dry := range []bool{true, false} {
				s.lists, s.sentRows = 0, 0
				got, err := once(t.Context(), r, Options{Mode: Digest, Dry: dry})
				if err != nil {
					t.Fatal(err)
				}
				if got.Mode != Digest || got.Differences() != 1 || got.Samples[0] != (Sample{"7", kind}) || !strings.Contains(got.Note, "1 of 16 hash buckets") {
					t.Errorf("report %+v", *got)
				}
				if s.since == nil || s.since.H != s.lsn {
					t.Errorf("pages were asked for since %+v, the digest is of %s", s.since, s.lsn)
				}
				if s.sentRows == 0 || s.sentRows > 120 {
					t.Errorf("%d rows were sent for a bucket of about 62", s.sentRows)
				}
				if dry && !maps.Equal(c.content(), before) {
					t.Error("a dry run changed the cache")
				}
			}
			if !maps.Equal(c.content(), s.rows) {
				t.Error("the cache is not what Postgres has")
			}
			if got, err := once(t.Context(), r, Options{Mode: Digest}); err != nil || got.Differences() != 0 || got.Note != "" {
				t.Errorf("afterwards: %+v, %v", got, err)
			}
		})
	}
}

// TestListedWhole: a table of which many buckets differ, or of which the cache can't compare digests, or that is listed for
// the first time.
func TestListedWhole(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*server, *cache)
		note string
	}{
		"many buckets differ": {func(_ *server, c *cache) {
			for i := range 100 {
				delete(c.rows, key(i))
			}
		}, "of 16 hash buckets differ"},
		"no digests to compare": {func(_ *server, c *cache) {
			c.onCompare = func(*syncd.Digest) error { return fmt.Errorf("the store keeps none: %w", ErrNoDigest) }
		}, "the store keeps none"},
		"the first list": {func(_ *server, c *cache) { c.state.Listed = false }, "first time"},
	} {
		t.Run(name, func(t *testing.T) {
			s, cache := pair(300)
			c.set(s, cache)
			got, err := once(t.Context(), runner(s, cache), Options{Mode: Digest})
			if err != nil || got.Mode != Full || !strings.Contains(got.Note, c.note) || s.sentRows != 300 || got.Rows != 300 {
				t.Errorf("%+v, %v; %d rows sent", got, err, s.sentRows)
			}
			if !maps.Equal(cache.content(), s.rows) {
				t.Error("the cache is not what Postgres has")
			}
		})
	}
}

// TestBadDigestsFailTheRun: nothing is concluded from one.
func TestBadDigestsFailTheRun(t *testing.T) {
	for name, spoil := range map[string]func(*server, *cache){
		"of another table":   func(s *server, _ *cache) { s.afterDigest = func(d *syncd.Digest) { d.Table.Name = "x" } },
		"cut off":            func(s *server, _ *cache) { s.afterDigest = func(d *syncd.Digest) { d.Buckets = d.Buckets[1:] } },
		"without a snapshot": func(s *server, _ *cache) { s.afterDigest = func(d *syncd.Digest) { d.Snapshot = nil } },
		"the source fails": func(s *server, _ *cache) {
			s.before = func(_ context.Context, q any) error {
				if _, ok := q.(syncd.DigestRequest); ok {
					return errors.New("connection reset")
				}
				return nil
			}
		},
		"the cache refuses it": func(_ *server, c *cache) {
			c.onCompare = func(*syncd.Digest) error { return errors.New("it is of another shape") }
		},
		"the list is of another shape": func(s *server, c *cache) {
			delete(c.rows, key(1))
			s.after = func(p *syncd.Page) *syncd.Page { p.Schema++; return p }
		},
		"the list is of another epoch": func(s *server, c *cache) {
			delete(c.rows, key(1))
			s.after = func(p *syncd.Page) *syncd.Page { p.Snapshot.Epoch++; return p }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := pair(100)
			spoil(s, c)
			got, err := once(t.Context(), runner(s, c), Options{Mode: Digest})
			if err == nil || got.Complete || len(c.done) > 0 {
				t.Errorf("%+v, %v, %d lists done", got, err, len(c.done))
			}
		})
	}
}

// TestPruneIsMeasuredByTheTable: a bucket that loses all its rows is no empty table; too many lost rows stop the run.
func TestPruneIsMeasuredByTheTable(t *testing.T) {
	s, c := pair(64)
	for k := range maps.Clone(s.rows) {
		if syncd.BucketOf(k.Hash(), minBits) < 2 {
			s.commit(k, "")
		}
	}
	c.apply(s.position())
	r := runner(s, c)
	r.MaxPrune = 0.01
	if got, err := once(t.Context(), r, Options{Mode: Digest}); !errors.Is(err, ErrStopped) || got.Ghost != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	r.MaxPrune = 0.5
	if got, err := once(t.Context(), r, Options{Mode: Digest}); err != nil || got.Mode != Digest || got.Ghost == 0 || !maps.Equal(c.content(), s.rows) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestBusyBucketsAreNoDifferences: what is written between the digest and its comparison is listed and judged, and counts
// for nothing.
func TestBusyBucketsAreNoDifferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, c := pair(400)
		written := rapid.SliceOfN(rapid.IntRange(0, 420), 0, 30).Draw(t, "written")
		write := func() {
			for _, i := range written {
				row := fmt.Sprintf(`{"id":%d,"at":%d}`, i, s.lsn)
				if i%5 == 0 {
					row = ""
				}
				c.apply(s.position(), s.commit(key(i), row))
			}
			c.apply(s.position())
		}
		c.onCompare = func(*syncd.Digest) error { write(); return nil }
		var log bytes.Buffer
		r := runner(s, c)
		r.Logger = slog.New(slog.NewTextHandler(&log, nil))
		for range 3 {
			got, err := once(t.Context(), r, Options{Mode: Digest})
			if err != nil || got.Differences() != 0 || !got.Complete {
				t.Fatalf("%+v, %v", got, err)
			}
			if !maps.Equal(c.content(), s.rows) {
				t.Fatal("the cache is not what Postgres has")
			}
		}
	})
}

// TestADigestThatNeverFits is told once it has happened twice, and is no reason for more runs or for repairs.
func TestADigestThatNeverFits(t *testing.T) {
	s, c := pair(500)
	s.afterDigest = func(d *syncd.Digest) { d.Buckets[3].Digest++ }
	var log bytes.Buffer
	r := runner(s, c)
	r.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r.init()
	for i := range 3 {
		one := r.newRun(job{table: users, mode: Digest})
		err := one.do(t.Context())
		r.release(one, nil, err)
		if err != nil || one.report.Differences() != 0 || !slices.Equal(one.odd, []int{3}) {
			t.Fatalf("%+v, %v, odd %v", one.report, err, one.odd)
		}
		if told := strings.Contains(log.String(), "level=ERROR"); told != (i > 0) {
			t.Errorf("after run %d: %s", i+1, log.String())
		}
	}
	for _, want := range []string{"public.users", "buckets=[3]", "of=16"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s: %s", want, log.String())
		}
	}
	s.afterDigest = nil
	log.Reset()
	for range 2 {
		one := r.newRun(job{table: users, mode: Digest})
		r.release(one, nil, one.do(t.Context()))
	}
	if strings.Contains(log.String(), "ERROR") {
		t.Errorf("afterwards: %s", log.String())
	}
}
