package deploy

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestRelease: what the release's configuration takes is there, and its flags set the version and the commit.
func TestRelease(t *testing.T) {
	text, err := os.ReadFile("../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Builds   []struct{ Ldflags []string }
		Archives []struct{ Files []string }
		NFPMs    []struct {
			Formats  []string
			Contents []struct{ Src string }
		}
		DockersV2 []struct{ Dockerfile string } `json:"dockers_v2"`
		SBOMs     []any
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Builds) != 1 || len(c.Archives) != 1 || len(c.NFPMs) != 1 || len(c.DockersV2) != 1 || len(c.SBOMs) == 0 || !slices.Equal(c.NFPMs[0].Formats, []string{"deb", "rpm"}) {
		t.Fatalf("%+v", c)
	}
	files := append(c.Archives[0].Files, c.DockersV2[0].Dockerfile, "scripts/package-files.sh")
	for _, f := range c.NFPMs[0].Contents {
		files = append(files, f.Src)
	}
	for _, f := range files {
		if f == "" || strings.HasPrefix(f, "dist-files/") { // made by the script
			continue
		}
		if found, err := filepath.Glob(filepath.Join("..", f)); err != nil || len(found) == 0 {
			t.Errorf("%s is not there", f)
		}
	}
	flags := strings.NewReplacer("{{ .Version }}", "1.2.3", "{{ .FullCommit }}", "abcdef").Replace(c.Builds[0].Ldflags[0])
	binary := filepath.Join(t.TempDir(), "syncd")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", flags, "-o", binary, "./cmd/syncd")
	build.Dir = ".." // otherwise as the tests are built, so that nothing is compiled anew
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), binary, "version", "--json").Output()
	var v struct{ Version, Commit string }
	if err == nil {
		err = json.Unmarshal(out, &v)
	}
	if err != nil || v.Version != "1.2.3" || v.Commit != "abcdef" {
		t.Errorf("syncd version: %s %v", out, err)
	}
}

// TestInstall: `go install …/cmd/syncd@latest` refuses a module that replaces or excludes others.
func TestInstall(t *testing.T) {
	text, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "replace") || strings.HasPrefix(line, "exclude") {
			t.Errorf("go.mod: %s", line)
		}
	}
}
