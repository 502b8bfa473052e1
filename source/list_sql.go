package source

import (
	"fmt"
	"strings"

	"github.com/syncd-io/syncd"
)

// statement is a query with parameters in the text format, each of a declared type.
type statement struct {
	sql    string
	params [][]byte
	types  []uint32
}

// param adds a parameter and gives its name.
func (s *statement) param(value []byte, oid uint32) string {
	s.params, s.types = append(s.params, value), append(s.types, oid)
	return fmt.Sprintf("$%d", len(s.params))
}

// keyColumn is a column of the key as statements need it.
type keyColumn struct {
	columnFacts
	order keyOrder
}

func (t *rosterTable) keyColumns() []keyColumn {
	cols := make([]keyColumn, len(t.verdict.Key))
	for i, name := range t.verdict.Key {
		for _, c := range t.facts.Columns {
			if c.Name == name {
				cols[i].columnFacts = c
			}
		}
		if i < len(t.verdict.Order) {
			cols[i].order = t.verdict.Order[i]
		}
	}
	return cols
}

// plain says whether the column's operators are those that any session finds under their usual names.
func (c *keyColumn) plain() bool {
	o := &c.order
	return o.Schema == "" || o.Schema == "pg_catalog" && o.Less == "<" && o.Greater == ">" && o.Equal == "=" && o.Collate == ""
}

// name gives the column, with the collation that its index has.
func (c *keyColumn) name() string {
	if c.order.Collate == "" {
		return syncd.QuoteIdent(c.Name)
	}
	return syncd.QuoteIdent(c.Name) + " COLLATE " + c.order.Collate
}

func (c *keyColumn) operator(name string) string {
	if c.plain() {
		return name
	}
	op := map[string]string{"<": c.order.Less, "=": c.order.Equal, ">=": c.order.AtLeast, ">": c.order.Greater}[name]
	return "OPERATOR(" + syncd.QuoteIdent(c.order.Schema) + "." + op + ")"
}

func (c *keyColumn) compare(operator, param string) string {
	return c.name() + " " + c.operator(operator) + " " + param
}

// source gives the table as FROM names it: its own rows alone where others inherit from it, and all where it has partitions.
func (t *rosterTable) source() string {
	if t.facts.Kind == "p" {
		return t.config.Table.SQL()
	}
	return "ONLY " + t.config.Table.SQL()
}

// lockSQL is the lock under which a page is read. It is taken before the snapshot: TRUNCATE and the ALTERs that write a table
// anew are not MVCC-safe, and a snapshot older than they are reads an empty table.
func (t *rosterTable) lockSQL() string {
	return "LOCK TABLE " + t.source() + " IN ACCESS SHARE MODE"
}

// selectSQL selects the published columns of the published rows; and behind them once more, as the server prints them, those
// that only the server can print.
func (t *rosterTable) selectSQL() string {
	sql := "SELECT " + quoteList(columnNames(t.verdict.Columns))
	for _, i := range t.shape.printed {
		sql += fmt.Sprintf(", pg_catalog.to_json(%s) AS %s", syncd.QuoteIdent(t.verdict.Columns[i].Name), syncd.QuoteIdent(fmt.Sprintf("syncd json %d", i)))
	}
	sql += " FROM " + t.source()
	if f := t.facts.Published; f != nil && f.Filter != "" {
		return sql + " WHERE (" + f.Filter + ")"
	}
	return sql + " WHERE true"
}

// page makes the statement for the rows behind a key, in the order of the key's index.
func (t *rosterTable) page(started bool, after syncd.Key, limit int) (statement, error) {
	var s statement
	cols := t.keyColumns()
	s.sql = t.selectSQL()
	if started {
		values := after.Values()
		if len(values) != len(cols) {
			return s, fmt.Errorf("the key %s to go on behind has %d values, the table's has %d", after, len(values), len(cols))
		}
		params := make([]string, len(cols))
		for i, v := range values {
			params[i] = s.param([]byte(v), cols[i].Type)
		}
		s.sql += " AND " + behindKey(cols, params)
	}
	order := make([]string, len(cols))
	for i := range cols {
		order[i] = cols[i].name()
		if !cols[i].plain() {
			order[i] += " USING " + cols[i].operator("<")
		}
	}
	s.sql += fmt.Sprintf(" ORDER BY %s LIMIT %d", strings.Join(order, ", "), limit)
	return s, nil
}

// behindKey is the condition for rows behind a key: a comparison of rows where the operators have their usual names, which
// the server does with one scan of the index; else spelled out.
func behindKey(cols []keyColumn, params []string) string {
	plain := true
	names := make([]string, len(cols))
	for i := range cols {
		plain = plain && cols[i].plain()
		names[i] = cols[i].name()
	}
	last := len(cols) - 1
	if plain {
		return fmt.Sprintf("(%s) > (%s)", strings.Join(names, ", "), strings.Join(params, ", "))
	}
	cond := cols[last].compare(">", params[last])
	for i := last - 1; i >= 0; i-- {
		cond = fmt.Sprintf("(%s OR %s AND %s)", cols[i].compare(">", params[i]), cols[i].compare("=", params[i]), cond)
	}
	if last > 0 {
		cond = cols[0].compare(">=", params[0]) + " AND " + cond
	}
	return cond
}

// get makes the statement for the rows under some keys, each of which has as many values as the key has columns.
func (t *rosterTable) get(keys []syncd.Key) statement {
	var s statement
	cols := t.keyColumns()
	for _, c := range cols {
		if c.Array == 0 {
			return t.getEach(cols, keys)
		}
	}
	names, args, conds := make([]string, len(cols)), make([]string, len(cols)), make([]string, len(cols))
	for i := range cols {
		list := []byte{'{'}
		for _, k := range keys {
			list = appendElement(list, k.Values()[i])
		}
		names[i] = fmt.Sprintf("k%d", i)
		args[i] = s.param(append(list, '}'), cols[i].Array)
		conds[i] = "t." + cols[i].compare("=", "k."+names[i])
	}
	s.sql = fmt.Sprintf("SELECT t.* FROM unnest(%s) AS k (%s) JOIN (%s) AS t ON %s",
		strings.Join(args, ", "), strings.Join(names, ", "), t.selectSQL(), strings.Join(conds, " AND "))
	return s
}

// getEach names each key by itself, for types of which there are no arrays.
func (t *rosterTable) getEach(cols []keyColumn, keys []syncd.Key) statement {
	var s statement
	any := []string{"false"}
	for _, k := range keys {
		conds := make([]string, len(cols))
		for i, v := range k.Values() {
			conds[i] = cols[i].compare("=", s.param([]byte(v), cols[i].Type))
		}
		any = append(any, strings.Join(conds, " AND "))
	}
	s.sql = t.selectSQL() + " AND (" + strings.Join(any, " OR ") + ")"
	return s
}

// appendElement appends a value to the text of an array, which the caller begins and ends with a brace.
func appendElement(b []byte, v string) []byte {
	if len(b) > 1 {
		b = append(b, ',')
	}
	b = append(b, '"')
	for i := range len(v) {
		if v[i] == '"' || v[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, v[i])
	}
	return append(b, '"')
}
