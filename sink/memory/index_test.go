package memory

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// indexMachine drives a store with indexes, and holds that what they find is what a scan finds, in every view.
type indexMachine struct {
	store *Store
	hash  func(syncd.Key) uint64
	state *sink.State
	views []sink.View
	used  int
}

var indexTables = []syncd.Table{{Schema: "public", Name: "a"}, {Schema: "public", Name: "b"}}

var declarations = []map[syncd.Table][][]string{
	{indexTables[0]: {{"s"}, {"n", "s"}}, indexTables[1]: {{"n"}}},
	{indexTables[0]: {{"n"}, {"missing"}, {"b", "n", "s"}}},
	{},
}

func indexState(shape uint64, typ string) *sink.State {
	st := &sink.State{Tables: map[syncd.Table]*sink.TableState{}}
	for _, name := range indexTables {
		st.Tables[name] = &sink.TableState{Info: syncd.TableInfo{
			Table: name, Schema: shape, Columns: []string{"id", "n", "s", "b"}, Types: []string{"integer", typ, "text", "boolean"}, Key: []string{"id"},
		}}
	}
	return st
}

func indexRow(r *rand.Rand, id int) []byte {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	return fmt.Appendf(nil, `{"id":%d,"n":%s,"s":%s,"b":%s}`, id, pick("1", "2", "10", "-1", "null"),
		pick(`"x"`, `"y"`, `"xy"`, `""`, "null"), pick("true", "false", "null"))
}

func (m *indexMachine) Commit(t *rapid.T) {
	r := drawRand(t)
	b := &sink.Batch{}
	switch r.IntN(12) {
	case 0:
		b.Drop = append(b.Drop, indexTables[r.IntN(2)])
	case 1:
		shape := r.IntN(2)
		b.State = indexState(uint64(shape)+1, []string{"integer", "text"}[shape])
		m.state = b.State
	}
	seen := map[string]bool{}
	for range []int{1, 3, 30, 150}[r.IntN(4)] {
		id := r.IntN(250)
		w := sink.Write{Table: indexTables[r.IntN(2)], Key: syncd.MakeKey(fmt.Sprint(id))}
		if k := w.Table.Name + string(w.Key); seen[k] {
			continue
		} else {
			seen[k] = true
		}
		switch r.IntN(5) {
		case 0:
			w.Remove = true
		case 1: // a tombstone
		default:
			w.Entry.Row = indexRow(r, id)
		}
		b.Writes = append(b.Writes, w)
	}
	if err := m.store.Commit(b); err != nil {
		t.Fatal(err)
	}
}

func (m *indexMachine) Empty(t *rapid.T) {
	name := indexTables[drawRand(t).IntN(2)]
	b := &sink.Batch{}
	_ = m.store.Walk(name, 0, func(k syncd.Key, _ sink.Entry) bool {
		b.Writes = append(b.Writes, sink.Write{Table: name, Key: k, Remove: true})
		return true
	})
	if err := m.store.Commit(b); err != nil {
		t.Fatal(err)
	}
}

func (m *indexMachine) Declare(t *rapid.T) {
	if err := m.store.SetIndexes(declarations[drawRand(t).IntN(len(declarations))]); err != nil {
		t.Fatal(err)
	}
}

func (m *indexMachine) Hold(*rapid.T) { m.views = append(m.views, m.store.View()) }

func (m *indexMachine) Restart(t *rapid.T) {
	var file bytes.Buffer
	if _, err := m.store.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	indexes := m.store.indexes
	m.store = newStore(Options{Indexes: indexes}, m.hash)
	if _, err := m.store.ReadFrom(&file); err != nil {
		t.Fatal(err)
	}
}

func (m *indexMachine) Check(t *rapid.T) {
	for name, w := range m.store.writers {
		for i := range w.indexes {
			checkTree(t, fmt.Sprintf("%s index %d", name, i), &w.indexes[i].tree)
		}
	}
	m.search(t, m.store.View())
	if len(m.views) > 0 {
		m.search(t, m.views[drawRand(t).IntN(len(m.views))])
	}
}

