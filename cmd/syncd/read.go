package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/syncd-io/syncd"
)

func newGet() *cobra.Command {
	var c client
	var fresh freshness
	cmd := &cobra.Command{
		Use:   "get TABLE KEY",
		Short: "Print one row from the cache",
		Long: `Print one row from the cache as JSON; exit status 1 where there is none.

KEY is the key's values in key order as text, each percent-encoded, joined by commas.`,
		Example: `  syncd get public.users 42
  syncd get 'public."Order Lines"' 42,7 --min-version 0/16B3748`,
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
			q := url.Values{}
			fresh.add(q)
			body, _, err := c.do(cmd.Context(), http.MethodGet, withQuery(path+"/rows/"+key.Path(), q))
			if err != nil {
				return exitOf(err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s\n", body)
			return nil
		},
	}
	c.flags(cmd)
	fresh.flags(cmd)
	return cmd
}

// rowsAnswer is one page of rows.
type rowsAnswer struct {
	Version  string            `json:"version"`
	Items    []json.RawMessage `json:"items"`
	Continue string            `json:"continue"`
}

// wanted says which rows and columns are asked for.
type wanted struct {
	filters []string
	columns string
}

func (w *wanted) flags(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&w.filters, "filter", nil, "only rows for which COLUMN=CONDITION holds, such as state=eq.open; may be repeated")
	cmd.Flags().StringVar(&w.columns, "select", "", "only these columns, joined by commas")
}

func (w *wanted) add(q url.Values) error {
	for _, f := range w.filters {
		column, condition, ok := strings.Cut(f, "=")
		if !ok || column == "" {
			return usage(fmt.Errorf("--filter %q: want COLUMN=CONDITION, such as state=eq.open", f))
		}
		if slices.Contains(readNames, column) {
			return usage(fmt.Errorf("--filter %q: %s is a parameter of the read, and no filter can name it: use its flag, if there is one", f, column))
		}
		q.Add(column, condition)
	}
	if w.columns != "" {
		q.Set("select", w.columns)
	}
	return nil
}

// readNames are the names of parameters in a read's query, where a column of the name can't be filtered by.
var readNames = []string{"key", "select", "limit", "continue", "min_version", "timeout", "max_age"}

type lister struct {
	client
	fresh freshness
	want  wanted
	limit int
	next  string
	json  bool
}

// maxPage is the most rows that one request gives.
const maxPage = 10000

func newList() *cobra.Command {
	l := &lister{}
	cmd := &cobra.Command{
		Use:   "list TABLE",
		Short: "Print rows from the cache, one a line",
		Long: `Print rows from the cache as JSON, one a line, in no order that means anything. Each page of at most 10000 rows is of one
commit of the cache.`,
		Example: `  syncd list public.orders --filter state=eq.open --filter 'total=gt.10' --select id,total
  syncd list public.orders --filter 'state=in.(open,paid)' --limit 0`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return l.run(cmd, args[0]) },
	}
	l.flags(cmd)
	l.fresh.flags(cmd)
	l.want.flags(cmd)
	cmd.Flags().IntVar(&l.limit, "limit", 100, "rows at most; 0 prints all")
	cmd.Flags().StringVar(&l.next, "continue", "", "go on behind an earlier list")
	cmd.Flags().BoolVar(&l.json, "json", false, "print one page as the sidecar answers it, with version and continue")
	return cmd
}

func (l *lister) run(cmd *cobra.Command, table string) error {
	path, err := tablePath(table)
	if err != nil {
		return err
	}
	if err := l.want.add(url.Values{}); err != nil {
		return err
	}
	if l.limit < 0 {
		return usage(fmt.Errorf("--limit %d: want 0 or more", l.limit))
	}
	if err := l.open(); err != nil {
		return err
	}
	defer l.close()
	for left := l.limit; ; {
		page, body, err := l.page(cmd, path, left)
		if err != nil {
			return err
		}
		if l.json {
			_, err := cmd.OutOrStdout().Write(body)
			return err
		}
		for _, row := range page.Items {
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", row); err != nil {
				return err
			}
		}
		left -= len(page.Items)
		if l.next = page.Continue; l.next == "" {
			return nil
		}
		if l.limit > 0 && left <= 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "there are more rows: --limit 0 prints all, --continue %s goes on from here\n", l.next)
			return nil
		}
	}
}

// page asks for the next page, of at most left rows where a limit is set.
func (l *lister) page(cmd *cobra.Command, path string, left int) (rowsAnswer, []byte, error) {
	var page rowsAnswer
	n := maxPage
	if l.limit > 0 {
		n = min(left, maxPage)
	}
	q := url.Values{"limit": {strconv.Itoa(n)}}
	if l.next != "" {
		q.Set("continue", l.next)
	}
	l.fresh.add(q)
	if err := l.want.add(q); err != nil {
		return page, nil, err
	}
	body, _, err := l.do(cmd.Context(), http.MethodGet, withQuery(path+"/rows", q))
	if err != nil {
		return page, nil, exitOf(err)
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return page, nil, unreachable(fmt.Errorf("%s does not answer as a sidecar does: %w", l.addr, err))
	}
	if page.Continue == l.next && l.next != "" {
		return page, nil, no(errors.New("the sidecar's list does not move on"))
	}
	return page, body, nil
}
