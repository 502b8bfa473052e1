package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/explain"
)

func newExplain() *cobra.Command {
	var c client
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain TABLE KEY",
		Short: "Say why the cache holds what it holds under a key",
		Long: `Say why the cache holds what it holds under a key: the row in Postgres as it is now, the last changes of the key on the stream, what
the cache has and where it came from, and in words whether that is right and what to do. Nothing is changed. Exit status 0 where
the cache is right or about to be, 1 where it is not or can't be judged yet, 3 where Postgres can't be asked.

KEY is the key's values in key order as text, each percent-encoded, joined by commas.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := tablePath(args[0])
			if err != nil {
				return err
			}
			key, err := syncd.ParseKeyPath(args[1])
			if err != nil {
				return usage(err)
			}
			if err := c.open(); err != nil {
				return err
			}
			defer c.close()
			body, _, err := c.do(cmd.Context(), http.MethodGet, path+"/explain/"+key.Path())
			if err != nil {
				return exitOf(err)
			}
			var e explain.Explanation
			if err := json.Unmarshal(body, &e); err != nil || e.Verdict.Code == "" {
				return unreachable(fmt.Errorf("%s does not answer as a sidecar does", c.addr))
			}
			if asJSON {
				fmt.Fprintf(cmd.OutOrStdout(), "%s", body)
			} else {
				printExplanation(cmd.OutOrStdout(), &e)
			}
			return explainStatus(&e)
		},
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func explainStatus(e *explain.Explanation) error {
	switch {
	case e.Verdict.True():
		return nil
	case e.Postgres.Error != "":
		return &exitError{status: exitUnreachable}
	}
	return errAnswerNo
}

func printExplanation(out io.Writer, e *explain.Explanation) {
	fmt.Fprintf(out, "%s %s\n\nPostgres\n", e.Table, e.Key)
	p := &e.Postgres
	switch {
	case p.Error != "":
		fmt.Fprintf(out, "  could not be asked: %s\n", p.Error)
	case p.Exists:
		fmt.Fprintf(out, "  %s\n", p.Row)
	default:
		fmt.Fprintf(out, "  no such row\n")
	}
	if p.Error == "" {
		server := ""
		if p.Standby {
			server = ", on a standby"
		}
		fmt.Fprintf(out, "  snapshot %s, not beyond %s%s\n", p.Snapshot, p.H, server)
	}
	printStream(out, &e.Stream)
	printCache(out, e)
	fmt.Fprintf(out, "\nVerdict: %s\n  %s\n", e.Verdict.Code, e.Verdict.Text)
	if e.Verdict.Do != "" {
		fmt.Fprintf(out, "  What to do: %s\n", e.Verdict.Do)
	}
}

func printStream(out io.Writer, s *explain.Stream) {
	fmt.Fprintf(out, "\nStream\n")
	if s.Error != "" {
		fmt.Fprintf(out, "  could not be read: %s\n", s.Error)
		return
	}
	for _, d := range s.Deltas {
		fmt.Fprintf(out, "  message %d: %s %s of transaction %d, committed %s\n", d.Seq, d.Op, d.Version, d.XID, d.Committed.Format(time.RFC3339Nano))
		switch {
		case d.Pointer:
			fmt.Fprintf(out, "    the row is too large for a message\n")
		case len(d.Row) > 0:
			fmt.Fprintf(out, "    %s\n", d.Row)
		}
		if len(d.Absent) > 0 {
			fmt.Fprintf(out, "    without %s, which did not change\n", strings.Join(d.Absent, ", "))
		}
	}
	switch {
	case s.To == 0:
		fmt.Fprintf(out, "  it holds no message\n")
	case s.Whole:
		fmt.Fprintf(out, "  looked at all of it, messages %d to %d\n", s.From, s.To)
	default:
		fmt.Fprintf(out, "  looked at messages %d to %d; there are earlier ones\n", s.From, s.To)
	}
	if s.Unread > 0 {
		fmt.Fprintf(out, "  %d messages of the table can't be read: what they held counts as lost\n", s.Unread)
	}
}

func printCache(out io.Writer, e *explain.Explanation) {
	c, s := &e.Cache, &e.State
	fmt.Fprintf(out, "\nCache\n")
	switch c.Held {
	case "row":
		fmt.Fprintf(out, "  %s\n", c.Row)
	case "tombstone":
		fmt.Fprintf(out, "  the row is known to be gone\n")
	default:
		fmt.Fprintf(out, "  nothing\n")
	}
	switch c.Origin {
	case "delta":
		fmt.Fprintf(out, "  from delta %s of transaction %d\n", c.Version, c.XID)
	case "list":
		fmt.Fprintf(out, "  from a list, snapshot %s, not beyond %s\n", c.Snapshot, c.H)
	}
	if c.Open != nil {
		word := "being fetched"
		if c.Open.Parked {
			word = "parked"
		}
		fmt.Fprintf(out, "  %s since %s: %s\n", word, c.Open.Since.Format(time.RFC3339), c.Open.Reason)
	}
	fmt.Fprintf(out, "  the table is complete through %s", s.Through)
	if s.VerifiedAt != nil {
		fmt.Fprintf(out, ", proved through %s at %s", s.VerifiedThrough, s.VerifiedAt.Format(time.RFC3339))
	}
	fmt.Fprintln(out)
	for _, line := range []string{after("changes are lost up to ", s.Loss), after("to be listed again: ", s.Relist), after("the last resync stopped: ", s.Stopped)} {
		if line != "" {
			fmt.Fprintf(out, "  %s\n", line)
		}
	}
}
