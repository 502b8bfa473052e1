package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/syncd-io/syncd/internal/api"
)

// statusCommand shows the sidecar's status, once or again and again.
type statusCommand struct {
	client
	json  bool
	watch bool
	every time.Duration
}

func newStatus() *cobra.Command {
	s := &statusCommand{every: time.Second}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what runs, how fresh it is and how true",
		Long: `Show what runs, how fresh it is and how true. Exit status 1 where the sidecar is not ready to be read from. With --watch it is
shown again every second until Ctrl-C, as JSON Lines with --json.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.open(); err != nil {
				return err
			}
			defer s.close()
			if s.watch {
				return s.follow(cmd)
			}
			return s.once(cmd.Context(), cmd.OutOrStdout())
		},
	}
	s.flags(cmd)
	cmd.Flags().BoolVar(&s.json, "json", false, "print JSON")
	cmd.Flags().BoolVar(&s.watch, "watch", false, "show it again every --every, until Ctrl-C")
	cmd.Flags().DurationVar(&s.every, "every", s.every, "how often --watch asks")
	return cmd
}

// ask asks the sidecar how it is.
func (s *statusCommand) ask(ctx context.Context) (*api.Status, []byte, error) {
	body, _, err := s.do(ctx, http.MethodGet, "/v1/status")
	if err != nil {
		return nil, nil, exitOf(err)
	}
	st := &api.Status{}
	if err := json.Unmarshal(body, st); err != nil {
		return nil, nil, unreachable(fmt.Errorf("%s does not answer as a sidecar does: %w", s.addr, err))
	}
	return st, body, nil
}

// once shows it once.
func (s *statusCommand) once(ctx context.Context, out io.Writer) error {
	st, body, err := s.ask(ctx)
	if err != nil {
		return err
	}
	if s.json {
		fmt.Fprintf(out, "%s\n", bytes.TrimSpace(body))
	} else {
		printStatus(out, st, paintFor(out))
	}
	if !st.Ready {
		return errAnswerNo
	}
	return nil
}

// follow shows it again and again until it is interrupted. What can't be asked for now is said, and asked for again.
func (s *statusCommand) follow(cmd *cobra.Command) error {
	if s.every <= 0 {
		return usage(fmt.Errorf("--every %s: want more than nothing, such as 1s", s.every))
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		var exit *exitError
		err := s.once(ctx, cmd.OutOrStdout())
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &exit) && exit.status == exitUsage:
			return err
		case err != nil && err != errAnswerNo:
			fmt.Fprintf(cmd.ErrOrStderr(), "syncd: %v\n", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if !s.json {
			fmt.Fprintln(cmd.OutOrStdout())
		}
	}
}

// printStatus prints a status on one screen.
func printStatus(out io.Writer, s *api.Status, p paint) {
	state := p.good("ready")
	if !s.Ready {
		state = p.bad("not ready: " + s.WaitsFor)
	}
	at := s.Version
	if at == "" {
		at = "no marker yet"
	}
	bus := s.Bus
	if bus != "connected" {
		bus = p.bad(bus)
	}
	fmt.Fprintf(out, "%s: %s\nbus %s, at %s%s\n\n", p.bold(s.Name), state, bus, at, ago(", ", s.LagSeconds, " s behind"))
	if s.Fault != "" {
		fmt.Fprintf(out, "%s\n\n", p.bad("the cache can't take in what comes: "+s.Fault))
	}
	c := newColumns(out, "TABLE", "ROWS>", "THROUGH", "VERIFIED", "OPEN>", "PARKED>", "STATE")
	for _, t := range s.Tables {
		verified := ago("", t.VerifiedAgeSeconds, " s ago")
		if verified == "" {
			verified = "never"
		}
		c.row(t.Table, count(t.Rows), t.Through, verified, count(t.OpenKeys), count(t.ParkedKeys), paintState(&t, p))
	}
	c.flush()
	for _, r := range s.Running {
		fmt.Fprintf(out, "\n%s: %s comparison, %d of about %d rows", r.Table, r.Mode, r.Rows, max(r.Expected, int(r.Rows)))
	}
	if len(s.Running) > 0 {
		fmt.Fprintln(out)
	}
}

// paintState gives a table's state in the colour of how much it matters.
func paintState(t *api.Table, p paint) string {
	state := tableState(t)
	switch {
	case t.Error != "", t.Stopped != "":
		return p.bad(state)
	case !t.Ready, t.Relist != "":
		return p.warn(state)
	}
	return p.good(state)
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
