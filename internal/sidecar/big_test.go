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
	gets   int
	onPage func()
}

var padding = bytes.Repeat([]byte("x"), 180)

func bigRow(i int) []byte { return fmt.Appendf(nil, `{"k":"%08d","n":"%s"}`, i, padding) }

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
		row := syncd.Row{Key: bigKey(i), JSON: bigRow(i)}
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

// Get gives the rows that the table has.
func (b *bigTable) Get(_ context.Context, q syncd.GetRequest) (*syncd.Page, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.page()
	p.Asked = q.Keys
	for _, k := range q.Keys {
		if i, err := strconv.Atoi(k.Values()[0]); err == nil && i < b.rows {
			p.Rows = append(p.Rows, syncd.Row{Key: k, JSON: bigRow(i)})
		}
	}
	b.gets++
	if b.onPage != nil {
		b.onPage()
	}
	return p, nil
}

// Digest sums the rows up.
func (b *bigTable) Digest(_ context.Context, q syncd.DigestRequest) (*syncd.Digest, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.page()
	d := &syncd.Digest{
		Table: p.Table, Schema: p.Schema, System: p.System, Timeline: p.Timeline, Safe: p.Safe, Snapshot: p.Snapshot,
		Form: syncd.DigestForm, Bits: q.Bits, Buckets: make([]syncd.Totals, 1<<q.Bits),
	}
	for i := range b.rows {
		k := bigKey(i)
		d.Buckets[syncd.BucketOf(k.Hash(), q.Bits)].Add(k, bigRow(i))
	}
	if b.onPage != nil {
		b.onPage()
	}
	return d, nil
}

// TestResyncHoldsLittle: while a table is compared, the heap grows by no more than a fifth of what the table takes: when it is
// listed, when rows of the cache are looked for that the list lacks, and when digests are compared.
func TestResyncHoldsLittle(t *testing.T) {
	const rows = 100_000
	for name, tt := range map[string]struct {
		options resync.Options
		gone    int // rows that are deleted, and whose deletes are lost
		ghosts  int
	}{
		"full, in sync": {options: resync.Options{Mode: resync.Full}},
		// What is repaired is kept for watchers for a while, with the rows before, as what is pushed is: that has a bound of its own.
		"full, a tenth is gone":         {options: resync.Options{Mode: resync.Full}, gone: rows / 10, ghosts: rows / 10},
		"full, a third is gone, a diff": {options: resync.Options{Mode: resync.Full, Dry: true}, gone: rows / 3, ghosts: rows / 3},
		"digest, in sync":               {options: resync.Options{Mode: resync.Digest}},
		"digest, a few are gone":        {options: resync.Options{Mode: resync.Digest}, gone: 20, ghosts: 20},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bigTable{world: newWorld(1), rows: rows}
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
					b.rows, b.gets = rows-tt.gone, 0
					looks := 0
					b.onPage = func() {
						if looks++; looks%10 == 1 { // each takes a while
							high = max(high, heap())
						}
					}
					rep, err := s.Request(ctx, things, tt.options)
					b.onPage = nil
					if err != nil || rep.Ghost != tt.ghosts || rep.Mode != tt.options.Mode || rep.Missing+rep.Stale+rep.Corrupt > 0 {
						t.Errorf("%+v, %v", rep, err)
					}
					if (b.gets > 0) != (tt.gone > 0) {
						t.Errorf("%d gets", b.gets)
					}
				})
				table, rise := full-empty, high-min(high, full)
				t.Logf("the table takes %d MiB, the comparison %d KiB more", table>>20, rise>>10)
				if table < 20<<20 || rise*5 > table {
					t.Errorf("a comparison takes %d bytes beside a table of %d", rise, table)
				}
			})
		})
	}
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
