// Package e2e tests the whole: a real Postgres, a real NATS, source and sidecars as their commands run them, read over
// HTTP as a service would. What a cache must hold is what Postgres answers to row_to_json, byte for byte.
package e2e

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"

	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/daemon"
	"github.com/syncd-io/syncd/internal/harness"
)

// The environment of a process that a test starts to kill it: this same binary, which then runs syncd and no test.
const (
	envRole   = "SYNCD_E2E_ROLE"
	envConfig = "SYNCD_E2E_CONFIG"
)

// atATime is how many tests run at a time where the command line does not say: they wait most of their time, but for under
// the race detector.
func atATime() string {
	if harness.Race {
		return "4"
	}
	return "8"
}

func TestMain(m *testing.M) {
	if role := os.Getenv(envRole); role != "" {
		if err := serve(role, os.Getenv(envConfig)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", atATime()); err != nil {
			panic(err) // the testing package has no such flag
		}
	}
	harness.Main(m)
}

// serve runs a process of syncd until whoever started it is gone.
func serve(role, file string) error {
	r := roles[role]
	c, err := config.Load(config.Sources{File: file}, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends with the test's process
		cancel()
	}()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	return daemon.Run(ctx, daemon.Options{Config: c, Roles: r, Program: program, Log: log})
}
