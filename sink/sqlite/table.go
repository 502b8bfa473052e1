package sqlite

import (
	"cmp"
	"database/sql/driver"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// table is one source table, as the writer knows it.
type table struct {
	id       int64
	name     syncd.Table
	sqlite   string // the name that others see
	physical string // the name it has now
	shape    *shape // nil: others see no table of it
	info     syncd.TableInfo
	rows     int
	// sums are the digests, kept from when they were made of what is stored; epochs counts the entries of each.
	sums   []syncd.Totals
	epochs map[syncd.Epoch]int
	// checked is file.touched as of when the table was compared with its entries, and spoilt are the keys that differed.
	checked int
	spoilt  map[syncd.Key]bool
	// indexed are the columns of indexes, and beside says what is done with a row of which only others change: what is behind
	// an INSERT's values. Empty: it is replaced, since there are no indexes, or nothing is beside them.
	indexed []int
	beside  string
	loaded  map[syncd.Key]loaded // since the last commit
}

// tableName gives the name that others see of a table: schema.table. A name that SQLite keeps for itself gets _ in front, and
// one that differs from another's only in case, or not at all ("a.b"."c" and "a"."b.c"), gets _2 and so on behind it, for as
// long as both are there; _syncd_tables says which is which.
func (c *commit) tableName(t syncd.Table) string {
	name := t.Schema + "." + t.Name
	if strings.HasPrefix(fold(name), "sqlite_") {
		name = "_" + name
	}
	taken := map[string]bool{}
	for _, tables := range []map[syncd.Table]*table{c.Store.tables, c.tables} {
		for _, o := range tables {
			taken[fold(o.sqlite)] = true
		}
	}
	return distinct([]string{name}, taken)[0]
}

// readTables reads what tables there are, at the start.
func (s *Store) readTables(state *sink.State) error {
	return s.f.w.query("SELECT id, table_schema, table_name, sqlite_table FROM _syncd_tables WHERE generation = ?", func(row []driver.Value) error {
		t := &table{}
		t.id, _ = row[0].(int64)
		t.name.Schema, _ = row[1].(string)
		t.name.Name, _ = row[2].(string)
		t.sqlite, _ = row[3].(string)
		t.physical = t.sqlite
		if st := state.Tables[t.name]; st != nil {
			t.info, t.shape, t.rows = st.Info, newShape(&st.Info), st.Rows
		}
		s.tables[t.name] = t
		return nil
	}, s.generation)
}

// add makes a table. Names that begin with _syncd_ are not seen by others.
func (c *commit) add(name syncd.Table) (*table, error) {
	s := c.Store
	t := &table{name: name, sqlite: c.tableName(name)}
	err := s.f.w.exec("INSERT INTO _syncd_tables (generation, table_schema, table_name, sqlite_table) VALUES (?, ?, ?, ?)", s.generation, name.Schema, name.Name, t.sqlite)
	if err != nil {
		return nil, err
	}
	if t.id, err = s.f.w.oneInt("SELECT last_insert_rowid()"); err != nil {
		return nil, err
	}
	t.physical = t.sqlite
	if !s.current() {
		t.physical = fmt.Sprintf("_syncd_next_%d", t.id)
	}
	return t, s.f.w.once(createEntries(t.id))
}

// current says whether others see this generation.
func (s *Store) current() bool {
	s.next.mu.Lock()
	defer s.next.mu.Unlock()
	return s.next.current == s.generation
}

// reshape makes the table that others see of the entries, in the shape that the source's has now.
func (s *Store) reshape(t *table, info syncd.TableInfo) error {
	if done, err := s.alter(t, info); done || err != nil {
		return err
	}
	w := s.f.w
	t.info, t.shape = info, newShape(&info)
	if err := w.once("DROP TABLE IF EXISTS " + quote(t.physical)); err != nil {
		return err
	}
	if t.shape == nil {
		return nil
	}
	if err := w.once(t.shape.create(t.physical)); err != nil {
		return err
	}
	into := newBatch(w, quote(t.physical), len(t.shape.columns), "")
	var buf []any
	var failed error
	err := walk(w, t.id, 0, true, func(_ syncd.Key, e sink.Entry) bool {
		if buf = t.shape.values(e.Row, buf); buf != nil {
			into.args = append(into.args, buf...)
			failed = into.wrote()
		}
		return failed == nil
	})
	if err = cmp.Or(failed, err); err == nil {
		err = into.end()
	}
	if err != nil {
		return err
	}
	return s.index(t)
}

// create gives the statement that makes the table others see. A single whole number as key is SQLite's own row number;
// other tables are stored in the order of their key.
func (s *shape) create(name string) string {
	var b strings.Builder
	b.WriteString("CREATE TABLE " + quote(name) + " (")
	rowid := len(s.key) == 1 && s.columns[s.key[0]].kind == integer
	for i, c := range s.columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(c.sqlite))
		if c.declared != "" {
			b.WriteString(" " + c.declared)
		}
		if rowid && i == s.key[0] {
			b.WriteString(" PRIMARY KEY")
		}
	}
	if rowid {
		return b.String() + ")"
	}
	var keys []string
	for _, i := range s.key {
		keys = append(keys, quote(s.columns[i].sqlite))
	}
	return b.String() + ", PRIMARY KEY (" + strings.Join(keys, ", ") + ")) WITHOUT ROWID"
}

