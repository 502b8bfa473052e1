package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/harness"
)

// filters are conditions as HTTP takes them, and as SQL does.
var filters = []struct{ query, where string }{
	{"", "true"},
	{"state=eq.open", "state = 'open'"},
	{"state=neq.open", "state <> 'open'"},
	{"state=is.null", "state IS NULL"},
	{"state=not.is.null", "state IS NOT NULL"},
	{`state=in.(open,"a, b","")`, "state IN ('open', 'a, b', '')"},
	{"total=gt.10", "total > 10"},
	{"total=gte.10.50&total=lt.99", "total >= 10.5 AND total < 99"},
	{"total=eq.10.5", "total = 10.5"},
	{"state=eq.open&total=lte.20", "state = 'open' AND total <= 20"},
	{"urgent=is.true", "urgent"},
	{"urgent=not.is.true", "urgent IS NOT TRUE"},
	{"placed=gte.2026-01-05T00:00:00Z&placed=lt.2026-01-07T00:00:00Z", "placed >= '2026-01-05Z' AND placed < '2026-01-07Z'"},
	{"id=in.(3,5,500)", "id IN (3, 5, 500)"},
	{"id=gt.190", "id > 190"},
	{"ref=eq.00000000-0000-0000-0000-000000000007", "ref = '00000000-0000-0000-0000-000000000007'"},
	{"tags=eq.%5B%22a%22%2C%22b%22%5D", "tags = '{a,b}'"},
	{"state=eq.nothing", "false"},
}

// TestFiltersOfEverySink: over HTTP filters find what they find in Postgres, whatever the sink is and whether it has indexes.
func TestFiltersOfEverySink(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"memory", "sqlite", "redis", "redis hash", "postgres"} {
		for _, indexed := range []bool{false, true} {
			if indexed && kind != "memory" && kind != "sqlite" {
				continue // they make none: docs/sinks.md
			}
			t.Run(fmt.Sprintf("%s, indexes %v", kind, indexed), func(t *testing.T) {
				t.Parallel()
				filtersOf(t, kind, indexed)
			})
		}
	}
}

func filtersOf(t *testing.T, kind string, indexed bool) {
	db := harness.Database(t)
	c := newConfig(t, db)
	db.Exec(`CREATE TABLE orders (id bigint PRIMARY KEY, state text, total numeric(10,2), urgent bool, placed timestamptz, ref uuid, tags text[]);
		INSERT INTO orders SELECT i, (ARRAY['open', 'paid', 'a, b', '', NULL])[1 + i % 5], NULLIF(i % 13, 0) * 3.5, (ARRAY[true, false, NULL])[1 + i % 3],
			timestamptz '2026-01-01Z' + i * interval '1 hour', lpad(i::text, 32, '0')::uuid, CASE WHEN i % 4 = 0 THEN '{a,b}'::text[] ELSE '{c}' END FROM generate_series(1, 200) i`)
	c.Source.Tables = []config.SourceTable{{Table: "public.orders"}}
	if indexed {
		c.Sidecar.Tables = []config.SidecarTable{{Table: "public.orders", Indexes: []config.Index{{"state", "total"}, {"total"}, {"placed"}, {"urgent"}, {"ref"}}}}
	}
	s := config.Sink{Kind: strings.Fields(kind)[0]}
	switch kind {
	case "sqlite":
		s.SQLite = &config.SQLiteSink{Path: filepath.Join(t.TempDir(), "cache.db")}
	case "redis", "redis hash":
		s = redisSink(redisServer(t).URL())
		_, s.Redis.Value, _ = strings.Cut(kind, " ")
	case "postgres":
		s.Postgres = &config.PostgresSink{URL: config.NewSecret(harness.Database(t).URL)}
	}
	c.Sidecar.Sinks = []config.Sink{s}
	c.Defaults()
	r := startRunning(t, c, db, nil)
	r.ready()
	for range 2 {
		for _, f := range filters {
			want := db.Text("SELECT coalesce(string_agg(id::text, ' ' ORDER BY id), '') FROM orders WHERE " + f.where)
			if got := r.ids("/v1/tables/public.orders/rows", f.query); got != want {
				t.Errorf("%s gives the rows %s, Postgres %s", f.query, got, want)
			}
		}
		// What is not there is the same for all, and what is wrong is said.
		for query, says := range map[string]string{
			"state=like.o*": "eq, neq, gt, gte, lt, lte, in, is", "stat=eq.x": "did you mean state?", "tags=gt.x": "tags", "total=eq.x": "total", "select=id,nope": "nope",
		} {
			if code, body, _ := r.get("/v1/tables/public.orders/rows?" + query); code != http.StatusBadRequest || !strings.Contains(body, says) {
				t.Errorf("%s gives %d %s", query, code, body)
			}
		}
		r.want("/v1/tables/public.orders/rows?key=in.(3,1000)&select=id", 200, "")
		db.Exec("UPDATE orders SET state = 'open', total = total + 1 WHERE id % 3 = 0; DELETE FROM orders WHERE id % 7 = 0; INSERT INTO orders VALUES (500, 'a, b', 10.50) ON CONFLICT DO NOTHING")
		r.want("/v1/tables/public.orders/rows/500?timeout=30s&min_version="+db.LSN().String(), 200, "")
	}
	r.ends()
}

// ids reads all pages of a filtered list, and gives the rows' ids in order.
func (r *running) ids(path, query string) string {
	r.t.Helper()
	params, err := url.ParseQuery(query)
	if err != nil {
		r.t.Fatal(err)
	}
	params.Set("limit", "7")
	var ids []int
	for {
		code, body, _ := r.get(path + "?" + params.Encode())
		var page struct {
			Items    []struct{ ID int }
			Continue string
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil || code != http.StatusOK {
			r.t.Fatalf("GET %s?%s: %d %s", path, params.Encode(), code, body)
		}
		for _, row := range page.Items {
			ids = append(ids, row.ID)
		}
		if page.Continue == "" {
			slices.Sort(ids)
			return strings.Trim(fmt.Sprint(ids), "[]")
		}
		params.Set("continue", page.Continue)
	}
}
