package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/api"
	"github.com/syncd-io/syncd/resync"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/memory"
)

// alone is a sidecar without stages around it.
type alone struct{}

func (alone) Ready() error       { return nil }
func (alone) Status() api.Status { return api.Status{Name: "shop"} }
func (alone) Mark(context.Context, syncd.LSN) (syncd.Position, error) {
	return syncd.Position{}, nil
}
func (alone) Request(context.Context, syncd.Table, resync.Options) (*resync.Report, error) {
	return &resync.Report{}, nil
}

// An API answers reads of a cache.
func ExampleAPI() {
	users := syncd.Table{Schema: "public", Name: "users"}
	at := syncd.Position{Epoch: 1764534000000, LSN: 0x16B3748}
	store := memory.New(memory.Options{})
	err := store.Commit(&sink.Batch{
		Writes: []sink.Write{{Table: users, Key: syncd.MakeKey("42"), Entry: sink.Entry{Row: []byte(`{"id":42,"name":"Ann"}`)}}},
		State: &sink.State{Cursor: syncd.Cursor{Position: at}, Sent: time.Now(), Applied: time.Now(), Tables: map[syncd.Table]*sink.TableState{
			users: {Info: syncd.TableInfo{Table: users, Key: []string{"id"}}, Listed: true, Through: at},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	cache := sink.New(sink.Options{Store: store})
	defer cache.Close()
	server := httptest.NewServer(api.New(api.Options{Cache: cache, Resync: alone{}, Node: alone{}, Marks: alone{}, Gatherer: prometheus.NewRegistry()}))
	defer server.Close()

	for _, path := range []string{"/v1/tables/public.users/rows/42?min_version=0/16B3748", "/v1/tables/public.users/rows/43"} {
		resp, err := http.Get(server.URL + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(resp.StatusCode, resp.Header.Get("Syncd-Version"), string(body))
	}
	// Output:
	// 200 1764534000000-0/16B3748 {"id":42,"name":"Ann"}
	// 404 1764534000000-0/16B3748 {"error":"no row 43 in public.users"}
}
