package syncd

import (
	"bytes"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Filter says which rows of a table are wanted, in the words of PostgREST: all of its conditions must hold. The zero Filter
// holds for every row. It is not changed after it was made, so goroutines may share it.
//
// A condition compares as Postgres does, with SQL's NULL: what is compared with NULL is neither true nor false, so neither
// eq nor not.eq finds it. Numbers are compared exactly and times as the moments they are. Text has the order of its bytes,
// whatever the column's collation. Of other types the text alone is compared, as the row's JSON has it, and only for equality.
type Filter struct {
	columns []filterColumn
}

type filterColumn struct {
	name       string
	kind       kind
	conditions []condition
}

// FilterOperators lists the operators that a filter may have, each of which may stand behind "not.".
const FilterOperators = "eq, neq, gt, gte, lt, lte, in, is"

// ParseFilter reads a filter on a table: by column the conditions on it, such as {"price": {"gt.10", "lte.20"},
// "state": {"in.(new,paid)"}}. That is the form of url.Values. Its errors name the column and what mends the condition.
func ParseFilter(info TableInfo, values map[string][]string) (Filter, error) {
	var f Filter
	for _, name := range slices.Sorted(maps.Keys(values)) {
		texts := values[name]
		if len(texts) == 0 {
			continue
		}
		i := slices.Index(info.Columns, name)
		if i < 0 {
			return Filter{}, noColumn(info, name)
		}
		c := filterColumn{name: name}
		typ := ""
		if i < len(info.Types) {
			typ = info.Types[i]
		}
		c.kind = kindOf(typ)
		for _, text := range texts {
			cond, err := parseCondition(c.kind, typ, text)
			if err != nil {
				return Filter{}, fmt.Errorf("filter %s=%s: %w", name, text, err)
			}
			c.conditions = append(c.conditions, cond)
		}
		slices.SortFunc(c.conditions, func(a, b condition) int { return strings.Compare(a.text, b.text) })
		c.conditions = slices.CompactFunc(c.conditions, func(a, b condition) bool { return a.text == b.text })
		f.columns = append(f.columns, c)
	}
	return f, nil
}

// ParseSelector reads a filter as one text, in the form of a URL's query: status=eq.active&price=gt.10.
func ParseSelector(info TableInfo, text string) (Filter, error) {
	values, err := url.ParseQuery(text)
	if err != nil {
		return Filter{}, fmt.Errorf("selector %q: %w; write it as in a URL, such as status=eq.active&price=gt.10, with %%26 for & and %%2B for +", text, err)
	}
	return ParseFilter(info, values)
}

// CheckSelector finds what is wrong with a selector whatever the table's columns are.
func CheckSelector(text string) error {
	values, err := url.ParseQuery(text)
	if err != nil {
		return fmt.Errorf("selector %q: %w; write it as in a URL, such as status=eq.active&price=gt.10, with %%26 for & and %%2B for +", text, err)
	}
	if len(values) == 0 {
		return fmt.Errorf("selector %q has no condition: write it as in a URL, such as status=eq.active&price=gt.10", text)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, text := range values[name] {
			if err := checkOperator(text); err != nil {
				return fmt.Errorf("selector %s=%s: %w", name, text, err)
			}
		}
	}
	return nil
}

func noColumn(info TableInfo, name string) error {
	near := ""
	if n := Nearest(name, info.Columns); n != "" {
		near = fmt.Sprintf("; did you mean %s?", n)
	}
	columns := info.Columns
	if len(columns) > 30 {
		columns = append(slices.Clone(columns[:30]), "…")
	}
	return fmt.Errorf("table %s has no column %q%s: it has %s", info.Table, name, near, strings.Join(columns, ", "))
}

// IsZero says whether the filter holds for every row.
func (f Filter) IsZero() bool { return len(f.columns) == 0 }

// Columns names the columns that the filter looks at.
func (f Filter) Columns() []string {
	names := make([]string, len(f.columns))
	for i := range f.columns {
		names[i] = f.columns[i].name
	}
	return names
}

// String gives the filter in the form that ParseSelector reads. Filters that were written with other orders of the same
// conditions have one String.
func (f Filter) String() string {
	var b strings.Builder
	for _, c := range f.columns {
		for _, cond := range c.conditions {
			if b.Len() > 0 {
				b.WriteByte('&')
			}
			b.WriteString(url.QueryEscape(c.name))
			b.WriteByte('=')
			b.WriteString(url.QueryEscape(cond.text))
		}
	}
	return b.String()
}

// Match says whether the filter holds for a row, given as JSON in the form of row_to_json. It reads the row only as far as
// it has to. A column that the row lacks is NULL; a row that is no JSON object matches nothing but the zero Filter.
func (f Filter) Match(row []byte) bool {
	if len(f.columns) == 0 {
		return true
	}
	s := fieldScanner{row: row}
	missing := len(f.columns)
	var found [8]bool
	seen := found[:min(missing, len(found))]
	if missing > len(found) {
		seen = make([]bool, missing)
	}
	for missing > 0 && s.next() {
		i := f.find(s.name)
		if i < 0 || seen[i] {
			continue
		}
		seen[i] = true
		missing--
		if !f.columns[i].hold(s.value) {
			return false
		}
	}
	if s.malformed {
		return false
	}
	for i := range seen {
		if !seen[i] && !f.columns[i].hold(jsonNull) {
			return false
		}
	}
	return true
}

// Rejects says whether the columns that a row has are enough to tell that the filter does not hold, whatever those that it
// lacks are. Of a row with all columns it says what Match denies.
func (f Filter) Rejects(row []byte) bool {
	s := fieldScanner{row: row}
	for len(f.columns) > 0 && s.next() {
		if i := f.find(s.name); i >= 0 && !f.columns[i].hold(s.value) {
			return true
		}
	}
	return s.malformed
}

var jsonNull = []byte("null")

// find gives the place of the column whose name stands in a row's JSON as name.
func (f *Filter) find(name []byte) int {
	for i := range f.columns {
		if isName(name, f.columns[i].name) {
			return i
		}
	}
	return -1
}

func (c *filterColumn) hold(value []byte) bool {
	var scratch [48]byte
	v, state := c.kind.value(scratch[:0], value)
	for i := range c.conditions {
		if !c.conditions[i].holds(v, state) {
			return false
		}
	}
	return true
}

type operator uint8

const (
	opEq operator = iota
	opGt
	opGte
	opLt
	opLte
	opIn
	opNull
	opIs // is true, is false: equality that NULL does not have
)

// condition is one comparison. Values are in the comparable form of the column's kind.
type condition struct {
	op   operator
	not  bool
	one  []byte   // of all but in and null
	all  [][]byte // of in: ascending
	text string   // as it was written
}

// holds says whether the condition is true; what is neither true nor false is not.
func (c *condition) holds(v []byte, state valueState) bool {
	if c.op == opNull {
		return (state == isNull) != c.not
	}
	if c.op == opIs {
		return (state == isValue && bytes.Equal(v, c.one)) != c.not
	}
	if state != isValue {
		return c.op == opIn && len(c.all) == 0 && c.not // nothing is in (), NULL neither
	}
	var yes bool
	switch c.op {
	case opEq:
		yes = bytes.Equal(v, c.one)
	case opGt:
		yes = bytes.Compare(v, c.one) > 0
	case opGte:
		yes = bytes.Compare(v, c.one) >= 0
	case opLt:
		yes = bytes.Compare(v, c.one) < 0
	case opLte:
		yes = bytes.Compare(v, c.one) <= 0
	case opIn:
		yes = c.among(v)
	}
	return yes != c.not
}

// among says whether v is one of an in's values. (slices.BinarySearchFunc would have v escape, for each row.)
func (c *condition) among(v []byte) bool {
	lo, hi := 0, len(c.all)
	for lo < hi {
		if mid := (lo + hi) / 2; bytes.Compare(c.all[mid], v) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(c.all) && bytes.Equal(c.all[lo], v)
}
