package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/resync"
)

// keeps says whether a cache holds the rows of a table for which a condition in SQL is true, as they are now, whatever way they
// are asked for.
func (c *cache) keeps(t syncd.Table, where string) error {
	lsn := c.f.db.LSN()
	if err := c.reach(t, lsn); err != nil {
		return err
	}
	want := strings.Split(c.f.db.Text("SELECT coalesce(string_agg(row_to_json(x)::text, E'\n' ORDER BY row_to_json(x)::text COLLATE \"C\"), '') FROM "+t.String()+" x WHERE "+where), "\n")
	rows, _, err := c.rows(t)
	if err != nil {
		return err
	}
	slices.Sort(rows)
	if got := strings.Join(rows, "\n"); got != strings.Join(want, "\n") {
		return fmt.Errorf("%d rows, want %d: %.300s", len(rows), len(want), got)
	}
	return nil
}

// TestSelector: a cache keeps the rows of its selector while rows enter and leave it, with large values that are not in the
// stream and rows too large for it; resyncs find nothing and prove it; a selector that changes brings
// and takes rows, however many; indexes answer as scans do.
func TestSelector(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "public.orders", "public.other")
	orders := table(t, "public.orders")
	f.db.Exec(`CREATE TABLE orders (id int PRIMARY KEY, state text, total numeric(12,2), big text); ALTER TABLE orders ALTER big SET STORAGE EXTERNAL;
		INSERT INTO orders SELECT i, (ARRAY['new','paid','sent',NULL])[i % 4 + 1], i * 1.25, repeat('x', 3000) FROM generate_series(1, 400) i;
		CREATE TABLE other (id int PRIMARY KEY); INSERT INTO other VALUES (1)`)
	f.source()
	f.more.sidecar = `tables: [{table: public.orders, selector: "state=in.(new,paid)&total=lt.450", indexes: [state, [state, total], missing]}, {table: public.other, selector: "idd=eq.1"}]`
	const where = "state IN ('new', 'paid') AND total < 450"
	s := f.sidecar()
	f.eventually("the first list", func() error { return s.keeps(orders, where) })
	for _, sql := range []string{
		`UPDATE orders SET state = 'sent' WHERE id = 4`,                      // leaves
		`UPDATE orders SET state = 'new' WHERE id = 3`,                       // enters, with a large value that did not change
		`UPDATE orders SET total = total + 1`,                                // some leave; of the others the large value is not in the stream
		`UPDATE orders SET big = repeat('y', 3000000) WHERE id IN (5, 6, 7)`, // too large for a message, two of them
		`UPDATE orders SET id = id + 1000 WHERE id IN (8, 10, 11)`,
		`UPDATE orders SET id = 2000, state = 'paid' WHERE id = 1010`,
		`DELETE FROM orders WHERE id IN (12, 14)`,
		`BEGIN; UPDATE orders SET state = NULL; UPDATE orders SET state = 'paid' WHERE id % 3 = 0; COMMIT`,
		`ALTER TABLE orders ADD COLUMN more int DEFAULT 7; UPDATE orders SET state = 'new' WHERE id % 5 = 0`,
		`INSERT INTO orders SELECT i, 'new', 1, 'b' FROM generate_series(5000, 5100) i`,
	} {
		f.db.Exec(sql)
		f.eventually(sql, func() error { return s.keeps(orders, where) })
	}
	s.proves(orders)
	compareSearches(t, s, orders)
	tables, err := s.tables()
	if err != nil {
		t.Fatal(err)
	}
	if other := tables[table(t, "public.other")]; other.Ready || !strings.Contains(other.Error, "did you mean id?") {
		t.Errorf("a selector of no column: %+v", other)
	}
	body, err := s.ask("GET", "/v1/tables")
	if err != nil || !strings.Contains(string(body), `no column \"missing\"`) || !strings.Contains(string(body), `"selector":"state=in.`) {
		t.Errorf("tables: %s, %v", body, err)
	}

	s.member.stop()
	f.more.sidecar = "tables: [{table: public.orders, selector: \"id=gte.5095\"}]\n  resync: {max_prune: 0.01}"
	f.db.Exec("UPDATE orders SET total = 2 WHERE id = 5099; DELETE FROM orders WHERE id = 5100")
	s = f.sidecar()
	f.eventually("another selector", func() error { return s.keeps(orders, "id >= 5095") })
	s.proves(orders)
	s.member.stop()
	f.more.sidecar = ""
	s = f.sidecar()
	f.eventually("no selector", func() error { return s.keeps(orders, "true") })
	s.proves(orders)
	f.converges(s)
}

// proves runs comparisons of both modes that find nothing.
func (c *cache) proves(t syncd.Table) {
	c.f.t.Helper()
	for _, mode := range []string{"full", "digest"} {
		c.f.eventually(mode+" resync of a table with a selector", func() error {
			r := &resync.Report{}
			err := c.post(tablePath(t)+"/resync?mode="+mode, r)
			if err == nil && (!r.Equal() || !r.Complete) {
				c.f.t.Errorf("a %s resync after the cache has settled found %+v", mode, r)
			}
			return err
		})
	}
}

func (c *cache) post(path string, into any) error {
	body, err := c.ask(http.MethodPost, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// compareSearches asks for rows by filters and compares with what Postgres gives for the same in SQL.
func compareSearches(t *testing.T, c *cache, table syncd.Table) {
	t.Helper()
	for filter, where := range map[string]string{
		"state=eq.new":                         "state = 'new'",
		"state=in.(new,paid)&total=gt.100":     "state IN ('new', 'paid') AND total > 100",
		"state=eq.paid&total=gte.2&total=lt.9": "state = 'paid' AND total >= 2 AND total < 9",
		"id=gt.300":                            "id > 300",
		"state=eq.sent":                        "false",
		"more=eq.7&state=not.eq.paid":          "more = 7 AND state <> 'paid'",
	} {
		want := c.f.db.Text("SELECT coalesce(string_agg(id::text, ' ' ORDER BY id), '') FROM " + table.String() + " WHERE state IN ('new', 'paid') AND total < 450 AND " + where)
		var ids []int
		for next := ""; ; {
			var page struct {
				Items    []struct{ ID int }
				Continue string
			}
			if err := c.get(tablePath(table)+"/rows?limit=17&select=id&"+filter+next, &page); err != nil {
				t.Fatal(err)
			}
			for _, item := range page.Items {
				ids = append(ids, item.ID)
			}
			if page.Continue == "" {
				break
			}
			next = "&continue=" + page.Continue
		}
		slices.Sort(ids)
		if got := strings.Trim(fmt.Sprint(ids), "[]"); got != want {
			t.Errorf("%s: %s, want %s", filter, got, want)
		}
	}
}
