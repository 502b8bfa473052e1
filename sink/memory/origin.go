package memory

import (
	"fmt"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink/codec"
)

// origin is where entries came from: the epoch, and the snapshot of the page that set them, if one did.
type origin struct {
	epoch syncd.Epoch
	snap  *syncd.Snapshot
	used  bool // false: the number is vacant
}

// interned numbers the origins of a table's entries, equal ones once, and counts the entries of each.
type interned struct {
	numbers map[string]uint32 // by the origin's encoding
	refs    []int             // by number
	vacant  []uint32
	// recent are the last origins asked for: of a change, and of a listed row.
	recent [2]struct {
		origin origin
		number uint32
		ok     bool
	}
	bytes int // of the snapshots, about
}

// intern gives the number of an origin. The caller counts the entry with keepOrigin.
func (w *writer) intern(o origin) uint32 {
	recent := &w.interned.recent[0]
	if o.snap != nil {
		recent = &w.interned.recent[1]
	}
	if !recent.ok || recent.origin != o {
		recent.origin, recent.number, recent.ok = o, w.lookUp(o), true
	}
	return recent.number
}

func (w *writer) lookUp(o origin) uint32 {
	in := &w.interned
	key := o.encode()
	if no, ok := in.numbers[key]; ok {
		return no
	}
	var no uint32
	if n := len(in.vacant); n > 0 {
		no = in.vacant[n-1]
		in.vacant = in.vacant[:n-1]
		w.origins.set(&w.originOwner, int(no), o)
	} else {
		no = uint32(w.origins.n)
		w.origins.push(&w.originOwner, o)
		in.refs = append(in.refs, 0)
	}
	w.nameOrigin(key, no, o)
	return no
}

func (w *writer) keepOrigin(no uint32) { w.interned.refs[no]++ }

// leaveOrigin takes an entry off an origin's count and forgets an origin that has none left.
func (w *writer) leaveOrigin(no uint32) {
	w.interned.refs[no]--
	if w.interned.refs[no] == 0 {
		w.vacateOrigin(no)
	}
}

func (w *writer) vacateOrigin(no uint32) {
	in := &w.interned
	o := w.origins.at(int(no))
	key := o.encode()
	delete(in.numbers, key)
	in.bytes -= o.size(key)
	in.vacant = append(in.vacant, no)
	w.origins.set(&w.originOwner, int(no), origin{})
	for i := range in.recent {
		if in.recent[i].number == no {
			in.recent[i].ok = false
		}
	}
}

// loadOrigins takes over the origins of a snapshot file, with their numbers.
func (w *writer) loadOrigins(all []origin) error {
	in := &w.interned
	for no, o := range all {
		w.origins.push(&w.originOwner, o)
		in.refs = append(in.refs, 0)
		if !o.used {
			in.vacant = append(in.vacant, uint32(no))
			continue
		}
		key := o.encode()
		if _, ok := in.numbers[key]; ok {
			return fmt.Errorf("origin %d is there twice", no)
		}
		w.nameOrigin(key, uint32(no), o)
	}
	return nil
}

// dropUnusedOrigins vacates the numbers of origins that no entry has.
func (w *writer) dropUnusedOrigins() {
	for no := range w.origins.n {
		if w.origins.at(no).used && w.interned.refs[no] == 0 {
			w.vacateOrigin(uint32(no))
		}
	}
}

func (w *writer) nameOrigin(key string, no uint32, o origin) {
	in := &w.interned
	if in.numbers == nil {
		in.numbers = make(map[string]uint32)
	}
	in.numbers[key] = no
	in.bytes += o.size(key)
}

// encode gives a text that only equal origins share.
func (o origin) encode() string {
	var e codec.Encoder
	e.Uint(uint64(o.epoch))
	if o.snap != nil {
		e.SnapshotContent(o.snap)
	}
	return string(e.B)
}

// size is about how many bytes the origin takes, with its place in numbers.
func (o origin) size(key string) int {
	n := len(key) + 64
	if o.snap != nil {
		n += 96 + 8*cap(o.snap.Xip)
	}
	return n
}
