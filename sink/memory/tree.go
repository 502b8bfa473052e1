package memory

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// A tree is a set of byte strings, its items, in ascending order. Nodes that were published are never changed: who adds or
// removes copies first what the commit under way has not made itself.
type tree struct {
	root  *node
	items int
	bytes int // that its nodes take
}

// node is a leaf with items, or leads to further nodes.
type node struct {
	commit uint64 // that made it
	// Of a leaf: the items one behind the other, and where each ends.
	data []byte
	ends []uint32
	// Else: its nodes, and the first item of each at the time when it was put there, or less.
	kids   []*node
	firsts [][]byte
}

const (
	maxItems  = 96 // in a leaf
	maxKids   = 64
	nodeBytes = 112 // a node without what its slices hold
	kidBytes  = 32  // one of kids and its place in firsts
)

func (n *node) item(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = n.ends[i-1]
	}
	return n.data[from:n.ends[i]:n.ends[i]]
}

// search gives the place of the first item of a leaf that is not less than item, and whether it is that.
func (n *node) search(item []byte) (int, bool) {
	lo, hi := 0, len(n.ends)
	for lo < hi {
		mid := (lo + hi) / 2
		if bytes.Compare(n.item(mid), item) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(n.ends) && bytes.Equal(n.item(lo), item)
}

// child gives which of a node's nodes an item belongs to.
func (n *node) child(item []byte) int {
	i, found := slices.BinarySearchFunc(n.firsts, item, bytes.Compare)
	if found || i == 0 {
		return i
	}
	return i - 1
}

// size is how many bytes a node takes, less the nodes that it leads to.
func (n *node) size() int {
	size := nodeBytes + cap(n.data) + 4*cap(n.ends) + kidBytes*cap(n.kids)
	for _, f := range n.firsts {
		size += len(f)
	}
	return size
}

// own gives a node that the commit under way may change: n, or a copy of it.
func (t *tree) own(n *node, commit uint64) *node {
	if n.commit == commit {
		return n
	}
	return &node{commit: commit, data: slices.Clone(n.data), ends: slices.Clone(n.ends), kids: slices.Clone(n.kids), firsts: slices.Clone(n.firsts)}
}

// add puts an item into the set.
func (t *tree) add(item []byte, commit uint64) {
	if t.root == nil {
		t.root = &node{commit: commit}
		t.bytes = t.root.size()
	}
	var right *node
	t.root, right = t.insert(t.root, item, commit)
	if right != nil {
		t.root = &node{commit: commit, kids: []*node{t.root, right}, firsts: [][]byte{{}, slices.Clone(right.first())}}
		t.bytes += t.root.size()
	}
}

func (n *node) first() []byte {
	for len(n.kids) > 0 {
		n = n.kids[0]
	}
	return n.item(0)
}

// insert gives the node with the item in it, and what was split off behind it.
func (t *tree) insert(n *node, item []byte, commit uint64) (left, right *node) {
	if len(n.kids) == 0 {
		at, found := n.search(item)
		if found {
			return n, nil
		}
		t.items++
		return t.insertAt(n, at, item, commit)
	}
	i := n.child(item)
	kid, right := t.insert(n.kids[i], item, commit)
	if kid == n.kids[i] && right == nil {
		return n, nil
	}
	t.bytes -= n.size()
	n = t.own(n, commit)
	n.kids[i] = kid
	if right == nil {
		t.bytes += n.size()
		return n, nil
	}
	n.kids = slices.Insert(n.kids, i+1, right)
	n.firsts = slices.Insert(n.firsts, i+1, slices.Clone(right.first()))
	if len(n.kids) <= maxKids {
		t.bytes += n.size()
		return n, nil
	}
	half := len(n.kids) / 2
	right = &node{commit: commit, kids: slices.Clone(n.kids[half:]), firsts: slices.Clone(n.firsts[half:])}
	n.kids, n.firsts = slices.Clone(n.kids[:half]), slices.Clone(n.firsts[:half])
	t.bytes += n.size() + right.size()
	return n, right
}

func (t *tree) insertAt(n *node, at int, item []byte, commit uint64) (left, right *node) {
	t.bytes -= n.size()
	n = t.own(n, commit)
	from := 0
	if at > 0 {
		from = int(n.ends[at-1])
	}
	n.data = slices.Insert(n.data, from, item...)
	n.ends = slices.Insert(n.ends, at, uint32(from))
	for i := at; i < len(n.ends); i++ {
		n.ends[i] += uint32(len(item))
	}
	if len(n.ends) <= maxItems {
		t.bytes += n.size()
		return n, nil
	}
	half := len(n.ends) / 2
	if at == len(n.ends)-1 {
		half = at // what comes in order fills its leaves
	}
	right = n.split(half, commit)
	t.bytes += n.size() + right.size()
	return n, right
}

// split takes the items from half on out of a leaf into one of their own.
func (n *node) split(half int, commit uint64) *node {
	cut := n.ends[half-1]
	right := &node{commit: commit, data: slices.Clone(n.data[cut:]), ends: slices.Clone(n.ends[half:])}
	for i := range right.ends {
		right.ends[i] -= cut
	}
	n.data, n.ends = slices.Clone(n.data[:cut]), slices.Clone(n.ends[:half])
	return right
}

// remove takes an item out of the set.
func (t *tree) remove(item []byte, commit uint64) {
	if t.root == nil {
		return
	}
	if t.root = t.delete(t.root, item, commit); t.root == nil {
		t.bytes = 0
		return
	}
	for len(t.root.kids) == 1 {
		t.bytes -= t.root.size()
		t.root = t.root.kids[0]
	}
}

// delete gives the node without the item; nil where nothing is left.
func (t *tree) delete(n *node, item []byte, commit uint64) *node {
	if len(n.kids) == 0 {
		at, found := n.search(item)
		if !found {
			return n
		}
		t.items--
		t.bytes -= n.size()
		if len(n.ends) == 1 {
			return nil
		}
		n = t.own(n, commit)
		to := int(n.ends[at])
		n.data = slices.Delete(n.data, to-len(item), to)
		n.ends = slices.Delete(n.ends, at, at+1)
		for i := at; i < len(n.ends); i++ {
			n.ends[i] -= uint32(len(item))
		}
		t.bytes += n.size()
		return n
	}
	i := n.child(item)
	kid := t.delete(n.kids[i], item, commit)
	if kid == n.kids[i] {
		return n
	}
	t.bytes -= n.size()
	n = t.own(n, commit)
	if kid != nil {
		n.kids[i] = kid
		t.merge(n, i, commit)
		t.bytes += n.size()
		return n
	}
	n.kids, n.firsts = slices.Delete(n.kids, i, i+1), slices.Delete(n.firsts, i, i+1)
	if len(n.kids) == 0 {
		return nil
	}
	n.firsts[0] = []byte{}
	t.bytes += n.size()
	return n
}

// merge puts a small leaf, the ith of a node, together with the next.
func (t *tree) merge(n *node, i int, commit uint64) {
	if i+1 >= len(n.kids) {
		i--
	}
	if i < 0 || len(n.kids[i].kids) > 0 || len(n.kids[i+1].kids) > 0 || len(n.kids[i].ends)+len(n.kids[i+1].ends) > maxItems/2 {
		return
	}
	a, b := n.kids[i], n.kids[i+1]
	t.bytes -= a.size() + b.size()
	both := &node{commit: commit, data: slices.Concat(a.data, b.data), ends: slices.Clone(a.ends)}
	for _, end := range b.ends {
		both.ends = append(both.ends, end+uint32(len(a.data)))
	}
	t.bytes += both.size()
	n.kids[i] = both
	n.kids, n.firsts = slices.Delete(n.kids, i+1, i+2), slices.Delete(n.firsts, i+1, i+2)
}

// build makes a tree of ascending items.
func build(items [][]byte, commit uint64) tree {
	t := tree{items: len(items)}
	var level []*node
	for part := range slices.Chunk(items, maxItems*3/4) {
		n := &node{commit: commit, ends: make([]uint32, len(part))}
		size := 0
		for i, item := range part {
			size += len(item)
			n.ends[i] = uint32(size)
		}
		n.data = slices.Concat(part...)
		t.bytes += n.size()
		level = append(level, n)
	}
	for len(level) > 1 {
		var above []*node
		for part := range slices.Chunk(level, maxKids*3/4) {
			n := &node{commit: commit, kids: slices.Clone(part), firsts: make([][]byte, len(part))}
			for i, kid := range part {
				n.firsts[i] = slices.Clone(kid.first())
			}
			t.bytes += n.size()
			above = append(above, n)
		}
		level = above
	}
	if len(level) == 1 {
		t.root = level[0]
	}
	return t
}

// walk calls fn for each item that is not less than from, until fn gives false, and says whether it came to the end.
func (n *node) walk(from []byte, fn func(item []byte) bool) bool {
	if n == nil {
		return true
	}
	if len(n.kids) == 0 {
		at, _ := n.search(from)
		for ; at < len(n.ends); at++ {
			if !fn(n.item(at)) {
				return false
			}
		}
		return true
	}
	for i := n.child(from); i < len(n.kids); i++ {
		if !n.kids[i].walk(from, fn) {
			return false
		}
	}
	return true
}

// itemHash is the hash of the row's key, which ends every item of an index.
func itemHash(item []byte) uint64 { return binary.BigEndian.Uint64(item[len(item)-8:]) }

func appendHash(item []byte, hash uint64) []byte { return binary.BigEndian.AppendUint64(item, hash) }
