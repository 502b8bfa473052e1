package grafana

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// rule is a rule of Prometheus.
type rule struct {
	Alert, Record, Expr string
	Labels, Annotations map[string]string
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	for _, file := range []string{"rules.yml", "alerts.yml"} {
		text, err := os.ReadFile(filepath.Join("../prometheus", file))
		if err != nil {
			t.Fatal(err)
		}
		var f struct{ Groups []struct{ Rules []rule } }
		if err := yaml.Unmarshal(text, &f); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, g := range f.Groups {
			all = append(all, g.Rules...)
		}
	}
	return all
}

// TestRulesNameMetrics: rules are of metrics that exist.
func TestRulesNameMetrics(t *testing.T) {
	names := known()
	names["up"] = true
	for _, r := range rules(t) {
		checkExpr(t, r.Alert+r.Record, r.Expr, names)
	}
}

// TestAlertsHaveRunbooks: each alert says how bad it is and leads to a page, and each page is of an alert.
func TestAlertsHaveRunbooks(t *testing.T) {
	const dir, base = "../../docs/runbooks", "https://github.com/syncd-io/syncd/blob/main/docs/runbooks/"
	pages := map[string]bool{"README.md": true}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		page := strings.TrimPrefix(r.Annotations["runbook_url"], base)
		pages[page] = true
		if page != r.Alert+".md" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: annotations %v", r.Alert, r.Annotations)
		}
		if s := r.Labels["severity"]; s != "warning" && s != "critical" {
			t.Errorf("%s: severity %q", r.Alert, s)
		}
		if _, err := os.Stat(filepath.Join(dir, page)); err != nil {
			t.Errorf("%s has no runbook: %v", r.Alert, err)
		}
	}
	there, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range there {
		if !pages[e.Name()] {
			t.Errorf("%s is a runbook of no alert", e.Name())
		}
	}
}
