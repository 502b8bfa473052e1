package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/syncd-io/syncd/internal/redisserver"
	"github.com/syncd-io/syncd/sink/redis"
)

const (
	sinkRows   = 100_000 // keys of the rows that are changed
	sinkDeltas = 300_000 // a round
)

// redisSink compares the deltas of random rows of 200 bytes that a cache in Redis takes in a second, in flushes of 1,000, with the
// SETs of as many keys that redis-benchmark makes on the same server, 64 in a pipeline.
func redisSink(ctx context.Context, o options) (err error) {
	server, err := redisserver.Start(ctx, redisserver.Options{})
	if err != nil {
		return err
	}
	defer func() {
		if e := server.Stop(); err == nil {
			err = e
		}
	}()
	store, err := redis.New(ctx, redis.Options{URL: server.URL(), Prefix: "bench:"})
	if err != nil {
		return err
	}
	c, err := newCachesIn(store, sinkRows)
	if err != nil {
		return err
	}
	defer c.Close()
	var floor, ours, own []float64
	for range o.rounds {
		rate, err := redisBenchmark(ctx, server.Addr())
		if err != nil {
			return err
		}
		floor = append(floor, rate)
		took, used, err := c.round(ctx)
		if err != nil {
			return err
		}
		ours, own = append(ours, sinkDeltas/took.Seconds()), append(own, used.Seconds()*1e6/sinkDeltas)
	}
	text := func(r float64) string { return fmt.Sprintf("%.0f", r) }
	fmt.Printf("redis: redis-benchmark %.0f SETs a second (%s), deltas %.0f a second (%s): ratio %.2f (want 0.50 or more); %.1f µs of this process's time a delta\n",
		median(floor), each(floor, text), median(ours), each(ours, text), median(ours)/median(floor), median(own))
	return nil
}

// round applies deltas and says how long that took, less what it takes to make them, and how much processor time of this process.
func (c *caches) round(ctx context.Context) (took, used time.Duration, err error) {
	for n := 0; n < sinkDeltas; n += flushSize {
		if ctx.Err() != nil {
			return 0, 0, ctx.Err()
		}
		c.fill(flushSize, c.any)
		begin, cpu := time.Now(), ownCPU()
		if err := c.apply(); err != nil {
			return 0, 0, err
		}
		took, used = took+time.Since(begin), used+ownCPU()-cpu
	}
	return took, used, nil
}

// redisBenchmark gives the rate of SETs.
func redisBenchmark(ctx context.Context, addr string) (float64, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, err
	}
	out, err := exec.CommandContext(ctx, "redis-benchmark", "-h", host, "-p", port, "-P", "64", "-d", "200", "-r", strconv.Itoa(sinkRows), "-t", "set",
		"-n", strconv.Itoa(sinkDeltas), "--csv").Output()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark (Debian: apt-get install redis-tools): %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(line, `"SET","`); ok {
			rate, _, _ := strings.Cut(rest, `"`)
			return strconv.ParseFloat(rate, 64)
		}
	}
	return 0, fmt.Errorf("redis-benchmark says no rate: %s", out)
}
