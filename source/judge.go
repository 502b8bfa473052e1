package source

import (
	"fmt"
	"slices"
	"strings"

	"github.com/syncd-io/syncd"
)

// refusal says why a table can't be synced, and what mends it: a statement, or words. The zero refusal is none.
type refusal struct{ why, mend string }

func (r refusal) none() bool { return r.why == "" }

// String gives both, as TableInfo.Error tells them.
func (r refusal) String() string {
	if r.mend == "" {
		return r.why
	}
	return r.why + ": " + r.mend
}

func refuse(mend, why string, args ...any) refusal { return refusal{fmt.Sprintf(why, args...), mend} }

// verdict is what becomes of a configured table: how it is synced, or why it is not.
type verdict struct {
	Key     []string      // the key columns, in key order
	Columns []columnFacts // the columns of the row, in order
	Publish []columnFacts // those of them that the publication carries
	List    bool          // these are to be named, since they are not all
	Order   []keyOrder    // how the key's index orders the key
	Refused refusal
}

// surroundings are what a verdict depends on beside the table.
type surroundings struct {
	version     int
	user        string
	publication string
	manage      bool
	standby     bool // nothing can be made there: what mends is for the primary
	configured  map[syncd.Table]bool
}

// judge decides whether a table can be synced. A publication can break the application's own writes: with a row filter on a
// column outside the replica identity, a column list without the key, or a table without a usable key, every UPDATE on the
// publisher fails. Such a table is refused here, so that it never gets into the publication.
func judge(t TableConfig, f *tableFacts, w surroundings) verdict {
	for _, rule := range [...]func(TableConfig, *tableFacts, surroundings) refusal{
		refuseKind, refuseRight, refusePartition, refuseVersion,
	} {
		if r := rule(t, f, w); !r.none() {
			return verdict{Refused: r}
		}
	}
	x, r := keyOf(t.Table, f)
	if !r.none() {
		return verdict{Refused: r}
	}
	if r := refuseMembership(t, f, w); !r.none() { // once it can be a member without harm
		return verdict{Refused: r}
	}
	return judgeColumns(t, f, w, x)
}

func refuseKind(t TableConfig, f *tableFacts, _ surroundings) refusal {
	if f == nil {
		return refuse("create it, or correct its name; it is synced as soon as it exists", "there is no table %s", t.Table)
	}
	switch f.Kind {
	case "r", "p":
	case "v", "m":
		return refuse("name the tables that it reads", "%s is a view, which logical replication does not carry", t.Table)
	case "f":
		return refuse("sync it from its own server", "%s is a foreign table, which logical replication does not carry", t.Table)
	default:
		return refuse("name a table", "%s is not a table (kind %s)", t.Table, f.Kind)
	}
	switch f.Persistence {
	case "p":
		return refusal{}
	case "u":
		return refuse("ALTER TABLE "+t.Table.SQL()+" SET LOGGED", "%s is unlogged, so that its changes are not in the log", t.Table)
	}
	return refuse("name a permanent table", "%s is a temporary table, which only its own session sees", t.Table)
}

func refuseRight(t TableConfig, f *tableFacts, w surroundings) refusal {
	role := syncd.QuoteIdent(w.user)
	if !f.Readable {
		return refuse(fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s; GRANT SELECT ON %s TO %s", syncd.QuoteIdent(t.Table.Schema), role, t.Table.SQL(), role),
			"role %s may not read %s", w.user, t.Table)
	}
	if f.Security {
		return refuse("ALTER ROLE "+role+" BYPASSRLS",
			"row-level security of %s hides rows from role %s, so that a list would lack them", t.Table, w.user)
	}
	return refusal{}
}

func refusePartition(t TableConfig, f *tableFacts, w surroundings) refusal {
	if f.Root != nil && w.configured[*f.Root] {
		return refuse("take the partition out of the configuration", "%s is a partition of %s, which is synced as a whole", t.Table, *f.Root)
	}
	return refusal{}
}

func refuseVersion(t TableConfig, _ *tableFacts, w surroundings) refusal {
	if w.version < 150000 && w.manage && (len(t.Columns) > 0 || t.Where != "") {
		return refuse("upgrade the server, or sync the whole table", "%s: columns and where need Postgres 15", t.Table)
	}
	return refusal{}
}

// refuseMembership looks at a publication that is taken as it is.
func refuseMembership(t TableConfig, f *tableFacts, w surroundings) refusal {
	switch {
	case w.manage:
		return refusal{}
	case f.Published == nil:
		return refuse(w.where()+"ALTER PUBLICATION "+syncd.QuoteIdent(w.publication)+" ADD TABLE "+t.member(),
			"publication %s does not hold %s", w.publication, t.Table)
	case !f.Published.Whole:
		return refuse(w.where()+fmt.Sprintf("ALTER PUBLICATION %s SET (publish = 'insert, update, delete, truncate')", syncd.QuoteIdent(w.publication)),
			"publication %s leaves out some kinds of the changes of %s", w.publication, t.Table)
	case t.Where != "" && f.Published.Filter == "" && w.standby:
		return refuse(w.anew(t), "publication %s holds %s without a row filter", w.publication, t.Table)
	case t.Where != "" && f.Published.Filter == "":
		return refuse("with manage: false set the filter in the publication, and leave where out",
			"publication %s holds %s without a row filter", w.publication, t.Table)
	}
	return refusal{}
}

