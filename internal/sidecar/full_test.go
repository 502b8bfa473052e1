package sidecar

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/resync"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/memory"
)

// TestFullStore: a cache that max_memory does not let grow says so in its status and its log, serves on what it has, and is well
// again when there is room.
func TestFullStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		for i := range 20 {
			w.write(key(i), true)
		}
		for _, x := range w.unseen() {
			w.show(x)
		}
		w.publish()
		var log bytes.Buffer
		c := Config{MaxPrune: 0.5, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			NewStore: func() (sink.Store, error) { return memory.New(memory.Options{MaxMemory: 20_000}), nil }}
		s, err := Open(c, w, w)
		if err != nil {
			t.Fatal(err)
		}
		run(t, s, func(ctx context.Context, s *Sidecar) {
			pass(time.Second)
			if err := s.Cache().Fault(); err != nil || s.Ready() != nil {
				t.Errorf("with room: %v, %v", err, s.Ready())
			}
			for i := range 400 {
				w.write(key(100+i), true)
			}
			for _, x := range w.unseen() {
				w.show(x)
			}
			w.publish()
			pass(time.Minute)
			full := (*memory.FullError)(nil)
			if err := s.Cache().Fault(); !errors.As(err, &full) || !strings.Contains(err.Error(), "raise sidecar.max_memory") {
				t.Errorf("a full store says %v", err)
			}
			if len(content(s.Cache())) != 20 {
				t.Errorf("%d rows are served, want 20", len(content(s.Cache())))
			}
			for i := range 395 {
				w.write(key(100+i), false)
			}
			for _, x := range w.unseen() {
				w.show(x)
			}
			w.publish()
			if err := s.cache.SetTables([]syncd.TableInfo{{Table: things, Error: "for a moment"}}); err != nil {
				t.Error(err)
			}
			pass(10 * time.Minute)
			if _, err := s.Request(ctx, things, resync.Options{Mode: resync.Full}); err != nil {
				t.Error(err)
			}
			if err := s.Cache().Fault(); err != nil || len(content(s.Cache())) != 25 {
				t.Errorf("with room again: %v, %d rows", err, len(content(s.Cache())))
			}
		})
		if !strings.Contains(log.String(), "raise sidecar.max_memory") {
			t.Errorf("the log says nothing of it:\n%s", &log)
		}
	})
}
