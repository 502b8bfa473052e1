package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// counter is a source: its content is its numbers.
type counter struct {
	mu              sync.Mutex
	commits, writes uint64
	slow            time.Duration
	err             error
}

func (c *counter) commit(writes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commits++
	c.writes += writes
}

func (c *counter) Commits() (commits, writes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commits, c.writes
}

func (c *counter) text() string {
	commits, writes := c.Commits()
	return fmt.Sprintf("%d commits, %d writes", commits, writes)
}

func (c *counter) WriteTo(w io.Writer) (int64, error) {
	if c.slow > 0 {
		<-time.After(c.slow)
	}
	n, err := io.WriteString(w, c.text())
	return int64(n), errors.Join(err, c.err)
}

// attempt is what an observer was told.
type attempt struct {
	at, took time.Duration // since the start
	ok       bool
}

type attempts struct {
	start time.Time
	all   []attempt
}

func (a *attempts) Saved(at time.Time, took time.Duration, bytes int64, err error) {
	if err == nil && bytes == 0 {
		panic("a file of no bytes was saved")
	}
	a.all = append(a.all, attempt{at.Sub(a.start), took, err == nil})
}

func TestStep(t *testing.T) {
	f := newFile(t)
	first, second := &counter{}, &counter{}
	var source Source
	s := &Saver{File: f, Source: func() Source { return source }}
	step := func(want bool) {
		t.Helper()
		if saved, err := s.Step(context.Background()); err != nil || saved != want {
			t.Fatalf("saved: %v, %v; want %v", saved, err, want)
		}
	}
	step(false) // nothing there
	source = first
	step(false) // as it was read
	first.commit(0)
	step(true)
	step(false)
	first.commit(3)
	step(true)
	mustLoad(t, f, []byte("2 commits, 3 writes"))
	source = second
	step(false) // a new store that holds nothing yet
	second.commit(1)
	second.commit(2) // as many as the one before
	step(true)
	step(false)
	second.err = errors.New("the store is closed")
	second.commit(1)
	if saved, err := s.Step(context.Background()); saved || !errors.Is(err, second.err) {
		t.Fatalf("%v, %v", saved, err)
	}
	mustLoad(t, f, []byte("2 commits, 3 writes"))
	second.err = nil
	step(true) // what failed is tried again
	mustLoad(t, f, []byte("3 commits, 4 writes"))
}

func TestDue(t *testing.T) {
	for _, c := range []struct {
		change change
		since  time.Duration
		want   bool
	}{
		{unchanged, 100 * time.Hour, false},
		{moved, time.Hour - 1, false},
		{moved, time.Hour, true},
		{rewritten, 0, true},
	} {
		if got := due(c.change, c.since, time.Hour); got != c.want {
			t.Errorf("change %d after %v: %v", c.change, c.since, got)
		}
	}
}

// run has a Saver run for as long as script does.
func run(t *testing.T, s *Saver, script func()) error {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	script()
	cancel()
	return <-done
}

// after lets fake time pass and everything that is due in it happen.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c, seen := newFile(t), &counter{}, &attempts{start: time.Now()}
		s := &Saver{File: f, Source: func() Source { return c }, Interval: time.Minute, Idle: time.Hour, Observer: seen}
		err := run(t, s, func() {
			after(10 * time.Minute) // nothing has changed
			c.commit(1)
			after(3 * time.Minute) // saved once
			mustLoad(t, f, []byte("1 commits, 1 writes"))
			for range 120 { // the place in the stream moves on
				c.commit(0)
				after(time.Minute)
			}
			c.commit(1)
			after(5 * time.Second) // not due yet
		})
		if err != nil {
			t.Fatal(err)
		}
		mustLoad(t, f, []byte(c.text()))
		want := []attempt{{606 * time.Second, 0, true}, {4206 * time.Second, 0, true}, {7806 * time.Second, 0, true}, {7985 * time.Second, 0, true}}
		if fmt.Sprint(seen.all) != fmt.Sprint(want) {
			t.Errorf("saved at\n%v, want\n%v", seen.all, want)
		}
	})
}

// fullDisk is a file system that has room or not.
type fullDisk struct {
	osFiles
	full atomic.Bool
}

func (d *fullDisk) create(path string) (writeFile, error) {
	if d.full.Load() {
		return nil, syscall.ENOSPC
	}
	return d.osFiles.create(path)
}

// TestRunWithoutRoom has saves fail: each is told, the process goes on, and the file comes when there is room again.
func TestRunWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c, seen := newFile(t), &counter{}, &attempts{start: time.Now()}
		mustSave(t, f, []byte("before"))
		disk := &fullDisk{}
		f.fs = disk
		disk.full.Store(true)
		var log bytes.Buffer
		s := &Saver{File: f, Source: func() Source { return c }, Interval: time.Minute, Observer: seen, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		err := run(t, s, func() {
			c.commit(1)
			after(2*time.Minute + time.Second)
			disk.full.Store(false)
			mustLoad(t, f, []byte("before"))
			after(time.Minute)
			mustLoad(t, f, []byte(c.text()))
			disk.full.Store(true)
			c.commit(1)
		})
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("the last save's error is %v", err)
		}
		want := []attempt{{6 * time.Second, 0, false}, {66 * time.Second, 0, false}, {126 * time.Second, 0, true}, {3*time.Minute + time.Second, 0, false}}
		if fmt.Sprint(seen.all) != fmt.Sprint(want) {
			t.Errorf("saved at\n%v, want\n%v", seen.all, want)
		}
		if n := strings.Count(log.String(), "level=WARN"); n != 2 || !strings.Contains(log.String(), "no space left") {
			t.Errorf("the log says\n%s", log.String())
		}
	})
}

// TestRunSlow pauses ten times as long as the last save took, and gives up on the last save when its time is over.
func TestRunSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c, seen := newFile(t), &counter{slow: 30 * time.Second}, &attempts{start: time.Now()}
		s := &Saver{File: f, Source: func() Source { return c }, Interval: time.Minute, Last: 2 * time.Second, Observer: seen}
		err := run(t, s, func() {
			for range 13 {
				c.commit(1)
				after(time.Minute)
			}
		})
		if !errors.Is(err, context.DeadlineExceeded) && (err == nil || !strings.Contains(err.Error(), "not done within 2s")) {
			t.Errorf("the last save: %v", err)
		}
		want := []attempt{{36 * time.Second, 30 * time.Second, true}, {6*time.Minute + 6*time.Second, 30 * time.Second, true}, {11*time.Minute + 36*time.Second, 30 * time.Second, true}, {13*time.Minute + 30*time.Second, 30 * time.Second, false}}
		if fmt.Sprint(seen.all) != fmt.Sprint(want) {
			t.Errorf("saved at\n%v, want\n%v", seen.all, want)
		}
	})
}

// TestDefaults saves at the default interval, and first after a tenth of it.
func TestDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := newFile(t), &counter{}
		c.commit(1)
		err := run(t, &Saver{File: f, Source: func() Source { return c }}, func() {
			after(30*time.Second - 1)
			if got := names(t, f); len(got) != 0 {
				t.Errorf("saved early: %q", got)
			}
			after(1)
			mustLoad(t, f, []byte(c.text()))
			before := c.text()
			c.commit(1)
			after(5*time.Minute - 1)
			mustLoad(t, f, []byte(before))
			after(1)
			mustLoad(t, f, []byte(c.text()))
			c.commit(0)
			after(time.Hour)
			mustLoad(t, f, []byte(c.text()))
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
