package grafana

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/syncd-io/syncd/internal/demo"
	"github.com/syncd-io/syncd/internal/harness"
)

// rare are metrics that a short run without faults of its own has no series of.
var rare = []string{"syncd_checkpoint_timestamp_seconds", "syncd_sidecar_rejected_total", "syncd_resync_source_errors_total", "syncd_fetched_keys_total", "syncd_settled_keys_total"}

// TestQueriesRun asks a real Prometheus that scrapes a real syncd with every query of the dashboards: none gives an error, and
// all but those of rare things give data. The rules are loaded too.
func TestQueriesRun(t *testing.T) {
	syncd, prometheus := freeAddress(t), freeAddress(t)
	play(t, syncd)
	serve(t, prometheus, syncd)
	want := queries(t)
	harness.Eventually(t, "every query to give data", func() error {
		for _, q := range want {
			n, err := ask(prometheus, q.expr)
			if err != nil {
				return fmt.Errorf("%s, %s: %s: %w", q.file, q.panel, q.expr, err)
			}
			if n == 0 && !isRare(q.expr) {
				return fmt.Errorf("%s, %s: no data: %s", q.file, q.panel, q.expr)
			}
		}
		return nil
	})
	harness.Eventually(t, "the rules to be recorded", func() error {
		if n, err := ask(prometheus, `sync_table:syncd_source_changes:rate5m`); err != nil || n == 0 {
			return fmt.Errorf("%d series, %v", n, err)
		}
		return nil
	})
}

func isRare(expr string) bool {
	for _, name := range rare {
		if strings.Contains(expr, name) {
			return true
		}
	}
	return false
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// play runs the demonstration, which writes and loses deltas, until the test's end.
func play(t *testing.T, address string) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- demo.Demo{Out: io.Discard, Listen: address, Program: "test"}.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the demonstration ended with %v", err)
		}
	})
}

// serve runs Debian's Prometheus, which scrapes syncd and evaluates the rules, until the test's end.
func serve(t *testing.T, address, syncd string) {
	t.Helper()
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("this test needs a Prometheus server: apt-get install prometheus: %v", err)
	}
	rules, err := filepath.Abs("../prometheus")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%s/rules.yml, %s/alerts.yml]\n"+
		"scrape_configs: [{job_name: syncd, static_configs: [{targets: [%q], labels: {sync: shop}}]}]\n", rules, rules, syncd)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd := exec.Command(binary, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus said:\n%s", out.String())
		}
	})
}

// ask gives how many series answer an expression.
func ask(address, expr string) (int, error) {
	resp, err := http.PostForm("http://"+address+"/api/v1/query", url.Values{"query": {expr}})
	if err != nil {
		return 0, err
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	var a struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		return 0, fmt.Errorf("%s: %w", resp.Status, err)
	}
	if a.Status != "success" {
		return 0, errors.New(a.Error)
	}
	return len(a.Data.Result), nil
}
