package redis

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink/remote"
)

// markOf reads the mark out of HMGET state gen seq nonce.
func markOf(c *redis.SliceCmd) (remote.Mark, error) {
	f, err := c.Result()
	if err != nil {
		return remote.Mark{}, err
	}
	gen, _ := f[0].(string)
	text, _ := f[1].(string)
	nonce, _ := f[2].(string)
	seq, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return remote.Mark{}, nil // there is none
	}
	return remote.Mark{Gen: gen, Seq: seq, Nonce: nonce}, nil
}

func (p *place) askMark(ctx context.Context, pipe redis.Pipeliner) *redis.SliceCmd {
	return pipe.HMGet(ctx, p.meta+"state", "gen", "seq", "nonce")
}

// Fetch implements remote.Place: all in one transaction of Redis.
func (p *place) Fetch(ctx context.Context, t syncd.Table, keys []syncd.Key) ([]remote.Found, remote.Mark, error) {
	pipe := p.rdb.TxPipeline()
	at := p.askMark(ctx, pipe)
	entries, begin := p.entries(t), p.keys.table(t)
	must := []redis.Cmder{at}
	held := make([]*redis.SliceCmd, 0, len(keys))
	order := make([]int, len(keys)) // the keys' numbers, by bucket
	for i := range order {
		order[i] = i
	}
	buckets := make([]int, len(keys))
	for i, k := range keys {
		buckets[i] = syncd.BucketOf(k.Hash(), bucketBits)
	}
	slices.SortStableFunc(order, func(a, b int) int { return buckets[a] - buckets[b] })
	for run := range runs(order, buckets) {
		fields := make([]string, len(run))
		for j, i := range run {
			fields[j] = string(keys[i])
		}
		c := pipe.HMGet(ctx, bucket(entries, keys[run[0]]), fields...)
		held, must = append(held, c), append(must, c)
	}
	rows := p.askRows(ctx, pipe, begin, keys)
	if err := exec(ctx, pipe, must...); err != nil {
		return nil, remote.Mark{}, p.say("read "+t.String(), err)
	}
	mark, err := markOf(at)
	if err != nil {
		return nil, mark, p.say("read "+t.String(), err)
	}
	found := make([]remote.Found, len(keys))
	n := 0
	for run := range runs(order, buckets) {
		for j, i := range run {
			text, ok := held[n].Val()[j].(string)
			if !ok {
				continue
			}
			found[i] = found1(text, func(form string) []byte { return rows.row(i, form) })
		}
		n++
	}
	return found, mark, nil
}

// runs gives the stretches of order that have one bucket.
func runs(order, buckets []int) func(func([]int) bool) {
	return func(yield func([]int) bool) {
		for len(order) > 0 {
			n := 1
			for n < len(order) && buckets[order[n]] == buckets[order[0]] {
				n++
			}
			if !yield(order[:n]) {
				return
			}
			order = order[n:]
		}
	}
}

// found1 puts an entry and its row together. An entry that can't be read was overwritten by somebody: there is none, and the
// next list brings it back.
func found1(text string, row func(form string) []byte) remote.Found {
	e, err := remote.ParseHead([]byte(text))
	if err != nil {
		return remote.Found{}
	}
	f := remote.Found{Entry: e.Entry, Held: true, Counted: e.HasRow}
	if e.HasRow {
		f.Row = row(e.Form)
	}
	return f
}

// exec makes a transaction of reads. A row whose key holds a value of another kind is no error: it is gone.
func exec(ctx context.Context, pipe redis.Pipeliner, must ...redis.Cmder) error {
	_, err := pipe.Exec(ctx)
	if _, answered := errors.AsType[redis.Error](err); !answered {
		return err
	}
	for _, c := range must {
		if err := c.Err(); err != nil {
			return err
		}
	}
	return nil
}

// rows are the rows of some keys, as they were answered.
type rows struct {
	place  *place
	texts  *redis.SliceCmd
	hashes []*redis.MapStringStringCmd
}

func (p *place) askRows(ctx context.Context, pipe redis.Pipeliner, begin string, keys []syncd.Key) rows {
	r := rows{place: p}
	if len(keys) == 0 {
		return r
	}
	if p.values == Hash {
		for _, k := range keys {
			r.hashes = append(r.hashes, pipe.HGetAll(ctx, p.keys.row(begin, k)))
		}
		return r
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = p.keys.row(begin, k)
	}
	r.texts = pipe.MGet(ctx, names...)
	return r
}

