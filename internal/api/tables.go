package api

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// Table is one table in /v1/tables and /v1/status.
type Table struct {
	Table string `json:"table"`
	Rows  int    `json:"rows"`
	// Version is what a read of the table answers as Syncd-Version; Through is its LSN, as Postgres prints it.
	Version string `json:"version"`
	Through string `json:"through"`
	// VerifiedThrough is the version up to which the whole table was last proved equal to Postgres; null: never.
	VerifiedThrough    *string  `json:"verified_through"`
	VerifiedAgeSeconds *float64 `json:"verified_age_seconds"`
	// LagSeconds is how long ago the cache was all of Postgres, what a read answers as Syncd-Age; null before the first marker.
	LagSeconds *float64 `json:"lag_seconds"`
	// Ready says that the table can be read; Error says why it never will be until somebody mends it.
	Ready bool   `json:"ready"`
	Error string `json:"error"`
	// OpenKeys counts the keys that are undecided or being fetched, ParkedKeys those whose change could not be applied.
	OpenKeys   int `json:"open_keys"`
	ParkedKeys int `json:"parked_keys"`
	// Selector says which rows are kept; empty: all.
	Selector string `json:"selector,omitempty"`
	// IndexErrors say which declared indexes can't be made, and why; reads do without them.
	IndexErrors []string `json:"index_errors,omitempty"`
	// Stopped says why a resync stopped before it deleted rows; Relist why the table is to be listed again.
	Stopped string `json:"stopped,omitempty"`
	Relist  string `json:"relist,omitempty"`
	// Resynced is when the last complete comparison ended.
	Resynced *time.Time `json:"resynced"`
}

// tablesOf describes all tables of a commit, by name. newest is the state of the newest generation.
func tablesOf(st, newest *sink.State, now time.Time) []Table {
	all := make([]Table, 0, len(st.Tables))
	for t, ts := range st.Tables {
		out := tableOf(t, ts, st, now)
		if n := newest.Tables[t]; n != nil && newest.Cursor.Position.Epoch != st.Cursor.Position.Epoch {
			out.Stopped, out.Relist = n.Stopped, n.Relist
			if out.Relist == "" && !n.Listed {
				out.Relist = "a new epoch has begun, and what is read is of the one before until all is listed"
			}
		}
		all = append(all, out)
	}
	slices.SortFunc(all, func(a, b Table) int { return strings.Compare(a.Table, b.Table) })
	return all
}

func tableOf(t syncd.Table, ts *sink.TableState, st *sink.State, now time.Time) Table {
	through := ts.Complete()
	out := Table{
		Table: t.String(), Rows: ts.Rows, Version: through.String(), Through: through.LSN.String(),
		Ready: ts.Listed && ts.Info.Error == "", Error: ts.Info.Error, Stopped: ts.Stopped, Relist: ts.Relist,
		Selector: ts.Info.Selector,
	}
	if !st.Applied.IsZero() {
		out.LagSeconds = seconds(tableAge(st, ts, now))
	}
	if !ts.Verified.At.IsZero() {
		v := ts.Verified.Position.String()
		out.VerifiedThrough, out.VerifiedAgeSeconds = &v, seconds(max(now.Sub(ts.Verified.At), 0))
	}
	if !ts.Resynced.IsZero() {
		out.Resynced = &ts.Resynced
	}
	for _, o := range ts.Open {
		if o.Parked {
			out.ParkedKeys++
		} else {
			out.OpenKeys++
		}
	}
	return out
}

func seconds(d time.Duration) *float64 {
	s := d.Round(time.Millisecond).Seconds()
	return &s
}

func noParams(r *http.Request) error {
	if err := eachParam(r.URL.RawQuery, nil, nil); err != nil {
		return badRequest(err)
	}
	return nil
}

// listTables answers with what there is to read.
func (a *API) listTables(w http.ResponseWriter, r *http.Request) error {
	if err := noParams(r); err != nil {
		return err
	}
	st, err := a.state()
	if err != nil {
		return err
	}
	all := tablesOf(st, a.Cache.State(), a.now())
	a.addIndexErrors(all, st)
	writeJSON(w, http.StatusOK, all)
	return nil
}
