package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/syncd-io/syncd"
)

// endpoint is what a path leads to.
type endpoint uint8

const (
	nowhere endpoint = iota
	statusPage
	healthz
	readyz
	metrics
	status
	tables
	rows
	row
	resyncTable
	diffTable
	explainKey
	watchTable
	readSeveral
	openAPI
)

// methods says what each endpoint takes, as an Allow header lists it.
var methods = [...]string{
	statusPage:  "GET, HEAD",
	healthz:     "GET, HEAD",
	readyz:      "GET, HEAD",
	metrics:     "GET, HEAD",
	status:      "GET, HEAD",
	tables:      "GET, HEAD",
	rows:        "GET, HEAD",
	row:         "GET, HEAD",
	resyncTable: "POST",
	diffTable:   "GET",
	explainKey:  "GET",
	watchTable:  "GET",
	readSeveral: "POST",
	openAPI:     "GET, HEAD",
}

func (e endpoint) allows(method string) bool {
	switch methods[e] {
	case "POST", "GET":
		return method == methods[e]
	}
	return method == http.MethodGet || method == http.MethodHead
}

// route is a path taken apart. Table and key are still percent-encoded.
type route struct {
	endpoint   endpoint
	table, key string
}

// rawPath gives the path as the client sent it. http.ServeMux would decode it, and URL.EscapedPath encodes it anew when
// it holds a character such as a double quote; both make a comma of a key's %2C.
func rawPath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// parseRoute takes a path apart without decoding it, so that an encoded slash, comma or dot stays part of its segment.
func parseRoute(path string) (route, error) {
	rest, ok := strings.CutPrefix(path, "/v1/tables/")
	if !ok {
		return route{endpoint: fixedPaths[path]}, nil
	}
	table, rest, ok := strings.Cut(rest, "/")
	if !ok || table == "" {
		return route{}, nil
	}
	switch rest {
	case "rows":
		return route{rows, table, ""}, nil
	case "resync":
		return route{resyncTable, table, ""}, nil
	case "watch":
		return route{watchTable, table, ""}, nil
	case "diff":
		return route{diffTable, table, ""}, nil
	}
	end := row
	key, ok := strings.CutPrefix(rest, "rows/")
	if !ok {
		end = explainKey
		if key, ok = strings.CutPrefix(rest, "explain/"); !ok {
			return route{}, nil
		}
	}
	if strings.Contains(key, "/") {
		return route{}, fmt.Errorf("key %q: a slash within a key is written %%2F", key)
	}
	return route{end, table, key}, nil
}

var fixedPaths = map[string]endpoint{
	"/":                statusPage,
	"/v1/openapi.json": openAPI,
	"/healthz":         healthz,
	"/readyz":          readyz,
	"/metrics":         metrics,
	"/v1/status":       status,
	"/v1/tables":       tables,
	"/v1/read":         readSeveral,
}

// parseTable reads the table's segment of a path.
func parseTable(segment string) (syncd.Table, error) {
	name, err := url.PathUnescape(segment)
	if err != nil {
		return syncd.Table{}, fmt.Errorf("table %q: %w; percent-encode it", segment, err)
	}
	return syncd.ParseTable(name)
}

// parseKey reads the key's segment of a path, of a table of this shape.
func parseKey(segment string, info *syncd.TableInfo) (syncd.Key, error) {
	k, err := syncd.ParseKeyPath(segment)
	if err != nil {
		return "", err
	}
	return fitKey(info, k.Values())
}
