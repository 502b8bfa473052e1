package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/pgserver"
)

func TestGuardActs(t *testing.T) {
	for _, tt := range []struct {
		budget, retained int64
		want             guardAction
	}{
		{0, 1 << 40, guardNothing}, {100, 50, guardNothing}, {100, 51, guardHurry}, {100, 100, guardHurry}, {100, 101, guardGiveUp},
	} {
		g := guard{budget: tt.budget}
		if got := g.act(tt.retained); got != tt.want {
			t.Errorf("%d bytes of %d: %d, want %d", tt.retained, tt.budget, got, tt.want)
		}
	}
}

// lines is a log that is looked at.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) wait(t *testing.T, what string) {
	t.Helper()
	harness.Eventually(t, "the log says "+what, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !strings.Contains(l.text.String(), what) {
			return errors.New(l.text.String())
		}
		return nil
	})
}

// fill writes about n MiB of log.
func fill(t *testing.T, db *harness.DB, n int) {
	t.Helper()
	for range n {
		db.Exec(`SELECT pg_logical_emit_message(false, 'fill', repeat('x', 1 << 20))`)
	}
	db.Exec(`SELECT pg_switch_wal()`)
}

func TestSlotIsGivenUpBeforeTheDiskIsFull(t *testing.T) {
	t.Parallel()
	s := harness.Server(t, pgserver.Options{})
	db := harness.DatabaseOn(t, s)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text)`)
	m := new(Memory)
	cfg := configFor(t, db, "public.t")
	cfg.MaxSlotWAL = 64 << 20
	var log lines
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	w := run(t, NewWatch(cfg, m))
	w.leads()
	w.reach(db)
	m.Hold(true) // the stream acknowledges nothing, so that the slot holds all
	fill(t, db, 40)
	log.wait(t, "the replication slot holds much log")
	if got := len(w.epochs()); got != 1 {
		t.Fatalf("%d epochs at half of the budget", got)
	}
	fill(t, db, 30)
	w.epoch(2)
	m.Hold(false)
	db.Exec(`INSERT INTO public.t VALUES (1, 'a')`)
	w.reach(db)
	flushes, _ := m.Flushes()
	follow(t, flushes).equal(t, db, tableT)

	// With the stream away there is nobody to begin a new epoch, and the slot is given up all the same.
	away := &brokenLast{Memory: m}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- NewWatch(cfg, away).Run(ctx) }()
	fill(t, db, 70)
	harness.Eventually(t, "the slot is gone", func() error {
		if n := db.Text(`SELECT count(*) FROM pg_replication_slots`); n != "0" {
			return fmt.Errorf("%s slots", n)
		}
		return nil
	})
	cancel()
	if err := harness.Receive(t, "the watch's end", ended); err != nil {
		t.Error(err)
	}
}

// brokenLast is a stream that can't be reached.
type brokenLast struct{ *Memory }

func (brokenLast) Last(context.Context) (syncd.Marker, uint64, bool, error) {
	return syncd.Marker{}, 0, false, errors.New("no connection to the stream")
}

func TestSlotWaitsForOpenTransactions(t *testing.T) {
	t.Parallel()
	s := harness.Server(t, pgserver.Options{})
	db := harness.DatabaseOn(t, s)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text)`)
	hold := db.Conn()
	if _, err := hold.Exec(t.Context(), `BEGIN; INSERT INTO public.t VALUES (1, 'before the slot')`); err != nil {
		t.Fatal(err)
	}
	cfg := configFor(t, db, "public.t")
	var log lines
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	w := run(t, NewWatch(cfg, new(Memory)))
	log.wait(t, fmt.Sprintf("pids=[%d]", hold.PgConn().PID()))
	if w.watch.current() != nil {
		t.Fatal("it leads while the transaction is open")
	}
	if _, err := hold.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	w.leads()
	l := NewLister(w.watch)
	defer l.Close()
	if p := pages(t, l, tableT, 0)[0]; len(p.Rows) != 1 {
		t.Errorf("the list has %d rows of what was committed before the slot's start", len(p.Rows))
	}
}

