package resync

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSortHashes(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 1))
	for name, draw := range map[string]func() uint64{
		"even":        dice.Uint64,
		"all equal":   func() uint64 { return 42 },
		"few":         func() uint64 { return dice.Uint64N(3) << 60 },
		"low bits":    func() uint64 { return dice.Uint64N(1 << 10) },
		"one far off": func() uint64 { return dice.Uint64N(1<<20) / (1 << 19) << 63 },
	} {
		for _, n := range []int{0, 1, 255, 256, 1000, 100_000} {
			got := make([]uint64, n)
			for i := range got {
				got[i] = draw()
			}
			want := slices.Sorted(slices.Values(got))
			if sortHashes(got, 64); !slices.Equal(got, want) {
				t.Errorf("%s: %d hashes are not sorted", name, n)
			}
		}
	}
}

func BenchmarkSortHashes(b *testing.B) {
	dice, all := rand.New(rand.NewPCG(1, 1)), make([]uint64, 1_000_000)
	for b.Loop() {
		b.StopTimer()
		for i := range all {
			all[i] = dice.Uint64()
		}
		b.StartTimer()
		sortHashes(all, 64)
	}
}
