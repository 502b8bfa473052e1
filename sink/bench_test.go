package sink_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/memory"
)

// BenchmarkFlush applies upserts of 200-byte rows to a cache of a million, in flushes of one delta and of many.
func BenchmarkFlush(b *testing.B) {
	for _, size := range []int{1, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) { benchmarkFlush(b, size, 1_000_000) })
	}
}

func benchmarkFlush(b *testing.B, size, keys int) {
	cache := sink.New(sink.Options{Store: memory.New(memory.Options{})})
	defer cache.Close()
	info := tableInfo(0)
	if err := cache.SetTables([]syncd.TableInfo{info}); err != nil {
		b.Fatal(err)
	}
	row := fmt.Appendf(nil, `{"k":1,"a":1,"x":"%0180d"}`, 1)
	names := make([]syncd.Key, keys)
	for i := range names {
		names[i] = syncd.MakeKey(fmt.Sprint(i))
	}
	at, seq := syncd.LSN(1), uint64(0)
	flush := func(n int) {
		deltas := make([]syncd.Delta, n)
		for i := range deltas {
			at++
			deltas[i] = syncd.Delta{Table: info.Table, Op: syncd.Upsert, Key: names[int(at*2654435761)%keys], Version: syncd.Version{Epoch: 1, LSN: at, Ordinal: 1},
				XID: syncd.XID(at), Row: row, Schema: info.Schema}
		}
		seq++
		m := &syncd.Marker{Epoch: 1, Through: at}
		if err := cache.Flush(&sink.Flush{Deltas: map[syncd.Table][]syncd.Delta{info.Table: deltas}, Marker: m, Seq: seq}); err != nil {
			b.Fatal(err)
		}
	}
	for range 200 {
		flush(keys / 100)
	}
	b.ReportAllocs()
	b.ResetTimer()
	n, cpu := 0, cpuTime()
	for b.Loop() {
		flush(size)
		n += size
	}
	b.ReportMetric(float64(n)/(cpuTime()-cpu).Seconds(), "deltas/cpu-s")
}

// cpuTime is what the process has used so far: on a busy machine a better measure than the clock.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
