package e2e

import (
	"errors"
	"testing"

	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/pgserver"
)

// TestHangingCommitIsNotTakenBack: with synchronous_standby_names naming nobody, an update is in the log, and in the cache,
// while every snapshot of Postgres still shows the row before it. No list may bring that row back, however often the table is
// listed and by whatever cache; and none may call itself verified through the update. A cache that is begun meanwhile can't
// know the row, and so must not serve it as if it did.
func TestHangingCommitIsNotTakenBack(t *testing.T) {
	t.Parallel()
	db := harness.DatabaseOn(t, harness.Server(t, pgserver.Options{}))
	db.Exec("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 20) i")
	f := fleetOn(t, db, harness.NATS(t), "public.t")
	leader := f.source()
	s := f.sidecar()
	f.converges(s)
	seen := s.watch(table(t, "public.t"))

	db.HoldCommits()
	writer, hanging := db.Conn(), make(chan error, 1)
	go func() {
		_, err := writer.Exec(t.Context(), "UPDATE t SET n = 1 WHERE id = 1")
		hanging <- err
	}()
	is := func(want string) func() error {
		return func() error {
			row, err := s.row(table(t, "public.t"), "1")
			if err == nil && row != want {
				err = errors.New("the cache has " + row)
			}
			return err
		}
	}
	f.eventually("the update to be in the cache", is(`{"id":1,"n":1}`))
	if n := db.Text("SELECT n FROM t WHERE id = 1"); n != "0" {
		t.Fatalf("Postgres shows the update, n %s: nothing is tested", n)
	}
	// A later commit that everybody sees: what is safe stands still below it all the same.
	db.Exec("SET synchronous_commit = local") // for this session
	db.Exec("UPDATE t SET n = 2 WHERE id = 2")
	later := db.LSN()
	for range 5 {
		r, err := s.resync(table(t, "public.t"))
		if err != nil || r.Differences() != 0 {
			t.Errorf("a resync while the update hangs: %+v, %v", r, err)
		}
		if err := is(`{"id":1,"n":1}`)(); err != nil {
			t.Error(err)
		}
		if v := s.verified(table(t, "public.t")); v >= later {
			t.Errorf("verified through %s, while a commit below %s can't be seen", v, later)
		}
	}
	// Nor does a source that begins now think better of it: it is told again of what may be invisible.
	leader.stop()
	f.source()
	for range 5 {
		f.eventually("a resync by the next source", func() error { _, err := s.resync(table(t, "public.t")); return err })
		if v := s.verified(table(t, "public.t")); v >= later {
			t.Errorf("after the source's restart verified through %s, while a commit below %s can't be seen", v, later)
		}
		db.Exec("UPDATE t SET n = n + 1 WHERE id = 3")
	}
	young := f.cache("young", f.start)
	f.eventually("the second sidecar to know its tables", func() error {
		states, err := young.tables()
		if err == nil && len(states) == 0 {
			err = errors.New("none yet")
		}
		return err
	})
	if _, err := young.resync(table(t, "public.t")); err != nil {
		t.Logf("the second cache can't be completed yet: %v", err)
	}
	if row, err := young.row(table(t, "public.t"), "1"); err == nil && row != `{"id":1,"n":1}` {
		t.Errorf("a cache begun meanwhile serves %s", row)
	}
	select {
	case err := <-hanging:
		t.Fatalf("the update did not hang: %v", err)
	default:
	}
	db.ReleaseCommits()
	if err := harness.Receive(t, "the update", hanging); err != nil {
		t.Fatal(err)
	}
	f.converges(s, young)
	seen.end()
}
