package pgserver

// This file needs a Docker engine. It runs on developers' machines that have one and no server binaries, and where
// SYNCD_TEST_POSTGRES=container asks for it; it is compiled everywhere.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
)

const image = "postgres:15-alpine"

// container is a server in Docker.
type container struct {
	c *postgres.PostgresContainer
}

func (c container) stop() error {
	if err := testcontainers.TerminateContainer(c.c, testcontainers.StopTimeout(0)); err != nil {
		return fmt.Errorf("remove the container of Postgres: %w", err)
	}
	return nil
}

// startContainer runs a server in Docker. Options.Epoch has no effect there.
func startContainer(ctx context.Context, o Options) (_ *Server, err error) {
	defer func() {
		// testcontainers panics where it finds no Docker.
		if r := recover(); r != nil {
			err = fmt.Errorf("start Postgres in Docker: %v", r)
		}
	}()
	provider, err := testcontainers.NewDockerProvider(testcontainers.WithLogger(quiet{}))
	if err != nil {
		return nil, fmt.Errorf("find Docker: %w", err)
	}
	err = provider.Health(ctx)
	if err = errors.Join(err, provider.Close()); err != nil {
		return nil, fmt.Errorf("reach Docker: %w", err)
	}
	c, err := postgres.Run(ctx, image, postgres.BasicWaitStrategies(), testcontainers.WithCmd(command(o)...), testcontainers.WithLogger(quiet{}))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start Postgres in Docker: %w", err), testcontainers.TerminateContainer(c))
	}
	s := &Server{origin: "Docker image " + image, backend: container{c}}
	if err := s.connect(ctx, c); err != nil {
		return nil, errors.Join(fmt.Errorf("start Postgres in Docker: %w", err), s.Stop())
	}
	return s, nil
}

func (s *Server) connect(ctx context.Context, c *postgres.PostgresContainer) error {
	text, err := c.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		return err
	}
	if s.url, err = url.Parse(text); err != nil {
		return err
	}
	s.tcp = s.url
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return s.greet(ctx)
}

// command is the container's command line: the settings of a local server that make sense there.
func command(o Options) []string {
	set := map[string]string{"wal_level": "logical", "max_wal_senders": "50", "max_replication_slots": "50",
		"max_connections": "200", "max_prepared_transactions": "20"}
	if !o.Durable {
		set["fsync"], set["full_page_writes"] = "off", "off"
	}
	maps.Copy(set, o.Settings)
	cmd := []string{"postgres"}
	for _, k := range slices.Sorted(maps.Keys(set)) {
		cmd = append(cmd, "-c", k+"="+set[k])
	}
	return cmd
}

type quiet struct{}

var _ log.Logger = quiet{}

func (quiet) Printf(string, ...any) {}
