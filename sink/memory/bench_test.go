package memory

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

const million = 1_000_000

var benchTable = syncd.Table{Schema: "public", Name: "users"}

// benchKey is a key as an integer column gives it; benchRow is 200 bytes of JSON.
func benchKey(i int) syncd.Key { return syncd.Key(strconv.Itoa(i)) }

func benchRow(b []byte, i, version int) []byte {
	b = fmt.Appendf(b[:0], `{"id":%d,"tenant_id":%d,"email":"user%d@example.com","version":%d,"name":"`, i, i%1000, i, version)
	for len(b) < 198 {
		b = append(b, 'a'+byte(len(b)%26))
	}
	return append(b, `"}`...)
}

// fill commits rows from..to as a list does: in pages of 5,000 in the order of the key, each with its snapshot.
func fill(tb testing.TB, s *Store, from, to int) {
	const page = 5000
	b := &sink.Batch{}
	rows := make([][]byte, page)
	for i := from; i < to; i += page {
		snap := &syncd.Snapshot{Epoch: 1, Xmin: syncd.XID(i), Xmax: syncd.XID(i + 3), Xip: []syncd.XID{syncd.XID(i)}, H: syncd.LSN(i)}
		b.Writes = b.Writes[:0]
		for j := i; j < min(i+page, to); j++ {
			rows[j-i] = benchRow(rows[j-i], j, 0)
			b.Writes = append(b.Writes, sink.Write{Table: benchTable, Key: benchKey(j),
				Entry: sink.Entry{Row: rows[j-i], Version: syncd.Version{Epoch: 1}, Snap: snap}})
		}
		if err := s.Commit(b); err != nil {
			tb.Fatal(err)
		}
	}
}

// updates makes a batch of n deltas of random rows of a million.
func updates(r *rand.Rand, n, version int) *sink.Batch {
	b := &sink.Batch{Writes: make([]sink.Write, n)}
	for j := range b.Writes {
		i := r.IntN(million)
		b.Writes[j] = sink.Write{Table: benchTable, Key: benchKey(i), Entry: sink.Entry{Row: benchRow(nil, i, version),
			Version: syncd.Version{Epoch: 1, LSN: syncd.LSN(version+1) << 20, Ordinal: uint32(j + 1)}, XID: syncd.XID(version + 1000)}}
	}
	return b
}

// residentMiB is what the process takes, where the system tells (Linux).
func residentMiB() float64 {
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, _ := strconv.Atoi(strings.Fields(rest + " 0")[0])
	return float64(kib) / 1024
}

// reportMemory reports what a row takes alive, what the process takes, and how long the collector works for it.
func reportMemory(b *testing.B, when string) {
	b.ReportMetric(residentMiB(), "MiB-resident-"+when)
	start := time.Now()
	runtime.GC()
	b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms-gc-"+when)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/million, "B/row-"+when)
}

// BenchmarkMillion lists a million rows of 200 bytes into a store, then changes a million at random, under the GOGC that a
// sidecar sets, and reports the memory of both.
func BenchmarkMillion(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(GCPercent))
	for range b.N {
		s := New(Options{})
		var longest time.Duration
		start := time.Now()
		for i := 0; i < million; i += 5000 {
			page := time.Now()
			fill(b, s, i, i+5000)
			longest = max(longest, time.Since(page))
		}
		b.ReportMetric(million/time.Since(start).Seconds(), "rows/s-listed")
		b.ReportMetric(float64(longest.Microseconds())/1000, "ms-longest-page")
		reportMemory(b, "listed")
		r := rand.New(rand.NewPCG(1, 1))
		var busy time.Duration
		for v := range 100 {
			batch := updates(r, 10_000, v)
			start := time.Now()
			if err := s.Commit(batch); err != nil {
				b.Fatal(err)
			}
			busy += time.Since(start)
		}
		b.ReportMetric(million/busy.Seconds(), "rows/s-changed")
		reportMemory(b, "changed")
		b.ReportMetric(float64(s.MemoryUsed())/million, "B/row-counted")
		runtime.KeepAlive(s)
	}
}

func filled(b *testing.B) *Store {
	s := New(Options{})
	fill(b, s, 0, million)
	b.ReportAllocs()
	b.ResetTimer()
	return s
}

// BenchmarkGet reads random rows of a million, with and without commits of 10,000 going on beside it all the time, and
// reports what the slowest hundredth takes.
func BenchmarkGet(b *testing.B) {
	for _, busy := range []bool{false, true} {
		b.Run(map[bool]string{false: "idle", true: "beside commits"}[busy], func(b *testing.B) {
			s := filled(b)
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				r := rand.New(rand.NewPCG(1, 1))
				for v := 0; busy; v++ {
					select {
					case <-stop:
						return
					default:
						if err := s.Commit(updates(r, 10_000, v)); err != nil {
							b.Error(err)
							return
						}
					}
				}
			}()
			benchmarkGet(b, s)
			close(stop)
			<-stopped
		})
	}
}

func benchmarkGet(b *testing.B, s *Store) {
	keys := make([]syncd.Key, 1<<16)
	for i := range keys {
		keys[i] = benchKey(rand.IntN(million))
	}
	took := make([]time.Duration, 0, 1<<20)
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		if _, ok := s.View().Get(benchTable, keys[i&(1<<16-1)]); !ok {
			b.Fatal("a row is missing")
		}
		if len(took) < cap(took) {
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "ns-p50")
	b.ReportMetric(float64(took[len(took)*99/100]), "ns-p99")
}

func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			s := filled(b)
			r := rand.New(rand.NewPCG(1, 1))
			batches := make([]*sink.Batch, max(16, 1000/n))
			for i := range batches {
				batches[i] = updates(r, n, i)
			}
			for i := 0; b.Loop(); i++ {
				if err := s.Commit(batches[i%len(batches)]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

func BenchmarkWalk(b *testing.B) {
	s := filled(b)
	for b.Loop() {
		n := 0
		s.View().Rows(benchTable, 0, func(syncd.Key, sink.Entry) bool { n++; return true })
		if n != million {
			b.Fatal(n)
		}
	}
}

func BenchmarkWriteTo(b *testing.B) {
	s := filled(b)
	for b.Loop() {
		n, err := s.WriteTo(io.Discard)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(n)
	}
}

func BenchmarkReadFrom(b *testing.B) {
	var file bytes.Buffer
	if _, err := filled(b).WriteTo(&file); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(file.Len()))
	for b.Loop() {
		if _, err := New(Options{}).ReadFrom(bytes.NewReader(file.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}