func TestSlotSettlesBehindCommitsThatHang(t *testing.T) {
	// A transaction of before the slot's start that is committed in the log and not visible: as with a synchronous standby away.
	first, _ := syncd.ParseSnapshot("10:20:12,15")
	for text, want := range map[string]string{
		"12:25:12,15,21": "[12 15]", "15:25:15,21": "[15]", "21:25:21": "[]", "10:20:12,15": "[12 15]", "30:30:": "[]",
	} {
		now, err := syncd.ParseSnapshot(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(stillRunning(first, now)); got != want {
			t.Errorf("with %s it waits for %s, want %s", text, got, want)
		}
	}
}

func TestNoFreeSlotIsSaid(t *testing.T) {
	t.Parallel()
	s := harness.Server(t, pgserver.Options{Settings: map[string]string{"max_replication_slots": "1"}})
	db := harness.DatabaseOn(t, s)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY); SELECT pg_create_physical_replication_slot('other')`)
	cfg := configFor(t, db, "public.t")
	var log lines
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	w := run(t, NewWatch(cfg, new(Memory)))
	log.wait(t, "all replication slots are in use")
	db.Exec(`SELECT pg_drop_replication_slot('other')`)
	w.leads()
}

func TestListsFromAStandby(t *testing.T) {
	t.Parallel()
	primary := harness.Server(t, pgserver.Options{Settings: map[string]string{"hot_standby_feedback": "on"}})
	db := harness.DatabaseOn(t, primary)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text); INSERT INTO public.t SELECT i, 'a' FROM generate_series(1, 100) i`)
	standby := harness.Standby(t, primary, pgserver.Options{})
	cfg := configFor(t, db, "public.t")
	cfg.ListPostgres = standby.URL(db.Name)
	m := new(Memory)
	w := run(t, NewWatch(cfg, m))
	l := w.lister()
	for i := range 5 {
		db.Exec(fmt.Sprintf(`UPDATE public.t SET v = 'b%d' WHERE id = 1`, i))
		at := db.LSN()
		w.reach(db)
		var got []*syncd.Page
		harness.Eventually(t, "the standby has it", func() error {
			r := syncd.ListRequest{Table: tableT, Limit: 40 + i}
			p, err := l.List(t.Context(), r)
			if err != nil {
				return err
			}
			if got = []*syncd.Page{p}; p.Snapshot.R < at {
				return fmt.Errorf("replayed up to %s", p.Snapshot.R)
			}
			return nil
		})
		p := got[0]
		s := p.Snapshot
		if !s.Standby || s.R == 0 || s.R2 < s.R || s.H != s.R2 || p.Safe != s.R || p.System != last(m).System || p.Timeline != last(m).Timeline {
			t.Errorf("page %+v of snapshot %+v", p, s)
		}
		if want := fmt.Sprintf(`{"id":1,"v":"b%d"}`, i); string(p.Rows[0].JSON) != want {
			t.Errorf("row %s, want %s", p.Rows[0].JSON, want)
		}
		d := w.delta(fmt.Sprintf(`{"id":1,"v":"b%d"}`, i))
		if s.Visible(d.XID, d.Version.LSN) != syncd.Visible {
			t.Errorf("the commit at %s is not visible in %+v", d.Version.LSN, s)
		}
	}
	if p, err := l.Get(t.Context(), syncd.GetRequest{Table: tableT, Keys: []syncd.Key{"1", "500"}}); err != nil || len(p.Rows) != 1 || !p.Snapshot.Standby {
		t.Errorf("get from the standby: %+v, %v", p, err)
	}
}

func TestProberAsksOnlyWhileSomethingIsInvisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVisibility()
		ctx, cancel := context.WithCancel(t.Context())
		snapshots := []string{"7:8:7", "7:8:7", "8:8:"}
		var asked atomic.Int32
		ended := make(chan error, 1)
		go func() {
			ended <- v.probe(ctx, func(context.Context) (*syncd.Snapshot, error) {
				return syncd.ParseSnapshot(snapshots[min(int(asked.Add(1)), len(snapshots))-1])
			}, func(*syncd.Snapshot) {})
		}()
		v.add([]commitRef{{100, 7, 92}})
		synctest.Wait()
		if got := v.safe(100); asked.Load() != 1 || got != 99 {
			t.Errorf("after %d snapshots %s is safe", asked.Load(), got)
		}
		time.Sleep(time.Minute) // of the test's clock
		if got := v.safe(100); asked.Load() != 3 || got != 100 {
			t.Errorf("after %d snapshots %s is safe", asked.Load(), got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
