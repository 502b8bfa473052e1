package source

import (
	"fmt"
	"slices"
	"strings"

	"github.com/syncd-io/syncd"
)

// verdict is what becomes of a configured table: how it is synced, or why it is not.
type verdict struct {
	Key     []string      // the key columns, in key order
	Columns []columnFacts // the columns to publish, in order
	List    bool          // they are to be named, since they are not all
	Order   []keyOrder    // how the key's index orders the key
	// Refused says why the table can't be synced, with what mends it; empty where it can.
	Refused string
}

// surroundings are what a verdict depends on beside the table.
type surroundings struct {
	version     int
	user        string
	publication string
	manage      bool
	configured  map[syncd.Table]bool
}

// judge decides whether a table can be synced. A publication can break the application's own writes: with a row filter on a
// column outside the replica identity, a column list without the key, or a table without a usable key, every UPDATE on the
// publisher fails. Such a table is refused here, so that it never gets into the publication.
func judge(t TableConfig, f *tableFacts, w surroundings) verdict {
	for _, rule := range [...]func(TableConfig, *tableFacts, surroundings) string{
		refuseKind, refuseRight, refusePartition, refuseVersion, refuseMembership,
	} {
		if why := rule(t, f, w); why != "" {
			return verdict{Refused: why}
		}
	}
	x, why := keyOf(t.Table, f)
	if why != "" {
		return verdict{Refused: why}
	}
	return judgeColumns(t, f, w, x)
}

func refuseKind(t TableConfig, f *tableFacts, w surroundings) string {
	if f == nil {
		return fmt.Sprintf("there is no table %s: create it, or correct its name; it is synced as soon as it exists", t.Table)
	}
	switch f.Kind {
	case "r", "p":
	case "v", "m":
		return fmt.Sprintf("%s is a view, which logical replication does not carry: name the tables that it reads", t.Table)
	case "f":
		return fmt.Sprintf("%s is a foreign table, which logical replication does not carry: sync it from its own server", t.Table)
	default:
		return fmt.Sprintf("%s is not a table (kind %s)", t.Table, f.Kind)
	}
	switch f.Persistence {
	case "p":
		return ""
	case "u":
		return fmt.Sprintf("%s is unlogged, so that its changes are not in the log: ALTER TABLE %s SET LOGGED", t.Table, t.Table.SQL())
	}
	return fmt.Sprintf("%s is a temporary table, which only its own session sees", t.Table)
}

func refuseRight(t TableConfig, f *tableFacts, w surroundings) string {
	role := syncd.QuoteIdent(w.user)
	if !f.Readable {
		return fmt.Sprintf("role %s may not read %s: GRANT USAGE ON SCHEMA %s TO %s; GRANT SELECT ON %s TO %s",
			role, t.Table, syncd.QuoteIdent(t.Table.Schema), role, t.Table.SQL(), role)
	}
	if f.Security {
		return fmt.Sprintf("row-level security of %s hides rows from role %s, so that a list would lack them: ALTER ROLE %s BYPASSRLS", t.Table, role, role)
	}
	return ""
}

func refusePartition(t TableConfig, f *tableFacts, w surroundings) string {
	if f.Root != nil && w.configured[*f.Root] {
		return fmt.Sprintf("%s is a partition of %s, which is synced as a whole: take the partition out of the configuration", t.Table, *f.Root)
	}
	return ""
}

func refuseVersion(t TableConfig, f *tableFacts, w surroundings) string {
	if w.version < 150000 && w.manage && (len(t.Columns) > 0 || t.Where != "") {
		return fmt.Sprintf("%s: columns and where need Postgres 15: upgrade the server, or sync the whole table", t.Table)
	}
	return ""
}

// refuseMembership looks at a publication that is taken as it is.
func refuseMembership(t TableConfig, f *tableFacts, w surroundings) string {
	if w.manage {
		return ""
	}
	if f.Published == nil {
		return fmt.Sprintf("publication %s does not hold %s: ALTER PUBLICATION %s ADD TABLE %s",
			w.publication, t.Table, syncd.QuoteIdent(w.publication), t.Table.SQL())
	}
	if t.Where != "" && f.Published.Filter == "" {
		return fmt.Sprintf("publication %s holds %s without a row filter: with manage: false set the filter in the publication, and leave where out", w.publication, t.Table)
	}
	return ""
}

// keyOf gives the key's index, or why the table has no usable key.
func keyOf(t syncd.Table, f *tableFacts) (*indexFacts, string) {
	x := f.primary()
	switch f.Identity {
	case "d":
		if x == nil {
			return nil, fmt.Sprintf("%s has no primary key: %s", t, giveIdentity(t, f))
		}
	case "f":
		if x == nil {
			return nil, fmt.Sprintf("%s has REPLICA IDENTITY FULL and no primary key, so that equal rows can't be told apart: ALTER TABLE %s ADD PRIMARY KEY (…)", t, t.SQL())
		}
	case "n":
		return nil, fmt.Sprintf("%s has REPLICA IDENTITY NOTHING: %s", t, giveIdentity(t, f))
	case "i":
		if x = f.identity(); x == nil {
			return nil, fmt.Sprintf("the index that is the replica identity of %s is gone: %s", t, giveIdentity(t, f))
		}
	default:
		return nil, fmt.Sprintf("%s has a replica identity of the unknown kind %q", t, f.Identity)
	}
	if !x.Immediate {
		return nil, fmt.Sprintf("the key of %s, %s, is deferrable, so that two rows may share it for a while: %s", t, syncd.QuoteIdent(x.Name), undefer(t, f, x))
	}
	if !x.Valid {
		return nil, fmt.Sprintf("the index %s of %s is not valid: REINDEX INDEX %s", syncd.QuoteIdent(x.Name), t, syncd.Table{Schema: t.Schema, Name: x.Name}.SQL())
	}
	return x, ""
}

