package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/syncd-io/syncd"
)

// Report is what a resync found and did.
type Report struct {
	Table     string   `json:"table"`
	Mode      string   `json:"mode"`
	Version   string   `json:"version"`
	Rows      int64    `json:"rows"`
	Missing   int64    `json:"missing"`
	Stale     int64    `json:"stale"`
	Ghost     int64    `json:"ghost"`
	Corrupt   int64    `json:"corrupt"`
	Repaired  int64    `json:"repaired"`
	Undecided int64    `json:"undecided"`
	Seconds   float64  `json:"seconds"`
	Bytes     int64    `json:"bytes"`
	Complete  bool     `json:"complete"`
	Samples   []Sample `json:"samples"`
}

// Sample is one key that differed.
type Sample struct {
	Key  string `json:"key"`
	Kind string `json:"kind"`
}

// compare runs a resync or a diff and answers with its report. It ends with the request.
func (a *API) compare(w http.ResponseWriter, r *http.Request, at route) error {
	t, err := parseTable(at.table)
	if err != nil {
		return badRequest(err)
	}
	var o ResyncOptions
	if at.endpoint == resyncTable {
		o, err = parseResync(r.URL.RawQuery)
		if err != nil {
			return badRequest(err)
		}
	} else if err := noParams(r); err != nil {
		return err
	}
	if err := a.comparable(t); err != nil {
		return err
	}
	a.extend(w, 0)
	var report Report
	if at.endpoint == resyncTable {
		report, err = a.Resync.Resync(r.Context(), t, o)
	} else {
		report, err = a.Resync.Diff(r.Context(), t)
	}
	a.extend(w, a.Limits.Write)
	if err != nil {
		return a.compareFailed(r, t, err)
	}
	writeJSON(w, http.StatusOK, report)
	return nil
}

// comparable says whether a table is there to be compared; it need not be listed yet.
func (a *API) comparable(t syncd.Table) error {
	view := a.Cache.View()
	defer view.Close()
	_, err := readable(view.State(), t)
	if f, ok := err.(*failure); ok && f.unlisted {
		return nil
	}
	return err
}

func (a *API) compareFailed(r *http.Request, t syncd.Table, err error) error {
	switch {
	case r.Context().Err() != nil:
		return &failure{status: http.StatusServiceUnavailable, passes: true, text: "the server is stopping, or the client went away: ask again"}
	case errors.Is(err, syncd.ErrBusy):
		return &failure{status: http.StatusTooManyRequests, passes: true, text: fmt.Sprintf("%v: try again", err)}
	case errors.Is(err, syncd.ErrNoTable):
		return &failure{status: http.StatusNotFound, text: fmt.Sprintf("%v: the source does not sync %s", err, t)}
	}
	a.Logger.Warn("compare a table with Postgres", "table", t, "error", err)
	return &failure{status: http.StatusBadGateway, passes: true, text: fmt.Sprintf("%v; is the source running, and does it reach Postgres?", err)}
}
