package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/checkpoint"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/memory"
)

// A cache is saved, and a process that starts later has it at once.
func ExampleSaver() {
	path, err := os.MkdirTemp("", "syncd")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(path)
	dir, err := checkpoint.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dir.Close()

	users := syncd.Table{Schema: "public", Name: "users"}
	store := memory.New(memory.Options{})
	saver := &checkpoint.Saver{File: dir.File("shop"), Source: func() checkpoint.Source { return store }}
	err = store.Commit(&sink.Batch{
		Writes: []sink.Write{{Table: users, Key: syncd.MakeKey("42"), Entry: sink.Entry{Row: []byte(`{"id":42}`)}}},
		State:  &sink.State{Cursor: syncd.Cursor{Seq: 7, Position: syncd.Position{Epoch: 1, LSN: 0x16B3748}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	saved, err := saver.Step(context.Background()) // saver.Run does it at intervals
	fmt.Println("saved:", saved, err)

	later := memory.New(memory.Options{})
	err = dir.File("shop").Load(func(r io.Reader) error {
		_, err := later.ReadFrom(r)
		return err
	})
	var bad *checkpoint.FileError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fmt.Println("the first start: list")
	case errors.As(err, &bad):
		fmt.Println("put aside:", bad, "- list anew")
	case err != nil:
		fmt.Println(err)
	}
	e, _, _ := later.Load(users, syncd.MakeKey("42"))
	fmt.Println(string(e.Row), "as of", later.State().Cursor.Position)
	// Output:
	// saved: true <nil>
	// {"id":42} as of 1-0/16B3748
}
