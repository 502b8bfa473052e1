package redis

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// BenchmarkCommit writes rows of 200 bytes in commits of 1,000, of 100,000 keys: into an empty place, and again, when each commit
// first loads what is there. Compare with redis-benchmark -P 64 -d 200 -r 100000 -t set.
func BenchmarkCommit(b *testing.B) {
	const keys, size = 100_000, 1000
	pad := bytes.Repeat([]byte("x"), 170)
	for _, again := range []bool{false, true} {
		b.Run(fmt.Sprintf("again=%v", again), func(b *testing.B) {
			o := options(ownServer(b))
			o.URL = o.URL[:len(o.URL)-len(fmt.Sprint(places.Load()))] + "0"
			s, err := New(b.Context(), o)
			must(b, err)
			defer s.Close()
			at := 0
			round := func() {
				for from := 0; from < keys; from += size {
					at++
					batch := batch(at)
					names := make([]syncd.Key, size)
					for i := range size {
						names[i] = syncd.MakeKey(fmt.Sprint(from + i))
						batch.Writes = append(batch.Writes, sink.Write{Table: users, Key: names[i], Entry: sink.Entry{
							Row: fmt.Appendf(nil, `{"id":%d,"pad":"%s"}`, from+i, pad), Version: syncd.Version{Epoch: 1, LSN: syncd.LSN(at), Ordinal: uint32(i)}, XID: syncd.XID(at)}})
					}
					must(b, s.Prefetch(users, names))
					must(b, s.Commit(batch))
				}
			}
			if again {
				round()
			}
			rows := 0
			start := time.Now()
			for b.Loop() {
				round()
				rows += keys
			}
			b.ReportMetric(float64(rows)/time.Since(start).Seconds(), "rows/s")
		})
	}
}
