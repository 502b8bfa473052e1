package sqlite

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

var benchInfo = syncd.TableInfo{Table: users, Key: []string{"id"}, Schema: 1,
	Columns: []string{"id", "tenant_id", "email", "name", "status", "created_at"},
	Types:   []string{"bigint", "bigint", "text", "text", "text", "timestamp with time zone"}}

func benchRow(id, n int) []byte {
	return fmt.Appendf(nil, `{"id":%d,"tenant_id":%d,"email":"someone.%d@example.com","name":"Some One %d","status":"active","created_at":"2026-01-02T03:04:05.%06d+00:00"}`, id, id%100, id, n, n%1000000)
}

// BenchmarkFlush applies flushes of 5000 changes of random rows of 100,000 through a cache; its unit is one change.
func BenchmarkFlush(b *testing.B) {
	const rows, each = 100_000, 5000
	s, err := Open(Options{Path: filepath.Join(b.TempDir(), "cache.db"), Name: "shop", Indexes: map[syncd.Table][][]string{users: {{"email"}}}})
	if err != nil {
		b.Fatal(err)
	}
	c := sink.New(sink.Options{Store: s})
	defer c.Close()
	if err := c.SetTables([]syncd.TableInfo{benchInfo}); err != nil {
		b.Fatal(err)
	}
	r, lsn := rand.New(rand.NewPCG(1, 1)), syncd.LSN(1)
	flush := func(key func(i int) int, n int) {
		f := &sink.Flush{Marker: &syncd.Marker{Epoch: 1, Previous: lsn, Through: lsn + 1, Safe: lsn + 1}, Seq: uint64(lsn)}
		lsn++
		seen := map[int]bool{}
		var all []syncd.Delta
		for i := range n {
			id := key(i)
			if seen[id] {
				continue
			}
			seen[id] = true
			all = append(all, syncd.Delta{Table: users, Op: syncd.Upsert, Key: syncd.MakeKey(fmt.Sprint(id)), XID: syncd.XID(lsn), Schema: 1,
				Version: syncd.Version{Epoch: 1, LSN: lsn, Ordinal: uint32(i + 1)}, Row: benchRow(id, r.IntN(1e6))})
		}
		f.Deltas = map[syncd.Table][]syncd.Delta{users: all}
		if err := c.Flush(f); err != nil {
			b.Fatal(err)
		}
	}
	for i := 0; i < rows; i += 10_000 {
		flush(func(j int) int { return i + j }, 10_000)
	}
	used := processor()
	b.ResetTimer()
	for n := 0; n < b.N; n += each {
		flush(func(int) int { return r.IntN(rows) }, min(each, b.N-n))
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deltas/s")
	b.ReportMetric(float64(b.N)/(processor()-used).Seconds(), "deltas/cpu-s")
}

// processor is the processor time that this process has used.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFirst writes rows that are new in the order of their key, 10,000 a commit, as a first list does; its unit is one row.
func BenchmarkFirst(b *testing.B) {
	s, err := Open(Options{Path: filepath.Join(b.TempDir(), "cache.db"), Name: "shop", Indexes: map[syncd.Table][][]string{users: {{"email"}}}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	used := processor()
	for id := 0; id < b.N; {
		batch := &sink.Batch{State: stateOf(benchInfo)}
		var keys []syncd.Key
		for ; id < b.N && len(keys) < 10_000; id++ {
			batch.Writes = append(batch.Writes, upsert(users, string(benchRow(id, id)), fmt.Sprint(id)))
			keys = append(keys, batch.Writes[len(keys)].Key)
		}
		if err := s.Prefetch(users, keys); err != nil {
			b.Fatal(err)
		}
		mustCommit(b, s, batch)
	}
	b.ReportMetric(float64(b.N)/(processor()-used).Seconds(), "rows/cpu-s")
}
