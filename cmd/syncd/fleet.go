package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/internal/daemon"
)

func newFleet() *cobra.Command {
	var c configFlags
	var asJSON bool
	wait := 2 * time.Second
	cmd := &cobra.Command{
		Use:   "fleet -c FILE",
		Short: "List every source and sidecar on the bus: version, lag, verified age, drift",
		Long: `List every source and sidecar on the bus, of all syncs that are there: where it runs, how far it has come, how long ago its
oldest table was proved equal to Postgres, and how many rows the last comparisons found to differ. The configuration says how
to reach NATS. Exit status 1 where nobody answers or a sidecar is not ready, 3 where NATS can't be reached.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.load(0)
			if err != nil {
				return err
			}
			members, err := daemon.Fleet(cmd.Context(), cfg, wait)
			switch {
			case errors.Is(err, daemon.ErrUnreachable):
				return unreachable(err)
			case errors.Is(err, daemon.ErrOwnBus):
				return usage(err)
			case err != nil:
				return err
			}
			if asJSON {
				if err := json.NewEncoder(cmd.OutOrStdout()).Encode(members); err != nil {
					return err
				}
			} else if len(members) > 0 {
				printFleet(cmd.OutOrStdout(), members)
			}
			return fleetStatus(members)
		},
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().DurationVar(&wait, "wait", wait, "how long to wait for answers")
	return cmd
}

func fleetStatus(members []bus.Member) error {
	if len(members) == 0 {
		return no(errors.New("nobody answers: no source and no sidecar is on this bus, or none in time (--wait)"))
	}
	for _, m := range members {
		if m.Role == "sidecar" && m.State != "ready" {
			return errAnswerNo
		}
	}
	return nil
}

func printFleet(out io.Writer, members []bus.Member) {
	c := newColumns(out, "SYNC", "ROLE", "HOST", "PID>", "PROGRAM", "VERSION", "LAG>", "ROWS>", "VERIFIED>", "DRIFT>", "STATE")
	for _, m := range members {
		rows, drift, verified := "", "", ""
		if m.Role == "sidecar" {
			rows, drift, verified = sumUp(m.Tables)
		}
		c.row(m.Sync, m.Role, m.Host, count(m.PID), m.Program, m.Version, ago("", m.LagSeconds, " s"), rows, verified, drift, memberState(&m))
	}
	c.flush()
}

// sumUp gives all tables' rows and drift, and how long ago the one was verified that was so longest ago.
func sumUp(tables []bus.MemberTable) (rows, drift, verified string) {
	n, differ := 0, 0
	oldest, never := 0.0, false
	for _, t := range tables {
		n, differ = n+t.Rows, differ+t.Drift
		switch {
		case t.Error != "":
		case t.VerifiedAgeSeconds == nil:
			never = true
		default:
			oldest = max(oldest, *t.VerifiedAgeSeconds)
		}
	}
	verified = ago("", &oldest, " s ago")
	if never || len(tables) == 0 {
		verified = "never"
	}
	return count(n), count(differ), verified
}

// memberState says how a member is, and what about it is to be looked at.
func memberState(m *bus.Member) string {
	state := m.State
	if m.Why != "" {
		state += ": " + m.Why
	}
	refused, parked, stopped := 0, 0, 0
	for _, t := range m.Tables {
		if t.Error != "" {
			refused++
		}
		if t.Stopped != "" {
			stopped++
		}
		parked += t.ParkedKeys
	}
	for _, s := range []struct {
		n    int
		what string
	}{{refused, "refused"}, {stopped, "stopped by max_prune"}, {parked, "parked keys"}} {
		if s.n > 0 {
			state += fmt.Sprintf(", %d %s", s.n, s.what)
		}
	}
	return state
}
