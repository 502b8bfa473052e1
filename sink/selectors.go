package sink

import (
	"fmt"

	"github.com/syncd-io/syncd"
)

// selectors are the tables' selectors, read.
type selectors map[syncd.Table]selector

type selector struct {
	text   string
	schema uint64
	filter syncd.Filter
}

// of gives a table's selector. SetTables takes only tables whose selectors can be read.
func (s *selectors) of(info *syncd.TableInfo) (syncd.Filter, error) {
	if info.Selector == "" {
		return syncd.Filter{}, nil
	}
	if have, ok := (*s)[info.Table]; ok && have.text == info.Selector && have.schema == info.Schema {
		return have.filter, nil
	}
	f, err := syncd.ParseSelector(*info, info.Selector)
	if err != nil {
		return f, fmt.Errorf("the selector of %s: %w", info.Table, err)
	}
	if *s == nil {
		*s = selectors{}
	}
	(*s)[info.Table] = selector{info.Selector, info.Schema, f}
	return f, nil
}

// leaves says whether an upsert brings a row that the table's selector leaves out. To the cache that is a delete: a tombstone
// with the change's version stands in the place of the row, and keeps older states out as that of a delete does. Where the
// values that did not change are missing, the others may be enough to tell; if they are not, the row is put together, or
// fetched by the selector.
func (a *tableApplier) leaves(d *syncd.Delta) bool {
	switch {
	case a.keeps.IsZero() || d.Pointer || len(d.Row) == 0:
		return false
	case len(d.Absent) == 0:
		return !a.keeps.Match(d.Row)
	}
	return a.keeps.Rejects(d.Row)
}

// checked gives a table's shape with the reason in it for which its selector can't be used, if there is one.
func checked(info syncd.TableInfo) syncd.TableInfo {
	if info.Selector == "" || info.Error != "" {
		return info
	}
	if _, err := syncd.ParseSelector(info, info.Selector); err != nil {
		return syncd.TableInfo{Table: info.Table, Error: fmt.Sprintf("its selector %q can't be used: %v", info.Selector, err)}
	}
	return info
}
