package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/natsserver"
)

// Teardown takes away what a sync has left on its servers. Open it, look at Items, Drop, Close.
type Teardown struct {
	items    []item
	postgres *pgx.Conn
	embedded *natsserver.Server
	closers  []func()
}

// item is one thing to be dropped.
type item struct {
	what string
	drop func(ctx context.Context) error
}

// ErrUnreachable says that a server can't be reached.
var ErrUnreachable = errors.New("a server can't be reached")

// OpenTeardown looks for the slot, the publication and the stream of a configuration. A slot that is in use is an error:
// the source still runs.
func OpenTeardown(ctx context.Context, c *config.Config, log *slog.Logger) (_ *Teardown, err error) {
	t := &Teardown{}
	defer func() {
		if err != nil {
			t.Close()
		}
	}()
	pg, err := pgx.ParseConfig(c.Source.Postgres.Reveal())
	if err != nil {
		return nil, fmt.Errorf("source.postgres: %w", err) // pgx leaves the password out
	}
	for _, timeout := range []string{"statement_timeout", "lock_timeout", "idle_session_timeout"} {
		pg.RuntimeParams[timeout] = "0" // whatever the role has
	}
	if t.postgres, err = pgx.ConnectConfig(ctx, pg); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	t.closers = append(t.closers, func() { closePostgres(t.postgres) })
	if err := t.findSlot(ctx, c.Source.Slot); err != nil {
		return nil, err
	}
	if err := t.findPublication(ctx, c); err != nil {
		return nil, err
	}
	if err := t.findStream(ctx, c, log); err != nil {
		return nil, err
	}
	return t, nil
}

func closePostgres(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.Close(ctx) // the session ends either way
}

// slotPatience is how long a slot may still be in use: its source may just have been stopped, and the server's end of it ends a
// moment later.
const slotPatience = 5 * time.Second

func (t *Teardown) findSlot(ctx context.Context, name string) error {
	var active bool
	var pid int32
	var err error
	for end := time.Now().Add(slotPatience); ; {
		err = t.postgres.QueryRow(ctx, "SELECT active, coalesce(active_pid, 0) FROM pg_catalog.pg_replication_slots WHERE slot_name = $1", name).Scan(&active, &pid)
		if err != nil || !active || time.Now().After(end) {
			break
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look for slot %s: %w", name, err)
	case active:
		return fmt.Errorf("slot %s is in use by the server's process %d: stop the source first", name, pid)
	}
	t.items = append(t.items, item{"replication slot " + name, func(ctx context.Context) error {
		_, err := t.postgres.Exec(ctx, "SELECT pg_catalog.pg_drop_replication_slot($1)", name)
		return err
	}})
	return nil
}

func (t *Teardown) findPublication(ctx context.Context, c *config.Config) error {
	name := c.Source.Publication
	if !c.Source.Manage {
		return nil
	}
	var there bool
	if err := t.postgres.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_publication WHERE pubname = $1)", name).Scan(&there); err != nil {
		return fmt.Errorf("look for publication %s: %w", name, err)
	}
	if there {
		t.items = append(t.items, item{"publication " + name, func(ctx context.Context) error {
			_, err := t.postgres.Exec(ctx, "DROP PUBLICATION "+syncd.QuoteIdent(name))
			return err
		}})
	}
	return nil
}

func (t *Teardown) findStream(ctx context.Context, c *config.Config, log *slog.Logger) (err error) {
	if c.Bus.URL.IsZero() {
		if t.embedded, err = natsserver.Start(embeddedConfig(c, log)); err != nil {
			return fmt.Errorf("%w; stop the process that runs it first", err)
		}
		t.closers = append(t.closers, func() { t.embedded.Close() }) // nothing was written that could be lost
	}
	conn, err := bus.Connect(ctx, busConfig(c, t.embedded, "syncd-teardown-"+c.Name, log))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	t.closers = append(t.closers, conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	name := bus.StreamName(c.Name)
	if _, err := js.Stream(ctx, name); errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	} else if err != nil {
		return fmt.Errorf("look for stream %s: %w", name, err)
	}
	t.items = append(t.items, item{"stream " + name, func(ctx context.Context) error { return js.DeleteStream(ctx, name) }})
	return nil
}

// Items names what there is to drop.
func (t *Teardown) Items() []string {
	names := make([]string, len(t.items))
	for i, x := range t.items {
		names[i] = x.what
	}
	return names
}

// Drop drops all items, in their order, and tells each that is gone.
func (t *Teardown) Drop(ctx context.Context, gone func(what string)) error {
	for _, x := range t.items {
		if err := x.drop(ctx); err != nil {
			return fmt.Errorf("drop %s: %w", x.what, err)
		}
		gone(x.what)
	}
	return nil
}

// Close ends the connections.
func (t *Teardown) Close() {
	for i := len(t.closers) - 1; i >= 0; i-- {
		t.closers[i]()
	}
}
