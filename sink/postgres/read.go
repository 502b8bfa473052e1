package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"slices"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink/remote"
)

// shortKey is how many bytes of a key are looked up as they are; of a longer one it is a hash, since an index takes no more
// than a third of a page.
const shortKey = 256

// kid is what a key is looked up by, beside its hash.
func kid(k syncd.Key) []byte {
	if len(k) <= shortKey {
		return []byte(k)
	}
	sum := sha256.Sum256([]byte(k))
	return append([]byte{0xff}, sum[:]...) // no text begins with 0xff
}

// order gives a hash as a bigint of the same order, and hash turns it back.
func order(hash uint64) int64 { return int64(hash ^ 1<<63) }
func hash(order int64) uint64 { return uint64(order) ^ 1<<63 }

// record is one row of an answer. All but the mark is NULL where the place holds nothing that was asked for.
type record struct {
	Mark    remote.Mark
	Number  *int64 // of the key that was asked for; the hash, in a scan
	Key     []byte
	Meta    []byte
	Row     []byte
	Counted *bool
}

// ask reads the mark, and what a query gives beside it, in one statement and so in one snapshot. Where there is no such table
// yet it gives the mark alone; where there is no state the zero mark.
func (p *place) ask(ctx context.Context, t syncd.Table, query string, args ...any) (all []record, m remote.Mark, err error) {
	const gone, vanished = "42P01", "XX000" // while its table was being made anew, or dropped
	err = p.read(ctx, &all, "SELECT s.gen, s.seq, s.nonce, x.* FROM "+p.in(own+"state")+" s LEFT JOIN ("+query+") x ON true ORDER BY 4", args)
	if c := code(err); c == gone || c == vanished {
		err = p.read(ctx, &all, "SELECT gen, seq, nonce, NULL::bigint, NULL::bytea, NULL::bytea, NULL::bytea, NULL::bool FROM "+p.in(own+"state"), nil)
	}
	if code(err) == gone {
		return nil, m, nil
	}
	if err != nil {
		return nil, m, p.say("read "+t.String(), err)
	}
	if len(all) > 0 {
		m = all[0].Mark
	}
	if len(all) == 1 && all[0].Number == nil {
		all = nil
	}
	return all, m, nil
}

func (p *place) read(ctx context.Context, all *[]record, query string, args []any) error {
	*all = nil
	rows, err := p.pool.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r record
		if err := rows.Scan(&r.Mark.Gen, &r.Mark.Seq, &r.Mark.Nonce, &r.Number, &r.Key, &r.Meta, &r.Row, &r.Counted); err != nil {
			return err
		}
		*all = append(*all, r)
	}
	return rows.Err()
}

// found puts a record's entry together. One that can't be read was overwritten by somebody: there is none, and the next list
// brings it back.
func (r *record) found() remote.Found {
	h, err := remote.ParseHead(r.Meta)
	if err != nil || r.Counted == nil {
		return remote.Found{}
	}
	f := remote.Found{Entry: h.Entry, Held: true, Counted: h.HasRow}
	if h.HasRow {
		f.Row = r.Row
	}
	return f
}

// Fetch implements remote.Place.
func (p *place) Fetch(ctx context.Context, t syncd.Table, keys []syncd.Key) ([]remote.Found, remote.Mark, error) {
	hashes, kids := make([]int64, len(keys)), make([][]byte, len(keys))
	for i, k := range keys {
		hashes[i], kids[i] = order(k.Hash()), kid(k)
	}
	all, m, err := p.ask(ctx, t, "SELECT a.i, v.key, v.meta, v.row, v.counted FROM unnest($1::bigint[], $2::bytea[]) WITH ORDINALITY a(h, kid, i) JOIN "+
		p.in(check(t))+" v ON v.hash = a.h AND v.kid = a.kid", hashes, kids)
	if err != nil {
		return nil, m, err
	}
	found := make([]remote.Found, len(keys))
	for i := range all {
		if n := *all[i].Number - 1; string(all[i].Key) == string(keys[n]) {
			found[n] = all[i].found()
		}
	}
	return found, m, nil
}

// What a stretch of a scan should have at most.
const (
	stretchEntries = 4000
	stretchBytes   = 8 << 20
)

// Scan implements remote.Place.
func (p *place) Scan(ctx context.Context, t syncd.Table, from uint64) (s remote.Stretch, m remote.Mark, err error) {
	p.mu.Lock()
	limit := max(2, min(stretchEntries, stretchBytes/max(p.large[t], 1)))
	p.mu.Unlock()
	all, m, err := p.ask(ctx, t, "SELECT hash, key, meta, row, counted FROM "+p.in(check(t))+" WHERE hash >= $1 ORDER BY hash LIMIT $2", order(from), limit)
	if err != nil {
		return s, m, err
	}
	if len(all) == limit { // the last hash may go on behind
		last := *all[limit-1].Number
		cut := slices.IndexFunc(all, func(r record) bool { return *r.Number == last })
		if cut == 0 {
			return s, m, p.say("read "+t.String(), errors.New("thousands of keys have one hash"))
		}
		all, s.Next, s.More = all[:cut], hash(last), true
	}
	bytes := 0
	for i := range all {
		bytes += len(all[i].Row)
		if f := all[i].found(); f.Held {
			s.Items = append(s.Items, remote.Item{Key: syncd.Key(all[i].Key), Found: f})
		}
	}
	slices.SortFunc(s.Items, func(a, b remote.Item) int {
		return cmp.Or(cmp.Compare(a.Key.Hash(), b.Key.Hash()), cmp.Compare(a.Key, b.Key))
	})
	p.mu.Lock()
	p.large[t] = bytes/max(len(all), 1) + 1
	p.mu.Unlock()
	return s, m, nil
}
