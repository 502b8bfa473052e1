// Command bench measures syncd against the floor that Postgres itself sets, in one run and alternating, and prints
// medians and ratios. It starts a Postgres of its own, builds the syncd command and runs it as its users do.
//
//	go run ./bench drain     1,000,000 changes already in WAL into a sidecar's cache, against pg_recvlogical to /dev/null
//	go run ./bench latency   commit to visible in the cache at 1,000 commits a second, against a bare pglogrepl reader
//	go run ./bench memory    resident memory of a sidecar that caches 1,000,000 rows of 200 bytes of JSON
//	go run ./bench digest    a resync of those rows by digest (syncd resync --mode digest), against SELECT md5(t::text)
//	go run ./bench get       rows a second by HTTP, against net/http with a constant of the same size, on kept-alive loopback connections
//	go run ./bench apply     deltas a second and core into a cache in memory, without I/O
//	go run ./bench redis     deltas a second into a cache in Redis, against redis-benchmark -P 64 -d 200 -r 100000 -t set
//	go run ./bench postgres  deltas a second into a cache in Postgres, against INSERT … ON CONFLICT of the same rows
//	go run ./bench load      a start: 1,000,000 rows read from the file that the last run left, and what they take
//	go run ./bench tail      p99 of a read while 100,000 deltas a second are applied, against an idle cache: in the process and by HTTP
//	go run ./bench -rows 10000000 big    a large table through the whole path: list, updates, digest, start from the checkpoint (needs 15 GB of disk, 4 GiB of memory)
//	go run ./bench sqlite    deltas a second into a cache in a SQLite file, against a loop of INSERT OR REPLACE into a bare table
//	go run ./bench sqlitelist  the first list of those rows into a sidecar with a SQLite file: time, processor time, memory
//	go run ./bench list      a full list of those rows (syncd resync --mode full), against COPY … TO STDOUT
//
// Absolute figures mean little on a shared machine; the ratios of one run are what counts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/syncd-io/syncd/sink/memory"
)

type options struct {
	rounds, changes, rows int
	tcp                   bool
	seconds               int
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 3, "rounds; medians are printed")
	flag.IntVar(&o.changes, "changes", 1_000_000, "row changes of a drain")
	flag.IntVar(&o.rows, "rows", 1_000_000, "rows cached by memory, digest, list, get, apply, load, tail, sqlitelist and big")
	flag.BoolVar(&o.tcp, "tcp", true, "connect to Postgres by TCP; -tcp=false: by its Unix socket")
	flag.IntVar(&o.seconds, "seconds", 20, "seconds of load of a latency or tail round")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: bench [flags] drain|latency|memory|digest|list|get|apply|redis|postgres|load|tail|sqlite|sqlitelist|big …")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, names []string) (err error) {
	benches := map[string]func(context.Context, *rig, options) error{
		"drain": drain, "latency": latency, "memory": resident, "digest": digest, "list": list, "sqlitelist": listSQLite, "big": big,
	}
	// These need neither Postgres nor the command.
	inside := map[string]func(context.Context, options) error{"get": get, "apply": apply, "load": load, "tail": tail99, "sqlite": applySQLite, "redis": redisSink, "postgres": postgresSink}
	for _, n := range names {
		if benches[n] == nil && inside[n] == nil {
			return fmt.Errorf("no benchmark %q: want drain, latency, memory, digest, list, get, apply, redis, postgres, load, tail, sqlite, sqlitelist or big", n)
		}
	}
	for _, n := range names {
		if bench := inside[n]; bench != nil {
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(memory.GCPercent) // as a sidecar does
			}
			if err := bench(ctx, o); err != nil {
				return fmt.Errorf("%s: %w", n, err)
			}
			continue
		}
		r, err := newRig(ctx, o.tcp)
		if err != nil {
			return err
		}
		err = benches[n](ctx, r, o)
		if err = errors.Join(err, r.close()); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	return nil
}

func median[T float64 | time.Duration](xs []T) T {
	s := slices.Sorted(slices.Values(xs))
	if len(s) == 0 {
		return 0
	}
	return s[len(s)/2]
}

// quantile gives the value below which a share q of the samples lies. It sorts xs.
func quantile(xs []time.Duration, q float64) time.Duration {
	slices.Sort(xs)
	return xs[min(len(xs)-1, int(q*float64(len(xs))))]
}

func each[T any](xs []T, f func(T) string) string {
	var out []string
	for _, x := range xs {
		out = append(out, f(x))
	}
	return strings.Join(out, ", ")
}
