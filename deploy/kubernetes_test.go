package deploy

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"github.com/syncd-io/syncd/internal/config"
)

// objects are those of one manifest.
type objects struct {
	configs     []corev1.ConfigMap
	deployments []appsv1.Deployment
	budgets     []policyv1.PodDisruptionBudget
}

// decode reads a manifest by Kubernetes's own types: a key that they lack is an error.
func decode(t *testing.T, file string) (o objects) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range bytes.Split(text, []byte("\n---\n")) {
		var kind struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(doc, &kind); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		switch kind.APIVersion + " " + kind.Kind {
		case "v1 ConfigMap":
			o.configs = append(o.configs, strict[corev1.ConfigMap](t, file, doc))
		case "apps/v1 Deployment":
			o.deployments = append(o.deployments, strict[appsv1.Deployment](t, file, doc))
		case "policy/v1 PodDisruptionBudget":
			o.budgets = append(o.budgets, strict[policyv1.PodDisruptionBudget](t, file, doc))
		default:
			t.Errorf("%s: nothing here knows %+v", file, kind)
		}
	}
	return o
}

func strict[T any](t *testing.T, file string, doc []byte) (v T) {
	t.Helper()
	if err := yaml.UnmarshalStrict(doc, &v); err != nil {
		t.Errorf("%s: %v", file, err)
	}
	return v
}

// TestKubernetes: the manifests are of Kubernetes's types, selectors meet their pods, and each container is probed, bounded and
// without rights.
func TestKubernetes(t *testing.T) {
	for file, role := range map[string]config.Role{"kubernetes/source.yaml": config.SourceRole, "kubernetes/sidecar.yaml": config.SidecarRole} {
		o := decode(t, file)
		if len(o.configs) != 1 || len(o.deployments) != 1 || len(o.budgets) != 1 {
			t.Fatalf("%s holds %d, %d and %d", file, len(o.configs), len(o.deployments), len(o.budgets))
		}
		d, budget := o.deployments[0], o.budgets[0]
		for key, value := range d.Spec.Selector.MatchLabels {
			if d.Spec.Template.Labels[key] != value || budget.Spec.Selector.MatchLabels[key] != value {
				t.Errorf("%s: the selectors and the pods don't agree on %s", file, key)
			}
		}
		pod := d.Spec.Template.Spec
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			checkContainer(t, file, &c)
			for _, m := range c.VolumeMounts {
				if !hasVolume(pod.Volumes, m.Name) {
					t.Errorf("%s: %s mounts %s, which there is not", file, c.Name, m.Name)
				}
			}
		}
		checkConfig(t, file, o.configs[0].Data["syncd.yaml"], role)
	}
}

func hasVolume(all []corev1.Volume, name string) bool {
	for _, v := range all {
		if v.Name == name {
			return true
		}
	}
	return false
}

func checkContainer(t *testing.T, file string, c *corev1.Container) {
	t.Helper()
	if c.ReadinessProbe == nil || c.LivenessProbe == nil {
		t.Errorf("%s: %s is not probed", file, c.Name)
	}
	if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
		t.Errorf("%s: %s says not what it needs", file, c.Name)
	}
	if c.Name == "shop" {
		return // the application stands for any
	}
	s := c.SecurityContext
	if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
		s.Capabilities == nil || len(s.Capabilities.Drop) != 1 {
		t.Errorf("%s: %s has rights that it needs not", file, c.Name)
	}
}

// checkConfig wants a configuration that syncd takes.
func checkConfig(t *testing.T, from, text string, role config.Role) {
	t.Helper()
	dir := t.TempDir()
	secret, file := filepath.Join(dir, "postgres"), filepath.Join(dir, "syncd.yaml")
	text = string(bytes.ReplaceAll([]byte(text), []byte("/run/secrets/syncd/postgres"), []byte(secret)))
	for name, content := range map[string]string{secret: "postgres://syncd@db/shop", file: text} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := config.Load(config.Sources{File: file}, role); err != nil {
		t.Errorf("%s: %v", from, err)
	}
}
