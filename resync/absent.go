package resync

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/syncd-io/syncd"
)

// maxKeys and maxKeyBytes bound what is asked for in one get.
const (
	maxKeys     = 1000
	maxKeyBytes = 128 << 10
)

// absent asks for the keys that the cache holds and the list did not return, and has the answers judged: each by its own
// snapshot, since a page never proves absence by itself. It stops before the first where too much would be deleted.
func (r *run) absent(ctx context.Context) error {
	sortHashes(r.seen, 64)
	sortHashes(r.unlike, 64)
	gap := gap{seen: r.seen, unlike: r.unlike, epoch: r.first.epoch, high: r.high, oldest: syncd.Oldest(r.snaps)}
	c, err := gap.count(rowsOf(r.cache, r.table, r.only))
	if err != nil {
		return err
	}
	if r.only != nil {
		c.rows = r.state.Rows
	}
	if err := r.brake(ctx, c); err != nil {
		return err
	}
	if c.lacking > 0 {
		if err := r.singles(ctx, gap.keys(rowsOf(r.cache, r.table, r.only))); err != nil {
			return err
		}
	}
	r.seen, r.unlike, r.singly = nil, nil, true
	return r.singles(ctx, func(yield func(syncd.Key, error) bool) {
		for _, k := range r.unclear {
			if !yield(k, nil) {
				return
			}
		}
	})
}

// brake stops a run that would delete more than it may: more than a share of the table's rows, or all there is because the
// list came back empty. A table that serves nothing yet is measured by the cache that it will take the place of.
func (r *run) brake(ctx context.Context, c counts) error {
	lacking, rows := c.due, c.rows
	if !r.state.Listed {
		lacking, rows = max(r.state.Served-int(r.sent.Rows), 0), r.state.Served
	}
	empty := r.report.Rows == 0 && lacking > 0
	if s, ok := stateOf(r.cache, r.table); ok && s.Changed {
		return nil // it is known why rows have gone
	}
	if r.dry || r.approve || !empty && float64(lacking) <= r.maxPrune*float64(rows) {
		return nil
	}
	why := fmt.Sprintf("the list lacks %d of the cache's %d rows, and max_prune lets a resync delete %d; nothing was deleted. "+
		"Where the rows are gone from Postgres for good, run: syncd resync %s --approve-prune", lacking, rows, int(r.maxPrune*float64(rows)), r.table)
	if empty {
		why = fmt.Sprintf("the list is empty and the cache holds %d rows; nothing was deleted. "+
			"Where the rows are gone from Postgres for good, run: syncd resync %s --approve-prune", rows, r.table)
	}
	if err := r.cache.Stop(r.table, why); err != nil {
		return fmt.Errorf("mark the table: %w", err)
	}
	return fmt.Errorf("%w: %s", ErrStopped, why)
}

// singles asks for keys in batches and has the answers judged.
func (r *run) singles(ctx context.Context, keys iter.Seq2[syncd.Key, error]) error {
	batch, size := make([]syncd.Key, 0, maxKeys), 0
	for k, err := range keys {
		if err != nil {
			return err
		}
		if len(batch) > 0 && (len(batch) == maxKeys || size+len(k) > maxKeyBytes) {
			if err := r.single(ctx, batch); err != nil {
				return err
			}
			batch, size = make([]syncd.Key, 0, maxKeys), 0
		}
		batch, size = append(batch, k), size+len(k)
	}
	if len(batch) == 0 {
		return nil
	}
	return r.single(ctx, batch)
}

func (r *run) single(ctx context.Context, keys []syncd.Key) error {
	p, err := patiently(ctx, func() (*syncd.Page, error) {
		return get(ctx, r.lister, syncd.GetRequest{Table: r.table, Keys: keys})
	})
	if err != nil {
		return err
	}
	if err := r.measure(p); err != nil {
		return err
	}
	return r.judge(ctx, p)
}

// get asks for keys and checks that the answer is to what was asked.
func get(ctx context.Context, l Lister, q syncd.GetRequest) (*syncd.Page, error) {
	p, err := l.Get(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("get %d keys: %w", len(q.Keys), &sourceError{err})
	}
	switch {
	case p.Table != q.Table:
		return nil, fmt.Errorf("get %d keys: got an answer of %s", len(q.Keys), p.Table)
	case p.Snapshot == nil:
		return nil, fmt.Errorf("get %d keys: got an answer without its snapshot", len(q.Keys))
	case !slices.Equal(p.Asked, q.Keys):
		return nil, fmt.Errorf("get %d keys: got the answer to another question", len(q.Keys))
	}
	asked := make(map[syncd.Key]bool, len(q.Keys))
	for _, k := range q.Keys {
		asked[k] = true
	}
	for _, row := range p.Rows {
		if !asked[row.Key] {
			return nil, fmt.Errorf("get %d keys: got a row that was not asked for, or twice", len(q.Keys))
		}
		delete(asked, row.Key)
	}
	return p, nil
}

// heldRow is an entry of the cache.
type heldRow struct {
	hash uint64
	key  syncd.Key
	held Held
}

// chunkEntries is how many entries are walked at a time.
const chunkEntries = 1024

// rowsOf gives the rows that a cache holds of a table in some hash buckets, in ascending order of their hash.
func rowsOf(c Cache, t syncd.Table, only *syncd.BucketSet) iter.Seq2[heldRow, error] {
	return func(yield func(heldRow, error) bool) {
		for row, err := range entriesOf(c, t, only) {
			if (err != nil || row.held.Row) && !yield(row, err) {
				return
			}
		}
	}
}

