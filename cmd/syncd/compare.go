package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/api"
	"github.com/syncd-io/syncd/resync"
)

// comparer runs resync and diff: the tables one after the other, each with its report.
type comparer struct {
	client
	dry     bool
	mode    string
	approve bool
	json    bool
}

func newResync() *cobra.Command {
	c := &comparer{}
	cmd := &cobra.Command{
		Use:   "resync [TABLE...]",
		Short: "List tables again, repair what differs and print the reports",
		Long: `List tables again, repair what differs in the cache and print the reports. Without a table all are. Exit status 1 where a
table could not be compared to its end.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	c.flags(cmd)
	cmd.Flags().StringVar(&c.mode, "mode", "", "digest or full; default as the sidecar is configured")
	cmd.Flags().BoolVar(&c.approve, "approve-prune", false, "let it delete more rows than max_prune allows")
	cmd.Flags().BoolVar(&c.json, "json", false, "print the reports as JSON, one a line")
	return cmd
}

func newDiff() *cobra.Command {
	c := &comparer{dry: true}
	cmd := &cobra.Command{
		Use:   "diff [TABLE...]",
		Short: "Compare the cache with Postgres and repair nothing",
		Long: `Compare the cache with Postgres and repair nothing; without a table all are compared. Exit status 0 where they are equal,
1 where they are not or it could not be found out.`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&c.json, "json", false, "print the reports as JSON, one a line")
	return cmd
}

func (c *comparer) run(cmd *cobra.Command, names []string) error {
	if c.mode != "" {
		if _, err := resync.ParseMode(c.mode); err != nil {
			return usage(fmt.Errorf("--mode: %w", err))
		}
	}
	for _, name := range names {
		if _, err := syncd.ParseTable(name); err != nil {
			return usage(err)
		}
	}
	if err := c.open(); err != nil {
		return err
	}
	defer c.close()
	if len(names) == 0 {
		var err error
		if names, err = c.allTables(cmd); err != nil {
			return err
		}
	}
	return c.each(cmd, names)
}

// each compares one table after the other, and ends with the gravest of their statuses.
func (c *comparer) each(cmd *cobra.Command, names []string) error {
	w := newReportWriter(cmd.OutOrStdout(), c.json)
	defer w.flush()
	status := 0
	for _, name := range names {
		report, err := c.one(cmd, name)
		if report == nil {
			return err // what this table can't be asked for can't be asked for the next
		}
		w.write(report)
		switch exit, ok := errors.AsType[*exitError](err); {
		case ok:
			status = max(status, exit.status)
			fmt.Fprintf(cmd.ErrOrStderr(), "syncd: %v\n", err)
		case !report.Complete || c.dry && !report.Equal():
			status = max(status, exitNo)
		}
	}
	if status != 0 {
		return &exitError{status: status}
	}
	return nil
}

// allTables names the tables that are not refused; those that are get a line.
func (c *comparer) allTables(cmd *cobra.Command) ([]string, error) {
	var tables []api.Table
	if err := c.get(cmd.Context(), "/v1/tables", &tables); err != nil {
		return nil, err
	}
	var names []string
	for _, t := range tables {
		if t.Error == "" {
			names = append(names, t.Table)
		}
	}
	if len(names) == 0 {
		return nil, noneToCompare(tables)
	}
	for _, t := range tables {
		if t.Error != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s is not synced: %s\n", t.Table, t.Error)
		}
	}
	return names, nil
}

// noneToCompare says why there is no table to compare, of each that is refused why it is.
func noneToCompare(tables []api.Table) error {
	if len(tables) == 0 {
		return no(errors.New("the sidecar knows of no table yet: is syncd source running? see syncd status"))
	}
	var why strings.Builder
	why.WriteString("no table is synced, so there is nothing to compare")
	for _, t := range tables {
		fmt.Fprintf(&why, "\n  %s: %s", t.Table, t.Error)
	}
	return no(errors.New(why.String()))
}

// one has one table compared. The report may come with an error.
func (c *comparer) one(cmd *cobra.Command, name string) (*resync.Report, error) {
	path, err := tablePath(name)
	if err != nil {
		return nil, err
	}
	method, path := http.MethodGet, path
	if c.dry {
		path += "/diff"
	} else {
		method = http.MethodPost
		q := url.Values{}
		if c.mode != "" {
			q.Set("mode", c.mode)
		}
		if c.approve {
			q.Set("approve_prune", "true")
		}
		path = withQuery(path+"/resync", q)
	}
	stop := c.showProgress(cmd, name)
	body, _, err := c.do(cmd.Context(), method, path)
	stop()
	report := &resync.Report{}
	answered := err == nil || isAnswer(err)
	switch {
	case answered && json.Unmarshal(body, report) == nil && report.Table != "":
		return report, exitOf(err)
	case err == nil:
		err = unreachable(fmt.Errorf("%s does not answer as a sidecar does", c.addr))
	}
	return nil, exitOf(err)
}

func isAnswer(err error) bool {
	_, ok := errors.AsType[*answerError](err)
	return ok
}

// showProgress shows how far a table's comparison is, where people look on. The caller calls stop when it has ended.
func (c *comparer) showProgress(cmd *cobra.Command, name string) (stop func()) {
	errs := cmd.ErrOrStderr()
	if !isTerminal(errs) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.poll(ctx, errs, name)
	}()
	return func() {
		cancel()
		<-done
	}
}

// poll asks the sidecar how far it is, ten times a second.
func (c *comparer) poll(ctx context.Context, errs io.Writer, name string) {
	var bar *progressbar.ProgressBar // nil until there is something to show
	defer func() {
		if bar != nil {
			_ = bar.Finish() // what a bar can't show is nobody's loss
		}
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var s api.Status
		if err := c.get(ctx, "/v1/status", &s); err != nil {
			continue // the comparison itself says what is wrong
		}
		for _, p := range s.Running {
			if p.Table != name {
				continue
			}
			of := int64(max(p.Expected, int(p.Rows), 1))
			if bar == nil {
				bar = newBar(errs, name, of)
			}
			bar.ChangeMax64(of)
			_ = bar.Set64(int64(p.Rows))
		}
	}
}

// newBar makes a bar with an end: one without keeps a goroutine of its own.
func newBar(w io.Writer, name string, of int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(of, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(name), progressbar.OptionShowCount(),
		progressbar.OptionShowIts(), progressbar.OptionSetItsString("rows"), progressbar.OptionClearOnFinish())
}

// reportWriter prints reports: as aligned columns, or as JSON Lines.
type reportWriter struct {
	json  *json.Encoder
	table *columns
	out   io.Writer
	said  bytes.Buffer // samples, notes and errors, below the columns
}

func newReportWriter(out io.Writer, asJSON bool) *reportWriter {
	w := &reportWriter{out: out}
	if asJSON {
		w.json = json.NewEncoder(out)
		return w
	}
	w.table = newColumns(out, "TABLE", "MODE", "ROWS>", "MISSING>", "STALE>", "GHOST>", "CORRUPT>", "REPAIRED>", "UNDECIDED>", "SECONDS>", "COMPLETE")
	return w
}

func (w *reportWriter) write(r *resync.Report) {
	if w.json != nil {
		_ = w.json.Encode(r)
		return
	}
	complete := "yes"
	if !r.Complete {
		complete = "no"
	}
	w.table.row(r.Table, string(r.Mode), count(r.Rows), count(r.Missing), count(r.Stale), count(r.Ghost), count(r.Corrupt),
		count(r.Repaired), count(r.Undecided), fmt.Sprintf("%.3f", r.Seconds), complete)
	for _, s := range r.Samples {
		fmt.Fprintf(&w.said, "  %s %s: %s\n", r.Table, s.Key, s.Kind)
	}
	if n := r.Differences() + r.Undecided - len(r.Samples); n > 0 && len(r.Samples) > 0 {
		fmt.Fprintf(&w.said, "  %s: and %d more\n", r.Table, n)
	}
	if r.Note != "" {
		fmt.Fprintf(&w.said, "  %s: %s\n", r.Table, r.Note)
	}
}

func (w *reportWriter) flush() {
	if w.table != nil {
		w.table.flush()
		fmt.Fprint(w.out, w.said.String())
	}
}