// keyOf gives the key's index, or why the table has no usable key.
func keyOf(t syncd.Table, f *tableFacts) (*indexFacts, refusal) {
	x := f.primary()
	switch f.Identity {
	case "d":
		if x == nil {
			return nil, refuse(giveIdentity(t, f), "%s has no primary key", t)
		}
	case "f":
		if x == nil {
			return nil, refuse("ALTER TABLE "+t.SQL()+" ADD PRIMARY KEY (…)",
				"%s has REPLICA IDENTITY FULL and no primary key, so that equal rows can't be told apart", t)
		}
	case "n":
		return nil, refuse(giveIdentity(t, f), "%s has REPLICA IDENTITY NOTHING", t)
	case "i":
		if x = f.identity(); x == nil {
			return nil, refuse(giveIdentity(t, f), "the index that is the replica identity of %s is gone", t)
		}
	default:
		return nil, refuse(giveIdentity(t, f), "%s has a replica identity of the unknown kind %q", t, f.Identity)
	}
	if !x.Immediate {
		return nil, refuse(undefer(t, f, x), "the key of %s, %s, is deferrable, so that two rows may share it for a while", t, syncd.QuoteIdent(x.Name))
	}
	if !x.Valid {
		return nil, refuse("REINDEX INDEX "+syncd.Table{Schema: t.Schema, Name: x.Name}.SQL(), "the index %s of %s is not valid", syncd.QuoteIdent(x.Name), t)
	}
	return x, refusal{}
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
		held := f.Published.Columns
		if v.List = f.Published.List; len(want) > 0 && !sameSet(want, held) {
			mend := "make the two the same"
			if w.standby {
				mend = w.anew(t)
			}
			return verdict{Refused: refuse(mend,
				"publication %s holds the columns %s of %s, the configuration names others", w.publication, quoteList(held), t.Table)}
		}
		want = held
	}
	for _, c := range f.Columns {
		named, fetch := slices.Contains(want, c.Name), t.Generated == GeneratedFetch
		switch {
		case len(want) > 0 && !named && !(fetch && c.Generated != "" && len(t.Columns) == 0):
		case c.Generated == "" || named && !w.manage:
			v.Columns, v.Publish = append(v.Columns, c), append(v.Publish, c)
		case fetch:
			v.Columns = append(v.Columns, c)
		case named:
			return verdict{Refused: refuse("take it out of columns, or set generated: fetch",
				"column %s of %s is a generated one, which the publication does not carry", syncd.QuoteIdent(c.Name), t.Table)}
		}
	}
	for _, name := range want {
		if !slices.ContainsFunc(f.Columns, func(c columnFacts) bool { return c.Name == name }) {
			return verdict{Refused: refuse("correct its name under columns", "%s has no column %s", t.Table, syncd.QuoteIdent(name))}
		}
	}
	if r := refuseKeyColumns(t, f, w, v); !r.none() {
		return verdict{Refused: r}
	}
	return v
}

func refuseKeyColumns(t TableConfig, f *tableFacts, w surroundings, v verdict) refusal {
	for _, name := range v.Key {
		if slices.ContainsFunc(v.Publish, func(c columnFacts) bool { return c.Name == name }) {
			continue
		}
		i := slices.IndexFunc(f.Columns, func(c columnFacts) bool { return c.Name == name })
		if f.Columns[i].Generated != "" {
			return refuse(fmt.Sprintf("ALTER TABLE %s REPLICA IDENTITY USING INDEX …, an index of stored columns", t.Table.SQL()),
				"the key column %s of %s is a generated one, which the replication stream lacks", syncd.QuoteIdent(name), t.Table)
		}
		return refuse("name it under columns", "the columns named for %s leave out %s, a part of the key, so that every UPDATE would fail", t.Table, syncd.QuoteIdent(name))
	}
	if r := refuseGenerated(t, f, w, v); !r.none() {
		return r
	}
	if f.Identity == "f" && v.List {
		return refuse(fmt.Sprintf("ALTER TABLE %s REPLICA IDENTITY DEFAULT, or leave columns out", t.Table.SQL()),
			"%s has REPLICA IDENTITY FULL, with which a list of columns makes every UPDATE fail", t.Table)
	}
	return refusal{}
}

// refuseGenerated looks at what the server asks of REPLICA IDENTITY FULL from 18 on: each column of the old row has to be
// published, which a virtual generated one never is.
func refuseGenerated(t TableConfig, f *tableFacts, w surroundings, v verdict) refusal {
	if f.Identity != "f" || w.version < 180000 {
		return refusal{}
	}
	for _, c := range f.Columns {
		published := slices.ContainsFunc(v.Publish, func(p columnFacts) bool { return p.Num == c.Num })
		if c.Generated != "" && (c.Generated == "v" || !published) {
			return refuse(fmt.Sprintf("ALTER TABLE %s REPLICA IDENTITY DEFAULT", t.Table.SQL()),
				"%s has REPLICA IDENTITY FULL, with which its generated column %s makes every UPDATE fail", t.Table, syncd.QuoteIdent(c.Name))
		}
	}
	return refusal{}
}

// refuseFilter says why a row filter that reads the given columns can't be used.
func refuseFilter(t TableConfig, f *tableFacts, key, reads []string) refusal {
	if f.Identity == "f" {
		return refusal{}
	}
	var outside []string
	for _, name := range reads {
		if !slices.Contains(key, name) {
			outside = append(outside, name)
		}
	}
	if len(outside) == 0 {
		return refusal{}
	}
	return refuse(fmt.Sprintf("filter by the key's columns (%s), or ALTER TABLE %s REPLICA IDENTITY FULL", strings.Join(key, ", "), t.Table.SQL()),
		"the filter of %s reads %s, which is outside the key, so that every UPDATE would fail", t.Table, strings.Join(outside, ", "))
}

// fetched says whether the stream lacks columns of the row, or what the server makes of them, so that each changed row is
// read from the server.
func (t *rosterTable) fetched() bool {
	return t.shape != nil && (len(t.verdict.Publish) < len(t.verdict.Columns) || len(t.shape.printed) > 0)
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}
