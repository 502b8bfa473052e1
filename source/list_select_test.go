package source

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
)

// TestSelectorsOfOneList: lists, digests and gets by several selectors are of the same rows as the oracle's, filtered, and many
// who list together by different ones share the reading of each page.
func TestSelectorsOfOneList(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.kept (id int PRIMARY KEY, state text, price numeric(30,4), at timestamptz);
		INSERT INTO public.kept SELECT i, (ARRAY['new','paid',NULL])[i % 3 + 1], (i % 7) * 1.5 - 3, '2025-01-01 00:00:00+00'::timestamptz + i * interval '1 hour' FROM generate_series(1, 1000) i`)
	table := syncd.Table{Schema: "public", Name: "kept"}
	w := NewWatch(configFor(t, db, "public.kept"), new(Memory))
	read := &counting{Observer: w.Config.Observer}
	w.Config.Observer = read
	l := run(t, w).lister()
	l.PageRows = 100
	wheres := map[string]string{ // what a selector means, in SQL
		"":                                    "true",
		"state=eq.new":                        "state = 'new'",
		"state=not.in.(new)":                  "NOT state IN ('new')",
		"price=gte.-1.50000&price=lt.4.5":     "price >= -1.5 AND price < 4.5",
		"at=gt.2025-01-11T00:00:00%2B01:00":   "at > '2025-01-11T00:00:00+01:00'",
		"state=is.null":                       "state IS NULL",
		"id=in.(7,8,5000)&state=neq.whatever": "id IN (7, 8, 5000) AND state <> 'whatever'",
	}
	all := harness.Oracle(t, db, table)
	var together sync.WaitGroup
	for selector, where := range wheres {
		want := map[syncd.Key]string{}
		for id := range strings.SplitSeq(db.Text("SELECT coalesce(string_agg(id::text, ','), '') FROM public.kept WHERE "+where), ",") {
			if k := syncd.MakeKey(id); id != "" {
				want[k] = all[k]
			}
		}
		together.Go(func() { compareSelected(t, l, table, selector, want) })
	}
	together.Wait()
	if n, once := read.total(), 1000/100+1; n > 4*once+len(wheres)*4 {
		t.Errorf("%d lists read %d pages", len(wheres), n)
	}
	for _, bad := range []string{"stat=eq.new", "id=eq.x", "state=like.x"} {
		if _, err := l.List(t.Context(), syncd.ListRequest{Table: table, Selector: bad}); err == nil || !strings.Contains(err.Error(), "selector") {
			t.Errorf("list by %s: %v", bad, err)
		}
		if _, err := l.Digest(t.Context(), syncd.DigestRequest{Table: table, Selector: bad}); err == nil || !strings.Contains(err.Error(), "selector") {
			t.Errorf("digest by %s: %v", bad, err)
		}
	}
}

func compareSelected(t *testing.T, l *Lister, table syncd.Table, selector string, want map[syncd.Key]string) {
	got, sent := map[syncd.Key]string{}, syncd.Totals{}
	for r := (syncd.ListRequest{Table: table, Selector: selector}); ; {
		p, err := l.List(t.Context(), r)
		if err != nil {
			t.Errorf("list by %q: %v", selector, err)
			return
		}
		for _, row := range p.Rows {
			got[row.Key] = string(row.JSON)
			sent.Add(row.Key, row.JSON)
		}
		if p.Selector != selector || p.Sent != sent {
			t.Errorf("list by %q: it says %q and %+v, sent were %+v", selector, p.Selector, p.Sent, sent)
		}
		if p.Last {
			break
		}
		r.Started, r.After, r.Sent = true, p.After, p.Sent
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("list by %q: %d rows, want %d", selector, len(got), len(want))
	}
	d, err := l.Digest(t.Context(), syncd.DigestRequest{Table: table, Bits: 6, Selector: selector})
	if err != nil || d.Selector != selector || syncd.Sum(d.Buckets) != sent {
		t.Errorf("digest by %q: %v", selector, err)
	}
	keys := []syncd.Key{syncd.MakeKey("7"), syncd.MakeKey("8"), syncd.MakeKey("5000")}
	p, err := l.Get(t.Context(), syncd.GetRequest{Table: table, Keys: keys, Selector: selector})
	if err != nil || len(p.Asked) != len(keys) || p.Selector != selector {
		t.Errorf("get by %q: %+v, %v", selector, p, err)
		return
	}
	there := 0
	for _, k := range keys {
		if _, ok := want[k]; ok {
			there++
		}
	}
	for _, row := range p.Rows {
		if want[row.Key] != string(row.JSON) {
			t.Errorf("get by %q: %s", selector, row.JSON)
		}
	}
	if len(p.Rows) != there {
		t.Errorf("get by %q: %d rows, want %d", selector, len(p.Rows), there)
	}
}

// filterValues are values of a type, as text, each a value of the column and of conditions.
var filterValues = map[string][]string{
	"integer":                     {"-2147483648", "-1", "0", "7", "10", "2147483647"},
	"bigint":                      {"-9223372036854775808", "99", "100", "9223372036854775807"},
	"numeric":                     {"0", "0.10", "-0.1", "1e-40", "123456789012345678901234567890.123", "123456789012345678901234567890.124", "-1e50", "NaN", "10.0"},
	"real":                        {"0.1", "-0", "1e-30", "3.4e38", "Infinity", "-Infinity", "NaN", "16777216", "1.1754944e-38"},
	"double precision":            {"0.1", "0", "1e-300", "1.7976931348623157e308", "Infinity", "-Infinity", "NaN", "0.30000000000000004", "5e-324"},
	"text":                        {"", "a", "A", "ab", "b", "\u00e9", "z", "a b", "\U0001F600", "\uffff", `a"b`, `back\\slash`},
	"character(4)":                {"a", "ab", "a  ", "abcd", ""},
	"character varying(9)":        {"x", "x ", "xy"},
	"boolean":                     {"true", "false"},
	"date":                        {"2025-02-28", "2024-02-29", "0044-03-15 BC", "0001-01-01", "4713-01-01 BC", "infinity", "-infinity", "12025-01-01", "1999-12-31"},
	"timestamp without time zone": {"2025-02-28 10:00:00", "2025-02-28T10:00:00.000001", "0001-12-31 23:59:59.999999 BC", "infinity", "-infinity", "294276-12-31 23:59:59.999999", "1969-12-31 23:59:59"},
	"timestamp with time zone":    {"2025-02-28 10:00:00+00", "2025-02-28T11:00:00+01:00", "2025-02-28 04:30:00-05:30", "2025-02-28 10:00:00.5Z", "0044-03-15 00:00:00+00 BC", "infinity"},
	"uuid":                        {"6f1ed002-ab59-4d3b-9d5c-0d5f2a1c9e11", "6F1ED002AB594D3B9D5C0D5F2A1C9E11", "{00000000-0000-0000-0000-000000000000}", "ffffffff-ffff-ffff-ffff-ffffffffffff"},
	"oid":                         {"0", "4294967295", "99", "100"},
	"name":                        {"a", "b", "B"},
}

