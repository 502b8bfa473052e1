package storetest

import (
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// Place is where one store is kept, as the suite handles it: a file, a prefix, a schema, or nothing but this process. What a
// kind of store can't do has no hook, and the tests that need it are not run.
type Place struct {
	// Open opens the store that is kept here, and makes it where there is none. The suite closes each store before it opens
	// the next one at the same place.
	Open func(t testing.TB) sink.Store
	// Keeps says that what was committed is there when the place is opened again.
	Keeps bool
	// Next makes the store of a new epoch beside one that Open gave, as sink.Options.New does. nil: a new epoch begins again
	// in place.
	Next func(t testing.TB, s sink.Store) sink.Store
	// Crash has the store die within a commit to come, before the commit's step of that number, counted from 0: as by
	// kill -9 nothing is put back or written, and that Commit gives an error. A commit of fewer steps goes through. Close and
	// Open then show what is left.
	Crash func(t testing.TB, s sink.Store, step int)
	// Check fails the test where others, who read the file or the server, see something else than the store holds. nil: nobody
	// else sees anything.
	Check func(t testing.TB, s sink.Store)
	// Spoils are ways to spoil what is stored of a row behind the store's back, while it is open or closed.
	Spoils []Spoil
}

// Spoil is one way to spoil what is stored of a row.
type Spoil struct {
	Name string
	Do   func(t testing.TB, table syncd.Table, key syncd.Key)
}

// InMemory is the place of a store that keeps nothing.
func InMemory(make func() sink.Store) func(testing.TB) Place {
	return func(testing.TB) Place {
		return Place{
			Open: func(testing.TB) sink.Store { return make() },
			Next: func(testing.TB, sink.Store) sink.Store { return make() },
		}
	}
}
