package api

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// paths are what there is, as people write it.
var paths = [...]string{
	statusPage:  "/",
	healthz:     "/healthz",
	readyz:      "/readyz",
	metrics:     "/metrics",
	status:      "/v1/status",
	tables:      "/v1/tables",
	readSeveral: "/v1/read",
	openAPI:     "/v1/openapi.json",
	rows:        "/v1/tables/{TABLE}/rows",
	row:         "/v1/tables/{TABLE}/rows/{KEY}",
	resyncTable: "/v1/tables/{TABLE}/resync",
	diffTable:   "/v1/tables/{TABLE}/diff",
	watchTable:  "/v1/tables/{TABLE}/watch",
	explainKey:  "/v1/tables/{TABLE}/explain/{KEY}",
}

// nothingAt says that a path leads nowhere, and which it may have been meant to be.
func nothingAt(path string) string {
	near := nearPaths(path)
	if len(near) == 0 {
		near = []string{paths[tables], paths[row]}
	}
	return fmt.Sprintf("nothing is at %q: there is %s; /v1/openapi.json describes every path", shorten(path, 200), strings.Join(near, ", "))
}

func shorten(s string, n int) string {
	if len(s) > n {
		return strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

// nearPaths gives at most three paths that differ from path by little, the nearest first. Table and key may be anything.
func nearPaths(path string) []string {
	if len(path) > 500 {
		return nil
	}
	type candidate struct {
		path string
		away int
	}
	var all []candidate
	for e, p := range paths {
		if p == "" || endpoint(e) == statusPage {
			continue
		}
		filled, wanted := fill(p, path)
		asked := strings.ToLower(strings.TrimSuffix(path, "/"))
		away := distance(strings.ToLower(filled), asked)
		if strings.HasPrefix(strings.ToLower(filled), asked+"/") && !strings.Contains(filled, "{") { // its last part alone is missing
			away = min(away, 3)
		}
		if away <= max(3, len(wanted)/4) {
			all = append(all, candidate{filled, away})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.away, b.away) })
	var out []string
	for _, c := range all[:min(len(all), 3)] {
		out = append(out, c.path)
	}
	return out
}

// fill puts the table and the key of a path in their places in a known one. wanted is what is not filled in.
func fill(known, path string) (filled, wanted string) {
	have := strings.Split(path, "/")
	parts := strings.Split(known, "/")
	wanted = known
	for i, p := range parts {
		if strings.HasPrefix(p, "{") && i < len(have) && have[i] != "" {
			parts[i] = have[i]
			wanted = strings.Replace(wanted, p, "", 1)
		}
	}
	return strings.Join(parts, "/"), wanted
}

// distance is the number of bytes to insert, delete or replace that turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := left
			if a[i] != b[j] {
				replace++
			}
			left = row[j+1]
			row[j+1] = min(row[j+1]+1, row[j]+1, replace)
		}
	}
	return row[len(b)]
}
