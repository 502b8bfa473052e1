package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/api"
	"github.com/syncd-io/syncd/resync"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/memory"
)

// caches is a cache in this process, without Postgres and NATS, and what is flushed into it.
type caches struct {
	*sink.Cache
	store  *memory.Store // nil where it is another
	info   syncd.TableInfo
	rows   int
	at     syncd.LSN
	seq    uint64
	deltas []syncd.Delta
}

// newCaches makes a cache of rows of 200 bytes whose table was listed.
func newCaches(rows int) (*caches, error) {
	store := memory.New(memory.Options{})
	c, err := newCachesIn(store, rows)
	if err != nil {
		return nil, err
	}
	c.store = store
	return c, nil
}

// newCachesIn makes one in a store, which it owns from then on.
func newCachesIn(store sink.Store, rows int) (*caches, error) {
	info := syncd.TableInfo{Table: syncd.Table{Schema: "public", Name: "item"}, Columns: []string{"id", "note"}, Types: []string{"bigint", "text"},
		Key: []string{"id"}, Schema: 1}
	now := time.Now()
	err := store.Commit(&sink.Batch{State: &sink.State{
		Cursor: syncd.Cursor{Position: syncd.Position{Epoch: 1}}, Sent: now, Applied: now,
		Tables: map[syncd.Table]*sink.TableState{info.Table: {Info: info, Listed: true, Through: syncd.Position{Epoch: 1}}},
	}})
	if err != nil {
		return nil, err
	}
	c := &caches{Cache: sink.New(sink.Options{Store: store}), info: info, rows: rows}
	const page = 10_000
	for i := 0; i < rows; i += page {
		c.fill(min(page, rows-i), func(n int) int { return i + n })
		if err := c.apply(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// fill makes the next flush: n upserts of the rows that pick names. As in a message, keys and rows lie one behind the other.
func (c *caches) fill(n int, pick func(int) int) {
	c.deltas = c.deltas[:0]
	rows, names, ends := make([]byte, 0, n*200), make([]byte, 0, n*8), make([]int, 0, n)
	for i := range n {
		c.at++
		k := pick(i)
		names = strconv.AppendInt(names, int64(k), 10)
		ends = append(ends, len(names))
		begin := len(rows)
		rows = fmt.Appendf(rows, `{"id":%d,"note":"%016x`, k, uint64(c.at)*0x9E3779B97F4A7C15)
		for len(rows)-begin < 198 {
			rows = append(rows, 'a'+byte(len(rows)%26))
		}
		rows = append(rows, `"}`...)
		c.deltas = append(c.deltas, syncd.Delta{Table: c.info.Table, Op: syncd.Upsert, Row: rows[begin:len(rows):len(rows)],
			Version: syncd.Version{Epoch: 1, LSN: c.at, Ordinal: 1}, XID: syncd.XID(c.at), Schema: c.info.Schema})
	}
	keys, from := syncd.Key(names), 0
	for i, end := range ends {
		c.deltas[i].Key, from = keys[from:end], end
	}
}

// apply flushes what fill made.
func (c *caches) apply() error {
	c.seq++
	m := &syncd.Marker{Epoch: 1, Through: c.at, Sent: time.Now()}
	return c.Flush(&sink.Flush{Deltas: map[syncd.Table][]syncd.Delta{c.info.Table: c.deltas}, Marker: m, Seq: c.seq})
}

func (c *caches) any(int) int { return rand.IntN(c.rows) }

// alone is a sidecar without stages around it.
type alone struct{}

func (alone) Ready() error       { return nil }
func (alone) Status() api.Status { return api.Status{Name: "bench"} }
func (alone) Mark(context.Context, syncd.LSN) (syncd.Position, error) {
	return syncd.Position{}, nil
}
func (alone) Request(context.Context, syncd.Table, resync.Options) (*resync.Report, error) {
	return &resync.Report{}, nil
}

func newAPI(c api.Cache) *api.API {
	return api.New(api.Options{Cache: c, Resync: alone{}, Node: alone{}, Marks: alone{}, Gatherer: prometheus.NewRegistry()})
}
