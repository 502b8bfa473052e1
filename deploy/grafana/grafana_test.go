package grafana

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/metrics"
)

func TestMain(m *testing.M) { harness.Main(m) }

// update writes the JSON files anew.
var update = flag.Bool("update", false, "write dashboards/*.json")

func TestFilesAreCurrent(t *testing.T) {
	all, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range all {
		file := filepath.Join("dashboards", name)
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != string(want) {
			t.Errorf("%s is not what the code makes (%v): go test ./grafana -run Current -update", file, err)
		}
	}
	if files, err := filepath.Glob("dashboards/*"); err != nil || len(files) != len(all) {
		t.Errorf("dashboards/ holds %q (%v), the code makes %d", files, err, len(all))
	}
}

// panelQuery is a query of a dashboard's file, with the variables filled in.
type panelQuery struct{ file, panel, expr string }

// queries reads the files as Grafana does.
func queries(t *testing.T) (all []panelQuery) {
	t.Helper()
	fill := strings.NewReplacer("$sync", ".*", "$instance", ".*", "$__rate_interval", "30s", "$__range", "30s")
	files, err := filepath.Glob("dashboards/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		var d struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &d)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				expr := fill.Replace(target.Expr)
				if strings.Contains(expr, "$") {
					t.Errorf("%s, %s: a variable that nothing fills: %s", file, p.Title, expr)
				}
				all = append(all, panelQuery{file, p.Title, expr})
			}
		}
	}
	if len(all) < 50 {
		t.Fatalf("the dashboards have %d queries", len(all))
	}
	return all
}

// known are the series that syncd has.
func known() map[string]bool {
	all := map[string]bool{}
	for _, f := range metrics.Families() {
		if f.Kind != "histogram" {
			all[f.Name] = true
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			all[f.Name+suffix] = true
		}
	}
	return all
}

var runtime = regexp.MustCompile("^(go|process)_[a-z_]+$")

// checkExpr wants an expression that the parser takes and whose metrics exist.
func checkExpr(t *testing.T, where, expr string, names map[string]bool) {
	t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %s: %v", where, expr, err)
		return
	}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok && !names[v.Name] && !runtime.MatchString(v.Name) {
			t.Errorf("%s: there is no metric %q", where, v.Name)
		}
		return nil
	})
}

func TestQueriesParse(t *testing.T) {
	names := known()
	for _, q := range queries(t) {
		checkExpr(t, q.file+", "+q.panel, q.expr, names)
	}
}
