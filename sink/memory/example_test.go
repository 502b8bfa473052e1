package memory_test

import (
	"fmt"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/memory"
)

// A view shows one commit, whatever comes after it.
func ExampleStore() {
	users := syncd.Table{Schema: "public", Name: "users"}
	put := func(row string) sink.Write {
		return sink.Write{Table: users, Key: syncd.MakeKey("42"), Entry: sink.Entry{Row: []byte(row)}}
	}
	store := memory.New(memory.Options{MaxMemory: 1 << 30})
	defer store.Close()
	if err := store.Commit(&sink.Batch{Writes: []sink.Write{put(`{"id":42,"name":"Ann"}`)}}); err != nil {
		fmt.Println(err)
		return
	}
	view := store.View()
	defer view.Close()
	if err := store.Commit(&sink.Batch{Writes: []sink.Write{put(`{"id":42,"name":"Anna"}`)}}); err != nil {
		fmt.Println(err)
		return
	}
	before, _ := view.Get(users, syncd.MakeKey("42"))
	now, _, _ := store.Load(users, syncd.MakeKey("42"))
	fmt.Printf("%s\n%s\n", before.Row, now.Row)
	// Output:
	// {"id":42,"name":"Ann"}
	// {"id":42,"name":"Anna"}
}
