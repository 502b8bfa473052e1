package syncd_test

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/syncd-io/syncd"
)

// indexValues are JSON values of columns, and what conditions say of them.
var indexValues = map[string][]string{
	"id":    {"1", "2", "-3", "10", "99", "100", "null"},
	"price": {"0.5", "0.50", "-0.55", "1e3", "123456789012345678901234567890", `"NaN"`, `"Infinity"`, "null"},
	"name":  {`"a"`, `"ab"`, `"b"`, `""`, "null", `"` + strings.Repeat("x", 140) + `"`, `"` + strings.Repeat("x", 141) + `"`, `"\u00e9"`},
	"ok":    {"true", "false", "null"},
	"born":  {`"2025-01-01"`, `"0044-03-15 BC"`, `"infinity"`, "null"},
	"tags":  {`["a"]`, `[]`, "null"},
	"ratio": {"1.5", "-0", "0", "-7e-9", `"NaN"`, "null"},
}

var indexColumns = []string{"born", "id", "name", "ok", "price", "ratio", "tags"}

// drawCondition makes a condition on a column, of values that it may have.
func drawCondition(t *rapid.T, column string) string {
	value := func() string {
		v := rapid.SampledFrom(indexValues[column]).Filter(func(v string) bool { return v != "null" }).Draw(t, "value")
		if u := strings.Trim(v, `"`); strings.HasPrefix(v, `"`) {
			return strings.ReplaceAll(u, `\u00e9`, "é")
		}
		return v
	}
	ops := []string{"eq", "neq", "in", "null", "not_null"}
	if column != "tags" {
		ops = append(ops, "gt", "gte", "lt", "lte")
	}
	if column == "ok" {
		ops = append(ops, "true", "false")
	}
	not := rapid.SampledFrom([]string{"", "", "not."}).Draw(t, "not")
	switch op := rapid.SampledFrom(ops).Draw(t, "operator"); op {
	case "null", "not_null", "true", "false":
		return not + "is." + op
	case "in":
		var all []string
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			all = append(all, `"`+strings.ReplaceAll(value(), `"`, `\"`)+`"`)
		}
		return not + "in.(" + strings.Join(all, ",") + ")"
	default:
		return not + op + "." + value()
	}
}

// TestIndexFindsWhatMatches: a row that a filter matches has its index key in one of the plan's ranges, the ranges ascend and
// don't overlap, and an exact range holds one key alone.
func TestIndexFindsWhatMatches(t *testing.T) {
	t.Parallel()
	used := 0
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.SliceOfNDistinct(rapid.SampledFrom(indexColumns), 1, 3, func(s string) string { return s }).Draw(t, "columns")
		x, err := syncd.NewIndex(filterInfo(), columns)
		if err != nil {
			t.Fatal(err)
		}
		values := url.Values{}
		for range rapid.IntRange(1, 3).Draw(t, "conditions") {
			c := rapid.SampledFrom(append(columns, indexColumns...)).Draw(t, "column")
			values.Add(c, drawCondition(t, c))
		}
		f, err := syncd.ParseFilter(filterInfo(), values)
		if err != nil {
			t.Fatal(err)
		}
		plan := x.Plan(f)
		for i := 1; i < len(plan.Ranges); i++ {
			if bytes.Compare(plan.Ranges[i-1].To, plan.Ranges[i].From) > 0 {
				t.Fatalf("%s by %s: ranges overlap: %q", f, columns, plan.Ranges)
			}
		}
		if plan.Rank == 0 {
			return
		}
		used++
		exact := make([][]byte, len(plan.Ranges))
		for range 40 {
			var fields []string
			for _, c := range indexColumns {
				fields = append(fields, fmt.Sprintf("%q:%s", c, rapid.SampledFrom(indexValues[c]).Draw(t, c)))
			}
			row := []byte("{" + strings.Join(fields, ",") + "}")
			key := x.AppendKey(nil, row)
			i := slices.IndexFunc(plan.Ranges, func(r syncd.KeyRange) bool {
				return bytes.Compare(r.From, key) <= 0 && bytes.Compare(key, r.To) < 0
			})
			if f.Match(row) && i < 0 {
				t.Fatalf("%s matches %s, and the index by %s does not find it: key %q, ranges %q", f, row, columns, key, plan.Ranges)
			}
			if i >= 0 && plan.Exact {
				if exact[i] != nil && !bytes.Equal(exact[i], key) {
					t.Fatalf("%s by %s: a range that is said to be exact holds %q and %q", f, columns, exact[i], key)
				}
				exact[i] = key
			}
		}
	})
	if used == 0 {
		t.Error("no filter was planned with an index")
	}
}

func TestIndexRefusesColumns(t *testing.T) {
	t.Parallel()
	if _, err := syncd.NewIndex(filterInfo(), []string{"id", "nmae"}); err == nil || !strings.Contains(err.Error(), "did you mean name?") {
		t.Errorf("a column that is not there: %v", err)
	}
}
