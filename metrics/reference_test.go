package metrics_test

import (
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/syncd-io/syncd/metrics"
)

// update writes docs/metrics.md anew: go test ./metrics -update.
var update = flag.Bool("update", false, "write docs/metrics.md")

func TestReferenceIsCurrent(t *testing.T) {
	const file = "../docs/metrics.md"
	want := metrics.Reference()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not what the code says (%v): go test ./metrics -update", file, err)
	}
}

// TestFamilies holds that what is documented is what there is, kinds and labels included, and that labels are bounded.
func TestFamilies(t *testing.T) {
	few := []string{"table", "op", "reason", "mode", "result", "kind", "window", "endpoint", "code", "role", "version", "commit", "goversion"}
	families := map[string]metrics.Family{}
	for _, f := range metrics.Families() {
		families[f.Name] = f
		for _, l := range f.Labels {
			if !slices.Contains(few, l) {
				t.Errorf("%s has the label %s, whose values nothing is known to bound", f.Name, l)
			}
		}
	}
	gathered, err := all().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gathered {
		if name := g.GetName(); name[:6] == "syncd_" {
			f, ok := families[name]
			if !ok {
				t.Errorf("%s is not among the families", name)
				continue
			}
			delete(families, name)
			if want := map[string]int32{"counter": 0, "gauge": 1, "histogram": 4}[f.Kind]; int32(g.GetType()) != want {
				t.Errorf("%s is a %v, documented as a %s", name, g.GetType(), f.Kind)
			}
			var labels []string
			for _, l := range g.GetMetric()[0].GetLabel() {
				labels = append(labels, l.GetName())
			}
			slices.Sort(labels)
			if want := slices.Sorted(slices.Values(f.Labels)); !slices.Equal(labels, want) {
				t.Errorf("%s has the labels %q, documented are %q", name, labels, want)
			}
		}
	}
	for name := range families {
		t.Errorf("%s is documented and was not gathered", name)
	}
}
