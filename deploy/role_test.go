package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/daemon"
	"github.com/syncd-io/syncd/internal/harness"
)

// TestRole: a role that postgres/role.sql made, with what publication.sql or manage.sql adds, is enough to run syncd.
func TestRole(t *testing.T) {
	for _, manage := range []bool{false, true} {
		t.Run(fmt.Sprintf("manage=%v", manage), func(t *testing.T) {
			t.Parallel()
			db := harness.Database(t)
			shop := db.Name + "_shop"
			db.Exec(`CREATE ROLE ` + shop + `; GRANT CREATE ON SCHEMA public TO ` + shop + `; SET ROLE ` + shop + `;
				CREATE TABLE customers (id int PRIMARY KEY, name text);
				CREATE TABLE orders (id int PRIMARY KEY, total numeric);
				INSERT INTO customers VALUES (1, 'Ann'); RESET ROLE`)
			defer func() { db.Exec("DROP OWNED BY " + db.Name + ", " + shop + "; DROP ROLE " + db.Name + ", " + shop) }()
			script(t, db, "role.sql")
			if manage {
				script(t, db, "manage.sql")
			} else {
				script(t, db, "publication.sql")
			}
			runsAs(t, db, manage)
		})
	}
}

// script runs a file as it is, but for the names, of which the server has one each for all databases.
func script(t *testing.T, db *harness.DB, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("postgres", name))
	if err != nil {
		t.Fatal(err)
	}
	sql := regexp.MustCompile(`\bsyncd\b`).ReplaceAllString(string(text), db.Name)
	sql = strings.ReplaceAll(sql, "syncd_shop", "syncd_"+db.Name)
	sql = strings.ReplaceAll(sql, "GRANT shop TO", "GRANT "+db.Name+"_shop TO")
	db.Exec(sql)
}

// runsAs runs both roles signed in as the role, until a row comes through the cache and a change of it too.
func runsAs(t *testing.T, db *harness.DB, manage bool) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "api.sock")
	c := config.Default()
	c.Name = db.Name
	c.Source.Postgres = config.NewSecret(as(t, db.URL, db.Name))
	c.Source.Manage = manage
	c.Source.Tables = []config.SourceTable{{Table: "public.customers"}, {Table: "public.orders"}}
	c.Bus.Embedded.Dir = filepath.Join(dir, "nats")
	c.Sidecar.Data = filepath.Join(dir, "sidecar")
	c.Sidecar.Listen = "unix:" + socket
	c.Defaults()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{Config: c, Roles: config.SourceRole | config.SidecarRole, Program: "test", Log: harness.Logger(t)})
	}()
	defer func() {
		cancel()
		if err := harness.Receive(t, "syncd to stop", ended); err != nil {
			t.Errorf("it ended with %v", err)
		}
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	wants := func(path, want string) {
		harness.Eventually(t, path, func() error {
			resp, err := client.Get("http://syncd" + path)
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
	wants("/v1/tables/public.customers/rows/1", `{"id":1,"name":"Ann"}`)
	db.Exec("UPDATE customers SET name = 'Bob' WHERE id = 1")
	wants("/v1/tables/public.customers/rows/1", `{"id":1,"name":"Bob"}`)
	wants("/readyz", "ok")
}

// as gives a connection string with another user.
func as(t *testing.T, from, user string) string {
	t.Helper()
	u, err := url.Parse(from)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, "change-me")
	return u.String()
}
