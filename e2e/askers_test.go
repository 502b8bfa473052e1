package e2e

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/bus"
)

// askers is how many sidecars ask at once.
const askers = 1000

// crowd is many clients of the list service, on some connections.
type crowd struct {
	t     *testing.T
	f     *fleet
	conns []*nats.Conn
}

func newCrowd(t *testing.T, f *fleet) *crowd {
	t.Helper()
	c := &crowd{t: t, f: f}
	for range 10 {
		nc, err := nats.Connect(f.bus.URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		c.conns = append(c.conns, nc)
	}
	return c
}

// answers are what became of a crowd's requests.
type answers struct {
	mu      sync.Mutex
	ok      int
	busy    int
	unsaid  int // busy without saying when to come again
	errs    []error
	slowest time.Duration
}

// ask has everybody ask at once, and waits for all answers. A refused one comes again when it was told to, so many times.
func (c *crowd) ask(again int, ask func(*bus.Client) error) *answers {
	c.t.Helper()
	var all answers
	c.into(&all, again, ask)
	return &all
}

// into is ask, whose answers may be looked at while they come.
func (c *crowd) into(all *answers, again int, ask func(*bus.Client) error) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range askers {
		client := &bus.Client{Conn: c.conns[i%len(c.conns)], Name: c.f.bus.Name}
		wg.Go(func() {
			<-start
			began := time.Now()
			for try := 0; ; try++ {
				err := ask(client)
				var busy *bus.BusyError
				all.mu.Lock()
				switch {
				case err == nil:
					all.ok++
				case errors.As(err, &busy):
					all.busy++
					if busy.RetryAfter() <= 0 {
						all.unsaid++
					}
				default:
					all.errs = append(all.errs, err)
				}
				all.slowest = max(all.slowest, time.Since(began))
				all.mu.Unlock()
				if busy == nil || try == again {
					return
				}
				select {
				case <-c.t.Context().Done():
					return
				case <-time.After(busy.RetryAfter()):
				}
			}
		})
	}
	close(start)
	wg.Wait()
	for _, err := range all.errs[:min(3, len(all.errs))] {
		c.t.Error(err)
	}
	if all.unsaid > 0 {
		c.t.Errorf("%d were refused without being told when to come again", all.unsaid)
	}
}

// scans counts how often the table was scanned, by any plan. What a session has counted it tells within a second.
func (c *crowd) scans() int {
	c.t.Helper()
	n, err := strconv.Atoi(c.f.db.Text("SELECT coalesce(seq_scan, 0) + coalesce(idx_scan, 0) FROM pg_stat_user_tables WHERE relname = 't'"))
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// settled gives the scans once sessions have told of them.
func (c *crowd) settled(atLeast int) (n int) {
	c.t.Helper()
	last := -1
	c.f.eventually("the server's statistics to stand still", func() error {
		if n = c.scans(); n < atLeast || n != last {
			last = n
			return fmt.Errorf("%d scans, at least %d are to come", n, atLeast)
		}
		return nil
	})
	return n
}

// TestOneScanForMany: a thousand sidecars that ask at once for the same page, or for a digest, cost Postgres one scan for each
// page that is read; those who ask for different ones are served by as many scans at a time as may run, or told to come again.
func TestOneScanForMany(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "public.t")
	f.db.Exec("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 400) i")
	f.source()
	c := newCrowd(t, f)
	name := table(t, "public.t")
	one := &bus.Client{Conn: c.conns[0], Name: f.bus.Name}
	f.eventually("the source to answer", func() error {
		_, err := one.Digest(t.Context(), syncd.DigestRequest{Table: name, Bits: 4})
		return err
	})
	before := c.settled(1)
	for _, tt := range []struct {
		name  string
		pages int // that the table is read in
		ask   func(*bus.Client) error
	}{
		{"digest", 1, func(b *bus.Client) error {
			d, err := b.Digest(t.Context(), syncd.DigestRequest{Table: name, Bits: 6})
			if err == nil && d.Rows() != 400 {
				err = fmt.Errorf("a digest of %d rows", d.Rows())
			}
			return err
		}},
		{"list", 1, func(b *bus.Client) error {
			p, err := b.List(t.Context(), syncd.ListRequest{Table: name, Limit: 50})
			if err == nil && len(p.Rows) != 50 {
				err = fmt.Errorf("a page of %d rows", len(p.Rows))
			}
			return err
		}},
	} {
		got := c.ask(20, tt.ask)
		n := c.settled(before+1) - before
		t.Logf("%s: %d answers, %d told to come again, %d scans, the slowest after %v", tt.name, got.ok, got.busy, n, got.slowest)
		if got.ok != askers {
			t.Errorf("%s: %d of %d were served", tt.name, got.ok, askers)
		}
		// Who comes after a reading has ended needs another one: a few, never one each.
		if n > 10*tt.pages {
			t.Errorf("%s: %d scans for %d askers", tt.name, n, askers)
		}
		before += n
	}

	hold := f.db.Conn() // so that scans can't end
	if _, err := hold.Exec(t.Context(), "BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	var next atomic.Int64
	var all answers
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		c.into(&all, 0, func(b *bus.Client) error {
			after := syncd.MakeKey(strconv.FormatInt(next.Add(1), 10))
			_, err := b.List(t.Context(), syncd.ListRequest{Table: name, Limit: 5, Started: true, After: after})
			return err
		})
	}()
	f.eventually("all but those that are read to be told to come again", func() error {
		all.mu.Lock()
		defer all.mu.Unlock()
		if all.busy < askers-2 {
			return fmt.Errorf("%d were", all.busy)
		}
		return nil
	})
	if n := f.db.Text("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 't'::regclass"); n != "2" {
		t.Errorf("%s scans wait for the lock, where 2 may run", n)
	}
	if _, err := hold.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	<-asked
	t.Logf("different pages of a locked table: %d answers, %d told to come again", all.ok, all.busy)
	if all.ok != 2 {
		t.Errorf("%d scans ended, 2 were under way", all.ok)
	}
}
