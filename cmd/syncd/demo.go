package main

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/daemon"
	"github.com/syncd-io/syncd/internal/demo"
)

func newDemo() *cobra.Command {
	var d demo.Demo
	var level string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show it all at work on this machine, with nothing to set up",
		Long: `Show it all at work on this machine: a Postgres thrown away at the end, NATS, source, sidecar and a shop that writes.
Changes are lost on purpose; the cache is seen to be wrong and to be mended. Ctrl-C ends it and leaves nothing behind.

The Postgres is the one of --postgres, else of SYNCD_TEST_POSTGRES (a superuser's URL), else made of the server binaries on
this machine, else run in Docker, else downloaded.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d.Duration != 0 && d.Duration < 3*time.Second {
				return usage(fmt.Errorf("--duration %s: the story takes at least 3s", d.Duration))
			}
			d.Out, d.Program = cmd.OutOrStdout(), buildInfo().Version
			log, _ := daemon.NewLogger(config.Log{Level: level}, cmd.ErrOrStderr())
			if level == "off" {
				log = slog.New(slog.DiscardHandler)
			}
			d.Log = log
			ctx, stop := daemon.Interrupts{Log: log, Grace: 30 * time.Second}.Context(cmd.Context())
			defer stop()
			return d.Run(ctx)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&d.Duration, "duration", 0, "end by itself after this long, such as 20s; default: run until Ctrl-C")
	f.StringVar(&d.Postgres, "postgres", "", "a superuser's URL of the Postgres to use")
	f.StringVar(&d.Listen, "addr", "", "where the sidecar listens, host:port (default 127.0.0.1:7070, or a free port where that is taken)")
	f.StringVar(&level, "log", "off", "log the stages at this level too: off, error, warn, info or debug")
	return cmd
}
