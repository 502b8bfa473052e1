package source

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"github.com/syncd-io/syncd"
)

// fingerprint stands for what a look saw of all tables, as far as the stream does not tell of it (whyRelist): some tables share
// a part of it, so that it has one size however many they are.
type fingerprint [prints]uint32

// prints is how many parts a fingerprint has.
const prints = 16

func fingerprintOf(tables map[syncd.Table]*rosterTable) (f fingerprint) {
	for t, s := range tables {
		f[partOf(t)] += s.seen()
	}
	return f
}

func partOf(t syncd.Table) int {
	h := fnv.New32a()
	h.Write([]byte(t.String()))
	return int(h.Sum32() % prints)
}

// seen stands for what was seen of one table. One that is refused has one, too: when it no longer is, it is listed anyway.
func (t *rosterTable) seen() uint32 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q", t.config.Table)
	if t.shape != nil {
		fmt.Fprintf(h, " %d %x %q %q %q", t.facts.OID, t.shape.Hash(), t.facts.Files, t.facts.Parts, t.shape.ages())
		for _, c := range t.verdict.Columns {
			fmt.Fprintf(h, " %d", c.Num)
		}
		if p := t.facts.Published; p != nil {
			fmt.Fprintf(h, " %d %q %q", p.Member, p.Filter, p.Options)
		}
	}
	x := h.Sum64()
	return uint32(x>>32) ^ uint32(x)
}

// String gives the form that markers carry.
func (f fingerprint) String() string {
	var b [4 * prints]byte
	for i, x := range f {
		binary.BigEndian.PutUint32(b[4*i:], x)
	}
	return base64.RawStdEncoding.EncodeToString(b[:])
}

// differs says whether the part of a table is another in a marker's text, or is not to be had there.
func (f fingerprint) differs(marker string, t syncd.Table) bool {
	b, err := base64.RawStdEncoding.DecodeString(marker)
	i := partOf(t)
	return err != nil || len(b) != 4*prints || binary.BigEndian.Uint32(b[4*i:]) != f[i]
}