// TestFiltersCompareAsPostgres asks Postgres and filters for each pair of values and each operator. Text is compared by bytes.
func TestFiltersCompareAsPostgres(t *testing.T) {
	t.Parallel()
	conn := harness.Database(t).Conn()
	if _, err := conn.Exec(t.Context(), "SET extra_float_digits = 1; SET TimeZone = 'UTC'; SET DateStyle = 'ISO'"); err != nil {
		t.Fatal(err)
	}
	for typ, values := range filterValues {
		values = append(values, "null")
		info := syncd.TableInfo{Table: syncd.Table{Schema: "public", Name: "t"}, Columns: []string{"v"}, Types: []string{typ}}
		collate := ""
		if strings.HasPrefix(typ, "text") || strings.HasPrefix(typ, "char") || typ == "name" {
			collate = ` COLLATE "C"`
		}
		ops := map[string]string{"eq": "=", "neq": "<>", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
		var sql []string
		var names []string
		for op := range ops {
			names = append(names, op)
		}
		for _, op := range names {
			sql = append(sql, fmt.Sprintf("coalesce((a.v::%[1]s%[2]s %[3]s b.v::%[1]s)::text, 'null'), coalesce((NOT (a.v::%[1]s%[2]s %[3]s b.v::%[1]s))::text, 'null')", typ, collate, ops[op]))
		}
		rows := texts(t, conn, `SELECT row_to_json(r)::text, b.n::text, `+strings.Join(sql, ", ")+`
			FROM unnest($1::text[]) WITH ORDINALITY AS a (v, n), unnest($1::text[]) WITH ORDINALITY AS b (v, n), LATERAL (SELECT a.v::`+typ+` AS v) r
			WHERE b.v IS NOT NULL`, nullable(values))
		if len(rows) != len(values)*(len(values)-1) {
			t.Fatalf("%s: %d rows", typ, len(rows))
		}
		for _, row := range rows {
			var n int
			if _, err := fmt.Sscan(row[1], &n); err != nil {
				t.Fatal(err)
			}
			for i, op := range names {
				for not, prefix := range []string{"", "not."} {
					condition := prefix + op + "." + values[n-1]
					f, err := syncd.ParseFilter(info, map[string][]string{"v": {condition}})
					if err != nil {
						t.Errorf("%s %s: %v", typ, condition, err)
						continue
					}
					if got, want := f.Match([]byte(row[0])), row[2+2*i+not] == "true"; got != want {
						t.Errorf("%s %s of %s: %v, Postgres says %s", typ, condition, row[0], got, row[2+2*i+not])
					}
				}
			}
		}
	}
}

func texts(t *testing.T, conn *pgx.Conn, sql string, args ...any) (all [][]string) {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	all, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) ([]string, error) {
		values, err := r.Values()
		row := make([]string, len(values))
		for i, v := range values {
			row[i] = v.(string)
		}
		return row, err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return all
}

// nullable gives the values with NULL for null.
func nullable(values []string) []*string {
	all := make([]*string, len(values))
	for i := range values {
		if values[i] != "null" {
			all[i] = &values[i]
		}
	}
	return all
}
