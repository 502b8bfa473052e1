package source

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/pgserver"
)

// TestNoFreeSenderIsSaid: another has the only WAL sender. The source names the setting, and leads when that one is free.
func TestNoFreeSenderIsSaid(t *testing.T) {
	t.Parallel()
	db := harness.DatabaseOn(t, harness.Server(t, pgserver.Options{Settings: map[string]string{"max_wal_senders": "1"}}))
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY)`)
	c, err := pgconn.ParseConfig(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	c.RuntimeParams["replication"] = "true"
	other, err := pgconn.ConnectConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close(context.Background()) }) // again, where all went well
	cfg := configFor(t, db, "public.t")
	var log lines
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	w := run(t, NewWatch(cfg, new(Memory)))
	log.wait(t, "max_wal_senders") // from 18 on the server quotes it
	if w.watch.current() != nil {
		t.Error("it leads without one")
	}
	if err := other.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.leads()
}
