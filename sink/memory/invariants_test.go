package memory

import (
	"fmt"
	"slices"

	"github.com/syncd-io/syncd"
)

// check recounts everything that the store keeps count of.
func check(t interface{ Fatalf(string, ...any) }, s *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var total account
	for name, w := range s.writers {
		if err := w.check(); err != nil {
			t.Fatalf("table %s: %v", name, err)
		}
		if w.counted != w.account() {
			t.Fatalf("table %s is counted as %+v and is %+v", name, w.counted, w.account())
		}
		total.add(w.counted, 1)
		if got := s.root.Load().table(name); got != w.published {
			t.Fatalf("table %s: another one is published", name)
		}
	}
	if total != s.total {
		t.Fatalf("the total is counted as %+v and is %+v", s.total, total)
	}
}

func (w *writer) check() error {
	seen := make(map[place]bool)
	stats := make([]blockStat, len(w.slab.stats))
	refs := make([]int, len(w.interned.refs))
	entries, rows, plain, leafBytes := 0, 0, 0, 0
	var last cursor
	for i := 0; i < w.dir.n; {
		l := w.dir.at(i)
		leafBytes += unit * int(l.n)
		if l.depth > w.depth {
			return fmt.Errorf("leaf %d is deeper than the directory", i)
		}
		for _, s := range l.slots() {
			r := w.record(s.place())
			hash := w.hash(keyOf(r.key))
			if int(hash>>(64-w.depth))>>(w.depth-l.depth) != i>>(w.depth-l.depth) || s.bits() != hash>>placeBits {
				return fmt.Errorf("key %q is in leaf %d, where its hash %x does not belong", r.key, i, hash)
			}
			if !last.before(hash, keyOf(r.key)) {
				return fmt.Errorf("key %q is out of order", r.key)
			}
			last = cursor{true, hash, keyOf(r.key)}
			if seen[s.place()] {
				return fmt.Errorf("two slots lead to %d", s.place())
			}
			seen[s.place()] = true
			stats[s.place().block()].live += r.size
			refs[r.origin]++
			entries++
			if r.row != nil {
				rows++
				if r.flags&flagPending == 0 {
					plain++
				}
			}
		}
		span := 1 << (w.depth - l.depth)
		for j := range span {
			if o := w.dir.at(i + j); o != l {
				return fmt.Errorf("leaf %d does not fill its %d places", i, span)
			}
		}
		i += span
	}
	if plain != w.plain {
		return fmt.Errorf("%d entries hold a row and are not pending; counted %d", plain, w.plain)
	}
	if entries != w.entries || rows != w.rows || leafBytes != w.leafBytes {
		return fmt.Errorf("%d entries, %d rows, %d bytes of leaves; counted %d, %d, %d", entries, rows, leafBytes, w.entries, w.rows, w.leafBytes)
	}
	if fresh := w.makeDigest(syncd.MaxDigestBits); w.digest != nil && !slices.Equal(w.digest, fresh) {
		return fmt.Errorf("the digests that were kept are not those of the rows")
	}
	return w.checkAccounts(stats, refs)
}

func (w *writer) checkAccounts(stats []blockStat, refs []int) error {
	size, filled, live := 0, 0, 0
	vacant := make(map[int]bool)
	for _, no := range w.slab.vacant {
		vacant[no] = true
	}
	for no, st := range w.slab.stats {
		b := w.blocks.at(no)
		if stats[no].live != st.live {
			return fmt.Errorf("block %d has %d live bytes, counted %d", no, stats[no].live, st.live)
		}
		if (b == nil) != vacant[no] {
			return fmt.Errorf("block %d: vacant is %v", no, vacant[no])
		}
		if b != nil && st.live == 0 {
			return fmt.Errorf("block %d is kept for nothing", no)
		}
		size, filled, live = size+len(b), filled+st.filled, live+st.live
	}
	if size != w.slab.size || filled != w.slab.filled || live != w.slab.live {
		return fmt.Errorf("%d bytes, %d filled, %d live; counted %d, %d, %d", size, filled, live, w.slab.size, w.slab.filled, w.slab.live)
	}
	used, bytes := 0, 0
	for no, n := range refs {
		o := w.origins.at(no)
		if n != w.interned.refs[no] || o.used != (n > 0) {
			return fmt.Errorf("origin %d: %d entries, counted %d, used is %v", no, n, w.interned.refs[no], o.used)
		}
		if o.used {
			used++
			bytes += o.size(o.encode())
			if w.interned.numbers[o.encode()] != uint32(no) {
				return fmt.Errorf("origin %d is numbered %d", no, w.interned.numbers[o.encode()])
			}
		}
	}
	if used != len(w.interned.numbers) || bytes != w.interned.bytes || len(refs)-used != len(w.interned.vacant) {
		return fmt.Errorf("%d origins of %d bytes are used, %d numbered, counted %d bytes", used, bytes, len(w.interned.numbers), w.interned.bytes)
	}
	return nil
}

// weakHash leaves few different hashes, and for some keys none at all: whole hashes collide, and parts of them.
func weakHash(k syncd.Key) uint64 {
	h := k.Hash()
	switch h % 4 {
	case 0:
		return 1 << 63
	case 1:
		return 1<<63 | h%8 // equal in the bits of a slot, not in all
	case 2:
		return h & (0xff << 56)
	}
	return h
}
