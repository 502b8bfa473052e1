package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/daemon"
)

func newTeardown() *cobra.Command {
	var c configFlags
	var yes bool
	cmd := &cobra.Command{
		Use:   "teardown -c FILE",
		Short: "Drop the slot, the publication and the stream of a sync, after asking",
		Long: `Drop the slot, the publication (where manage is not false) and the stream of a sync, after asking. The tables and what
sidecars hold stay. A sync that is only stopped keeps its slot, and Postgres keeps the log for it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.load(0)
			if err != nil {
				return err
			}
			if cfg.Source.Postgres.IsZero() {
				return usage(fmt.Errorf("%s: source.postgres is missing: the slot and the publication are there", c.file))
			}
			return teardown(cmd, cfg, yes)
		},
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

func teardown(cmd *cobra.Command, cfg *config.Config, yes bool) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
	defer cancel()
	t, err := daemon.OpenTeardown(ctx, cfg, slog.New(slog.DiscardHandler))
	if errors.Is(err, daemon.ErrUnreachable) {
		return unreachable(err)
	}
	if err != nil {
		return err
	}
	defer t.Close()
	out := cmd.OutOrStdout()
	if len(t.Items()) == 0 {
		fmt.Fprintf(out, "nothing of %s is there\n", cfg.Name)
		return nil
	}
	if !yes {
		fmt.Fprintf(out, "This drops %s.\nSidecars of %s will get no more changes. Type %s to go on: ", strings.Join(t.Items(), ", "), cfg.Name, cfg.Name)
		line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
		if strings.TrimSpace(line) != cfg.Name {
			if err != nil {
				fmt.Fprintln(out)
			}
			return no(errors.New("nothing was dropped; --yes goes on without asking"))
		}
	}
	return t.Drop(ctx, func(what string) { fmt.Fprintf(out, "dropped %s\n", what) })
}
