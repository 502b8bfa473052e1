package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/syncd-io/syncd/checkpoint"
	"github.com/syncd-io/syncd/sink/memory"
)

const flushSize = 1000

// apply measures how many deltas of random rows the cache takes in for a second of processor time: the gate, the commit
// into the store, and what the collector does for them.
func apply(ctx context.Context, o options) error {
	c, err := newCaches(o.rows)
	if err != nil {
		return err
	}
	defer c.Close()
	var perCore, perSecond []float64
	for range o.rounds {
		const flushes = 1000
		var cpu, wall time.Duration
		for range flushes {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			c.fill(flushSize, c.any) // is the source's work
			begin, used := time.Now(), ownCPU()
			if err := c.apply(); err != nil {
				return err
			}
			cpu, wall = cpu+ownCPU()-used, wall+time.Since(begin)
		}
		perCore = append(perCore, flushes*flushSize/cpu.Seconds())
		perSecond = append(perSecond, flushes*flushSize/wall.Seconds())
	}
	text := func(r float64) string { return fmt.Sprintf("%.0f", r) }
	fmt.Printf("apply to %d rows in flushes of %d: %.0f deltas for a second of processor time (%s; want 500000 or more), %.0f a second (%s)\n", o.rows, flushSize,
		median(perCore), each(perCore, text), median(perSecond), each(perSecond, text))
	return nil
}

// ownCPU is the processor time that this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// load measures how long a start takes to read the cache from its file, and what the process takes then.
func load(ctx context.Context, o options) error {
	path, err := os.MkdirTemp("", "syncd-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(path)
	dir, err := checkpoint.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	c, err := newCaches(o.rows)
	if err != nil {
		return err
	}
	begin := time.Now()
	size, err := dir.File("bench").Save(ctx, func(w io.Writer) error {
		_, err := c.store.WriteTo(w)
		return err
	})
	if err != nil {
		return err
	}
	wrote := time.Since(begin)
	if err := c.Close(); err != nil {
		return err
	}
	c = nil
	debug.FreeOSMemory()
	var took []time.Duration
	var resident []float64
	for range o.rounds {
		store := memory.New(memory.Options{})
		begin := time.Now()
		err := dir.File("bench").Load(func(r io.Reader) error {
			_, err := store.ReadFrom(r)
			return err
		})
		if err != nil {
			return err
		}
		took = append(took, time.Since(begin))
		debug.FreeOSMemory()
		resident = append(resident, ownResident())
		if err := store.Close(); err != nil {
			return err
		}
	}
	fmt.Printf("load of %d rows from a file of %d MiB: %.2f s (%s; want under 5), written in %.2f s (paced), then %.0f MiB resident\n", o.rows, size>>20,
		median(took).Seconds(), each(took, func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }), wrote.Seconds(), median(resident))
	return nil
}

// ownResident is what this process takes, in MiB, where the system tells (Linux).
func ownResident() float64 {
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, _ := strconv.Atoi(strings.Fields(rest + " 0")[0])
	return float64(kib) / 1024
}

// loadSize is how many deltas load applies each millisecond.
const loadSize = 100

// load applies deltas until the function that it gives is called, which says what went wrong.
func (c *caches) load(ctx context.Context) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		var err error
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil && err == nil {
			<-tick.C
			c.fill(loadSize, c.any)
			err = c.apply()
		}
		done <- err
	}()
	return func() error {
		cancel()
		return <-done
	}
}
