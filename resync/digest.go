package resync

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/syncd-io/syncd"
)

// ErrNoDigest says that a cache can't compare digests of a table now; it has to be listed whole. The words say why.
var ErrNoDigest = errors.New("digests can't be compared")

// Comparison is what a digest says of a table in a cache.
type Comparison struct {
	// Unequal are the buckets that have to be listed, ascending: those that differ, and those of open keys.
	Unequal []int
	// Held are the cache's own totals.
	Held []syncd.Totals
}

const (
	// bucketRows is about how many rows a hash bucket has, minBits and syncd.MaxDigestBits permitting.
	bucketRows = 256
	minBits    = 4
	// fullShare is the divisor of the share of all buckets from which on the whole table is listed.
	fullShare = 3
)

// bitsFor chooses the number of buckets for a table of so many rows.
func bitsFor(rows int) int {
	bits := minBits
	for bits < syncd.MaxDigestBits && rows>>bits > bucketRows {
		bits++
	}
	return bits
}

// digested is what the first half of a run by digest has found.
type digested struct {
	digest  *syncd.Digest
	held    []syncd.Totals
	quiet   map[int]bool // unequal buckets in which the cache holds nothing that the digest might not have seen
	differs map[int]bool // buckets in which the list has found a difference
	listed  []syncd.Totals
}

// compareDigest compares digests. Afterwards only says what is to be listed; nil: the whole table.
func (r *run) compareDigest(ctx context.Context) error {
	if !r.state.Listed {
		r.report.note("the table is listed for the first time: every row was taken")
		return nil
	}
	d, err := r.lister.Digest(ctx, syncd.DigestRequest{Table: r.table, Bits: bitsFor(r.state.Rows), Since: r.state.Floor})
	if err != nil {
		return &sourceError{err}
	}
	if d.Table != r.table || len(d.Buckets) != 1<<d.Bits {
		return fmt.Errorf("got a digest of %s in %d buckets", d.Table, len(d.Buckets))
	}
	page := &syncd.Page{Table: d.Table, Selector: d.Selector, Schema: d.Schema, System: d.System, Timeline: d.Timeline, Snapshot: d.Snapshot, Safe: d.Safe, Bytes: d.Bytes}
	if err := r.measure(page); err != nil {
		return err
	}
	early, err := r.hold(ctx, d.Snapshot)
	if err != nil {
		return err
	}
	c, err := r.cache.Compare(d, How{Dry: r.dry, Early: early})
	if errors.Is(err, ErrNoDigest) {
		r.whole("%v: every row was compared", err)
		return nil
	}
	if err != nil {
		return err
	}
	if len(c.Unequal)*fullShare > len(d.Buckets) {
		r.whole("%d of %d hash buckets differ or are being written to: every row was compared", len(c.Unequal), len(d.Buckets))
		return nil
	}
	return r.narrow(d, c)
}

// whole has the whole table listed, and forgets the digest.
func (r *run) whole(why string, args ...any) {
	r.report.note(why, args...)
	r.first, r.safe, r.high = nil, 0, 0
}

// narrow has only those buckets listed that differ. The others are proved.
func (r *run) narrow(d *syncd.Digest, c *Comparison) error {
	r.report.Mode, r.report.Rows = Digest, d.Rows()
	r.only = syncd.NewBucketSet(d.Bits, c.Unequal)
	r.proof = []*syncd.Snapshot{d.Snapshot}
	r.digested = &digested{digest: d, held: c.Held, quiet: map[int]bool{}, differs: map[int]bool{}, listed: make([]syncd.Totals, len(d.Buckets))}
	if len(c.Unequal) == 0 {
		return nil
	}
	r.report.note("%d of %d hash buckets were listed", len(c.Unequal), len(d.Buckets))
	for _, b := range c.Unequal {
		r.digested.quiet[b] = d.Buckets[b] != c.Held[b]
	}
	for e, err := range entriesOf(r.cache, r.table, r.only) {
		if err != nil {
			return err
		}
		if !saw(d.Snapshot, e.held) {
			r.digested.quiet[syncd.BucketOf(e.hash, d.Bits)] = false
		}
	}
	return nil
}

// saw says whether a snapshot proves to have seen what set an entry.
func saw(s *syncd.Snapshot, h Held) bool {
	switch {
	case h.Version.Epoch != s.Epoch:
		return false
	case h.Snap != nil:
		return s.Later(h.Snap)
	}
	return s.Visible(h.XID, h.Version.LSN) == syncd.Visible
}

// unexplained gives the buckets whose digest was unequal though there was nothing to differ by: the cache holds nothing in
// them that the digest had not seen, their rows as they were listed equal the cache's, and the cache's have not changed
// meanwhile. It happens by chance where a row was changed and changed back between the two. Twice in a row it means that the
// source prints a row otherwise for a digest than for a list, or that the cache's digests are not those of its rows.
func (r *run) unexplained() ([]int, error) {
	if r.only == nil || r.early || r.only.Len() == 0 {
		return nil, nil
	}
	g := r.digested
	now, err := r.cache.Digest(r.table, g.digest.Bits)
	if err != nil {
		return nil, fmt.Errorf("digest the cache: %w", err)
	}
	var all []int
	for b, quiet := range g.quiet {
		if quiet && !g.differs[b] && now[b] == g.held[b] && g.listed[b] == g.held[b] {
			all = append(all, b)
		}
	}
	slices.Sort(all)
	return all, nil
}

// again gives the buckets of this run that were unexplained, and were so in the run before.
func (m *memory) again(bits int, now []int) (both []int) {
	if bits == m.unexplainedBits {
		for _, b := range now {
			if slices.Contains(m.unexplained, b) {
				both = append(both, b)
			}
		}
	}
	m.unexplainedBits, m.unexplained = bits, now
	return both
}