// entriesOf gives what a cache holds of a table in some hash buckets, tombstones too, in ascending order of the hash. It
// walks in chunks, so that the cache is not kept from its other work for long, and the cache may be called and may change
// between two entries.
func entriesOf(c Cache, t syncd.Table, only *syncd.BucketSet) iter.Seq2[heldRow, error] {
	return func(yield func(heldRow, error) bool) {
		if only == nil {
			walk(c, t, 0, math.MaxUint64, yield)
			return
		}
		for _, r := range only.Ranges {
			if first, last := only.Hashes(r); !walk(c, t, first, last, yield) {
				return
			}
		}
	}
}

// walk gives the entries from one hash to another, and says whether to go on.
func walk(c Cache, t syncd.Table, from, to uint64, yield func(heldRow, error) bool) bool {
	var chunk []heldRow
	for more := true; more; {
		chunk, more = chunk[:0], false
		err := c.Walk(t, from, func(k syncd.Key, h Held) bool {
			hash := k.Hash()
			if hash > to {
				return false
			}
			if n := len(chunk); n >= chunkEntries && hash != chunk[n-1].hash {
				from, more = hash, true
				return false
			}
			chunk = append(chunk, heldRow{hash, k, h})
			return true
		})
		if err != nil {
			yield(heldRow{}, fmt.Errorf("walk the cache: %w", err))
			return false
		}
		for _, row := range chunk {
			if !yield(row, nil) {
				return false
			}
		}
	}
	return true
}

// gap finds the rows of a cache that a list did not return.
type gap struct {
	seen   []uint64 // hashes of the listed keys, ascending
	unlike []uint64 // hashes of those that the cache does not hold, ascending
	epoch  syncd.Epoch
	high   syncd.LSN       // no page saw a commit behind it
	oldest *syncd.Snapshot // every page saw at least this; nil: not known
}

// counts are the outcome of a count: the rows the cache holds, those of them that the list did not return and that are
// worth asking for, and those among these that the list would have returned had they existed throughout.
type counts struct{ rows, lacking, due int }

var errOrder = errors.New("the cache's rows don't come in the order of their hash")

// groups gives the rows of each hash that the list returned fewer of than there are. Where several keys share a hash, it
// can't be told which of them were listed, so all of them are given; short is by how many the list falls short.
func (g *gap) groups(rows iter.Seq2[heldRow, error], fn func(group []heldRow, short int) bool) error {
	var group []heldRow
	seen, unlike := g.seen, g.unlike
	flush := func() bool {
		if len(group) == 0 {
			return true
		}
		var listed, not int
		listed, seen = countOf(seen, group[0].hash)
		not, unlike = countOf(unlike, group[0].hash)
		short := len(group) - (listed - not)
		return short <= 0 || fn(group, min(short, len(group)))
	}
	for row, err := range rows {
		if err != nil {
			return err
		}
		if len(group) > 0 && row.hash != group[0].hash {
			if row.hash < group[0].hash {
				return errOrder
			}
			if !flush() {
				return nil
			}
			group = group[:0]
		}
		group = append(group, row)
	}
	flush()
	return nil
}

// countOf counts h at the front of sorted and gives what lies behind it.
func countOf(sorted []uint64, h uint64) (int, []uint64) {
	i := 0
	for i < len(sorted) && sorted[i] < h {
		i++
	}
	n := i
	for n < len(sorted) && sorted[n] == h {
		n++
	}
	return n - i, sorted[n:]
}

func (g *gap) count(rows iter.Seq2[heldRow, error]) (c counts, err error) {
	err = g.groups(func(yield func(heldRow, error) bool) {
		for row, err := range rows {
			c.rows++
			if !yield(row, err) {
				return
			}
		}
	}, func(group []heldRow, short int) bool {
		lacking, due := 0, 0
		for _, row := range group {
			if g.worth(row.held) {
				lacking++
			}
			if g.due(row.held) {
				due++
			}
		}
		c.lacking += lacking
		c.due += min(due, short)
		return true
	})
	return c, err
}

// keys gives the keys that are worth asking for.
func (g *gap) keys(rows iter.Seq2[heldRow, error]) iter.Seq2[syncd.Key, error] {
	return func(yield func(syncd.Key, error) bool) {
		err := g.groups(rows, func(group []heldRow, _ int) bool {
			for _, row := range group {
				if g.worth(row.held) && !yield(row.key, nil) {
					return false
				}
			}
			return true
		})
		if err != nil {
			yield("", err)
		}
	}
}

// worth says whether it means anything that a list lacks an entry: not where a delta set it that no page could see.
func (g *gap) worth(h Held) bool {
	return h.Snap != nil || h.Version.Epoch != g.epoch || h.Version.LSN <= g.high
}

// due says whether each page's snapshot sees what set the entry, so that the list lacks it only if it was deleted since.
func (g *gap) due(h Held) bool {
	switch {
	case !g.worth(h):
		return false
	case g.oldest == nil || h.Version.Epoch < g.oldest.Epoch:
		return true
	case h.Snap != nil:
		return g.oldest.Later(h.Snap)
	}
	return g.oldest.Visible(h.XID, h.Version.LSN) != syncd.Invisible
}
