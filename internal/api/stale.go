package api

import (
	"fmt"
	"net/http"
	"time"

	"github.com/syncd-io/syncd/sink"
)

// stale gives nil unless the source has been gone for longer than reads are to be answered.
func (a *API) stale(st *sink.State) error {
	if a.Stale <= 0 {
		return nil
	}
	old := age(st, a.now())
	if old <= a.Stale {
		return nil
	}
	gone := "nothing has come from the source yet"
	if !st.Applied.IsZero() {
		gone = fmt.Sprintf("nothing has come from the source for %s", old.Round(time.Second))
	}
	return &failure{status: http.StatusServiceUnavailable, passes: true, after: 5 * time.Second,
		text: fmt.Sprintf("%s, and sidecar.stale allows %s: is the source running, and does this sidecar reach the bus? see /v1/status", gone, a.Stale)}
}

// tooStale is stale of the cache as it is now.
func (a *API) tooStale() error {
	st, err := a.state()
	if err != nil {
		return err
	}
	return a.stale(st)
}

// Ready gives nil once the sidecar may take traffic, and while its reads are answered. Before that it says what it waits for.
func (a *API) Ready() error {
	if err := a.Node.Ready(); err != nil {
		return err
	}
	return a.tooStale()
}
