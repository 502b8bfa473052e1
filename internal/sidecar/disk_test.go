package sidecar

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/checkpoint"
	"github.com/syncd-io/syncd/resync"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/memory"
)

// filled gives a world of 50 rows, and has a sidecar keep them in dir.
func filled(t *testing.T, dir string) *world {
	w := newWorld(1)
	for i := range 50 {
		w.write(key(i), true)
	}
	show(w)
	w.publish()
	keep(t, w, onDisk(dir), func(ctx context.Context, s *Sidecar) {
		pass(3 * time.Second)
		if err := s.Ready(); err != nil {
			t.Fatal(err)
		}
	})
	return w
}

func onDisk(dir string) Config {
	return Config{Name: "shop", Data: dir, MaxPrune: 0.5, Interval: 24 * time.Hour}
}

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// TestRestartServesAtOnce: with stream and source away, what was kept is read at once; when they are back the sidecar goes
// on where it was, without a list: the last one counts across restarts.
func TestRestartServesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := filled(t, dir)
		want := w.rows()
		w.set(func() { w.away, w.noTail, w.requests = true, true, 0 })
		w.write(key(3), true)
		w.publish()
		show(w)
		s := open(t, w, w, onDisk(dir))
		if got := content(s.Cache()); !maps.Equal(got, want) {
			t.Errorf("at once: %d rows, want 50", len(got))
		}
		if st := s.state(); st.Age < 0 || len(st.Tables) != 1 || st.Tables[0].Rows != 50 {
			t.Errorf("state %+v", st)
		}
		run(t, s, func(ctx context.Context, s *Sidecar) {
			pass(time.Minute)
			if err := s.Ready(); err == nil {
				t.Error("ready before the stream was reached: a read behind a probe could go back")
			}
			if got := content(s.Cache()); !maps.Equal(got, want) {
				t.Errorf("after a minute without stream and source: %d rows, want 50", len(got))
			}
			w.set(func() { w.away, w.noTail = false, false })
			pass(20 * time.Second)
			if err := s.Ready(); err != nil {
				t.Errorf("not ready: %v", err)
			}
			if got := content(s.Cache()); !maps.Equal(got, w.rows()) {
				t.Error("what came while the sidecar was away is not in the cache")
			}
			if n := w.asked(); n != 0 {
				t.Errorf("%d lists and gets: a daily resync must not be made by every restart", n)
			}
			pass(25 * time.Hour)
			if rep := s.Reports(); len(rep) != 1 || !rep[0].Equal() {
				t.Errorf("after a day: %v", rep)
			}
		})
	})
}

// TestDamagedFileIsListedAnew: it is put aside with a warning, never fatal, never served.
func TestDamagedFileIsListedAnew(t *testing.T) {
	for name, spoil := range map[string]func([]byte) []byte{
		"a flipped bit": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"cut short":     func(b []byte) []byte { return b[:len(b)/2] },
		"empty":         func([]byte) []byte { return nil },
		"of another":    func(b []byte) []byte { return bytes.Replace(b, []byte("shop"), []byte("shed"), 1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				w := filled(t, dir)
				path := filepath.Join(dir, "shop.checkpoint")
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, spoil(b), 0o600); err != nil {
					t.Fatal(err)
				}
				w.set(func() { w.requests = 0 })
				var log bytes.Buffer
				c := onDisk(dir)
				c.Logger = slog.New(slog.NewTextHandler(&log, nil))
				s := open(t, w, w, c)
				if n := len(content(s.Cache())); n != 0 {
					t.Errorf("%d rows of a damaged file are served", n)
				}
				if !strings.Contains(log.String(), "put aside") {
					t.Errorf("the log says %s", log.String())
				}
				run(t, s, func(ctx context.Context, s *Sidecar) {
					pass(3 * time.Second)
					if w.asked() == 0 || !maps.Equal(content(s.Cache()), w.rows()) {
						t.Errorf("%d lists, %d rows", w.asked(), len(content(s.Cache())))
					}
				})
				if aside, _ := filepath.Glob(path + ".bad-*"); len(aside) != 1 {
					t.Errorf("put aside: %v", aside)
				}
			})
		})
	}
}