// search compares what an index finds for some filters with what a scan finds.
func (m *indexMachine) search(t *rapid.T, v sink.View) {
	r := drawRand(t)
	for range 2 {
		values := url.Values{}
		for range 1 + r.IntN(3) {
			c := []string{"n=eq.1", "n=in.(2,10,-1)", "n=gt.1", "n=lte.10", "n=is.null", "s=eq.x", "s=in.(x,y,\"\")", "s=gte.x", "s=lt.y", "s=not.eq.x",
				"s=is.null", "b=is.true", "b=eq.false", "b=not.is.true", "n=in.()", "n=gt.-5"}[r.IntN(16)]
			name, cond, _ := strings.Cut(c, "=")
			values.Add(name, cond)
		}
		name := indexTables[r.IntN(2)]
		info := v.State().Tables[name].Info
		f, err := syncd.ParseFilter(info, values)
		if err != nil {
			t.Fatal(err)
		}
		from, stop := uint64(0), 1+r.IntN(250)
		if r.IntN(2) == 0 {
			from = m.hash(syncd.MakeKey(fmt.Sprint(r.IntN(250))))
		}
		var want, got []syncd.Key
		v.Rows(name, from, func(k syncd.Key, e sink.Entry) bool {
			if f.Match(e.Row) {
				want = append(want, k)
			}
			return len(want) < stop
		})
		if v.(sink.Indexer).Find(name, f, from, func(k syncd.Key, e sink.Entry) bool {
			if f.Match(e.Row) {
				got = append(got, k)
			}
			return len(got) < stop
		}) {
			m.used++
			if !slices.Equal(got, want) {
				t.Fatalf("%s from %x: the index finds %q, a scan %q", f, from, got, want)
			}
		}
	}
}

// checkTree holds that a tree's items ascend, that its nodes lead to them, and that its account is right.
func checkTree(t *rapid.T, what string, tr *tree) {
	size, items := 0, 0
	var last []byte
	var visit func(n *node, depth int) int
	visit = func(n *node, depth int) int {
		size += n.size()
		if len(n.kids) == 0 {
			for i := range n.ends {
				if items > 0 && bytes.Compare(last, n.item(i)) >= 0 {
					t.Fatalf("%s: item %q does not come behind %q", what, n.item(i), last)
				}
				last = n.item(i)
				items++
			}
			if len(n.ends) == 0 || len(n.ends) > maxItems {
				t.Fatalf("%s: a leaf has %d items", what, len(n.ends))
			}
			return depth
		}
		deep := -1
		for i, kid := range n.kids {
			if i > 0 && bytes.Compare(last, n.firsts[i]) >= 0 || bytes.Compare(n.firsts[i], kid.first()) > 0 && i > 0 {
				t.Fatalf("%s: node %d begins with %q, and is said to with %q", what, i, kid.first(), n.firsts[i])
			}
			d := visit(kid, depth+1)
			if deep >= 0 && d != deep {
				t.Fatalf("%s: leaves lie %d and %d deep", what, d, deep)
			}
			deep = d
		}
		if len(n.kids) > maxKids {
			t.Fatalf("%s: a node has %d nodes", what, len(n.kids))
		}
		return deep
	}
	if tr.root != nil {
		visit(tr.root, 0)
	}
	if size != tr.bytes || items != tr.items {
		t.Fatalf("%s: %d items of %d bytes, its account says %d and %d", what, items, size, tr.items, tr.bytes)
	}
}

func TestIndexesAgainstScan(t *testing.T) {
	for name, hash := range map[string]func(syncd.Key) uint64{"real hash": syncd.Key.Hash, "colliding hash": weakHash} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			used := 0
			rapid.Check(t, func(t *rapid.T) {
				m := &indexMachine{store: newStore(Options{Indexes: declarations[0]}, hash), hash: hash}
				if err := m.store.Commit(&sink.Batch{State: indexState(1, "integer")}); err != nil {
					t.Fatal(err)
				}
				t.Repeat(map[string]func(*rapid.T){
					"commit": m.Commit, "more": m.Commit, "again": m.Commit, "empty": m.Empty, "declare": m.Declare, "hold": m.Hold, "restart": m.Restart, "": m.Check,
				})
				used += m.used
			})
			if used == 0 {
				t.Error("no search used an index")
			}
		})
	}
}

