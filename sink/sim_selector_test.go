package sink_test

import (
	"fmt"
	"strings"

	"github.com/syncd-io/syncd"
)

// This file gives a simulation's second table a selector, which may change. What its readers see is the table less the rows
// that the selector leaves out.

// selectorForms are the selectors that are tried, with their meaning.
var selectorForms = []struct {
	text string
	hold func(value) bool
}{
	{"", func(value) bool { return true }},
	{"a=not.in." + multiples(3) + "&x=not.in." + multiples(4), func(v value) bool { return v.a%3 != 0 && v.x%4 != 0 }},
	{"x=in." + multiples(2), func(v value) bool { return v.x%2 == 0 }},
	{"a=in." + multiples(2), func(v value) bool { return v.a%2 == 0 }},
}

func multiples(n int) string {
	var all []string
	for i := 0; i < 3000; i += n {
		all = append(all, fmt.Sprint(i))
	}
	return "(" + strings.Join(all, ",") + ")"
}

// keep gives what a selector leaves of a row.
func keep(selector string, v value) value {
	for _, f := range selectorForms {
		if f.text == selector && v.there && v.a < garbage && v.x < garbage && !f.hold(v) {
			return value{}
		}
	}
	return v
}

// selectorOf gives a table's selector of now.
func (u *upstream) selectorOf(table int) string {
	if table == 0 {
		return ""
	}
	return selectorForms[u.selector].text
}

func (u *upstream) info(table int) syncd.TableInfo {
	info := tableInfo(table)
	info.Selector = u.selectorOf(table)
	return info
}

// reselect changes the selector.
func (s *simulation) reselect() {
	s.selector = s.roll(len(selectorForms))
	if err := s.cache.SetTables([]syncd.TableInfo{s.info(0), s.info(1)}); err != nil {
		s.bad("set tables: %v", err)
	}
	s.note("t1 keeps the rows of selector %d%s", s.selector, s.dump())
}
