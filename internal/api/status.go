package api

import (
	"net/http"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/resync"
)

// Status is what runs, how fresh it is and how true.
type Status struct {
	// Node fills these.
	Name    string    `json:"name"`
	Program string    `json:"program"` // version of syncd
	Started time.Time `json:"started"`
	Bus     string    `json:"bus"` // "connected", or why not
	// Fault is what keeps the cache from taking in what comes, such as a sink that is full; empty: nothing.
	Fault string `json:"fault"`
	// Running are the comparisons under way, Reports the last one of each table.
	Running []Progress       `json:"running"`
	Reports []*resync.Report `json:"reports"`
	// Sinks are all that this sidecar keeps, where there are several; what else is said here is of the first.
	Sinks []SinkStatus `json:"sinks,omitempty"`

	// The API fills these from the cache.
	Ready      bool     `json:"ready"`
	WaitsFor   string   `json:"waits_for"` // what readiness waits for; empty when ready
	Version    string   `json:"version"`
	LagSeconds *float64 `json:"lag_seconds"`
	System     uint64   `json:"system_identifier,string"`
	Timeline   uint32   `json:"timeline"`
	Tables     []Table  `json:"tables"`
}

// SinkStatus is how one of several sinks stands.
type SinkStatus struct {
	Sink       string `json:"sink"`
	Ready      bool   `json:"ready"`
	WaitsFor   string `json:"waits_for,omitempty"`
	Version    string `json:"version"`    // through which its stream was taken in
	Rows       int    `json:"rows"`       // of all tables
	Incomplete int    `json:"incomplete"` // tables that were not listed yet, or of which changes are missing
}

// Progress is how far a comparison is.
type Progress struct {
	Table string      `json:"table"`
	Mode  resync.Mode `json:"mode"`
	// Rows and Bytes have come, of about Expected rows.
	Rows     uint64 `json:"rows"`
	Bytes    int64  `json:"bytes"`
	Expected int    `json:"expected"`
}

// Status is what GET /v1/status answers with: what the node and the cache say.
func (a *API) Status() (Status, error) {
	s := a.Node.Status()
	if err := a.Ready(); err != nil {
		s.WaitsFor = err.Error()
	} else {
		s.Ready = true
	}
	st, err := a.state()
	if err != nil {
		return s, err
	}
	now := a.now()
	s.Version, s.System, s.Timeline = st.Cursor.Position.String(), st.System, st.Timeline
	if st.Cursor.Position == (syncd.Position{}) {
		s.Version = ""
	}
	if !st.Applied.IsZero() {
		s.LagSeconds = seconds(age(st, now))
	}
	s.Tables = tablesOf(st, a.Cache.State(), now)
	a.addIndexErrors(s.Tables, st)
	if s.Running == nil {
		s.Running = []Progress{} // an array in JSON too
	}
	reports := make([]*resync.Report, len(s.Reports))
	for i, r := range s.Reports {
		reports[i] = reportOf(r)
	}
	s.Reports = reports
	return s, nil
}

func (a *API) getStatus(w http.ResponseWriter, r *http.Request) error {
	if err := noParams(r); err != nil {
		return err
	}
	s, err := a.Status()
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, s)
	return nil
}

// getHealth answers a probe: notReady says why traffic should go elsewhere.
func (a *API) getHealth(w http.ResponseWriter, r *http.Request, notReady error) error {
	if err := noParams(r); err != nil {
		return err
	}
	if notReady != nil {
		return &failure{status: http.StatusServiceUnavailable, passes: true, text: notReady.Error()}
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}
