package syncd

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestFoldIsWhatFewerBucketsSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(0, 6).Draw(t, "bits")
		fewer := rapid.IntRange(0, bits).Draw(t, "fewer")
		fine, want := make([]Totals, 1<<bits), make([]Totals, 1<<fewer)
		for i := range rapid.IntRange(0, 50).Draw(t, "rows") {
			k, row := MakeKey(fmt.Sprint(i)), fmt.Appendf(nil, `{"id":%d}`, i)
			fine[BucketOf(k.Hash(), bits)].Add(k, row)
			want[BucketOf(k.Hash(), fewer)].Add(k, row)
		}
		if got := Fold(fine, fewer); !slices.Equal(got, want) {
			t.Fatalf("folded %v\nwant   %v", got, want)
		}
	})
}

func TestBucketSetHoldsItsBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(0, 8).Draw(t, "bits")
		in := rapid.SliceOfN(rapid.Bool(), 1<<bits, 1<<bits).Draw(t, "in")
		var list []int
		for b, ok := range in {
			if ok {
				list = append(list, b)
			}
		}
		s := NewBucketSet(bits, list)
		if !s.Valid() || s.Len() != len(list) {
			t.Fatalf("%+v: valid %v, %d buckets of %v", s, s.Valid(), s.Len(), list)
		}
		h := rapid.Uint64().Draw(t, "hash")
		if got, want := s.Holds(h), in[BucketOf(h, bits)]; got != want {
			t.Fatalf("%+v holds %x: %v, want %v", s, h, got, want)
		}
		for _, r := range s.Ranges {
			first, last := s.Hashes(r)
			if BucketOf(first, bits) != r.First || BucketOf(last, bits) != r.Last {
				t.Fatalf("%+v: hashes %x to %x are of buckets %d to %d", r, first, last, BucketOf(first, bits), BucketOf(last, bits))
			}
			if first != 0 && s.Holds(first-1) || last != ^uint64(0) && s.Holds(last+1) {
				t.Fatalf("%+v: hashes beside %x to %x belong to it", r, first, last)
			}
		}
	})
}

func TestBucketSetThatIsNone(t *testing.T) {
	for _, s := range []*BucketSet{
		{Bits: -1}, {Bits: MaxDigestBits + 1}, {Bits: 2, Ranges: []BucketRange{{2, 1}}}, {Bits: 2, Ranges: []BucketRange{{-1, 1}}},
		{Bits: 2, Ranges: []BucketRange{{0, 4}}}, {Bits: 2, Ranges: []BucketRange{{0, 1}, {2, 3}}}, {Bits: 2, Ranges: []BucketRange{{2, 2}, {0, 0}}},
	} {
		if s.Valid() {
			t.Errorf("%+v is valid", s)
		}
	}
	if all := (*BucketSet)(nil); !all.Holds(0) || !all.Holds(^uint64(0)) {
		t.Error("the set of all lacks a bucket")
	}
}
