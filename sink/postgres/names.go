package postgres

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/syncd-io/syncd"
)

// own begins the name of everything that is syncd's own.
const own = "_syncd_"

// maxName is how many bytes Postgres keeps of a name.
const maxName = 63

// visible is the name of a table's view: that of the table where it is in public, else schema.table. Where that would not be
// one to one (a dot in a part, a name of syncd's own) or is too long, its beginning and a hash of it.
func visible(t syncd.Table) string {
	name := t.Schema + "." + t.Name
	if t.Schema == "public" {
		name = t.Name
	}
	if len(name) > maxName || strings.Contains(t.Schema+t.Name, ".") || strings.HasPrefix(name, own) {
		return hashed(t, name, maxName)
	}
	return name
}

// base is the name of the table that holds a table's entries, and check that of the view that syncd reads.
func base(t syncd.Table) string  { return own + hashed(t, "rows_"+t.Name, maxName-len(own)) }
func check(t syncd.Table) string { return own + hashed(t, "read_"+t.Name, maxName-len(own)) }

// hashed is the beginning of a name and a hash of the whole table's name, of no more than so many bytes.
func hashed(t syncd.Table, name string, size int) string {
	hash := fmt.Sprintf("_%016x", syncd.MakeKey(t.Schema, t.Name).Hash())
	if n := size - len(hash); len(name) > n {
		for n > 0 && !utf8.RuneStart(name[n]) {
			n--
		}
		name = name[:n]
	}
	return name + hash
}

// in gives a name in the schema, quoted.
func (p *place) in(name string) string {
	return syncd.QuoteIdent(p.schema) + "." + syncd.QuoteIdent(name)
}