// TestFindOfManyRows: a range with more rows than are put in order is left to a scan; what is fixed by an index is not.
func TestFindOfManyRows(t *testing.T) {
	t.Parallel()
	name := indexTables[1]
	s := New(Options{Indexes: declarations[0]})
	b := &sink.Batch{State: indexState(1, "integer")}
	for i := range maxGather + 2 {
		b.Writes = append(b.Writes, sink.Write{Table: name, Key: syncd.MakeKey(fmt.Sprint(i)), Entry: sink.Entry{Row: fmt.Appendf(nil, `{"id":%d,"n":%d}`, i, i/3)}})
	}
	if err := s.Commit(b); err != nil {
		t.Fatal(err)
	}
	for condition, want := range map[string]int{"gte.0": -1, "gt.1": maxGather - 4, "eq.7": 3, "in.(7,9,1000000)": 6, "lt.0": 0} {
		f, err := syncd.ParseFilter(s.State().Tables[name].Info, url.Values{"n": {condition}})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if !s.View().(sink.Indexer).Find(name, f, 0, func(_ syncd.Key, e sink.Entry) bool {
			if f.Match(e.Row) {
				n++
			}
			return true
		}) {
			n = -1
		}
		if n != want {
			t.Errorf("n=%s: %d rows, want %d", condition, n, want)
		}
	}
}

// TestTree grows and shrinks a tree well beyond a few nodes, and holds that what was published stays.
func TestTree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := drawRand(t)
		var tr tree
		have := map[string]bool{}
		item := func() []byte { return appendHash(fmt.Appendf(nil, "%04d", r.IntN(6000)), 0) }
		if r.IntN(2) == 0 {
			for range r.IntN(3000) {
				have[string(item())] = true
			}
			tr = build(sorted(have), 1)
			checkTree(t, "built", &tr)
		}
		for commit := uint64(2); commit < 6; commit++ {
			was, published := sorted(have), tr
			grow := r.IntN(3) > 0
			for range r.IntN(1500) {
				if x := item(); grow {
					tr.add(x, commit)
					have[string(x)] = true
				} else {
					tr.remove(x, commit)
					delete(have, string(x))
				}
			}
			if !grow && r.IntN(2) == 0 {
				for x := range have {
					tr.remove([]byte(x), commit)
					delete(have, x)
				}
			}
			checkTree(t, "grown", &tr)
			checkTree(t, "published", &published)
			compareTree(t, &tr, sorted(have), item())
			compareTree(t, &published, was, item())
		}
	})
}

func sorted(set map[string]bool) [][]byte {
	all := make([][]byte, 0, len(set))
	for x := range set {
		all = append(all, []byte(x))
	}
	slices.SortFunc(all, bytes.Compare)
	return all
}

func compareTree(t *rapid.T, tr *tree, want [][]byte, from []byte) {
	i, _ := slices.BinarySearchFunc(want, from, bytes.Compare)
	want = want[i:]
	n := 0
	tr.root.walk(from, func(x []byte) bool {
		if n == len(want) || !bytes.Equal(x, want[n]) {
			t.Fatalf("item %d from %q is %q", n, from, x)
		}
		n++
		return true
	})
	if n != len(want) {
		t.Fatalf("%d items from %q, want %d", n, from, len(want))
	}
}

// TestSearchesDuringCommits: who searches meets whole commits, and nothing that is being changed.
func TestSearchesDuringCommits(t *testing.T) {
	t.Parallel()
	name := indexTables[0]
	s := New(Options{Indexes: declarations[0]})
	if err := s.Commit(&sink.Batch{State: indexState(1, "integer")}); err != nil {
		t.Fatal(err)
	}
	commit := func(n int) { // moves all rows from one value to the next
		b := &sink.Batch{}
		for i := range 300 {
			b.Writes = append(b.Writes, sink.Write{Table: name, Key: syncd.MakeKey(fmt.Sprint(i)), Entry: sink.Entry{Row: fmt.Appendf(nil, `{"id":%d,"n":1,"s":"v%d"}`, i, n)}})
		}
		if err := s.Commit(b); err != nil {
			t.Error(err)
		}
	}
	commit(0)
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				v := s.View()
				rows := 0
				for n := range 40 {
					f, err := syncd.ParseSelector(v.State().Tables[name].Info, fmt.Sprintf("n=eq.1&s=eq.v%d", n))
					if err != nil {
						t.Error(err)
						return
					}
					sink.Matching(v, name, f, 0, func(syncd.Key, sink.Entry) bool { rows++; return true })
				}
				if rows != 300 {
					t.Errorf("a search of one commit found %d rows, want 300", rows)
					return
				}
			}
		})
	}
	for n := range 40 {
		commit(n)
	}
	close(done)
	readers.Wait()
}
