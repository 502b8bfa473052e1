package sink

import (
	"errors"
	"fmt"
	"slices"

	"github.com/syncd-io/syncd"
)

// ErrNoDigest says that a table's digest proves nothing here: the store keeps none, it is of another form, or the table was
// never listed or holds entries of an older epoch. List the whole table.
var ErrNoDigest = errors.New("digests can't be compared")

// Comparison is what a digest says of a table.
type Comparison struct {
	// Unequal are the buckets that have to be listed, ascending: those whose rows or their sum differ, and those of open keys.
	Unequal []int
	// Held are the cache's own totals.
	Held []syncd.Totals
}

// Compare compares a digest with the table as one commit of the cache holds it, which stays as it is. A digest is accepted
// as a page is, and like a page's, its snapshot can then stand in a List: what is equal was compared.
//
// Why an equal bucket counts as listed: each of its rows was read in one page of the digest, at that page's snapshot S, and
// the cache, which has passed every page's H, holds the same rows, no more and no fewer. Had the page itself come here, the
// gate would have compared each row with an entry of the same content. It changes an entry only where what was listed is
// newer and different; here nothing is different, so whatever the order of the two is, and even if it can't be told, the
// page would have left the entry alone. And no key of the bucket that the cache holds is missing from the pages, so none
// would have been asked for singly. So the rows need not be sent, whatever was written while the digest was made: a key
// that a page shows in an older state than the cache makes its bucket unequal, never equal. Such busy buckets are listed,
// and the gate lets the newer entry stand; an unequal digest itself is never counted as a difference.
//
// Three things would not have been left alone by a page, and are left to one: an open key may be settled, so its bucket
// is listed; an entry of an older epoch is replaced even by its like; and a table that was never listed has nothing to rest
// on: these two are ErrNoDigest. What a complete list concludes of the whole (floor, loss, cause, verified) rests on
// the oldest snapshot and the least Safe of all that was read, which the digest has.
func (c *Cache) Compare(d *syncd.Digest, how How) (_ *Comparison, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.heed(&err)
	t, err := c.accept(&syncd.Page{Table: d.Table, Selector: d.Selector, Schema: d.Schema, System: d.System, Timeline: d.Timeline, Snapshot: d.Snapshot}, how)
	if err != nil {
		return nil, fmt.Errorf("digest: %w", err)
	}
	store, ok := c.current().Store.(Digester)
	switch {
	case !ok:
		return nil, fmt.Errorf("the store keeps no digests: %w", ErrNoDigest)
	case d.Form != syncd.DigestForm:
		return nil, fmt.Errorf("the source's digests have form %d, these have %d: %w", d.Form, syncd.DigestForm, ErrNoDigest)
	case d.Bits < 0 || d.Bits > syncd.MaxDigestBits || len(d.Buckets) != 1<<d.Bits:
		return nil, fmt.Errorf("digest of %s: it has %d buckets and says 2^%d: %w", d.Table, len(d.Buckets), d.Bits, ErrDiscard)
	case !t.Listed:
		return nil, fmt.Errorf("%s was not listed yet: %w", d.Table, ErrNoDigest)
	}
	held, oldest, err := store.Digest(d.Table, d.Bits)
	if err != nil {
		return nil, fmt.Errorf("digest of %s: %w", d.Table, err)
	}
	if oldest != 0 && oldest < d.Snapshot.Epoch {
		return nil, fmt.Errorf("%s holds entries of epoch %d: %w", d.Table, oldest, ErrNoDigest)
	}
	out := &Comparison{Held: held}
	for b := range held {
		if held[b] != d.Buckets[b] {
			out.Unequal = append(out.Unequal, b)
		}
	}
	for k := range t.Open {
		out.Unequal = append(out.Unequal, syncd.BucketOf(k.Hash(), d.Bits))
	}
	slices.Sort(out.Unequal)
	out.Unequal = slices.Compact(out.Unequal)
	c.judged.add(d.Table, d.Snapshot)
	return out, nil
}

// Digest gives the totals of 2^bits hash buckets of a table, as the newest generation holds it. The error wraps ErrNoDigest
// where its store keeps none.
func (c *Cache) Digest(t syncd.Table, bits int) (_ []syncd.Totals, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.heed(&err)
	store, ok := c.current().Store.(Digester)
	if !ok {
		return nil, fmt.Errorf("the store keeps no digests: %w", ErrNoDigest)
	}
	held, _, err := store.Digest(t, bits)
	return held, err
}
