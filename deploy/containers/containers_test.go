//go:build containers

package containers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/nats"
	"github.com/testcontainers/testcontainers-go/modules/postgres"

	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/daemon"
	"github.com/syncd-io/syncd/internal/harness"
)

// TestContainers: rows come through; what is written while a server is stopped and started again is there afterwards.
func TestContainers(t *testing.T) {
	ctx := t.Context()
	pg, err := postgres.Run(ctx, cmp.Or(os.Getenv("SYNCD_POSTGRES_IMAGE"), "postgres:17.6-bookworm"), postgres.BasicWaitStrategies(),
		testcontainers.WithCmd("postgres", "-c", "wal_level=logical"), fixedPort("5432/tcp"))
	testcontainers.CleanupContainer(t, pg)
	if err != nil {
		t.Fatal(err)
	}
	url, err := pg.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	broker, err := nats.Run(ctx, cmp.Or(os.Getenv("SYNCD_NATS_IMAGE"), "nats:2.12.1-alpine"), nats.WithArgument("store_dir", "/data"), fixedPort("4222/tcp"))
	testcontainers.CleanupContainer(t, broker)
	if err != nil {
		t.Fatal(err)
	}
	bus, err := broker.ConnectionString(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := write(ctx, url, "CREATE TABLE people (id int PRIMARY KEY, name text); INSERT INTO people VALUES (1, 'Ann')"); err != nil {
		t.Fatal(err)
	}
	row := run(t, url, bus) + "/v1/tables/public.people/rows/1"
	wants(t, row, `{"id":1,"name":"Ann"}`)
	for i, c := range []testcontainers.Container{broker, pg} {
		grace := 10 * time.Second
		if err := errors.Join(c.Stop(ctx, &grace), c.Start(ctx)); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("after %d", i)
		harness.Eventually(t, "to write", func() error { return write(ctx, url, "UPDATE people SET name = '"+name+"'") })
		wants(t, row, `{"id":1,"name":"`+name+`"}`)
	}
}

// fixedPort keeps a container's port across a restart.
func fixedPort(port string) testcontainers.CustomizeRequestOption {
	return func(r *testcontainers.GenericContainerRequest) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		_, host, err := net.SplitHostPort(l.Addr().String())
		r.ExposedPorts = []string{host + ":" + port}
		return err
	}
}

// run runs both roles until the test's end, and gives the API's address.
func run(t *testing.T, url, bus string) string {
	c := config.Default()
	c.Name = "containers"
	c.Source.Postgres, c.Bus.URL = config.NewSecret(url), config.NewServerURL(bus)
	c.Source.Tables = []config.SourceTable{{Table: "public.people"}}
	c.Sidecar.Data, c.Sidecar.Listen = filepath.Join(t.TempDir(), "sidecar"), "127.0.0.1:0"
	c.Defaults()
	ctx, cancel := context.WithCancel(context.Background())
	ended, address := make(chan error, 1), make(chan string, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{Config: c, Roles: config.SourceRole | config.SidecarRole, Program: "test", Log: harness.Logger(t),
			Listening: func(a string) { address <- a }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("syncd ended with %v", err)
		}
	})
	return harness.Receive(t, "the address", address)
}

func wants(t *testing.T, url, want string) {
	t.Helper()
	harness.Eventually(t, url, func() error {
		resp, err := http.Get(url)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && strings.TrimSpace(string(body)) != want {
			err = fmt.Errorf("%s, want %s", body, want)
		}
		return err
	})
}

func write(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}