// giveIdentity is the statement that gives a table a replica identity.
func giveIdentity(t syncd.Table, f *tableFacts) string {
	if x := f.primary(); x != nil && x.usable() {
		return fmt.Sprintf("ALTER TABLE %s REPLICA IDENTITY DEFAULT", t.SQL())
	}
	if x := f.candidate(); x != nil {
		return fmt.Sprintf("ALTER TABLE %s REPLICA IDENTITY USING INDEX %s", t.SQL(), syncd.QuoteIdent(x.Name))
	}
	return fmt.Sprintf("ALTER TABLE %s ADD PRIMARY KEY (…)", t.SQL())
}

func undefer(t syncd.Table, f *tableFacts, x *indexFacts) string {
	if c := f.candidate(); c != nil {
		return fmt.Sprintf("ALTER TABLE %s REPLICA IDENTITY USING INDEX %s", t.SQL(), syncd.QuoteIdent(c.Name))
	}
	return fmt.Sprintf("ALTER TABLE %s DROP CONSTRAINT %s, ADD PRIMARY KEY (%s)", t.SQL(), syncd.QuoteIdent(x.Name), quoteList(f.names(x.Columns)))
}

// judgeColumns decides which columns are published.
func judgeColumns(t TableConfig, f *tableFacts, w surroundings, key *indexFacts) verdict {
	v := verdict{Key: f.names(key.Columns), Order: key.Order, List: len(t.Columns) > 0}
	want := t.Columns
	if !w.manage && f.Published.Columns != nil {
		if v.List = f.Published.List; v.List && len(want) > 0 && !sameSet(want, f.Published.Columns) {
			return verdict{Refused: fmt.Sprintf("publication %s holds the columns %s of %s, the configuration names others: make them the same", w.publication, quoteList(f.Published.Columns), t.Table)}
		}
		want = f.Published.Columns
	}
	for _, c := range f.Columns {
		named := slices.Contains(want, c.Name)
		switch {
		case len(want) > 0 && !named:
		case c.Generated == "" || named && !w.manage:
			v.Columns = append(v.Columns, c)
		case named:
			return verdict{Refused: fmt.Sprintf("column %s of %s is a generated one, which a publication does not carry: take it out of columns", syncd.QuoteIdent(c.Name), t.Table)}
		}
	}
	for _, name := range want {
		if !slices.ContainsFunc(f.Columns, func(c columnFacts) bool { return c.Name == name }) {
			return verdict{Refused: fmt.Sprintf("%s has no column %s: correct its name under columns", t.Table, syncd.QuoteIdent(name))}
		}
	}
	if why := refuseKeyColumns(t, f, v); why != "" {
		return verdict{Refused: why}
	}
	return v
}

func refuseKeyColumns(t TableConfig, f *tableFacts, v verdict) string {
	for _, name := range v.Key {
		if slices.ContainsFunc(v.Columns, func(c columnFacts) bool { return c.Name == name }) {
			continue
		}
		if c := f.Columns[slices.IndexFunc(f.Columns, func(c columnFacts) bool { return c.Name == name })]; c.Generated != "" {
			return fmt.Sprintf("the key column %s of %s is a generated one, which the replication stream lacks: %s", syncd.QuoteIdent(name), t.Table, "choose a key of stored columns, ALTER TABLE "+t.Table.SQL()+" REPLICA IDENTITY USING INDEX …")
		}
		return fmt.Sprintf("the columns named for %s leave out %s, a part of the key, so that every UPDATE would fail: name it under columns", t.Table, syncd.QuoteIdent(name))
	}
	if f.Identity == "f" && v.List {
		return fmt.Sprintf("%s has REPLICA IDENTITY FULL, with which a list of columns makes every UPDATE fail: ALTER TABLE %s REPLICA IDENTITY DEFAULT, or leave columns out", t.Table, t.Table.SQL())
	}
	return ""
}

// refuseFilter says why a row filter that reads the given columns can't be used; empty where it can.
func refuseFilter(t TableConfig, f *tableFacts, key, reads []string) string {
	if f.Identity == "f" {
		return ""
	}
	var outside []string
	for _, name := range reads {
		if !slices.Contains(key, name) {
			outside = append(outside, name)
		}
	}
	if len(outside) == 0 {
		return ""
	}
	return fmt.Sprintf("the filter of %s reads %s, which is outside the key, so that every UPDATE would fail: filter by the key's columns (%s), or ALTER TABLE %s REPLICA IDENTITY FULL",
		t.Table, strings.Join(outside, ", "), strings.Join(key, ", "), t.Table.SQL())
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}