// where gives the condition on the key's columns.
func (s *shape) where() string {
	var all []string
	for _, i := range s.key {
		all = append(all, quote(s.columns[i].sqlite)+" = ?")
	}
	return strings.Join(all, " AND ")
}

// names gives the columns' names in SQLite.
func (s *shape) names() string {
	var all []string
	for _, c := range s.columns {
		all = append(all, quote(c.sqlite))
	}
	return strings.Join(all, ", ")
}

// wantedIndexes gives the statements that make a table's indexes, by name. Columns that it does not have are left out.
func (s *Store) wantedIndexes(t *table) map[string]string {
	all := map[string]string{}
	if t.shape == nil {
		return all
	}
	for n, columns := range s.f.indexes[t.name] {
		var names []string
		for _, c := range columns {
			if i, ok := t.shape.byName[c]; ok {
				names = append(names, quote(t.shape.columns[i].sqlite))
			}
		}
		if len(names) == len(columns) {
			name := fmt.Sprintf("_syncd_index_%d_%d", t.id, n)
			all[name] = "CREATE INDEX " + name + " ON " + quote(t.physical) + " (" + strings.Join(names, ", ") + ")"
		}
	}
	return all
}

// besides says how rows are written of which no indexed column changes.
func (s *Store) besides(t *table) {
	t.indexed, t.beside = nil, ""
	if t.shape == nil {
		return
	}
	for _, columns := range s.f.indexes[t.name] {
		for _, c := range columns {
			if i, ok := t.shape.byName[c]; ok && !slices.Contains(t.indexed, i) {
				t.indexed = append(t.indexed, i)
			}
		}
	}
	var keys, sets []string
	for i, c := range t.shape.columns {
		if name := quote(c.sqlite); slices.Contains(t.shape.key, i) {
			keys = append(keys, name)
		} else if !slices.Contains(t.indexed, i) {
			sets = append(sets, name+" = excluded."+name)
		}
	}
	if len(t.indexed) > 0 && len(sets) > 0 {
		t.beside = " ON CONFLICT (" + strings.Join(keys, ", ") + ") DO UPDATE SET " + strings.Join(sets, ", ")
	}
}

// index makes a table's indexes.
func (s *Store) index(t *table) error {
	s.besides(t)
	wanted := s.wantedIndexes(t)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if err := s.f.w.once(wanted[name]); err != nil {
			return err
		}
	}
	return nil
}

// remove takes a table away, with all that is stored of it.
func (s *Store) remove(t *table) error {
	for _, text := range []string{"DROP TABLE IF EXISTS " + quote(t.physical), "DROP TABLE IF EXISTS " + entriesOf(t.id)} {
		if err := s.f.w.once(text); err != nil {
			return err
		}
	}
	return s.f.w.exec("DELETE FROM _syncd_tables WHERE id = ?", t.id)
}

// empty takes a table's entries away.
func (s *Store) empty(t *table) error {
	if err := s.f.w.exec("DELETE FROM " + entriesOf(t.id)); err != nil {
		return err
	}
	if t.shape != nil {
		if err := s.f.w.exec("DELETE FROM " + quote(t.physical)); err != nil {
			return err
		}
	}
	t.rows, t.sums, t.epochs, t.checked, t.spoilt, t.loaded = 0, nil, nil, 0, nil, nil
	return nil
}

