package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// hardening is what each unit has to have.
var hardening = []string{
	"DynamicUser=yes", "NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes", "PrivateDevices=yes", "CapabilityBoundingSet=\n",
	"MemoryDenyWriteExecute=yes", "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX", "SystemCallFilter=@system-service", "Restart=on-failure", "ExecReload=",
}

// TestUnits: the units are hardened, run a command that there is, and systemd-analyze, on machines that have it, finds no fault.
func TestUnits(t *testing.T) {
	for _, role := range []string{"source", "sidecar"} {
		name := "syncd-" + role + ".service"
		text, err := os.ReadFile(filepath.Join("systemd", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range append(hardening, "ExecStart=/usr/bin/syncd "+role+" -c /etc/syncd/"+role+".yaml", "StateDirectory=syncd-"+role) {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
		if _, err := exec.LookPath("systemd-analyze"); err == nil {
			verify(t, name, text)
		}
	}
}

// verify has a copy of the unit checked whose program is one that this machine has.
func verify(t *testing.T, name string, text []byte) {
	t.Helper()
	text = regexp.MustCompile(`(?m)^ExecStart=\S+`).ReplaceAll(text, []byte("ExecStart=/bin/true"))
	text = regexp.MustCompile(`(?m)^Documentation=.*$`).ReplaceAll(text, nil) // the man page comes with the package
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", file).CombinedOutput(); err != nil || strings.Contains(string(out), file) {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--threshold=20", file).CombinedOutput()
	if err != nil {
		t.Errorf("%s is exposed more than 2.0: %v\n%s", name, err, out)
	}
}
