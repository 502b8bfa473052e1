package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/codec"
	"github.com/syncd-io/syncd/sink/remote"
)

// What one call of the script writes at most; a larger commit is carried out in parts.
const (
	partWrites = 10_000
	partBytes  = 16 << 20
)

// Apply implements remote.Place.
func (p *place) Apply(ctx context.Context, c *remote.Change) error {
	parts := p.parts(c.Writes)
	if wide := p.widen(c); wide != nil {
		parts = append([]*part{wide}, parts...)
	}
	state := codec.AppendState(nil, c.State)
	if len(parts) <= 1 && len(c.Drop) == 0 && len(c.New) == 0 {
		only := &part{place: p}
		if len(parts) == 1 {
			only = parts[0]
		}
		return p.commit(ctx, c, state, only)
	}
	lists := make([][]any, len(parts))
	for i, one := range parts {
		lists[i] = one.args()
	}
	return p.write(ctx, c, state, lists)
}

// write writes a large commit down, decides it, and carries it out.
func (p *place) write(ctx context.Context, c *remote.Change, state []byte, parts [][]any) error {
	err := p.each(ctx, func(key string) bool { return isRedo(p, key) }, func(keys []any) error { return p.after(ctx, c.From, "clean", keys...) })
	if err != nil {
		return err
	}
	head := []any{c.To.Seq, c.To.Nonce, state}
	for _, t := range slices.Concat(c.Drop, c.New) {
		head = append(head, t.Schema, t.Name)
	}
	for i, elements := range append([][]any{head}, parts...) {
		for piece := range slices.Chunk(elements, 3*partWrites) {
			if err := p.after(ctx, c.From, "write", append([]any{p.redo(i)}, piece...)...); err != nil {
				return err
			}
		}
	}
	if err := p.after(ctx, c.From, "decide", c.To.Nonce, len(parts)); err != nil {
		return err
	}
	_, _, err = p.finish(ctx, c.From, strconv.Itoa(len(parts)))
	return err
}

// redo names the list that holds a part of a commit that is written down; 0 is its head.
func (p *place) redo(i int) string { return p.meta + "redo:" + strconv.Itoa(i) }

func isRedo(p *place, key string) bool {
	return len(key) > len(p.meta)+5 && key[:len(p.meta)+5] == p.meta+"redo:"
}

// finish carries out a commit that was decided. It may begin it again: each of its steps can be done twice.
func (p *place) finish(ctx context.Context, from remote.Mark, count string) (remote.Mark, *sink.State, error) {
	n, err := strconv.Atoi(count)
	head, err2 := p.rdb.LRange(ctx, p.redo(0), 0, -1).Result()
	if err2 != nil {
		return from, nil, p.say("read a commit that was written down", err2)
	}
	if err != nil || len(head) < 3 {
		return remote.Mark{}, nil, nil // somebody took it away: begin anew
	}
	seq, err := strconv.ParseUint(head[0], 10, 64)
	state, err2 := codec.ParseState([]byte(head[2]))
	if err != nil || err2 != nil {
		return remote.Mark{}, nil, nil
	}
	var tables []syncd.Table
	for rest := head[3:]; len(rest) >= 2; rest = rest[2:] {
		tables = append(tables, syncd.Table{Schema: rest[0], Name: rest[1]})
	}
	if len(tables) > 0 {
		err := p.each(ctx, p.ours(tables, false), func(keys []any) error { return p.after(ctx, from, "clean", keys...) })
		if err != nil {
			return from, nil, err
		}
	}
	lists := []any{p.redo(0)}
	for i := 1; i <= n; i++ {
		lists = append(lists, p.redo(i))
		if err := p.after(ctx, from, "carry", p.redo(i)); err != nil {
			return from, nil, err
		}
	}
	to := remote.Mark{Gen: from.Gen, Seq: seq, Nonce: head[1]}
	args := append([]any{to.Seq, to.Nonce, head[2]}, lists...)
	if err := p.after(ctx, from, "finish", args...); err != nil {
		return from, nil, fmt.Errorf("end a commit: %w", err)
	}
	return to, state, nil
}

// part is a part of a commit in the making, in the form of the script's carry.
type part struct {
	place *place
	texts []any // key, row by turns
	hash  []any
	rows  int // in hash
	gone  []any
	names []string // of the hashes of entries, in the order they came
	held  map[string]*changes
	n     int // writes
	bytes int
}

// changes are those of one hash of entries.
type changes struct{ sets, gone []any }

// wide is a field of each hash of entries that no key can be, and wideValue one too long for the server to keep the hash as a list,
// in which a few hundred entries are looked for one after the other.
const wide = "\xff"

var wideValue = strings.Repeat("\xff", 65)

// widen makes the hashes of entries of the tables that a commit begins; nil where it begins none.
func (p *place) widen(c *remote.Change) *part {
	var w *part
	for _, t := range slices.Concat(c.Drop, c.New) {
		if c.State.Tables[t] == nil {
			continue
		}
		if w == nil {
			w = &part{place: p, held: map[string]*changes{}}
		}
		for i := range 1 << bucketBits {
			name := p.entries(t) + strconv.Itoa(i)
			if w.held[name] == nil {
				w.names = append(w.names, name)
			}
			w.held[name] = &changes{sets: []any{wide, wideValue}}
		}
	}
	return w
}

// parts makes the parts of a commit.
func (p *place) parts(writes []sink.Write) []*part {
	var all []*part
	now := &part{place: p}
	for i := range writes {
		now.add(&writes[i])
		if now.n >= partWrites || now.bytes >= partBytes {
			all = append(all, now)
			now = &part{place: p}
		}
	}
	if now.n > 0 {
		all = append(all, now)
	}
	return all
}

// add adds one write.
func (c *part) add(w *sink.Write) {
	p := c.place
	key := p.keys.row(p.keys.table(w.Table), w.Key)
	c.n++
	c.bytes += len(w.Entry.Row)
	name := bucket(p.entries(w.Table), w.Key)
	h := c.held[name]
	if h == nil {
		if c.held == nil {
			c.held = map[string]*changes{}
		}
		h = &changes{}
		c.held[name] = h
		c.names = append(c.names, name)
	}
	if w.Remove || w.Entry.Row == nil {
		c.gone = append(c.gone, key)
	}
	if w.Remove {
		h.gone = append(h.gone, string(w.Key))
		return
	}
	form := ""
	switch {
	case w.Entry.Row == nil:
	case p.values == Hash:
		var fields []string
		fields, form = split(w.Entry.Row)
		c.hash = append(c.hash, key, len(fields))
		for _, f := range fields {
			c.hash = append(c.hash, f)
		}
		c.rows++
	default:
		c.texts = append(c.texts, key, w.Entry.Row)
	}
	h.sets = append(h.sets, string(w.Key), remote.AppendHead(nil, &w.Entry, form))
}

// args gives the part as the script takes it.
func (c *part) args() []any {
	all := make([]any, 0, 4+len(c.texts)+len(c.hash)+len(c.gone)+3*len(c.names)+2*c.n)
	all = append(append(all, len(c.texts)), c.texts...)
	all = append(append(all, c.rows), c.hash...)
	all = append(append(all, len(c.gone)), c.gone...)
	all = append(all, len(c.names))
	for _, name := range c.names {
		h := c.held[name]
		all = append(all, name, len(h.sets), len(h.gone))
		all = append(append(all, h.sets...), h.gone...)
	}
	return all
}
