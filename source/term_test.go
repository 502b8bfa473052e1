package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/pgserver"
)

// epochs gives the epochs of a stream, in order.
func (r *running) epochs() []syncd.Epoch {
	var all []syncd.Epoch
	flushes, _ := r.stream.Flushes()
	for _, f := range flushes {
		if n := len(all); n == 0 || all[n-1] != f.Marker.Epoch {
			all = append(all, f.Marker.Epoch)
		}
	}
	return all
}

// epoch waits for the n-th epoch of the stream.
func (r *running) epoch(n int) {
	r.t.Helper()
	harness.Eventually(r.t, fmt.Sprintf("epoch %d of the stream", n), func() error {
		if got := len(r.epochs()); got < n {
			return fmt.Errorf("there are %d", got)
		}
		return nil
	})
}

func TestWatchResumesWhereTheStreamStands(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text)`)
	stream := new(Memory)
	cfg := configFor(t, db, "public.t")
	cfg.TrailInterval = time.Hour // the slot replays everything each time
	for round := range 4 {
		w := run(t, NewWatch(cfg, stream))
		w.leads()
		for i := range 20 {
			db.Exec(fmt.Sprintf(`INSERT INTO public.t VALUES (%d, 'r'); UPDATE public.t SET v = 'u' WHERE id %% 7 = %d`, round*20+i, i%7))
		}
		w.reach(db)
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		db.Exec(fmt.Sprintf(`INSERT INTO public.t VALUES (%d, 'while it was away')`, 1000+round))
		if got := w.epochs(); len(got) != 1 {
			t.Fatalf("epochs %v", got)
		}
	}
	w := run(t, NewWatch(cfg, stream))
	w.reach(db)
	flushes, _ := stream.Flushes()
	r := follow(t, flushes)
	r.equal(t, db, tableT)
	if want := 4*20 + 4; r.commits != want {
		t.Errorf("%d commits in the stream, %d were made", r.commits, want)
	}
}

func TestWatchBeginsAnewWhatCantBeResumed(t *testing.T) {
	t.Parallel()
	setUp := `CREATE TABLE public.t (id int PRIMARY KEY, v text); INSERT INTO public.t SELECT i, 'a' FROM generate_series(1, 5) i`
	anew := 2
	if harness.Postgres(t).Version() >= 180000 {
		anew = 1 // it decodes nothing where the publication did not exist, and the table is listed again
	}
	tests := []struct {
		name   string
		harm   func(t *testing.T, db *harness.DB, m *Memory)
		config func(*Config)
		epochs int
	}{
		{name: "nothing", harm: func(*testing.T, *harness.DB, *Memory) {}, epochs: 1},
		{name: "slot dropped", epochs: 2, harm: func(t *testing.T, db *harness.DB, m *Memory) {
			dropSlotOf(t, db)
		}},
		{name: "slot made anew by somebody", epochs: 2, harm: func(t *testing.T, db *harness.DB, m *Memory) {
			dropSlotOf(t, db)
			db.Exec(`INSERT INTO public.t VALUES (100, 'missed')`)
			db.Exec(fmt.Sprintf(`SELECT pg_create_logical_replication_slot('syncd_%s', 'pgoutput')`, db.Name))
		}},
		{name: "stream lost its tail, the slot can replay it", epochs: 1, config: func(c *Config) { c.TrailInterval = time.Hour },
			harm: func(t *testing.T, db *harness.DB, m *Memory) { m.Lose(losable(t, m)) }},
		{name: "stream lost its tail, the slot is past it", epochs: 2,
			harm: func(t *testing.T, db *harness.DB, m *Memory) { m.Lose(losable(t, m)) }},
		{name: "stream is of another history: another transaction at the commit", epochs: 2, config: func(c *Config) { c.TrailInterval = time.Hour },
			harm: func(t *testing.T, db *harness.DB, m *Memory) { last(m).XID++ }},
		{name: "stream is of another history: no commit there", epochs: 2, config: func(c *Config) { c.TrailInterval = time.Hour },
			harm: func(t *testing.T, db *harness.DB, m *Memory) { last(m).Commit -= 8 }},
		{name: "another system", epochs: 2, harm: func(t *testing.T, db *harness.DB, m *Memory) { last(m).System++ }},
		{name: "another timeline", epochs: 2, harm: func(t *testing.T, db *harness.DB, m *Memory) { last(m).Timeline++ }},
		{name: "restored backup", epochs: 2, harm: func(t *testing.T, db *harness.DB, m *Memory) { last(m).Through += 1 << 32 }},
		{name: "publication dropped and made anew", epochs: anew, harm: func(t *testing.T, db *harness.DB, m *Memory) {
			db.Exec(`DROP PUBLICATION "syncd_` + db.Name + `"`)
			db.Exec(`INSERT INTO public.t VALUES (100, 'can not be decoded')`)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := harness.Database(t)
			db.Exec(setUp)
			cfg := configFor(t, db, "public.t")
			if tt.config != nil {
				tt.config(&cfg)
			}
			m := new(Memory)
			w := run(t, NewWatch(cfg, m))
			w.leads()
			db.Exec(`UPDATE public.t SET v = 'b' WHERE id = 1`)
			w.reach(db)
			db.Exec(`UPDATE public.t SET v = 'c' WHERE id = 2`)
			w.reach(db)
			w.confirmed(db, cfg)
			if err := w.stop(); err != nil {
				t.Fatal(err)
			}
			tt.harm(t, db, m)
			w = run(t, NewWatch(cfg, m))
			w.epoch(tt.epochs)
			w.reach(db)
			db.Exec(`UPDATE public.t SET v = 'd' WHERE id = 3`)
			w.reach(db)
			if got := w.epochs(); len(got) != tt.epochs {
				t.Fatalf("epochs %v, want %d", got, tt.epochs)
			}
			flushes, _ := m.Flushes()
			if strings.HasPrefix(tt.name, "publication") && tt.epochs == 1 && !slices.ContainsFunc(flushes, func(f syncd.Flush) bool { return f.Marker.Relist[tableT] != "" }) {
				t.Error("no marker says that the table is to be listed again")
			}
			d := flushes[len(flushes)-1]
			for i := len(flushes) - 1; len(d.Deltas) == 0; i-- {
				d = flushes[i]
			}
			if got := string(d.Deltas[len(d.Deltas)-1].Row); got != `{"id":3,"v":"d"}` {
				t.Errorf("the last change in the stream is %s", got)
			}
		})
	}
}

// dropSlotOf drops the slot of a watch that was stopped.
func dropSlotOf(t *testing.T, db *harness.DB) {
	t.Helper()
	harness.Eventually(t, "nobody uses the slot", func() error {
		if db.Text(`SELECT count(*) FROM pg_replication_slots WHERE database = current_database() AND active`) != "0" {
			return errors.New("somebody does")
		}
		return nil
	})
	db.Exec(`SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()`)
}

// losable counts the flushes from the last one with deltas on.
func losable(t *testing.T, m *Memory) int {
	t.Helper()
	flushes, _ := m.Flushes()
	for i := len(flushes) - 1; i >= 0; i-- {
		if len(flushes[i].Deltas) > 0 {
			return len(flushes) - i
		}
	}
	t.Fatal("the stream has no deltas")
	return 0
}

// last is the stream's last marker, to be changed.
func last(m *Memory) *syncd.Marker {
	flushes, _ := m.Flushes()
	return &flushes[len(flushes)-1].Marker
}

// confirmed waits until the slot is told of all that is in the stream, where it does not trail.
func (r *running) confirmed(db *harness.DB, cfg Config) {
	r.t.Helper()
	if cfg.TrailInterval > 0 {
		return
	}
	through := last(r.stream).Through
	harness.Eventually(r.t, "the slot is told of "+through.String(), func() error {
		got, err := syncd.ParseLSN(db.Text(`SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'syncd_` + db.Name + `'`))
		if err == nil && got < through {
			err = fmt.Errorf("it is at %s", got)
		}
		return err
	})
}

func TestWatchStopsWhereTheStreamIsGone(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text)`)
	m := new(Memory)
	cfg := configFor(t, db, "public.t")
	w := run(t, NewWatch(cfg, m))
	w.leads()
	w.reach(db)
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	m.Delete()
	var stop *StopError
	if err := NewWatch(cfg, m).Run(t.Context()); !errors.As(err, &stop) || !strings.Contains(stop.Why, "--recreate") {
		t.Fatalf("a start without the stream ended with %v", err)
	}
	again := NewWatch(cfg, m)
	again.Recreate = true
	w = run(t, again)
	w.leads()
	db.Exec(`INSERT INTO public.t VALUES (1, 'new')`)
	w.reach(db)
	flushes, _ := m.Flushes()
	follow(t, flushes).equal(t, db, tableT)
	m.Delete() // once is not for ever
	m.Break(syncd.ErrNoStream)
	if err := w.stopped(); !errors.As(err, &stop) {
		t.Fatalf("a stream deleted while it ran: the watch ended with %v", err)
	}
}

