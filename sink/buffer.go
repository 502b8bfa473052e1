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
	// What was applied in parts since the last whole marker: how many distinct deltas of each table, and the last of them.
	counted map[syncd.Table]int
	last    map[syncd.Table]syncd.Version
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
	b.counted, b.last = nil, nil
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

// count takes note of deltas that are applied as a part.
func (b *buffer) count(deltas map[syncd.Table][]syncd.Delta, behind syncd.Position) {
	if b.counted == nil {
		b.counted, b.last = map[syncd.Table]int{}, map[syncd.Table]syncd.Version{}
	}
	for name, run := range deltas {
		b.counted[name] = b.distinct(name, run, behind, syncd.Position{Epoch: behind.Epoch, LSN: ^syncd.LSN(0)})
		if v := run[len(run)-1].Version; v.Compare(b.last[name]) > 0 {
			b.last[name] = v
		}
	}
}

// distinct says how many distinct deltas of a table came in (after, through], those applied in parts included.
func (b *buffer) distinct(name syncd.Table, run []syncd.Delta, after, through syncd.Position) int {
	n := b.counted[name]
	last := b.last[name]
	for i := range run {
		v := run[i].Version
		p := v.Position()
		if p.Epoch == through.Epoch && p.Compare(after) > 0 && p.Compare(through) <= 0 && v.Compare(last) > 0 {
			n++
		}
	}
	return n
}
