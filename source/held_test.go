package source

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/pgserver"
)

// slotAt reads two of the slot's positions, and the end of the server's log.
func slotAt(db *harness.DB) (restart, confirmed, end syncd.LSN) {
	row := db.Query(`SELECT restart_lsn, confirmed_flush_lsn, pg_current_wal_insert_lsn() FROM pg_replication_slots WHERE slot_name = 'syncd_` + db.Name + `'`)
	if len(row) == 1 {
		for i, l := range []*syncd.LSN{&restart, &confirmed, &end} {
			*l, _ = syncd.ParseLSN(row[0][i]) // what can't be read stays 0, which no wait is content with
		}
	}
	return restart, confirmed, end
}

// small makes checkpoints no cause of a slot's moving: the test is to see what moves without any.
var small = pgserver.Options{Settings: map[string]string{"checkpoint_timeout": "1h", "max_wal_size": "8GB"}}

func TestIdleDatabaseHoldsLittleLog(t *testing.T) {
	t.Parallel()
	db := harness.DatabaseOn(t, harness.Server(t, small))
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text); CREATE TABLE public.other (id int, v text)`)
	cfg := configFor(t, db, "public.t")
	cfg.TrailInterval = 200 * time.Millisecond
	w := run(t, NewWatch(cfg, new(Memory)))
	w.leads()
	db.Exec(`INSERT INTO public.t SELECT i, repeat(md5(i::text), 30) FROM generate_series(1, 20000) i;
		INSERT INTO public.other SELECT i, repeat(md5(i::text), 30) FROM generate_series(1, 20000) i`)
	w.reach(db)
	const most = 16 << 20
	_, _, from := slotAt(db)
	harness.Eventually(t, "the slot of a database that is idle to hold little", func() error {
		restart, confirmed, end := slotAt(db)
		if restart == 0 || end-restart > most || end-confirmed > most {
			return fmt.Errorf("it is at %s and confirmed %s, the log ends at %s", restart, confirmed, end)
		}
		return nil
	})
	if _, _, end := slotAt(db); end-from > most/4 {
		t.Errorf("%d bytes of log were written while nobody wrote", end-from)
	}
}

func TestUnpublishedChangesAreNotHeld(t *testing.T) {
	t.Parallel()
	db := harness.DatabaseOn(t, harness.Server(t, small))
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text); CREATE TABLE public.other (id int, v text)`)
	cfg := configFor(t, db, "public.t")
	cfg.TrailInterval = 200 * time.Millisecond
	m := new(Memory)
	w := run(t, NewWatch(cfg, m))
	w.leads()
	conn := db.Conn()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { // all the while
		for ctx.Err() == nil {
			_, err := conn.Exec(context.WithoutCancel(ctx), `INSERT INTO public.other SELECT i, repeat(md5(i::text), 3) FROM generate_series(1, 100) i`)
			if err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	_, _, from := slotAt(db)
	harness.Eventually(t, "the slot to pass "+from.String(), func() error {
		restart, confirmed, end := slotAt(db)
		if restart < from || confirmed < from {
			return fmt.Errorf("it is at %s and confirmed %s, the log ends at %s", restart, confirmed, end)
		}
		return nil
	})
	stop()
	if err := harness.Receive(t, "the writer's end", ended); err != nil {
		t.Fatal(err)
	}
	if flushes, _ := m.Flushes(); len(follow(t, flushes).rows) > 0 {
		t.Error("the stream has changes of a table that is not published")
	}
}

func TestPublisherBlocksLongerThanTheServerWaits(t *testing.T) {
	t.Parallel()
	db := harness.DatabaseOn(t, harness.Server(t, pgserver.Options{Settings: map[string]string{"wal_sender_timeout": "1s"}}))
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text)`)
	m := new(Memory)
	w := run(t, NewWatch(configFor(t, db, "public.t"), m))
	w.leads()
	db.Exec(`INSERT INTO public.t VALUES (0, 'before')`)
	w.reach(db)
	sender := func() string {
		return db.Text(`SELECT active_pid || ' since ' || backend_start FROM pg_replication_slots s JOIN pg_stat_replication r ON r.pid = s.active_pid
			WHERE slot_name = 'syncd_` + db.Name + `'`)
	}
	before := sender()
	m.Block(true)
	const batches = 30
	for i := range batches { // more than the queue takes, so that the stream is no longer read
		db.Exec(fmt.Sprintf(`INSERT INTO public.t SELECT i, repeat('x', 10000) FROM generate_series(%d, %d) i`, i*200+1, i*200+200))
	}
	term := w.watch.current()
	harness.Eventually(t, "the queue is full", func() error {
		if !term.intake.waiting.Load() {
			return errors.New("it has room")
		}
		return nil
	})
	term.heard.Store(0) // as if it had been full for long
	db.Exec(`SELECT pg_sleep(4)`)
	if after := sender(); after != before {
		t.Errorf("the connection was given up: walsender %s, before %s", after, before)
	}
	m.Block(false)
	w.reach(db)
	if w.watch.current() != term {
		t.Error("another term has begun")
	}
	flushes, _ := m.Flushes()
	r := follow(t, flushes)
	r.equal(t, db, tableT)
	if want := batches + 1; r.commits != want {
		t.Errorf("%d commits in the stream, %d were made", r.commits, want)
	}
}