// row gives the row of key i; nil where it is gone.
func (r *rows) row(i int, form string) []byte {
	if r.hashes != nil {
		fields, err := r.hashes[i].Result()
		if err != nil {
			return nil // a value of another kind
		}
		return join(form, fields)
	}
	if text, ok := r.texts.Val()[i].(string); ok && form == "" {
		return []byte(text)
	}
	return nil
}

// density remembers how many entries a hash of a table held on average, and how large their rows were.
type density struct {
	mu  sync.Mutex
	per map[syncd.Table]struct{ entries, bytes int } // of one hash
}

// What a stretch of a scan should have at most, as far as that can be told beforehand.
const (
	stretchEntries = 8000
	stretchBytes   = 8 << 20
)

// hashes says how many hashes are to be read at a time.
func (d *density) hashes(t syncd.Table) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	was, ok := d.per[t]
	if !ok {
		return 32
	}
	return max(1, min(1<<bucketBits, stretchEntries/max(was.entries, 1), stretchBytes/max(was.bytes, 1)))
}

func (d *density) saw(t syncd.Table, hashes, entries, bytes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.per == nil {
		d.per = map[syncd.Table]struct{ entries, bytes int }{}
	}
	d.per[t] = struct{ entries, bytes int }{entries/hashes + 1, bytes/hashes + 1}
}

// Scan implements remote.Place. Entries and rows are read one after the other, so both answers' marks are to fit; the later
// one is given.
func (p *place) Scan(ctx context.Context, t syncd.Table, from uint64) (s remote.Stretch, m remote.Mark, err error) {
	first := syncd.BucketOf(from, bucketBits)
	n := min(p.density.hashes(t), 1<<bucketBits-first)
	entries, mark, err := p.scanEntries(ctx, t, first, n)
	if err != nil {
		return s, mark, p.say("read "+t.String(), err)
	}
	keys := make([]syncd.Key, 0, len(entries))
	hashes := make(map[syncd.Key]uint64, len(entries))
	for k := range entries {
		if h := k.Hash(); h >= from {
			keys = append(keys, k)
			hashes[k] = h
		}
	}
	slices.SortFunc(keys, func(a, b syncd.Key) int {
		return cmp.Or(cmp.Compare(hashes[a], hashes[b]), cmp.Compare(a, b))
	})
	if next := first + n; next < 1<<bucketBits {
		s.Next, s.More = uint64(next)<<(64-bucketBits), true
	}
	if len(keys) == 0 {
		return s, mark, nil
	}
	pipe := p.rdb.TxPipeline()
	at := p.askMark(ctx, pipe)
	rows := p.askRows(ctx, pipe, p.keys.table(t), keys)
	if err := exec(ctx, pipe, at); err != nil {
		return s, mark, p.say("read rows of "+t.String(), err)
	}
	after, err := markOf(at)
	if err != nil || after.Gen != mark.Gen {
		return s, remote.Mark{}, err // nobody's mark
	}
	bytes := 0
	for i, k := range keys {
		if f := found1(entries[k], func(form string) []byte { return rows.row(i, form) }); f.Held {
			s.Items = append(s.Items, remote.Item{Key: k, Found: f})
			bytes += len(f.Row)
		}
	}
	p.density.saw(t, n, len(keys), bytes)
	return s, after, nil
}

// scanEntries reads the entries of n hashes.
func (p *place) scanEntries(ctx context.Context, t syncd.Table, first, n int) (map[syncd.Key]string, remote.Mark, error) {
	pipe := p.rdb.TxPipeline()
	at := p.askMark(ctx, pipe)
	base := p.entries(t)
	cmds := make([]*redis.MapStringStringCmd, n)
	for i := range cmds {
		cmds[i] = pipe.HGetAll(ctx, base+strconv.Itoa(first+i))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, remote.Mark{}, err
	}
	mark, err := markOf(at)
	if err != nil {
		return nil, mark, err
	}
	all := map[syncd.Key]string{}
	for _, c := range cmds {
		for k, e := range c.Val() {
			if k == wide {
				continue
			}
			all[syncd.Key(k)] = e
		}
	}
	return all, mark, nil
}
