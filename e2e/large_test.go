package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/internal/harness"
)

// largeSQL makes a transaction that no source keeps in memory as a whole: 300,000 rows, some of which change again, move to
// another key with a large value that stays as it is, or go, and parts of which are taken back.
const largeSQL = `BEGIN;
INSERT INTO public.t SELECT i, 'first ' || i, NULL FROM generate_series(1001, 150000) i;
SAVEPOINT a;
UPDATE public.t SET v = 'taken back';
DELETE FROM public.t WHERE id % 3 = 0;
ROLLBACK TO a;
INSERT INTO public.t SELECT i, 'second ' || i, NULL FROM generate_series(150001, 300000) i;
UPDATE public.t SET id = -id WHERE id <= 500;
SAVEPOINT b;
UPDATE public.t SET v = v || ' again' WHERE id % 3 = 1;
RELEASE b;
UPDATE public.t SET id = id - 1000 WHERE id BETWEEN -300 AND -1;
UPDATE public.t SET v = 'once more' WHERE id < 0;
DELETE FROM public.t WHERE id % 10 = 7;
COMMIT`

// largeFleet has a table with rows whose large values an update leaves out of the log.
func largeFleet(t *testing.T) *fleet {
	f := newFleet(t, "public.t")
	f.db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text, big text); ALTER TABLE public.t ALTER big SET STORAGE EXTERNAL`)
	f.db.Exec(oldRows)
	return f
}

const oldRows = `INSERT INTO public.t SELECT i, 'old', repeat(i::text || ' ', 1000) FROM generate_series(1, 1000) i`

// commits follows the markers as they are published.
func (f *fleet) commits() *nats.Subscription {
	f.t.Helper()
	sub, err := f.bus.Conn().SubscribeSync(bus.CommitSubject(f.bus.Name))
	if err != nil {
		f.t.Fatal(err)
	}
	return sub
}

// untilPart waits for the marker of a part.
func (f *fleet) untilPart(markers *nats.Subscription) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), harness.HangGuard)
	defer cancel()
	for {
		m, err := markers.NextMsgWithContext(ctx)
		if err != nil {
			f.t.Fatalf("waiting for a part of a transaction: %v", err)
		}
		if isPart(f.t, m.Data) {
			return
		}
	}
}

func isPart(t *testing.T, marker []byte) bool {
	t.Helper()
	var m struct{ Part bool }
	if err := json.Unmarshal(marker, &m); err != nil {
		t.Fatalf("marker %s: %v", marker, err)
	}
	return m.Part
}

// endsInAPart says whether the stream's last marker is that of a part.
func (f *fleet) endsInAPart() bool {
	f.t.Helper()
	js, err := jetstream.New(f.bus.Conn())
	if err != nil {
		f.t.Fatal(err)
	}
	s, err := js.Stream(f.t.Context(), f.bus.Stream())
	if err != nil {
		f.t.Fatal(err)
	}
	m, err := s.GetLastMsgForSubject(f.t.Context(), bus.CommitSubject(f.bus.Name))
	if err != nil {
		f.t.Fatal(err)
	}
	return isPart(f.t, m.Data)
}

// gaps gives how many losses a cache has noticed.
func (c *cache) gaps() string {
	c.f.t.Helper()
	body, err := c.ask(http.MethodGet, "/metrics")
	if err != nil {
		c.f.t.Fatal(err)
	}
	for line := range bytes.Lines(body) {
		if n, ok := strings.CutPrefix(string(line), "syncd_gaps_total "); ok {
			return strings.TrimSpace(n)
		}
	}
	c.f.t.Fatalf("/metrics has no syncd_gaps_total")
	return ""
}

func TestLargeTransactionIsPublishedInParts(t *testing.T) {
	t.Parallel()
	f := largeFleet(t)
	f.source()
	c := f.sidecar()
	c.listed()
	markers := f.commits()
	f.db.Exec(largeSQL)
	f.untilPart(markers)
	f.converges(c)
	if n := c.gaps(); n != "0" {
		t.Errorf("the cache has noticed %s losses", n)
	}
	c.resyncFindsNothing(1)
}

func TestSourceIsKilledAmidALargeTransaction(t *testing.T) {
	t.Parallel()
	f := largeFleet(t)
	source := f.process("source", "source")
	c := f.sidecar()
	c.listed()
	for try := 1; ; try++ {
		markers := f.commits()
		f.db.Exec(largeSQL)
		f.untilPart(markers)
		source.kill()
		if f.endsInAPart() {
			break
		}
		if try == 5 {
			t.Fatal("the source was quicker than the test, again and again")
		}
		source = f.process("source", "source")
		f.db.Exec("TRUNCATE public.t")
		f.db.Exec(oldRows)
		f.converges(c)
	}
	late := f.cache("late", f.start) // it joins the stream amid the transaction
	f.db.Exec(`UPDATE public.t SET v = 'while it was away' WHERE id BETWEEN 2000 AND 3000`)
	again := f.process("source", "source")
	f.converges(c, late)
	if n := c.gaps(); n != "0" {
		t.Errorf("the cache has noticed %s losses", n)
	}
	c.resyncFindsNothing(1)
	again.kill()
}

func TestSidecarIsKilledAmidALargeTransaction(t *testing.T) {
	t.Parallel()
	f := largeFleet(t)
	f.source()
	c := f.cache("sidecar", f.process)
	c.listed()
	markers := f.commits()
	f.db.Exec(largeSQL)
	for range 3 {
		f.untilPart(markers)
		c.member.kill()
		c = f.cache("sidecar", f.process)
	}
	f.converges(c)
	c.resyncFindsNothing(1)
}
