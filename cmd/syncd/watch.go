package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/syncd-io/syncd"
)

// watcher prints the changes of a table, over as many connections as it takes.
type watcher struct {
	client
	fresh   freshness
	since   string
	list    bool
	filters []string
	columns string
	json    bool

	out, errs io.Writer
	path      string
	query     url.Values
	id        string        // of the last event that had one: where to go on
	began     bool          // a watch has run
	listing   bool          // the rows come
	rows      int           // of the list
	reset     bool          // the last event was one
	said      string        // why there is no watch, as it was said last
	wait      time.Duration // after the next failure
}

// The bounds of the wait before a watch is taken up again, and how long one may be silent: a bookmark comes every 10 s.
const (
	watchMinWait = 250 * time.Millisecond
	watchMaxWait = 10 * time.Second
	watchSilence = time.Minute
)

func newWatch() *cobra.Command {
	w := &watcher{}
	cmd := &cobra.Command{
		Use:   "watch TABLE",
		Short: "Print the changes of a table as they come",
		Long: `Print the changes of a table as they come, until Ctrl-C (exit status 0): "upsert KEY ROW" and "delete KEY", those that put
something right with "repair KIND" behind. With --list the rows come first, as upserts. After a lost connection it goes on
where it was. Where that is not possible, it says that it was reset: with --list the rows come anew, else it goes on from now.

--json prints each event as the sidecar sends it, as one line of JSON with its name as "event"; "bookmark" ends a commit, and its
"id" is what --since takes.`,
		Example: `  syncd watch public.orders --list --filter state=eq.open
  syncd watch public.orders --json --since 1764534000000-0/16B3748`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return w.run(cmd, args[0]) },
	}
	w.flags(cmd)
	w.fresh.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&w.since, "since", "", "begin behind this event's id, or version of an earlier answer")
	f.BoolVar(&w.list, "list", false, "begin with the rows")
	f.StringArrayVar(&w.filters, "filter", nil, "only rows for which COLUMN=CONDITION holds, such as state=eq.open; may be repeated")
	f.StringVar(&w.columns, "select", "", "only these columns, joined by commas")
	f.BoolVar(&w.json, "json", false, "print events as JSON, one a line")
	return cmd
}

