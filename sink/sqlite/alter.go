package sqlite

import (
	"slices"
	"strings"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// alter gives the table that others see another shape without making it anew, where SQLite can: the source has columns added
// at its end, columns dropped, or columns that took the place of others (renamed, for one). What comes of it is what reshape
// would make of the entries: a new column is null until the table was listed again. It says whether it was done; where not,
// because the key or a type changed, columns lie in another order, or rows know a column's name already, nothing was.
func (s *Store) alter(t *table, info syncd.TableInfo) (bool, error) {
	now := newShape(&info)
	if t.shape == nil || now == nil {
		return false, nil
	}
	edits := t.shape.edits(now)
	if edits == nil {
		return false, nil
	}
	if err := s.learn(t); err != nil {
		return false, err
	}
	known := func(name string) bool {
		_, old := t.shape.byName[name]
		return old || t.shape.extra[name] || len(t.shape.extra) >= maxExtra
	}
	for _, e := range edits {
		if e.add != nil && known(e.add.name) {
			return false, nil
		}
	}
	if err := s.f.w.exec("SAVEPOINT alter_table"); err != nil {
		return false, err
	}
	altered := *t
	altered.info, altered.shape = info, now
	if err := s.edit(&altered, edits); err != nil {
		// Somebody's view or trigger names a column, say. What is made anew asks nobody.
		s.f.log.Debug("a table's columns can't be changed in place: it is made anew", "table", t.name, "error", err)
		if err := s.f.w.exec("ROLLBACK TO alter_table"); err != nil {
			return false, err
		}
		return false, s.f.w.exec("RELEASE alter_table")
	}
	for name := range t.shape.extra {
		now.extra[name] = true
	}
	for _, c := range t.shape.columns {
		if _, still := now.byName[c.name]; !still {
			now.extra[c.name] = true
		}
	}
	*t = altered
	return true, s.f.w.exec("RELEASE alter_table")
}

// learn makes the shape know every name that rows have beside its columns, where not all that is stored went through it yet.
func (s *Store) learn(t *table) error {
	if t.checked == s.f.touched {
		return nil
	}
	var raw [][]byte
	return walk(s.f.w, t.id, 0, true, func(_ syncd.Key, e sink.Entry) bool {
		raw = t.shape.raw(e.Row, raw)
		return true
	})
}

// edit is one change of a table's columns: with drop and add, the new one takes the place of the old.
type edit struct{ drop, add *column }

// edits gives what makes a table of one shape one of another: nil where that can't be, empty where nothing is to be done.
func (s *shape) edits(now *shape) []edit {
	if !slices.EqualFunc(s.key, now.key, func(a, b int) bool { return s.columns[a].same(&now.columns[b]) }) {
		return nil
	}
	if all := s.inPlace(now); all != nil {
		return all
	}
	all, at := []edit{}, 0
	for i := range s.columns {
		if at < len(now.columns) && s.columns[i].same(&now.columns[at]) {
			at++
		} else {
			all = append(all, edit{drop: &s.columns[i]})
		}
	}
	for i := range now.columns[at:] {
		all = append(all, edit{add: &now.columns[at+i]})
	}
	return all
}

// inPlace gives the edits where columns of one type take the places of others; else nil.
func (s *shape) inPlace(now *shape) []edit {
	if len(s.columns) != len(now.columns) {
		return nil
	}
	all := []edit{}
	for i := range s.columns {
		a, b := &s.columns[i], &now.columns[i]
		if a.same(b) {
			continue
		}
		if a.declared != b.declared || slices.Contains(s.key, i) {
			return nil
		}
		all = append(all, edit{a, b})
	}
	return all
}

func (c *column) same(o *column) bool {
	return c.name == o.name && c.sqlite == o.sqlite && c.declared == o.declared && c.kind == o.kind
}

// edit changes the columns, and the indexes with them.
func (s *Store) edit(t *table, edits []edit) error {
	if len(edits) == 0 {
		s.besides(t)
		return nil
	}
	if err := s.unindex(t); err != nil {
		return err
	}
	table := "ALTER TABLE " + quote(t.physical)
	var nulls []string
	for _, e := range edits {
		text := ""
		switch {
		case e.add == nil:
			text = " DROP COLUMN " + quote(e.drop.sqlite)
		case e.drop == nil:
			text = strings.TrimRight(" ADD COLUMN "+quote(e.add.sqlite)+" "+e.add.declared, " ")
		default:
			if e.drop.sqlite != e.add.sqlite {
				text = " RENAME COLUMN " + quote(e.drop.sqlite) + " TO " + quote(e.add.sqlite)
			}
			nulls = append(nulls, quote(e.add.sqlite)+" = NULL")
		}
		if text == "" {
			continue
		}
		if err := s.f.w.once(table + text); err != nil {
			return err
		}
	}
	if len(nulls) > 0 {
		if err := s.f.w.once("UPDATE " + quote(t.physical) + " SET " + strings.Join(nulls, ", ")); err != nil {
			return err
		}
	}
	return s.reindexTable(t)
}
