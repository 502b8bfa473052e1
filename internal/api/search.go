package api

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// search is what a read asks for of a table's rows: as it was written, until the table is known, and then as it is meant.
type search struct {
	conditions map[string][]string // by column; nil: none
	columns    string              // of select=
	selects    bool

	filter    syncd.Filter
	selection syncd.Selection
}

// parseSearch reads the query of a read of a table's rows.
func parseSearch(query string) (readParams, error) {
	params, conditions, err := splitQuery(query, rowsParams)
	if err != nil {
		return readParams{}, err
	}
	q, err := parseRead(params, rowsParams)
	if err == nil && q.keys != nil && conditions != nil {
		err = fmt.Errorf("parameter key: it goes with no conditions on columns, since all rows under the keys are sent")
	}
	q.search.conditions = conditions
	return q, err
}

// splitQuery parts a query into the parameters of the given names and the conditions on columns, which is all the rest.
func splitQuery(query string, known []string) (params string, conditions map[string][]string, err error) {
	if query == "" {
		return "", nil, nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", nil, fmt.Errorf("query: %w; percent-encode names and values", err)
	}
	for name, vs := range values {
		if slices.Contains(known, name) {
			continue
		}
		if conditions == nil {
			conditions = map[string][]string{}
		}
		conditions[name] = vs
	}
	if conditions == nil {
		return query, nil, nil
	}
	maps.DeleteFunc(values, func(name string, _ []string) bool { return !slices.Contains(known, name) })
	return values.Encode(), conditions, nil
}

// resolve reads the search for a table. known are the names of parameters that might have been meant; nil: the search is of
// a body, where there are none.
func (s *search) resolve(info *syncd.TableInfo, known []string) (err error) {
	for _, name := range slices.Sorted(maps.Keys(s.conditions)) {
		if known == nil || slices.Contains(info.Columns, name) {
			continue
		}
		near := ""
		if n := syncd.Nearest(name, slices.Concat(info.Columns, known)); n != "" {
			near = fmt.Sprintf("; did you mean %s?", n)
		}
		return fmt.Errorf("parameter %q is neither known here nor a column of %s%s: there are %s, and the columns %s",
			name, info.Table, near, strings.Join(known, ", "), strings.Join(info.Columns[:min(30, len(info.Columns))], ", "))
	}
	if s.filter, err = syncd.ParseFilter(*info, s.conditions); err != nil {
		return err
	}
	if s.selects {
		if s.selection, err = syncd.ParseSelect(*info, s.columns); err != nil {
			return fmt.Errorf("parameter select: %w", err)
		}
	}
	return nil
}

// asks says whether there is anything to resolve.
func (s *search) asks() bool { return s.selects || len(s.conditions) > 0 }

// row gives what is sent of a row.
func (s *search) row(row []byte) []byte {
	if s.selection.IsZero() {
		return row
	}
	return s.selection.Append(make([]byte, 0, len(row)), row)
}

// attended is a view whose rows are looked at for as long as the client waits: a search without an index may look at all rows of
// a table to find none.
type attended struct {
	sink.View
	client context.Context
	rows   int
}

func (v *attended) Rows(t syncd.Table, from uint64, fn func(syncd.Key, sink.Entry) bool) {
	v.View.Rows(t, from, func(k syncd.Key, e sink.Entry) bool {
		v.rows++
		return (v.rows%1024 != 0 || v.client.Err() == nil) && fn(k, e)
	})
}

// Find has the view's indexes used, where it has any.
func (v *attended) Find(t syncd.Table, f syncd.Filter, from uint64, fn func(syncd.Key, sink.Entry) bool) bool {
	x, ok := v.View.(sink.Indexer)
	return ok && x.Find(t, f, from, fn)
}

// Err says also that the client has gone, so that what was found is no answer.
func (v *attended) Err() error { return cmp.Or(v.View.Err(), v.client.Err()) }