// stopped waits for the watch to end by itself.
func (r *running) stopped() error {
	r.t.Helper()
	err := harness.Receive(r.t, "the watch's end", r.ended)
	r.stop = func() error { return nil }
	return err
}

func TestOneSourceLeadsAndAnotherTakesOver(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text)`)
	m := new(Memory)
	cfg := configFor(t, db, "public.t")
	first := run(t, NewWatch(cfg, m))
	first.leads()
	second := run(t, NewWatch(cfg, m))
	db.Exec(`INSERT INTO public.t VALUES (1, 'a')`)
	first.reach(db)
	harness.Eventually(t, "the second source has seen the stream", func() error {
		if l, ok := second.watch.Last(); !ok || l.Epoch == 0 {
			return errors.New("it has not")
		}
		return nil
	})
	if _, err := second.watch.Mark(t.Context(), 0); !errors.Is(err, ErrStandby) {
		t.Errorf("a mark on the standby: %v", err)
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	db.Exec(`INSERT INTO public.t VALUES (2, 'b')`)
	second.leads()
	second.reach(db)
	if got := second.epochs(); len(got) != 1 {
		t.Errorf("epochs %v", got)
	}
	flushes, _ := m.Flushes()
	follow(t, flushes).equal(t, db, tableT)
}

func TestWatchOutlastsThePublisher(t *testing.T) {
	t.Parallel()
	for _, fault := range []error{syncd.ErrFenced, errors.New("no connection to the stream")} {
		t.Run(fault.Error(), func(t *testing.T) {
			t.Parallel()
			db := harness.Database(t)
			db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text)`)
			m := new(Memory)
			w := run(t, NewWatch(configFor(t, db, "public.t"), m))
			w.leads()
			for i := range 3 {
				db.Exec(fmt.Sprintf(`INSERT INTO public.t VALUES (%d, 'a')`, i))
				w.reach(db)
				m.Break(fmt.Errorf("publish: %w", fault))
				db.Exec(fmt.Sprintf(`INSERT INTO public.t VALUES (%d, 'a')`, 100+i))
				w.reach(db)
			}
			if got := w.epochs(); len(got) != 1 {
				t.Errorf("epochs %v", got)
			}
			flushes, _ := m.Flushes()
			follow(t, flushes).equal(t, db, tableT)
		})
	}
}