// tidy takes away what is left of other generations, and makes the indexes those that are asked for now.
func (s *Store) tidy() error {
	w := s.f.w
	for _, text := range []string{"DELETE FROM _syncd_tables WHERE generation <> ?", "DELETE FROM _syncd_state WHERE generation <> ?"} {
		if err := w.exec(text, s.generation); err != nil {
			return err
		}
	}
	known := map[string]bool{}
	for _, t := range s.tables {
		known[entriesOf(t.id)] = true
	}
	names, err := s.named("table")
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if strings.HasPrefix(name, "_syncd_next_") || strings.HasPrefix(name, "_syncd_entries_") && !known[name] {
			if err := w.once("DROP TABLE " + quote(name)); err != nil {
				return err
			}
		}
	}
	return s.reindex()
}

// named gives what of a kind there is under names of this package, with the statements that made it.
func (s *Store) named(kind string) (map[string]string, error) {
	all := map[string]string{}
	err := s.f.w.query("SELECT name, sql FROM sqlite_master WHERE type = ? AND sql NOT NULL AND name LIKE '\\_syncd\\_%' ESCAPE '\\'", func(row []driver.Value) error {
		name, _ := row[0].(string)
		all[name], _ = row[1].(string)
		return nil
	}, kind)
	return all, err
}

// reindex makes the indexes of this generation's tables those that are asked for.
func (s *Store) reindex() error {
	for _, t := range s.tables {
		if err := s.unindex(t); err != nil {
			return err
		}
		if err := s.reindexTable(t); err != nil {
			return err
		}
	}
	return nil
}

// unindex takes away the indexes of a table that it should not have.
func (s *Store) unindex(t *table) error {
	there, err := s.indexesOf(t)
	if err != nil {
		return err
	}
	wanted := s.wantedIndexes(t)
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if wanted[name] != there[name] {
			if err := s.f.w.once("DROP INDEX " + quote(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// reindexTable makes the indexes that a table lacks.
func (s *Store) reindexTable(t *table) error {
	s.besides(t)
	there, err := s.indexesOf(t)
	if err != nil {
		return err
	}
	wanted := s.wantedIndexes(t)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if there[name] == "" {
			if err := s.f.w.once(wanted[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// indexesOf gives the indexes of a table that are this package's, with the statements that made them.
func (s *Store) indexesOf(t *table) (map[string]string, error) {
	all, err := s.named("index")
	prefix := fmt.Sprintf("_syncd_index_%d_", t.id)
	maps.DeleteFunc(all, func(name, _ string) bool { return !strings.HasPrefix(name, prefix) })
	return all, err
}

// takePlace takes away the tables that others see, gives this generation's their names, and says that it is the one.
func (s *Store) takePlace() error {
	w := s.f.w
	var old []string
	err := w.query("SELECT sqlite_table FROM _syncd_tables WHERE generation <> ?", func(row []driver.Value) error {
		name, _ := row[0].(string)
		old = append(old, name)
		return nil
	}, s.generation)
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := w.once("DROP TABLE IF EXISTS " + quote(name)); err != nil {
			return err
		}
	}
	for _, t := range s.tables {
		if t.shape == nil || t.physical == t.sqlite {
			continue
		}
		if err := s.f.next(); err != nil {
			return err
		}
		if err := w.once("ALTER TABLE " + quote(t.physical) + " RENAME TO " + quote(t.sqlite)); err != nil {
			return err
		}
	}
	if err := w.exec("DELETE FROM _syncd_tables WHERE generation <> ?", s.generation); err != nil {
		return err
	}
	return w.exec("UPDATE _syncd_meta SET value = ? WHERE key = 'generation'", s.generation)
}

// discard takes a generation away that others don't see.
func (s *Store) discard() error {
	for _, t := range s.tables {
		if err := s.f.w.once("DROP TABLE IF EXISTS " + entriesOf(t.id)); err != nil {
			return err
		}
		if err := s.f.w.once(fmt.Sprintf("DROP TABLE IF EXISTS _syncd_next_%d", t.id)); err != nil {
			return err
		}
	}
	for _, text := range []string{"DELETE FROM _syncd_tables WHERE generation = ?", "DELETE FROM _syncd_state WHERE generation = ?"} {
		if err := s.f.w.exec(text, s.generation); err != nil {
			return err
		}
	}
	return nil
}