func TestDirectoryIsOneSidecars(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(1)
	c := onDisk(dir)
	c.NewStore = newStore
	s, err := Open(c, w, w)
	if err != nil {
		t.Fatal(err)
	}
	var locked *checkpoint.LockedError
	if _, err := Open(c, w, w); !errors.As(err, &locked) {
		t.Errorf("a second sidecar on one directory: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(c, w, w); err != nil {
		t.Fatalf("after the first was closed: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTooLargeForTheStore: a cache on disk that does not fit is an error, and the file stays for a larger one.
func TestTooLargeForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := filled(t, dir)
		c := onDisk(dir)
		c.NewStore = func() (sink.Store, error) { return memory.New(memory.Options{MaxMemory: 1}), nil }
		if _, err := Open(c, w, w); err == nil {
			t.Fatal("opened")
		}
		s := open(t, w, w, onDisk(dir))
		if n := len(content(s.Cache())); n != 50 {
			t.Errorf("%d rows are left of the file", n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestStopsInTime: whatever is under way, a sidecar that is told to stop has stopped and saved within 5 seconds.
func TestStopsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w := filled(t, dir)
		c := onDisk(dir)
		var stopped time.Time
		keep(t, w, c, func(ctx context.Context, s *Sidecar) {
			pass(time.Second)
			w.write(key(7), true) // hangs in its commit
			w.publish()
			w.set(func() { w.away = true })
			w.write(key(8), true)
			asked := make(chan error, 1)
			go func() {
				_, err := s.Request(ctx, things, resync.Options{})
				asked <- err
			}()
			pass(time.Second)
			if err := <-asked; err == nil {
				t.Error("a resync of a source that is away is complete")
			}
			stopped = time.Now()
		})
		if took := time.Since(stopped); took > 5*time.Second {
			t.Errorf("stopping took %v", took)
		}
		w.set(func() { w.noTail = true })
		s := open(t, w, w, c)
		if got, want := content(s.Cache())[key(7)], w.history(key(7))[1].row; got != want {
			t.Errorf("the last save holds %s, want %s", got, want)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestSetTables: a table that is not wanted any more loses its rows, one that the source does not know is refused by name,
// and one that is wanted again is listed.
func TestSetTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		for i := range 10 {
			w.write(key(i), true)
		}
		show(w)
		w.publish()
		keep(t, w, Config{MaxPrune: 0.5}, func(ctx context.Context, s *Sidecar) {
			pass(3 * time.Second)
			other := things
			other.Name = "other"
			if err := s.SetTables(ctx, []syncd.Table{other}); err != nil {
				t.Fatal(err)
			}
			st := s.Cache().State()
			if st.Tables[things] != nil || len(content(s.Cache())) != 0 || !strings.Contains(st.Tables[other].Info.Error, "source") {
				t.Errorf("tables %v", st.Tables)
			}
			if _, err := s.Request(ctx, other, resync.Options{}); err == nil {
				t.Error("a table that the source does not sync was resynced")
			}
			if err := s.SetTables(ctx, nil); err != nil {
				t.Fatal(err)
			}
			pass(3 * time.Second)
			if len(content(s.Cache())) != 10 || s.Cache().State().Tables[other] != nil {
				t.Errorf("%d rows of the table that is wanted again", len(content(s.Cache())))
			}
		})
	})
}

func ExampleOpen() {
	w := newWorld(1) // stands for the stream and the list service
	s, err := Open(Config{Name: "shop", MaxPrune: 0.5, NewStore: newStore}, w, w)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	for changed := s.Cache().Changed(); s.Ready() != nil; changed = s.Cache().Changed() {
		<-changed
	}
	fmt.Println("ready")
	cancel()
	fmt.Println(<-done, s.Close())
	// Output:
	// ready
	// context canceled <nil>
}

// TestReadyIsNotBehindALastLife: after a restart, a loss that an earlier process had healed and a row that it had fetched
// are to be had again before reads are let in.
func TestReadyIsNotBehindALastLife(t *testing.T) {
	for name, tc := range map[string]struct {
		lose, point float64
		waits       string
	}{
		"a loss":    {lose: 1, waits: "missing"},
		"a pointer": {point: 1, waits: "fetched"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := filled(t, t.TempDir())
				dir := t.TempDir()
				keep(t, w, onDisk(dir), func(context.Context, *Sidecar) { pass(3 * time.Second) })
				w.set(func() { w.lose, w.point, w.away = tc.lose, tc.point, true })
				w.write(key(3), true)
				show(w)
				w.publish()
				w.set(func() { w.lose, w.point = 0, 0 })
				keep(t, w, onDisk(dir), func(ctx context.Context, s *Sidecar) {
					pass(10 * time.Second)
					if err := s.Ready(); err == nil || !strings.Contains(err.Error(), tc.waits) || strings.Contains(err.Error(), "k003") {
						t.Errorf("the source is away, and readiness says: %v", err)
					}
					w.set(func() { w.away = false })
					pass(2 * time.Minute)
					if err := s.Ready(); err != nil || !maps.Equal(content(s.Cache()), w.rows()) {
						t.Errorf("not ready: %v", err)
					}
				})
			})
		})
	}
}