func TestSlotIsToldOnlyOfWhatIsAcknowledged(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text)`)
	m := new(Memory)
	cfg := configFor(t, db, "public.t")
	w := run(t, NewWatch(cfg, m))
	w.leads()
	w.reach(db)
	m.Hold(true)
	acked, _ := m.Acked()
	for i := range 5 {
		db.Exec(fmt.Sprintf(`INSERT INTO public.t VALUES (%d, 'a')`, i))
		w.reach(db)
		w.asked(3) // status updates go out, and keepalives are answered, all the while
		if got := w.slotConfirmed(db); got > acked.LSN {
			t.Fatalf("the slot is told of %s, acknowledged is %s", got, acked.LSN)
		}
	}
	m.Hold(false)
	w.confirmed(db, cfg)
}

// asked waits until the server has answered n wishes for a keepalive.
func (r *running) asked(n int) {
	r.t.Helper()
	t := r.watch.current()
	for range n {
		before := t.heard.Load()
		t.ask.Store(true)
		signal(t.answer)
		harness.Eventually(r.t, "a keepalive", func() error {
			if t.heard.Load() == before {
				return errors.New("nothing heard")
			}
			return nil
		})
	}
}

func (r *running) slotConfirmed(db *harness.DB) syncd.LSN {
	r.t.Helper()
	l, err := syncd.ParseLSN(db.Text(`SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'syncd_` + db.Name + `'`))
	if err != nil {
		r.t.Fatal(err)
	}
	return l
}

func TestWatchOutlastsARestartOfPostgres(t *testing.T) {
	t.Parallel()
	s := harness.Server(t, pgserver.Options{Durable: true})
	db := harness.DatabaseOn(t, s)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text)`)
	m := new(Memory)
	w := run(t, NewWatch(configFor(t, db, "public.t"), m))
	w.leads()
	db.Exec(`INSERT INTO public.t VALUES (1, 'a')`)
	w.reach(db)
	for i, end := range []func(*pgserver.Server) error{
		func(s *pgserver.Server) error { return s.Shutdown(t.Context()) },
		(*pgserver.Server).Kill,
	} {
		if err := end(s); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Conn().Exec(t.Context(), `INSERT INTO public.t VALUES ($1, 'b')`, 10+i); err != nil {
			t.Fatal(err)
		}
		w.delta(fmt.Sprintf(`{"id":%d,"v":"b"}`, 10+i))
	}
	if got := w.epochs(); len(got) != 1 {
		t.Errorf("epochs %v", got)
	}
	flushes, _ := m.Flushes()
	follow(t, flushes).equal(t, db, tableT)
}

