package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/natsserver"
	"github.com/syncd-io/syncd/internal/pgserver"
)

// TestSlotIsGivenUpWhileTheBusIsAway has the log outgrow its budget while nothing can be published: the slot goes before the
// server's disk is full, and once the bus is back every cache lists anew under a new epoch.
func TestSlotIsGivenUpWhileTheBusIsAway(t *testing.T) {
	t.Parallel()
	db := harness.DatabaseOn(t, harness.Server(t, pgserver.Options{Settings: map[string]string{"max_wal_size": "8GB"}}))
	nats := harness.NATSServer(t, natsserver.Config{})
	f := fleetOn(t, db, nats, "public.t")
	f.more.source = "max_slot_wal: 32MiB"
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text); INSERT INTO public.t SELECT i, 'old' FROM generate_series(1, 100) i`)
	f.source()
	c := f.sidecar()
	c.listed()
	f.converges(c)
	before := c.epoch()
	nats.Server.Stop()
	db.Exec(`DELETE FROM public.t WHERE id % 5 = 0; UPDATE public.t SET v = 'new'`)
	db.Exec(`CREATE TABLE public.other AS SELECT i, md5(i::text) AS v FROM generate_series(1, 500000) i`) // more than the budget
	f.eventually("the slot to be given up", func() error {
		if db.Text(`SELECT count(*) FROM pg_replication_slots WHERE database = current_database()`) != "0" {
			return errors.New("it is there")
		}
		return nil
	})
	db.Exec(`DELETE FROM public.t WHERE id % 7 = 0`) // no slot holds this
	if err := nats.Server.Start(); err != nil {
		t.Fatal(err)
	}
	f.converges(c)
	if after := c.epoch(); after <= before {
		t.Errorf("the cache is of epoch %s, before it was of %s", after, before)
	}
	c.resyncFindsNothing(1)
}

// epoch gives the epoch that the cache is of. Those of one length order as texts.
func (c *cache) epoch() string {
	c.f.t.Helper()
	states, err := c.tables()
	if err != nil {
		c.f.t.Fatal(err)
	}
	for _, s := range states {
		if e, _, ok := strings.Cut(s.Version, "-"); ok {
			return e
		}
		c.f.t.Fatal(fmt.Errorf("version is %q", s.Version))
	}
	c.f.t.Fatal("the cache has no table")
	return ""
}
