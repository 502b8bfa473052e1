// Package demo shows syncd at work on one machine: a Postgres thrown away at the end, NATS, a source and a sidecar in this
// process, and a shop that writes. Changes are lost on purpose; the cache is seen to be wrong, and to be mended by itself.
//
// Everything it makes is gone when Run returns, also after an interruption: the server's files, NATS's, the cache's; on a
// Postgres that somebody else runs, the database and the slot.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/daemon"
	"github.com/syncd-io/syncd/internal/pgserver"
)

// Demo says how the demonstration runs.
type Demo struct {
	// Out gets the story, line by line.
	Out io.Writer
	// Postgres is a superuser's URL of a server to use; empty: what this machine has, as package pgserver says.
	Postgres string
	// Listen is where the sidecar's API listens; empty: 127.0.0.1:7070, and a free port where that is taken.
	Listen string
	// Duration is how long it runs once the cache is ready; 0: until ctx ends.
	Duration time.Duration
	// Program names the program's version.
	Program string
	// Log gets what the stages log; nil: nobody.
	Log *slog.Logger
}

// name is the sync's; slot and publication are named after it.
const name = "syncd_demo"

// Run runs the demonstration. It gives nil after Duration, and when ctx ends.
func (d Demo) Run(ctx context.Context) (err error) {
	fmt.Fprintln(d.Out, "starting a Postgres, a NATS, a source, a sidecar and a shop")
	defer func() {
		if err == nil {
			fmt.Fprintln(d.Out, "all of it is stopped and removed")
		}
	}()
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	server, err := pgserver.Start(ctx, pgserver.Options{Postgres: d.Postgres})
	if err != nil && ctx.Err() != nil {
		return nil // what was being started was ended with us
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	fmt.Fprintf(d.Out, "Postgres %d: %s\n", server.Version()/10000, server.Origin())
	dir, err := os.MkdirTemp("", "syncd-demo-")
	if err != nil {
		return fmt.Errorf("make a directory for NATS and the cache: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := openDatabase(ctx, server)
	if err != nil {
		return interrupted(ctx, err)
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	return interrupted(ctx, d.stage(ctx, db, dir))
}

// interrupted drops the error of what ended because it was told to.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return nil
	}
	return err
}

// stage starts source and sidecar, and plays before them.
func (d Demo) stage(ctx context.Context, db *database, dir string) error {
	conn, err := db.connect(ctx)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	writer, err := db.connect(ctx)
	if err != nil {
		return err
	}
	defer closeConn(writer)
	cfg := d.config(db, dir)
	trial, address := &daemon.Trial{}, make(chan string, 1)
	ctx, done := context.WithCancel(ctx)
	defer done()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return daemon.Run(ctx, daemon.Options{
			Config: cfg, Roles: config.SourceRole | config.SidecarRole, Program: d.Program, Log: d.Log, Trial: trial,
			Listening: func(a string) { address <- a },
		})
	})
	g.Go(func() error {
		defer done() // when the play is over, so is all
		p := &play{
			out: d.Out, conn: conn, trial: trial, duration: d.Duration,
			shop: &shop{conn: writer, rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), pause: 5 * time.Millisecond},
		}
		select {
		case p.sidecar.base = <-address:
		case <-ctx.Done():
			return nil
		}
		p.sidecar.http = &http.Client{}
		defer p.sidecar.http.CloseIdleConnections()
		return p.run(ctx)
	})
	return g.Wait()
}

// config is the configuration of the demonstration's process.
func (d Demo) config(db *database, dir string) *config.Config {
	c := config.Default()
	c.Name = name
	c.Source.Postgres = config.NewSecret(db.url)
	c.Source.Slot = db.name
	for _, t := range tables {
		c.Source.Tables = append(c.Source.Tables, config.SourceTable{Table: t.String()})
	}
	c.Bus.Embedded.Dir = filepath.Join(dir, "nats")
	c.Sidecar.Data = filepath.Join(dir, "sidecar")
	c.Sidecar.Listen = cmp.Or(d.Listen, freeAddress())
	c.Defaults()
	return c
}

// freeAddress gives the address where client commands look for a sidecar, or one with any port where that is taken.
func freeAddress() string {
	usual := config.Default().Sidecar.Listen
	l, err := net.Listen("tcp", usual)
	if err != nil {
		return "127.0.0.1:0"
	}
	l.Close()
	return usual
}

// database is the database that the shop writes to.
type database struct {
	server *pgserver.Server
	name   string
	url    string
}

// openDatabase makes the database and the shop in it.
func openDatabase(ctx context.Context, server *pgserver.Server) (*database, error) {
	db := &database{server: server, name: fmt.Sprintf("%s_%d", name, os.Getpid())}
	db.url = server.URL(db.name)
	if err := db.admin(ctx, "CREATE DATABASE "+pgx.Identifier{db.name}.Sanitize()); err != nil {
		return nil, fmt.Errorf("make database %s: %w", db.name, err)
	}
	conn, err := db.connect(ctx)
	if err == nil {
		defer closeConn(conn)
		_, err = conn.Exec(ctx, shopSchema)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the shop: %w", err), db.drop())
	}
	return db, nil
}

// admin runs a statement outside the database.
func (db *database) admin(ctx context.Context, sql string, args ...any) error {
	conn, err := pgx.Connect(ctx, db.server.URL("postgres"))
	if err != nil {
		return err
	}
	defer closeConn(conn)
	_, err = conn.Exec(ctx, sql, args...)
	return err
}

// connect opens a session that prints rows as syncd does.
func (db *database) connect(ctx context.Context) (*pgx.Conn, error) {
	c, err := pgx.ParseConfig(db.url)
	if err != nil {
		return nil, err
	}
	for k, v := range map[string]string{"TimeZone": "UTC", "DateStyle": "ISO", "IntervalStyle": "postgres", "extra_float_digits": "1", "bytea_output": "hex"} {
		c.RuntimeParams[k] = v
	}
	return pgx.ConnectConfig(ctx, c)
}

// drop takes the slot and the database away.
func (db *database) drop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := db.admin(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = $1", db.name)
	if err := errors.Join(err, db.admin(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{db.name}.Sanitize()+" WITH (FORCE)")); err != nil {
		return fmt.Errorf("drop database %s and its slot: %w", db.name, err)
	}
	return nil
}

func closeConn(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c.Close(ctx) // the session ends either way
}