func TestDecodedBeforeItIsVisible(t *testing.T) {
	t.Parallel()
	s := harness.Server(t, pgserver.Options{})
	db := harness.DatabaseOn(t, s)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text); INSERT INTO public.t VALUES (1, 'old'), (2, 'old')`)
	m := new(Memory)
	w := run(t, NewWatch(configFor(t, db, "public.t"), m))
	l := w.lister()
	admin := db.Conn()
	db.HoldCommits()
	hung := db.Conn()
	committed := make(chan error, 1)
	go func() {
		_, err := hung.Exec(context.WithoutCancel(t.Context()), `UPDATE public.t SET v = 'new' WHERE id = 1`)
		committed <- err
	}()
	delta := w.delta(`{"id":1,"v":"new"}`)
	w.asked(2)
	for range 3 { // later commits do not make it safe
		if _, err := admin.Exec(t.Context(), `SET synchronous_commit = local; UPDATE public.t SET v = v || '.' WHERE id = 2`); err != nil {
			t.Fatal(err)
		}
		if _, err := w.watch.Mark(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if marker := last(m); marker.Safe >= delta.Version.LSN || marker.Through < delta.Version.LSN {
			t.Errorf("the marker at %s says that %s is safe, though the commit at %s is invisible", marker.Through, marker.Safe, delta.Version.LSN)
		}
		p := pages(t, l, tableT, 0)[0]
		if string(p.Rows[0].JSON) != `{"id":1,"v":"old"}` || p.Safe >= delta.Version.LSN || p.Snapshot.Visible(delta.XID, delta.Version.LSN) != syncd.Invisible {
			t.Errorf("page %s, safe %s, snapshot %s; the delta is %+v", p.Rows[0].JSON, p.Safe, p.Snapshot.Text(), delta)
		}
	}
	db.ReleaseCommits()
	if err := harness.Receive(t, "the commit", committed); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the commit is safe", func() error {
		if marker := last(m); marker.Safe < delta.Version.LSN {
			return fmt.Errorf("safe is %s", marker.Safe)
		}
		return nil
	})
	harness.Eventually(t, "a page shows it", func() error { // one that was read a moment ago may be given again
		if p := pages(t, l, tableT, 0)[0]; string(p.Rows[0].JSON) != `{"id":1,"v":"new"}` || p.Safe < delta.Version.LSN {
			return fmt.Errorf("page %s, safe %s", p.Rows[0].JSON, p.Safe)
		}
		return nil
	})
}

// delta waits for a change with a row.
func (r *running) delta(row string) syncd.Delta {
	r.t.Helper()
	var found syncd.Delta
	harness.Eventually(r.t, "the change "+row, func() error {
		flushes, _ := r.stream.Flushes()
		for _, f := range flushes {
			for _, d := range f.Deltas {
				if string(d.Row) == row {
					found = d
					return nil
				}
			}
		}
		return errors.New("it is not there")
	})
	return found
}

func TestMarkMovesTheServer(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text); CREATE TABLE public.other (id int)`)
	m := new(Memory)
	w := run(t, NewWatch(configFor(t, db, "public.t"), m))
	w.leads()
	c := db.Conn()
	for i := range 20 {
		// With synchronous_commit off the log is ahead of what is flushed, and only a table that is not published moves.
		if _, err := c.Exec(t.Context(), `SET synchronous_commit = off`); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(t.Context(), `INSERT INTO public.other VALUES ($1)`, i); err != nil {
			t.Fatal(err)
		}
		at := db.LSN()
		p, err := w.watch.Mark(t.Context(), at)
		if err != nil || p.LSN < at {
			t.Fatalf("mark at %s: %s, %v", at, p, err)
		}
		if got := last(m); got.Through < at {
			t.Fatalf("the stream's last marker is at %s, the mark was answered with %s", got.Through, p)
		}
	}
	before, _ := m.Flushes()
	const asking = 200
	done := make(chan error, asking)
	at := db.LSN() + 1
	for range asking {
		go func() {
			p, err := w.watch.Mark(t.Context(), at)
			if err == nil && p.LSN < at {
				err = fmt.Errorf("mark at %s: %s", at, p)
			}
			done <- err
		}()
	}
	for range asking {
		if err := harness.Receive(t, "a mark", done); err != nil {
			t.Error(err)
		}
	}
	if after, _ := m.Flushes(); len(after)-len(before) > asking/4 {
		t.Errorf("%d marks made %d markers", asking, len(after)-len(before))
	}
}
