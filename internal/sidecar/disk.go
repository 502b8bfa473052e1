package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/syncd-io/syncd/checkpoint"
	"github.com/syncd-io/syncd/sink"
)

// kept is a store that can be kept in a file. sink/memory's is one.
type kept interface {
	sink.Store
	checkpoint.Source
	io.ReaderFrom
}

// load makes the store of the cache that is read, of what is on disk where there is something.
func (s *Sidecar) load() (sink.Store, error) {
	open := s.config.OpenStore
	if open == nil {
		open = s.config.NewStore
	}
	store, err := open()
	if err != nil {
		return nil, fmt.Errorf("make the cache's store: %w", err)
	}
	k, ok := store.(kept)
	if !ok || s.config.Data == "" {
		return store, nil
	}
	if s.dir, err = checkpoint.Open(s.config.Data); err != nil {
		return nil, err
	}
	file := s.dir.File(s.config.Name)
	start := time.Now()
	err = file.Load(func(r io.Reader) error {
		_, err := k.ReadFrom(r)
		return err
	})
	var bad *checkpoint.FileError
	switch {
	case err == nil:
		s.log.Info("the cache was read from disk", "path", file.Path, "position", k.State().Cursor.Position, "took", time.Since(start))
	case errors.Is(err, fs.ErrNotExist):
	case errors.As(err, &bad):
		s.log.Warn("the cache on disk is no good: every table is listed anew", "error", err)
		// What was read before the fault was found is not to be had: begin with a store that never saw it.
		if store, err = open(); err != nil {
			return nil, fmt.Errorf("make the cache's store: %w", err)
		}
	default:
		return nil, err
	}
	s.saver = &checkpoint.Saver{File: file, Source: s.toSave, Logger: s.log.With("stage", "checkpoint")}
	return store, nil
}

// toSave gives the store that is read now.
func (s *Sidecar) toSave() checkpoint.Source {
	if k, ok := s.cache.Store().(kept); ok {
		return k
	}
	return nil
}

// save keeps the file up to date until the function it gives is called, which waits for the last save: what was taken in
// until then is on disk, or the log says why not.
func (s *Sidecar) save(ctx context.Context) (finish func()) {
	if s.saver == nil {
		return func() {}
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.saver.Run(ctx) }()
	return func() {
		stop()
		if err := <-done; err != nil {
			s.log.Warn("the cache was not written to disk at the end: what came since the last time is read again from the stream", "error", err)
		}
	}
}

// unlock gives the directory free.
func (s *Sidecar) unlock() error {
	if s.dir == nil {
		return nil
	}
	return s.dir.Close()
}
