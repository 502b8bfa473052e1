package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/syncd-io/syncd"
)

// Node is the sidecar itself, as probes and people see it.
type Node interface {
	// Ready gives nil once the sidecar may take traffic, and before that says what it waits for.
	Ready() error
	// Status says what runs.
	Status() Status
}

// Limits bound what clients can take of a server. Zero fields are set to the defaults.
type Limits struct {
	Requests int           // requests answered at a time, those that wait apart; default 4096
	Waiting  int           // reads that wait for min_version at a time; default 4096
	Watches  int           // watches at a time; default 10000
	Write    time.Duration // to write one answer, after which a slow reader is cut off; default 1m
	Bookmark time.Duration // between the bookmarks of a watch where nothing changes; default 10s
}

func (l Limits) withDefaults() Limits {
	if l.Requests == 0 {
		l.Requests = 4096
	}
	if l.Waiting == 0 {
		l.Waiting = 4096
	}
	if l.Watches == 0 {
		l.Watches = 10000
	}
	if l.Bookmark == 0 {
		l.Bookmark = 10 * time.Second
	}
	if l.Write == 0 {
		l.Write = time.Minute
	}
	return l
}

// Options are what an API is made of.
type Options struct {
	Cache  Cache
	Resync Resyncer
	// Explain says why the cache holds what it holds; nil: nobody does.
	Explain Explainer
	// History is what watches follow; nil: nothing can be watched.
	History History
	Node    Node
	Marks   Marks
	// Stale is how long the source may be gone before reads are answered with 503; 0: they are answered however old the cache is.
	Stale time.Duration
	// Indexes gives those that are declared, to say which can't be made; nil: none are.
	Indexes func() map[syncd.Table][][]string
	// Observer is told of each request; nil: nobody is.
	Observer Observer
	// Gatherer gives what /metrics shows.
	Gatherer prometheus.Gatherer
	// Access says who is let in.
	Access Access
	Limits Limits
	// Logger gets what goes wrong inside; nil means quiet.
	Logger *slog.Logger
}

// API is the http.Handler of a sidecar. Run must run beside it.
type API struct {
	Options
	metrics  http.Handler
	asker    asker
	now      func() time.Time
	busy     counter
	waiting  counter
	watching counter
	partRows int // of a watch's list
}

// New makes an API. It starts nothing.
func New(o Options) *API {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Limits = o.Limits.withDefaults()
	return &API{
		Options:  o,
		metrics:  promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}),
		asker:    newAsker(),
		now:      time.Now,
		partRows: partRows,
	}
}

// Run passes the asks of waiting reads on to the source, until ctx ends.
func (a *API) Run(ctx context.Context) error {
	a.asker.run(ctx, a.Marks, a.Logger)
	return ctx.Err()
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.Observer != nil {
		a.observed(w, r)
		return
	}
	if _, err := a.serve(w, r); err != nil {
		a.fail(w, r, err)
	}
}

func (a *API) serve(w http.ResponseWriter, r *http.Request) (endpoint, error) {
	at, err := parseRoute(rawPath(r.URL))
	if err != nil {
		return nowhere, badRequest(err)
	}
	switch {
	case at.endpoint == nowhere:
		return at.endpoint, &failure{status: http.StatusNotFound, text: nothingAt(rawPath(r.URL))}
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", methods[at.endpoint]+", OPTIONS")
		w.WriteHeader(http.StatusNoContent)
		return at.endpoint, nil
	case !at.endpoint.allows(r.Method):
		return at.endpoint, &failure{status: http.StatusMethodNotAllowed, allow: methods[at.endpoint],
			text: fmt.Sprintf("%s is not for this path: use %s", r.Method, methods[at.endpoint])}
	}
	if err := a.Access.check(r, at.endpoint); err != nil {
		return at.endpoint, err
	}
	if at.endpoint != readSeveral && sendsBody(r) {
		return at.endpoint, &failure{status: http.StatusBadRequest, text: "the body is not asked for: this path takes its parameters from the query, so send none"}
	}
	if !a.busy.enter(a.Limits.Requests) {
		return at.endpoint, &failure{status: http.StatusServiceUnavailable, passes: true,
			text: fmt.Sprintf("%d requests are being answered already: try again", a.Limits.Requests)}
	}
	defer a.busy.leave()
	return at.endpoint, a.handle(w, r, at)
}

// sendsBody says whether a request has a body with something in it.
func sendsBody(r *http.Request) bool {
	if r.ContentLength >= 0 {
		return r.ContentLength > 0
	}
	n, _ := io.ReadFull(r.Body, make([]byte, 1)) // a body that can't be read is none
	return n > 0
}

func (a *API) handle(w http.ResponseWriter, r *http.Request, at route) error {
	switch at.endpoint {
	case row:
		return a.getRow(w, r, at)
	case rows:
		return a.listRows(w, r, at)
	case readSeveral:
		return a.readMany(w, r)
	case tables:
		return a.listTables(w, r)
	case status:
		return a.getStatus(w, r)
	case openAPI:
		return a.getOpenAPI(w, r)
	case healthz:
		return a.getHealth(w, r, nil)
	case readyz:
		return a.getHealth(w, r, a.Ready())
	case metrics:
		if err := noParams(r); err != nil {
			return err
		}
		a.metrics.ServeHTTP(w, r)
		return nil
	case watchTable:
		return a.watch(w, r, at)
	case explainKey:
		return a.explain(w, r, at)
	case resyncTable, diffTable:
		return a.compare(w, r, at)
	case statusPage:
		return a.getPage(w, r)
	}
	panic(fmt.Sprintf("endpoint %d has no handler", at.endpoint))
}

// fail writes the answer of a request that could not be answered as asked, and gives its status.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) (status int) {
	f, ok := errors.AsType[*failure](err)
	if !ok {
		a.Logger.Error("answer a request", "method", r.Method, "path", r.URL.Path, "error", err)
		f = &failure{status: http.StatusInternalServerError, text: err.Error()}
	}
	h := w.Header()
	if f.passes {
		h.Set("Retry-After", strconv.Itoa(int(max(f.after.Seconds()+0.999, 1))))
	}
	if f.allow != "" {
		h.Set("Allow", f.allow)
	}
	if f.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if f.report != nil {
		writeJSON(w, f.status, f.report)
		return f.status
	}
	writeJSON(w, f.status, map[string]string{"error": f.text})
	return f.status
}

// writeJSON writes a small answer. What can't be written to a client that went away concerns nobody.
func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("answer of type %T: %v", v, err))
	}
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Cache-Control"] = noStore
	h["Content-Length"] = []string{strconv.Itoa(len(b) + 1)}
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}

// Header values that are the same for every answer; net/http reads them only.
var (
	jsonType = []string{"application/json"}
	noStore  = []string{"no-store"}
)

// counter bounds how many are at something at a time.
type counter struct{ n atomic.Int64 }

func (c *counter) enter(limit int) bool {
	if c.n.Add(1) > int64(limit) {
		c.n.Add(-1)
		return false
	}
	return true
}

func (c *counter) leave() { c.n.Add(-1) }
