package daemon

import (
	"fmt"
	"log/slog"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/memory"
	"github.com/syncd-io/syncd/sink/sqlite"
)

// stores make one sink's stores.
type stores struct {
	// open makes the store that is read at the start, of what an earlier process left, where the sink keeps that itself.
	open func() (sink.Store, error)
	// next makes an empty store for each new epoch, to be built beside the one that is read. nil: a new epoch begins again in
	// place, and its tables are served when they were listed.
	next func() (sink.Store, error)
	// inFile says that the store is kept in the sidecar's data directory, between two runs.
	inFile bool
}

// sinks makes the stores of each kind of sink that a configuration can name. None of it waits for a server: one that is away
// is waited for by the stages, and holds up no other sink.
var sinks = map[string]func(sinkSpec) (stores, error){
	"memory":   memoryStores,
	"sqlite":   sqliteStores,
	"redis":    redisStores,
	"postgres": postgresStores,
}

// sinkSpec is what a sink is told.
type sinkSpec struct {
	config.Sink
	sync    string // the sync's name
	sidecar config.Sidecar
	indexes func() map[syncd.Table][][]string // that are declared now
	log     *slog.Logger
}

// stores makes the stores of a sink.
func (s sinkSpec) stores() (stores, error) {
	kind, ok := sinks[s.Kind]
	if !ok {
		return stores{}, fmt.Errorf("sidecar.sink: %s is not there: use memory, sqlite, redis or postgres", s.Kind)
	}
	return kind(s)
}

func memoryStores(s sinkSpec) (stores, error) {
	make := func() (sink.Store, error) {
		return memory.New(memory.Options{MaxMemory: int64(s.sidecar.MaxMemory), Indexes: s.indexes()}), nil
	}
	return stores{open: make, next: make, inFile: true}, nil
}

func sqliteStores(s sinkSpec) (stores, error) {
	var first *sqlite.Store
	return stores{
		open: func() (_ sink.Store, err error) {
			first, err = sqlite.Open(sqlite.Options{Path: s.SQLite.Path, Name: s.sync, Indexes: s.indexes(), Log: s.log})
			return first, err
		},
		next: func() (sink.Store, error) { return first.Next() },
	}, nil
}
