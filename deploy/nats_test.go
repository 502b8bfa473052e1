package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/daemon"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/natsserver"
)

// TestNATSRights: the users of nats/nats.conf are enough for a source, a sidecar and people, and the server refuses them nothing.
func TestNATSRights(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec("CREATE TABLE people (id int PRIMARY KEY, name text); INSERT INTO people SELECT n, 'Ann' FROM generate_series(1, 3000) n")
	refused := &violations{}
	address := natsWithUsers(t, db.Name, refused)
	dir := t.TempDir()
	socket := filepath.Join(dir, "api.sock")
	run := func(user string, role config.Role) {
		c := config.Default()
		c.Name = db.Name
		c.Bus.URL, c.Bus.User, c.Bus.Password = config.NewServerURL(address), user, config.NewSecret(map[string]string{"source": "change-me-1", "sidecar": "change-me-2"}[user])
		c.Source.Postgres = config.NewSecret(db.URL)
		c.Source.Tables = []config.SourceTable{{Table: "public.people"}}
		c.Sidecar.Data, c.Sidecar.Listen = filepath.Join(dir, user), "unix:"+socket
		c.Metrics.Listen = "127.0.0.1:0"
		c.Defaults()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- daemon.Run(ctx, daemon.Options{Config: c, Roles: role, Program: "test", Log: harness.Logger(t)})
		}()
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("the %s ended with %v", user, err)
			}
		})
	}
	run("source", config.SourceRole)
	run("sidecar", config.SidecarRole)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	ask := func(method, path, want string) {
		t.Helper()
		harness.Eventually(t, path, func() error {
			req, err := http.NewRequestWithContext(t.Context(), method, "http://syncd"+path, nil)
			if err != nil {
				return err
			}
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err == nil && !strings.Contains(string(body), want) {
				err = errors.New(string(body))
			}
			return err
		})
	}
	ask("GET", "/readyz", "ok")
	db.Exec("UPDATE people SET name = 'Bob' WHERE id = 1")
	ask("GET", "/v1/tables/public.people/rows/1", `{"id":1,"name":"Bob"}`)
	for _, mode := range []string{"digest", "full"} {
		ask("POST", "/v1/tables/public.people/resync?mode="+mode, `"complete":true`)
	}
	ask("GET", "/v1/tables/public.people/rows/2?min_version="+db.LSN().String(), `"name":"Ann"`)
	ask("GET", "/v1/tables/public.people/explain/1", `"`)
	c := config.Default()
	c.Bus.URL, c.Bus.User, c.Bus.Password = config.NewServerURL(address), "operator", config.NewSecret("change-me-3")
	harness.Eventually(t, "the fleet", func() error {
		members, err := daemon.Fleet(t.Context(), c, time.Second)
		if err == nil && len(members) != 2 {
			err = fmt.Errorf("members %+v", members)
		}
		return err
	})
	if all := refused.list(); len(all) > 0 {
		t.Errorf("the server refused:\n%s", strings.Join(all, "\n"))
	}
}

// natsWithUsers runs a server with the users of nats.conf, whose sync has another name here.
func natsWithUsers(t *testing.T, name string, refused *violations) string {
	t.Helper()
	text, err := os.ReadFile("nats/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(strings.NewReplacer("syncd.shop.", "syncd."+name+".", "SYNCD_SHOP", "SYNCD_"+strings.ToUpper(name)).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return harness.NATSServer(t, natsserver.Config{Log: slog.New(refused), Options: func(o *server.Options) { o.Users = options.Users }}).URL
}

// violations is a slog.Handler that keeps what a server refused.
type violations struct {
	mu  sync.Mutex
	all []string
}

func (v *violations) Enabled(context.Context, slog.Level) bool { return true }

func (v *violations) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "iolation") {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.all = append(v.all, fmt.Sprint(r.Level, " ", r.Message))
	}
	return nil
}

func (v *violations) WithAttrs([]slog.Attr) slog.Handler { return v }
func (v *violations) WithGroup(string) slog.Handler      { return v }

func (v *violations) list() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.all
}
