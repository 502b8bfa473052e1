package api

import (
	"net/http"
	"time"
)

// Observer is told of each request that was answered, for metrics. It is called by many goroutines.
type Observer interface {
	// Answered is called with the kind of request, of which there are few, the answer's status (200 also stands for 304), and
	// how long it took; a watch is answered when it ends.
	Answered(endpoint string, status int, took time.Duration)
}

// names are the kinds of requests as metrics have them.
var names = [...]string{
	nowhere:     "none",
	statusPage:  "page",
	healthz:     "healthz",
	readyz:      "readyz",
	metrics:     "metrics",
	status:      "status",
	tables:      "tables",
	rows:        "rows",
	row:         "row",
	resyncTable: "resync",
	diffTable:   "diff",
	explainKey:  "explain",
	watchTable:  "watch",
	readSeveral: "read",
	openAPI:     "openapi",
}

func (e endpoint) name() string {
	if int(e) < len(names) && names[e] != "" {
		return names[e]
	}
	return "other"
}

// Watches gives how many watches are open.
func (a *API) Watches() int { return int(a.watching.n.Load()) }

// observed answers a request and tells the observer.
func (a *API) observed(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	e, err := a.serve(w, r)
	code := http.StatusOK
	if err != nil {
		code = a.fail(w, r, err)
	}
	a.Observer.Answered(e.name(), code, time.Since(began))
}
