package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/explain"
)

// explain gives what a sidecar says of a key.
func (c *cache) explain(t syncd.Table, k syncd.Key) (*explain.Explanation, error) {
	e := &explain.Explanation{}
	return e, c.get(tablePath(t)+"/explain/"+k.Path(), e)
}

// TestExplain: on real servers the row, its changes on the stream and the cache's entry are shown as they are, and the verdict
// follows them.
func TestExplain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, `public."Odd Pairs"`)
	f.db.Exec(`CREATE TABLE "Odd Pairs" (a text, b int, v text, PRIMARY KEY (a, b)); INSERT INTO "Odd Pairs" VALUES ('x,y', 1, 'listed'), ('x,y', 2, 'listed')`)
	source := f.source()
	s := f.sidecar()
	f.converges(s)
	pairs, one := table(t, `public."Odd Pairs"`), syncd.MakeKey("x,y", "1")
	is := func(k syncd.Key, holds func(e *explain.Explanation) bool) {
		t.Helper()
		f.eventually("the explanation to be what it should", func() error {
			e, err := s.explain(pairs, k)
			if err == nil && !holds(e) {
				err = fmt.Errorf("it is %+v", e)
			}
			return err
		})
	}
	is(one, func(e *explain.Explanation) bool {
		return e.Verdict.Code == explain.Equal && e.Postgres.Exists && e.Postgres.Passed && e.Postgres.Snapshot != "" &&
			e.Cache.Held == "row" && e.Cache.Origin == "list" && string(e.Cache.Row) == `{"a":"x,y","b":1,"v":"listed"}` && len(e.Stream.Deltas) == 0 &&
			e.State.Listed && e.State.Rows == 2 && e.State.VerifiedAt != nil
	})
	for i := range 12 {
		f.db.Exec(`UPDATE "Odd Pairs" SET v = $1 WHERE b = 1`, fmt.Sprint("changed ", i))
	}
	is(one, func(e *explain.Explanation) bool {
		d := e.Stream.Deltas
		return e.Verdict.Code == explain.Equal && len(d) == 10 && string(d[9].Row) == `{"a":"x,y","b":1,"v":"changed 11"}` && d[9].Version == e.Cache.Version &&
			d[9].XID == e.Cache.XID && e.Cache.Origin == "delta" && string(e.Postgres.Row) == string(d[9].Row) && e.Stream.To >= d[9].Seq
	})
	f.db.Exec(`DELETE FROM "Odd Pairs" WHERE b = 1`)
	is(one, func(e *explain.Explanation) bool {
		d := e.Stream.Deltas
		return e.Verdict.Code == explain.Equal && !e.Postgres.Exists && e.Cache.Held != "row" && len(d) == 10 && d[9].Op == "delete"
	})
	var refused *answerError
	if _, err := s.explain(pairs, syncd.MakeKey("x")); !errors.As(err, &refused) || refused.status != 400 {
		t.Errorf("of half a key: %v", err)
	}
	source.stop()
	is(syncd.MakeKey("x,y", "2"), func(e *explain.Explanation) bool {
		return e.Verdict.Code == explain.Unknown && strings.Contains(e.Verdict.Do, "source") && e.Postgres.Error != "" && e.Cache.Held == "row" && e.Stream.Error == ""
	})
}

// TestChecker: in a cache that is true the share of true reads is whole.
func TestChecker(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "public.t")
	f.more.sidecar = "checker: {keys_per_second: 200}"
	f.db.Exec("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t SELECT i, 0 FROM generate_series(1, 500) i")
	f.source()
	s := f.sidecar()
	f.converges(s)
	for n := range 30 {
		f.db.Exec("UPDATE t SET n = $1", n)
	}
	f.eventually("200 samples to be counted", func() error {
		b, err := s.ask("GET", "/metrics")
		if err != nil {
			return err
		}
		var yes, no float64
		for line := range strings.Lines(string(b)) {
			for _, c := range []struct {
				name string
				into *float64
			}{{"syncd_consistent_within_total", &yes}, {"syncd_inconsistent_within_total", &no}} {
				if rest, ok := strings.CutPrefix(line, c.name+`{table="public.t",window="1s"} `); ok {
					if _, err := fmt.Sscan(rest, c.into); err != nil {
						return err
					}
				}
			}
		}
		if no != 0 {
			t.Fatalf("%v samples were inconsistent, %v consistent", no, yes)
		}
		if yes < 200 {
			return fmt.Errorf("%v were", yes)
		}
		return nil
	})
	f.db.Exec("UPDATE t SET n = -1")
	f.converges(s)
}
