package sidecar

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/resync"
)

// bigTable is a world whose list service makes up rows of 200 bytes as they are asked for.
type bigTable struct {
	*world
	rows   int
	onPage func()
}

var padding = bytes.Repeat([]byte("x"), 180)

func bigKey(i int) syncd.Key { return syncd.MakeKey(fmt.Sprintf("%08d", i)) }

func (b *bigTable) List(_ context.Context, q syncd.ListRequest) (*syncd.Page, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.page()
	p.Sent = q.Sent
	from := 0
	if q.Started {
		i, err := strconv.Atoi(q.After.Values()[0])
		if err != nil {
			return nil, err
		}
		from = i + 1
	}
	to := min(from+2000, b.rows)
	p.Rows = make([]syncd.Row, 0, to-from)
	for i := from; i < to; i++ {
		row := syncd.Row{Key: bigKey(i), JSON: fmt.Appendf(nil, `{"k":"%08d","n":"%s"}`, i, padding)}
		p.Rows = append(p.Rows, row)
		p.Sent.Add(row.Key, row.JSON)
		p.Bytes += len(row.JSON)
	}
	p.Last, p.After = to == b.rows, bigKey(to-1)
	if b.onPage != nil {
		b.onPage()
	}
	return p, nil
}

// TestResyncHoldsLittle: while a table is listed, the heap grows by no more than a fifth of what the table takes.
func TestResyncHoldsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bigTable{world: newWorld(1), rows: 100_000}
		var empty, full, high uint64
		heap := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		empty = heap()
		keepOver(t, b.world, b, Config{MaxPrune: 0.5}, func(ctx context.Context, s *Sidecar) {
			pass(10e9)
			full = heap()
			b.onPage = func() { high = max(high, heap()) }
			rep, err := s.Request(ctx, things, resync.Options{Mode: resync.Full})
			if err != nil || !rep.Equal() || rep.Rows != 100_000 {
				t.Errorf("%+v, %v", rep, err)
			}
		})
		table, rise := full-empty, high-min(high, full)
		t.Logf("the table takes %d MiB, a resync %d KiB more", table>>20, rise>>10)
		if table < 20<<20 || rise*5 > table {
			t.Errorf("a resync takes %d bytes beside a table of %d", rise, table)
		}
	})
}

// BenchmarkResync measures a full comparison of a table that is in sync: check, judge and walk, without bus and server.
func BenchmarkResync(b *testing.B) {
	big := &bigTable{world: newWorld(1), rows: 200_000}
	keepOver(b, big.world, big, Config{MaxPrune: 0.5}, func(ctx context.Context, s *Sidecar) {
		for changed := s.Cache().Changed(); s.Ready() != nil; changed = s.Cache().Changed() {
			<-changed
		}
		b.ReportAllocs()
		for b.Loop() {
			rep, err := s.Request(ctx, things, resync.Options{Mode: resync.Full})
			if err != nil || !rep.Equal() {
				b.Fatalf("%+v, %v", rep, err)
			}
		}
		b.ReportMetric(float64(big.rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	})
}
