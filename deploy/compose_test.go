package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// TestCompose: the file is what compose's schema wants, every service says how its health is seen and what version it is of,
// and what it mounts is there.
func TestCompose(t *testing.T) {
	text, err := os.ReadFile("docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: dir, ConfigFiles: []types.ConfigFile{{Filename: "docker-compose.yml", Content: text}}, Environment: types.Mapping{},
	}, func(o *loader.Options) { o.SetProjectName("syncd", true) })
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postgres", "nats", "redis", "source", "sidecar-memory", "sidecar-redis", "prometheus", "grafana", "writer"} {
		if _, ok := project.Services[name]; !ok {
			t.Errorf("the service %s is missing", name)
		}
	}
	pinned := regexp.MustCompile(`:v?\d+\.\d+(\.\d+)?(-[a-z]+)?$`)
	for name, s := range project.Services {
		if s.HealthCheck == nil || len(s.HealthCheck.Test) < 2 {
			t.Errorf("%s has no health check", name)
		}
		if s.Build == nil && !pinned.MatchString(s.Image) {
			t.Errorf("%s: the image %s is of no fixed version", name, s.Image)
		}
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeBind {
				if _, err := os.Stat(v.Source); err != nil {
					t.Errorf("%s mounts %s: %v", name, v.Source, err)
				}
			}
		}
		for other, d := range s.DependsOn {
			if d.Condition != types.ServiceConditionHealthy {
				t.Errorf("%s does not wait for %s to be healthy", name, other)
			}
		}
	}
	for _, port := range []string{"source:9464", "sidecar-memory:9464", "sidecar-redis:9464"} {
		if text, err := os.ReadFile("prometheus/prometheus.yml"); err != nil || !strings.Contains(string(text), port) {
			t.Errorf("Prometheus does not scrape %s: %v", port, err)
		}
	}
}

// TestConfigurations: syncd takes the configurations of the containers.
func TestConfigurations(t *testing.T) {
	files, err := filepath.Glob("compose/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("%q %v", files, err)
	}
	for _, file := range files {
		role := config.SidecarRole
		if strings.HasSuffix(file, "source.yaml") {
			role = config.SourceRole
		}
		if _, err := config.Load(config.Sources{File: file}, role); err != nil {
			t.Errorf("%v", err)
		}
	}
}
