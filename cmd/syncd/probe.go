package main

import (
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// newProbe makes what containers and service managers ask by: it needs no shell and no other program.
func newProbe() *cobra.Command {
	var c client
	var live bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "probe",
		Short: "Ask a process whether it is ready, for health checks",
		Long: `Ask a process whether it is ready, for health checks: a sidecar, or with --addr http://127.0.0.1:9464 a source.
Exit status 0 where it is; 1 where it is not, with what it waits for; 3 where nothing answers.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.open(); err != nil {
				return err
			}
			defer c.close()
			c.http.Timeout = timeout
			path := "/readyz"
			if live {
				path = "/healthz"
			}
			_, _, err := c.do(cmd.Context(), http.MethodGet, path)
			return exitOf(err)
		},
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&live, "live", false, "ask only whether it runs, not whether it is ready")
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long an answer may take")
	return cmd
}
