package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/resync"
)

// Resyncer lists a table and compares the cache with it. It is called by any number of requests at a time, and gives up
// when ctx ends. A report may come with an error: it says how far the run came. The API does not change it.
// resync.Runner implements it.
type Resyncer interface {
	Request(ctx context.Context, t syncd.Table, o resync.Options) (*resync.Report, error)
}

var resyncParams = []string{"mode", "approve_prune"}

func parseResync(query string) (resync.Options, error) {
	var o resync.Options
	err := eachParam(query, resyncParams, func(name, value string) (err error) {
		switch name {
		case "mode":
			o.Mode, err = resync.ParseMode(value)
		case "approve_prune":
			if value != "true" && value != "false" {
				return fmt.Errorf("%q is neither true nor false", value)
			}
			o.ApprovePrune = value == "true"
		}
		return err
	})
	return o, err
}

// compare runs a resync or a diff and answers with its report. It gives up when the client goes away.
func (a *API) compare(w http.ResponseWriter, r *http.Request, at route) error {
	t, err := parseTable(at.table)
	if err != nil {
		return badRequest(err)
	}
	o := resync.Options{Mode: resync.Full, Dry: true}
	if at.endpoint == resyncTable {
		if o, err = parseResync(r.URL.RawQuery); err != nil {
			return badRequest(err)
		}
	} else if err := noParams(r); err != nil {
		return err
	}
	if err := a.comparable(t); err != nil {
		return err
	}
	a.extend(w, 0)
	report, err := a.Resync.Request(r.Context(), t, o)
	a.extend(w, a.Limits.Write)
	if err != nil {
		return a.compareFailed(r, t, report, err)
	}
	writeJSON(w, http.StatusOK, reportOf(report))
	return nil
}

// reportOf gives a copy whose samples are a JSON array also where there are none.
func reportOf(r *resync.Report) *resync.Report {
	out := *r
	if out.Samples == nil {
		out.Samples = []resync.Sample{}
	}
	return &out
}

// comparable says whether a table is there to be compared; it need not be listed yet.
func (a *API) comparable(t syncd.Table) error {
	st, err := a.state()
	if err != nil {
		return err
	}
	_, err = readable(st, t)
	if f, ok := errors.AsType[*failure](err); ok && f.unlisted {
		return nil
	}
	return err
}

// compareFailed answers with the report as far as there is one, whose error says the same as err.
func (a *API) compareFailed(r *http.Request, t syncd.Table, report *resync.Report, err error) error {
	f := &failure{text: err.Error()}
	switch {
	case r.Context().Err() != nil:
		f.status, f.passes, f.text = http.StatusServiceUnavailable, true, "the server is stopping, or the client went away: ask again"
	case errors.Is(err, syncd.ErrBusy):
		f.status, f.passes = http.StatusTooManyRequests, true
		var later interface{ RetryAfter() time.Duration }
		if errors.As(err, &later) {
			f.after = later.RetryAfter()
		}
	case errors.Is(err, syncd.ErrNoTable):
		f.status = http.StatusNotFound
	case errors.Is(err, resync.ErrStopped):
		f.status = http.StatusConflict
		f.text += "; look at the diff, and where the rows are to go: POST again with approve_prune=true, or `syncd resync --approve-prune`"
	default:
		f.status, f.passes = http.StatusBadGateway, true
		f.text += "; is the source running, and does it reach Postgres?"
	}
	if report != nil {
		f.report = reportOf(report)
		f.report.Error = f.text
	}
	return f
}
