package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/memory"
)

// BenchmarkGet compares a row read through the API, out of 100,000 in memory, with a handler that writes a constant of the
// same size, over kept-alive loopback connections.
func BenchmarkGet(b *testing.B) {
	text := `{"id":42,"name":"` + strings.Repeat("x", 181) + `"}`
	r := newRig(b)
	r.Cache = memoryCache(b, 100_000, text)
	constant := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, text)
	})
	for _, c := range []struct {
		name string
		h    http.Handler
	}{{"net-http", constant}, {"row", r}} {
		b.Run(c.name, func(b *testing.B) { get(b, c.h, len(text)) })
	}
	b.Run("handler-alone", func(b *testing.B) {
		req := httptest.NewRequest("GET", row42, nil)
		w := &discard{h: http.Header{}}
		b.ReportAllocs()
		for b.Loop() {
			clear(w.h)
			r.ServeHTTP(w, req)
		}
	})
}

// storeCache is a Cache over a store that does not change.
type storeCache struct{ *memory.Store }

func (storeCache) Changed() <-chan struct{} { return nil }

// memoryCache holds n equal rows of the table users.
func memoryCache(b *testing.B, n int, row string) storeCache {
	at := syncd.Position{Epoch: epoch, LSN: 0x16B3748}
	batch := &sink.Batch{State: &sink.State{Cursor: syncd.Cursor{Position: at}, Tables: map[syncd.Table]*sink.TableState{
		users: {Info: syncd.TableInfo{Table: users, Key: []string{"id"}}, Listed: true, Through: at},
	}}}
	for i := range n {
		batch.Writes = append(batch.Writes, sink.Write{Table: users, Key: syncd.MakeKey(strconv.Itoa(i)), Entry: sink.Entry{Row: []byte(row)}})
	}
	store := memory.New(memory.Options{})
	if err := store.Commit(batch); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { store.Close() })
	return storeCache{store}
}

type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

func get(b *testing.B, h http.Handler, size int) {
	server := httptest.NewServer(h)
	defer server.Close()
	tr := &http.Transport{MaxIdleConnsPerHost: 16}
	defer tr.CloseIdleConnections()
	c := &http.Client{Transport: tr}
	b.ReportAllocs()
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			resp, err := c.Get(server.URL + row42)
			if err != nil {
				b.Error(err)
				return
			}
			if n, _ := io.Copy(io.Discard, resp.Body); n != int64(size) {
				b.Errorf("%d bytes", n)
			}
			resp.Body.Close()
		}
	})
}
