package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/internal/natsserver"
)

// writeConfig writes a configuration and gives its path.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "syncd.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFleet(t *testing.T) {
	t.Parallel()
	server, err := natsserver.Start(natsserver.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	file := writeConfig(t, fmt.Sprintf("name: shop\nbus: {url: %q}\n", server.URL()))
	fleet := func(args ...string) (int, string, string) {
		var out, errs strings.Builder
		status := execute(t.Context(), append([]string{"fleet", "-c", file}, args...), strings.NewReader(""), &out, &errs)
		return status, out.String(), errs.String()
	}
	if status, out, errs := fleet("--wait", "500ms"); status != exitNo || out != "" || !strings.Contains(errs, "nobody answers") {
		t.Errorf("nobody: %d, %q, %q", status, out, errs)
	}
	lag, old := 0.25, 61.5
	state := make(chan string, 1)
	state <- "ready"
	for _, tell := range []func() bus.Member{
		func() bus.Member {
			return bus.Member{Sync: "shop", Role: "source", Host: "db", PID: 10, Program: "v1", State: "leads", Version: "5-0/1F", LagSeconds: &lag}
		},
		func() bus.Member {
			now := <-state
			state <- now
			return bus.Member{Sync: "shop", Role: "sidecar", Host: "web", PID: 9, Program: "v1", State: now, Version: "5-0/1E", LagSeconds: &lag, Tables: []bus.MemberTable{
				{Table: "public.t", Rows: 7, VerifiedAgeSeconds: &old, Drift: 2}, {Table: "public.u", Rows: 1, VerifiedAgeSeconds: &lag, ParkedKeys: 3}, {Table: "public.v", Error: "no key"},
			}}
		},
	} {
		conn, err := bus.Connect(t.Context(), bus.Config{URL: server.URL(), Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- (&bus.Announcer{Conn: conn, Tell: tell}).Run(ctx) }()
		defer func() { cancel(); <-ended }()
	}
	const want = `SYNC  ROLE     HOST  PID  PROGRAM  VERSION    LAG  ROWS    VERIFIED  DRIFT  STATE
shop  source   db     10  v1       5-0/1F   0.2 s                           leads
shop  sidecar  web     9  v1       5-0/1E   0.2 s     8  61.5 s ago      2  ready, 1 refused, 3 parked keys
`
	status, out, errs := fleet()
	for strings.Count(out, "shop") < 2 || strings.Contains(out, "starts") { // they have just begun
		status, out, errs = fleet()
	}
	if status != 0 || out != want || errs != "" {
		t.Errorf("%d, %s\n%s\nwant\n%s", status, errs, out, want)
	}
	if status, out, _ := fleet("--json"); status != 0 || !strings.HasPrefix(out, `[{"sync":"shop","role":"source"`) {
		t.Errorf("json: %d, %s", status, out)
	}
	<-state
	state <- "not ready"
	if status, _, _ := fleet(); status != exitNo {
		t.Errorf("a sidecar is not ready: %d", status)
	}
	own := writeConfig(t, fmt.Sprintf("name: shop\nsource: {postgres: host=x, tables: [a.b]}\nbus: {embedded: {dir: %q}}\n", filepath.Join(t.TempDir(), "nats")))
	var errText strings.Builder
	if status := execute(t.Context(), []string{"fleet", "-c", own}, strings.NewReader(""), &strings.Builder{}, &errText); status != exitUsage || !strings.Contains(errText.String(), "bus.embedded.listen") {
		t.Errorf("a NATS without a port: %d, %s", status, errText.String())
	}
	gone := writeConfig(t, "name: shop\nbus: {url: 'nats://127.0.0.1:1'}\n")
	if status := execute(t.Context(), []string{"fleet", "-c", gone}, strings.NewReader(""), &strings.Builder{}, &errText); status != exitUnreachable {
		t.Errorf("no NATS: %d, %s", status, errText.String())
	}
}
