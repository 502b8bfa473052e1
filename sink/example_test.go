package sink_test

import (
	"context"
	"fmt"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/memory"
)

// A delta can be in the log, and here, before it is visible to a list. The list's older row does not take its place, though
// the list was read later: its snapshot does not see the delta's transaction.
func ExampleGateRow() {
	held := sink.Entry{Row: []byte(`{"id":1,"name":"new"}`), Version: syncd.Version{Epoch: 1, LSN: 0x2030, Ordinal: 1}, XID: 731}
	list := &syncd.Snapshot{Epoch: 1, Xmin: 731, Xmax: 733, Xip: []syncd.XID{731}, H: 0x2050}
	v := sink.GateRow(&sink.TableState{}, held, true, []byte(`{"id":1,"name":"old"}`), list)
	fmt.Println(v.Decision == sink.Take, v.Reason)

	list = &syncd.Snapshot{Epoch: 1, Xmin: 733, Xmax: 733, H: 0x2050}
	v = sink.GateRow(&sink.TableState{}, held, true, []byte(`{"id":1,"name":"newer"}`), list)
	fmt.Println(v.Decision == sink.Take, v.Kind)
	// Output:
	// false newer delta
	// true corrupt
}

// A cache is told which tables to keep, takes in what the stream brings, is given a complete list, and is read.
func ExampleCache() {
	users := syncd.Table{Schema: "public", Name: "users"}
	cache := sink.New(sink.Options{Store: memory.New(memory.Options{})})
	defer cache.Close()
	err := cache.SetTables([]syncd.TableInfo{{Table: users, Columns: []string{"id", "name"}, Types: []string{"integer", "text"}, Key: []string{"id"}, Schema: 1}})
	if err != nil {
		fmt.Println(err)
	}
	change := syncd.Delta{Table: users, Op: syncd.Upsert, Key: syncd.MakeKey("1"), Row: []byte(`{"id":1,"name":"Ann"}`),
		Version: syncd.Version{Epoch: 1, LSN: 0x100, Ordinal: 1}, XID: 700, Schema: 1}
	err = cache.Flush(&sink.Flush{
		Deltas: map[syncd.Table][]syncd.Delta{users: {change}},
		Marker: &syncd.Marker{Epoch: 1, Through: 0x100, Safe: 0x100},
	})
	if err != nil {
		fmt.Println(err)
	}
	page := &syncd.Page{Table: users, Schema: 1, Snapshot: &syncd.Snapshot{Epoch: 1, Xmin: 701, Xmax: 701, H: 0x100}, Safe: 0x100,
		Rows: []syncd.Row{{Key: syncd.MakeKey("1"), JSON: []byte(`{"id":1,"name":"Ann"}`)}, {Key: syncd.MakeKey("2"), JSON: []byte(`{"id":2,"name":"Bob"}`)}}}
	if _, err := cache.Judge(page, sink.How{}); err != nil {
		fmt.Println(err)
	}
	verified, _, err := cache.Done(context.Background(), &sink.List{Table: users, Schema: 1, Snapshots: []*syncd.Snapshot{page.Snapshot}, Safe: page.Safe})
	fmt.Println("verified through", verified, err)

	view := cache.View()
	defer view.Close()
	row, _ := view.Get(users, syncd.MakeKey("2"))
	fmt.Println(string(row.Row), "at", view.State().Tables[users].Through)
	// Output:
	// verified through 1-0/100 <nil>
	// {"id":2,"name":"Bob"} at 1-0/100
}

// A feed follows a stream (bus.Stream is one on JetStream) and brings it to a cache, until its context ends.
func ExampleFeed() {
	users := syncd.Table{Schema: "public", Name: "users"}
	stream := newScript() // of this package's tests
	stream.marker(syncd.Marker{Epoch: 1, Through: 0x100, Safe: 0x100})

	cache := sink.New(sink.Options{Store: memory.New(memory.Options{})})
	defer cache.Close()
	if err := cache.SetTables([]syncd.TableInfo{{Table: users, Key: []string{"id"}, Schema: 1}}); err != nil {
		fmt.Println(err)
	}
	feed := &sink.Feed{Stream: stream, Cache: cache}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- feed.Run(ctx) }()
	for at := (syncd.Position{Epoch: 1, LSN: 0x100}); cache.Through().Compare(at) < 0; {
		changed := cache.Changed()
		if cache.Through().Compare(at) < 0 {
			<-changed
		}
	}
	fmt.Println("the cache is at", cache.Through())
	cancel()
	fmt.Println(<-ended)
	// Output:
	// the cache is at 1-0/100
	// context canceled
}
