package syncd_test

import (
	"fmt"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"

	"github.com/syncd-io/syncd"
)

// The answers are those that xxHash's reference implementation gives.
func TestKeyHashKnownAnswers(t *testing.T) {
	for key, want := range map[syncd.Key]uint64{
		"":    0xef46db3751d8e999,
		"a":   0xd24ec4f1a98c6e5b,
		"abc": 0x44bc2cf5ad770999,
		"The quick brown fox jumps over the lazy dog": 0x0b242d361fda71bc,
	} {
		if got := key.Hash(); got != want {
			t.Errorf("%q hashes to %#x, want %#x", key, got, want)
		}
	}
}

func TestHashesAgainstXXHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := syncd.Key(rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "key"))
		if got, want := k.Hash(), xxhash.Sum64String(string(k)); got != want {
			t.Errorf("%q hashes to %#x, want %#x", k, got, want)
		}
		row := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "row")
		seeded := xxhash.NewWithSeed(k.Hash())
		_, _ = seeded.Write(row)
		if got, want := syncd.RowDigest(k, row), seeded.Sum64(); got != want {
			t.Errorf("row %q under %q has the digest %#x, want %#x", row, k, got, want)
		}
	})
}

func TestTotalsTellSetsOfRowsApart(t *testing.T) {
	rows := map[syncd.Key][]byte{"1": []byte(`{"a":1}`), "2": []byte(`{"a":1}`), "3": []byte(`{"a":3}`)}
	sum := func(keys ...syncd.Key) (all syncd.Totals) {
		for _, k := range keys {
			all.Add(k, rows[k])
		}
		return all
	}
	if a, b := sum("1", "2", "3"), sum("3", "1", "2"); a != b || a.Rows != 3 {
		t.Errorf("the totals depend on the order: %+v, %+v", a, b)
	}
	seen := map[syncd.Totals]string{}
	for _, keys := range [][]syncd.Key{{}, {"1"}, {"2"}, {"1", "1"}, {"1", "2"}, {"1", "3"}, {"1", "2", "3"}} {
		s := sum(keys...)
		if other, ok := seen[s]; ok {
			t.Errorf("%v and %s have the same totals", keys, other)
		}
		seen[s] = fmt.Sprint(keys)
	}
}

func BenchmarkKeyHash(b *testing.B) {
	for _, n := range []int{8, 24, 64} {
		k := syncd.Key(make([]byte, n))
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				k.Hash()
			}
		})
	}
}