func (w *watcher) run(cmd *cobra.Command, table string) (err error) {
	w.out, w.errs = cmd.OutOrStdout(), cmd.ErrOrStderr()
	if w.path, err = tablePath(table); err != nil {
		return err
	}
	if w.since != "" && w.list {
		return usage(errors.New("--since and --list: give one, since --list begins with the rows as they are"))
	}
	w.query = url.Values{}
	for _, f := range w.filters {
		column, condition, ok := strings.Cut(f, "=")
		if !ok || column == "" {
			return usage(fmt.Errorf("--filter %q: want COLUMN=CONDITION, such as state=eq.open", f))
		}
		w.query.Add(column, condition)
	}
	if w.columns != "" {
		w.query.Set("select", w.columns)
	}
	w.fresh.add(w.query)
	if err := w.open(); err != nil {
		return err
	}
	defer w.close()
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for {
		again, err := w.once(ctx)
		switch {
		case ctx.Err() != nil && cmd.Context().Err() == nil:
			return nil
		case err != nil && !again:
			return err
		}
		if err := w.pause(ctx, err); err != nil && cmd.Context().Err() == nil {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// pause waits before the watch is taken up again, longer from time to time, and says why once.
func (w *watcher) pause(ctx context.Context, why error) error {
	if why != nil && why.Error() != w.said {
		w.said = why.Error()
		fmt.Fprintf(w.errs, "syncd: %v; trying again\n", why)
	}
	w.wait = min(max(2*w.wait, watchMinWait), watchMaxWait)
	d := w.wait
	if a, ok := errors.AsType[*answerError](why); ok {
		d = max(d, a.after)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d/2 + rand.N(d/2+1)):
		return nil
	}
}

// once watches over one connection, until it ends. again says whether another may help.
func (w *watcher) once(ctx context.Context) (again bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := w.connect(ctx)
	if err != nil {
		return w.refused(err)
	}
	defer resp.Body.Close()
	w.began = true
	silence := time.AfterFunc(watchSilence, func() { cancel(fmt.Errorf("the sidecar has sent nothing for %s", watchSilence)) })
	defer silence.Stop()
	r := eventReader{bufio.NewReaderSize(resp.Body, 64<<10)}
	for {
		e, err := r.next()
		if w.reset && errors.Is(err, io.EOF) {
			return true, nil
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return true, unreachable(fmt.Errorf("the watch has ended: %w", err))
		}
		silence.Reset(watchSilence)
		w.wait, w.said = 0, ""
		if e.hasID {
			w.id = e.id
		}
		if err := w.print(&e); err != nil {
			return false, err
		}
	}
}

// connect asks for a watch from where this one is.
func (w *watcher) connect(ctx context.Context) (*http.Response, error) {
	q := url.Values{}
	for name, values := range w.query {
		q[name] = values
	}
	switch {
	case w.list:
		q.Set("list", "true")
	case w.id == "" && w.since != "":
		q.Set("since", w.since)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+withQuery(w.path+"/watch", q), nil)
	if err != nil {
		return nil, usage(fmt.Errorf("--addr %q: %w", w.addr, err))
	}
	if w.token != "" {
		req.Header.Set("Authorization", "Bearer "+w.token)
	}
	if w.id != "" {
		req.Header.Set("Last-Event-ID", w.id)
	}
	w.listing, w.rows = w.list && w.id == "", 0
	resp, err := w.http.Do(req)
	if err != nil {
		return nil, w.unreached(ctx, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, w.unreached(ctx, err)
	}
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // without one it is 0
	return nil, &answerError{resp.StatusCode, errorText(body), time.Duration(seconds) * time.Second}
}

// refused says whether a watch that was not begun may be, later.
func (w *watcher) refused(err error) (again bool, _ error) {
	a, ok := errors.AsType[*answerError](err)
	if !ok {
		return w.began, err // a sidecar that was never there is no better than a wrong --addr
	}
	if a.status == http.StatusGone && w.id != "" {
		w.id, w.since = "", ""
		w.say("reset: " + a.text)
		w.wait = 0
		return true, nil
	}
	return a.after > 0, exitOf(err)
}

func (w *watcher) say(text string) {
	if !w.list {
		text += "; going on from now: changes may be missing"
	}
	fmt.Fprintf(w.errs, "syncd: %s\n", text)
}

// watchData is what any event holds.
type watchData struct {
	Key     []string        `json:"key"`
	Version string          `json:"version"`
	Row     json.RawMessage `json:"row"`
	Repair  string          `json:"repair"`
	Reason  string          `json:"reason"`
}

// print prints one event.
func (w *watcher) print(e *event) error {
	var d watchData
	if err := json.Unmarshal(e.data, &d); err != nil {
		return unreachable(fmt.Errorf("%s does not answer as a sidecar does: event %s: %w", w.addr, e.name, err))
	}
	if w.reset = e.name == "reset"; w.reset {
		w.since = ""
		w.say("reset: " + d.Reason)
	}
	if w.json {
		return w.printJSON(e)
	}
	var line bytes.Buffer
	switch e.name {
	case "upsert":
		w.rows++
		line.WriteString("upsert " + syncd.MakeKey(d.Key...).Path() + " ")
		if err := json.Compact(&line, d.Row); err != nil {
			return unreachable(fmt.Errorf("%s does not answer as a sidecar does: row of %s: %w", w.addr, d.Key, err))
		}
	case "delete":
		line.WriteString("delete " + syncd.MakeKey(d.Key...).Path())
	case "bookmark":
		if w.listing {
			w.listing = false
			fmt.Fprintf(w.errs, "syncd: %s rows as of %s; changes follow\n", count(w.rows), d.Version)
		}
		return nil
	default:
		return nil
	}
	if d.Repair != "" {
		line.WriteString(" repair " + d.Repair)
	}
	line.WriteByte('\n')
	_, err := w.out.Write(line.Bytes())
	return err
}

// printJSON prints an event as one line.
func (w *watcher) printJSON(e *event) error {
	var line bytes.Buffer
	name, err := json.Marshal(e.name)
	if err != nil {
		return err
	}
	fmt.Fprintf(&line, `{"event":%s`, name)
	if e.hasID && e.id != "" {
		id, err := json.Marshal(e.id)
		if err != nil {
			return err
		}
		fmt.Fprintf(&line, `,"id":%s`, id)
	}
	rest := bytes.TrimPrefix(bytes.TrimSpace(e.data), []byte("{"))
	if len(rest) > 1 {
		line.WriteByte(',')
	}
	line.Write(rest)
	var compact bytes.Buffer
	if err := json.Compact(&compact, line.Bytes()); err != nil {
		return unreachable(fmt.Errorf("%s does not answer as a sidecar does: event %s: %w", w.addr, e.name, err))
	}
	compact.WriteByte('\n')
	_, err = w.out.Write(compact.Bytes())
	return err
}
