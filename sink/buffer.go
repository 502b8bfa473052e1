package sink

import (
	"slices"

	"github.com/syncd-io/syncd"
)

// deltaOverhead is what a delta takes beside its row and key, for the measure of a buffer.
const deltaOverhead = 256

// buffer holds the messages of deltas that came since the last marker.
type buffer struct {
	messages []syncd.Message
	size     int // bytes
	// parts counts what was applied in parts and no whole marker has passed yet, by table and commit, in order. A commit may
	// stay: when its source has died amid the parts, the next one may send markers before it sends the whole of it again.
	parts map[syncd.Table][]partCount
}

// partCount says how many distinct deltas of a commit were applied in parts, and the ordinal of the last.
type partCount struct {
	at   syncd.Position
	n    int
	last uint32
}

func (b *buffer) add(m syncd.Message) {
	if len(m.Deltas) == 0 {
		return
	}
	b.messages = append(b.messages, m)
	for i := range m.Deltas {
		b.size += len(m.Deltas[i].Row) + len(m.Deltas[i].Key) + deltaOverhead
	}
}

// reset empties the buffer.
func (b *buffer) reset() {
	clear(b.messages)
	b.messages, b.size = b.messages[:0], 0
	b.parts = nil
}

// collect gives the deltas of the messages from sequence first up to and without to, by table: each table's in strictly
// ascending order of version, repeats left out. What lies before first is the headless rest of a flush that was never ended.
func (b *buffer) collect(first, to uint64) map[syncd.Table][]syncd.Delta {
	deltas := map[syncd.Table][]syncd.Delta{}
	for _, m := range b.messages {
		if m.Seq < first || m.Seq >= to {
			continue
		}
		name := m.Deltas[0].Table
		if run, ok := deltas[name]; ok {
			deltas[name] = append(run, m.Deltas...)
		} else {
			deltas[name] = slices.Clip(m.Deltas)
		}
	}
	for name, run := range deltas {
		deltas[name] = inOrder(run)
	}
	return deltas
}

// discard removes the messages before sequence to.
func (b *buffer) discard(to uint64) {
	all := b.messages
	b.messages, b.size = all[:0], 0
	for _, m := range all {
		if m.Seq >= to {
			b.add(m)
		}
	}
	clear(all[len(b.messages):])
}

// inOrder gives deltas in strictly ascending order of version. It does not change the slice it is given.
func inOrder(deltas []syncd.Delta) []syncd.Delta {
	for i := 1; i < len(deltas); i++ {
		if deltas[i-1].Version.Compare(deltas[i].Version) >= 0 {
			deltas = slices.Clone(deltas)
			slices.SortStableFunc(deltas, func(a, b syncd.Delta) int { return a.Version.Compare(b.Version) })
			return slices.CompactFunc(deltas, func(a, b syncd.Delta) bool { return a.Version == b.Version })
		}
	}
	return deltas
}

// count takes note of deltas that are applied as a part, and lie behind what the cache has.
func (b *buffer) count(deltas map[syncd.Table][]syncd.Delta, behind syncd.Position) {
	if b.parts == nil {
		b.parts = map[syncd.Table][]partCount{}
	}
	for name, run := range deltas {
		all := b.parts[name]
		for i := range run {
			v := run[i].Version
			if v.Epoch != behind.Epoch || v.Position().Compare(behind) <= 0 {
				continue
			}
			at, found := findPart(all, v.Position())
			if !found {
				all = slices.Insert(all, at, partCount{at: v.Position()})
			}
			if c := &all[at]; v.Ordinal > c.last {
				c.n, c.last = c.n+1, v.Ordinal
			}
		}
		b.parts[name] = all
	}
}

// findPart finds the commit at p, or the place where it belongs.
func findPart(all []partCount, p syncd.Position) (at int, found bool) {
	if n := len(all); n == 0 || all[n-1].at.Compare(p) < 0 {
		return n, false
	}
	return slices.BinarySearchFunc(all, p, func(c partCount, p syncd.Position) int { return c.at.Compare(p) })
}

// distinct says how many distinct deltas of a table came in (after, through], those applied in parts included.
func (b *buffer) distinct(name syncd.Table, run []syncd.Delta, after, through syncd.Position) int {
	within := func(p syncd.Position) bool {
		return p.Epoch == through.Epoch && p.Compare(after) > 0 && p.Compare(through) <= 0
	}
	n, all := 0, b.parts[name]
	for i := range all {
		if within(all[i].at) {
			n += all[i].n
		}
	}
	for i := range run {
		v := run[i].Version
		if !within(v.Position()) {
			continue
		}
		if at, found := findPart(all, v.Position()); !found || v.Ordinal > all[at].last {
			n++
		}
	}
	return n
}

// passed forgets the parts of what a whole marker has passed.
func (b *buffer) passed(p syncd.Position) {
	for name, all := range b.parts {
		if all = slices.DeleteFunc(all, func(c partCount) bool { return c.at.Compare(p) <= 0 }); len(all) == 0 {
			delete(b.parts, name)
		} else {
			b.parts[name] = all
		}
	}
}
