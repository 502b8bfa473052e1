package metrics

import (
	"fmt"
	"strings"
)

// roles are the parts of the reference, in their order.
var roles = [...]struct{ role, title, text string }{
	{"source", "Source", "On `metrics.listen` of `syncd source`, and on the sidecar's address with `syncd run`."},
	{"sidecar", "Sidecar", "On `sidecar.listen`, or on `metrics.listen` where that is set."},
	{"any", "Every process", "Beside these there are the usual `go_…` of the Go runtime and `process_…` of the process (memory, CPU, open files, when it started)."},
}

// Reference gives docs/metrics.md: every metric, out of what registers them. A test holds the file to it.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Metrics

GET ` + "`/metrics`" + ` answers in Prometheus's text form. Names begin with ` + "`syncd_`" + `, units are seconds, bytes and counts.

No key and no row is ever a label. ` + "`table`" + ` takes the configured tables, the other labels one of a few words, so the number of series is
bounded by the number of tables: about 80 a table in a sidecar, 8 in a source. An age that is not known yet is ` + "`+Inf`" + `.
With several sinks in a sidecar, what each counts has a label ` + "`sink`" + ` besides.

Rules and alerts that use them are in [deploy/prometheus](../deploy/prometheus), dashboards in [deploy/grafana](../deploy/grafana), and what to do at an
alert in [runbooks](runbooks/README.md).
`)
	all := Families()
	for _, r := range roles {
		fmt.Fprintf(&b, "\n## %s\n%s\n\n| metric | kind | labels | meaning |\n|---|---|---|---|\n", r.title, r.text)
		for _, f := range all {
			if f.Role == r.role {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Name, f.Kind, strings.Join(f.Labels, ", "), f.Help)
			}
		}
	}
	return b.String()
}
