package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/syncd-io/syncd/internal/api"
)

func newStatus() *cobra.Command {
	var c client
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what runs, how fresh it is and how true",
		Long:  "Show what runs, how fresh it is and how true. Exit status 1 where the sidecar is not ready to be read from.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.open(); err != nil {
				return err
			}
			defer c.close()
			body, _, err := c.do(cmd.Context(), http.MethodGet, "/v1/status")
			if err != nil {
				return exitOf(err)
			}
			var s api.Status
			if err := json.Unmarshal(body, &s); err != nil {
				return unreachable(fmt.Errorf("%s does not answer as a sidecar does: %w", c.addr, err))
			}
			if asJSON {
				fmt.Fprintf(cmd.OutOrStdout(), "%s", body)
			} else {
				printStatus(cmd.OutOrStdout(), &s)
			}
			if !s.Ready {
				return errAnswerNo
			}
			return nil
		},
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printStatus(out io.Writer, s *api.Status) {
	state := "ready"
	if !s.Ready {
		state = "not ready: " + s.WaitsFor
	}
	at := s.Version
	if at == "" {
		at = "no marker yet"
	}
	fmt.Fprintf(out, "%s: %s\nbus %s, at %s%s\n\n", s.Name, state, s.Bus, at, ago(", ", s.LagSeconds, " s behind"))
	if s.Fault != "" {
		fmt.Fprintf(out, "the cache can't take in what comes: %s\n\n", s.Fault)
	}
	c := newColumns(out, "TABLE", "ROWS>", "THROUGH", "VERIFIED", "OPEN>", "PARKED>", "STATE")
	for _, t := range s.Tables {
		verified := ago("", t.VerifiedAgeSeconds, " s ago")
		if verified == "" {
			verified = "never"
		}
		c.row(t.Table, count(t.Rows), t.Through, verified, count(t.OpenKeys), count(t.ParkedKeys), tableState(&t))
	}
	c.flush()
}

func tableState(t *api.Table) string {
	switch {
	case t.Error != "":
		return "refused: " + t.Error
	case t.Stopped != "":
		return "stopped: " + t.Stopped
	case !t.Ready:
		return "being listed"
	case t.Relist != "":
		return "to be listed again: " + t.Relist
	}
	return "ready"
}

func ago(before string, seconds *float64, after string) string {
	if seconds == nil {
		return ""
	}
	return fmt.Sprintf("%s%.1f%s", before, *seconds, after)
}
