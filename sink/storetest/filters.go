package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// searched is a store, and a Map beside it that holds the same, of a table whose rows are looked for.
type searched struct {
	t     *testing.T
	r     *rand.Rand
	store sink.Store
	plain *Map
	shape int
	used  int // searches in which the store knew better than to look at all rows
}

var searchedIndexes = [][][]string{{{"s"}, {"n", "s"}}, {{"n"}, {"not there"}, {"b", "n", "s"}}, {}}

// filtering holds every store to the right rows for a filter, in order, whether it has indexes or looks at all rows: that is
// what HTTP and watches ask for.
func filtering(t *testing.T, s sink.Store) { newSearched(t, s, 1).live(25) }

// keeping declares indexes again and again: what is found is the same with and without.
func keeping(t *testing.T, s sink.Store) {
	c := newSearched(t, s, 2)
	k := s.(sink.IndexKeeper)
	if err := k.SetIndexes(nil); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		if err := k.SetIndexes(map[syncd.Table][][]string{users: searchedIndexes[i%len(searchedIndexes)], items: {{"n"}}}); err != nil {
			t.Fatalf("declare indexes: %v", err)
		}
		c.live(3)
	}
}

// finding has the store's own search used, which must be by an index where one is declared.
func finding(t *testing.T, s sink.Store) {
	c := newSearched(t, s, 3)
	if k, ok := s.(sink.IndexKeeper); ok {
		if err := k.SetIndexes(map[syncd.Table][][]string{users: searchedIndexes[0]}); err != nil {
			t.Fatal(err)
		}
	}
	c.live(15)
	if c.used == 0 {
		t.Error("with indexes declared the store has looked at all rows in every search")
	}
}

func newSearched(t *testing.T, s sink.Store, seed uint64) *searched {
	c := &searched{t: t, r: rand.New(rand.NewPCG(seed, 7)), store: s, plain: NewMap()}
	c.commit()
	return c
}

// live commits, and searches what is there now and what was there before.
func (c *searched) live(rounds int) {
	c.t.Helper()
	for range c.rounds(rounds) {
		before, was := c.store.View(), c.plain.View()
		c.commit()
		c.search(before, was)
		before.Close()
		now, is := c.store.View(), c.plain.View()
		c.search(now, is)
		now.Close()
		if c.t.Failed() {
			return
		}
	}
}

func (c *searched) rounds(n int) int {
	if underRace {
		return max(1, n/5)
	}
	return n
}

// state is that of a table of the shape it has now.
func (c *searched) state() *sink.State {
	st := state(c.plain.State().Cursor.Position.LSN + 1)
	for _, t := range []syncd.Table{users, items} {
		st.Tables[t].Info = syncd.TableInfo{Table: t, Schema: uint64(c.shape), Key: []string{"id"},
			Columns: []string{"id", "n", "s", "b"}, Types: []string{"integer", []string{"integer", "text"}[c.shape%2], "text", "boolean"}}
	}
	return st
}

func (c *searched) row(id int) []byte {
	pick := func(of ...string) string { return of[c.r.IntN(len(of))] }
	n := pick("1", "2", "10", "-1", "null")
	if c.shape%2 == 1 && n != "null" {
		n = `"` + n + `"`
	}
	return fmt.Appendf(nil, `{"id":%d,"n":%s,"s":%s,"b":%s}`, id, n, pick(`"x"`, `"y"`, `"xy"`, `""`, `"ü, \"x\""`, "null"), pick("true", "false", "null"))
}

// commit changes some rows; now and then the table's shape, and with it all of them.
func (c *searched) commit() {
	c.t.Helper()
	var writes []sink.Write
	var dropped []syncd.Table
	if c.r.IntN(10) == 0 {
		c.shape++
		dropped = []syncd.Table{users, items}
	}
	at := int(c.plain.State().Cursor.Position.LSN) + 1
	for _, id := range c.r.Perm(120)[:[]int{1, 3, 30, 100}[c.r.IntN(4)]] {
		w := put([]syncd.Table{users, users, items}[c.r.IntN(3)], key(id), tombstone(at))
		switch c.r.IntN(6) {
		case 0:
			w = sink.Write{Table: w.Table, Key: w.Key, Remove: true}
		case 1:
		default:
			w.Entry.Row = c.row(id)
		}
		writes = append(writes, w)
	}
	for _, s := range []sink.Store{c.store, c.plain} {
		commitAll(c.t, s, &sink.Batch{Writes: slices.Clone(writes), Drop: dropped, State: c.state()})
	}
}

var searchedFor = []string{"n=eq.1", "n=in.(2,10,-1)", "n=gt.1", "n=lte.10", "n=is.null", "n=gt.-5", "s=eq.x", `s=in.(x,y,"")`, "s=gte.x", "s=lt.y", "s=not.eq.x",
	"s=is.null", `s=eq.ü, "x"`, "b=is.true", "b=eq.false", "b=not.is.true", "id=gt.50", "id=eq.7"}

// search compares what some filters find in a view with what they find in a plain one.
func (c *searched) search(v, plain sink.View) {
	c.t.Helper()
	for range 4 {
		values := map[string][]string{}
		for range 1 + c.r.IntN(3) {
			column, condition, _ := strings.Cut(searchedFor[c.r.IntN(len(searchedFor))], "=")
			values[column] = append(values[column], condition)
		}
		name := []syncd.Table{users, items}[c.r.IntN(2)]
		f, err := syncd.ParseFilter(plain.State().Tables[name].Info, values)
		if err != nil {
			c.t.Fatal(err)
		}
		from, stop := uint64(0), 1+c.r.IntN(120)
		if c.r.IntN(2) == 0 {
			from = key(c.r.IntN(120)).Hash()
		}
		take := func(into *[]string) func(k syncd.Key, e sink.Entry) bool {
			return func(k syncd.Key, e sink.Entry) bool {
				*into = append(*into, string(k)+" "+string(e.Row))
				return len(*into) < stop
			}
		}
		var got, want []string
		found := take(&want)
		plain.Rows(name, from, func(k syncd.Key, e sink.Entry) bool { return !f.Match(e.Row) || found(k, e) })
		sink.Matching(v, name, f, from, take(&got))
		if err := v.Err(); err != nil {
			c.t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			c.t.Errorf("%s of %s from %x, at most %d: %q, in a plain map %q", f, name, from, stop, got, want)
		}
		if x, ok := v.(sink.Indexer); ok && x.Find(name, f, from, func(syncd.Key, sink.Entry) bool { return true }) {
			c.used++
		}
	}
}
