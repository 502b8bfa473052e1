package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/syncd-io/syncd/internal/daemon"
)

func newCheck() *cobra.Command {
	var c configFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check -c FILE",
		Short: "Look whether Postgres, NATS, the sinks and this machine are as they must be, and say what mends what is not",
		Long: `Look whether Postgres, NATS, the sidecar's sinks and this machine are as they must be, and say what mends what is not: the SQL
statement, the setting. Nothing is changed. Exit status 1 where something is amiss, 3 where a server can't be reached.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.load(0)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
			defer cancel()
			all, err := daemon.Check(ctx, cfg)
			if err != nil {
				return usage(err)
			}
			if asJSON {
				if err := json.NewEncoder(cmd.OutOrStdout()).Encode(all); err != nil {
					return err
				}
			} else {
				printChecks(cmd.OutOrStdout(), all)
			}
			return checkStatus(all)
		},
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func checkStatus(all []daemon.Precondition) error {
	status := 0
	for _, p := range all {
		switch {
		case p.Unreachable:
			status = exitUnreachable
		case !p.OK:
			status = max(status, exitNo)
		}
	}
	if status == 0 {
		return nil
	}
	return &exitError{status: status}
}

func printChecks(out io.Writer, all []daemon.Precondition) {
	amiss := 0
	for _, p := range all {
		word := "ok  "
		if !p.OK {
			word = "FAIL"
			amiss++
		}
		fmt.Fprintf(out, "%s  %-8s  %s%s\n", word, p.Part, p.Name, after(": ", p.Detail))
		if p.Mend != "" {
			what := "mend: "
			if p.OK {
				what = "advice: "
			}
			fmt.Fprintf(out, "      %s%s\n", what, strings.ReplaceAll(p.Mend, "\n", "\n      "))
		}
	}
	if amiss == 0 {
		fmt.Fprintf(out, "all %d preconditions are met\n", len(all))
		return
	}
	fmt.Fprintf(out, "%d of %d preconditions are not met\n", amiss, len(all))
}

// after gives text behind a separator, and nothing where it is empty.
func after(sep, text string) string {
	if text == "" {
		return ""
	}
	return sep + text
}
