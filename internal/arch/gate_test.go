package arch

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// The only way into a cache is sink.Cache, which asks the gate: nobody else may call Commit of a sink.Store.

// committers are the types of package sink whose methods may: the cache, and the change that it has in the making.
var committers = []string{"Cache", "change"}

// store gives the interface sink.Store.
func (pr *program) store(t *testing.T) *types.Interface {
	t.Helper()
	p, err := pr.importer.Import(module + "/sink")
	if err != nil {
		t.Fatal(err)
	}
	s, ok := p.Scope().Lookup("Store").Type().Underlying().(*types.Interface)
	if !ok {
		t.Fatal("sink.Store is no interface")
	}
	return s
}

// commits lists the calls of Store.Commit that are not in methods of committers, and counts those that are.
func (pr *program) commits(c *checked, store *types.Interface) (faults []string, allowed int) {
	for _, f := range c.files {
		for _, d := range f.Decls {
			inCache := c.path == "sink" && slices.Contains(committers, receiver(d))
			ast.Inspect(d, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok || s.Sel.Name != "Commit" {
					return true
				}
				sel, ok := c.info.Selections[s]
				if !ok || !isStore(sel.Recv(), store) {
					return true
				}
				if inCache {
					allowed++
				} else {
					faults = append(faults, fmt.Sprintf("%s/%s: Commit of a sink.Store outside of sink.Cache: every change goes through the gate", c.path, pr.at(n)))
				}
				return true
			})
		}
	}
	return faults, allowed
}

// isStore says whether a type is, or its pointer is, a sink.Store. Export data and source give different type objects of
// one interface, so methods are compared by name and form.
func isStore(t types.Type, store *types.Interface) bool {
	if named, ok := types.Unalias(t).(*types.Named); ok && named.Obj().Name() == "Store" && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == module+"/sink" {
		return true
	}
	for _, u := range []types.Type{t, types.NewPointer(t)} {
		set := types.NewMethodSet(u)
		have := 0
		for i := range store.NumMethods() {
			if m := set.Lookup(nil, store.Method(i).Name()); m != nil && m.Type().String() == store.Method(i).Type().String() {
				have++
			}
		}
		if have == store.NumMethods() {
			return true
		}
	}
	return false
}

// receiver names the type whose method a declaration is.
func receiver(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	if !ok || f.Recv == nil || len(f.Recv.List) != 1 {
		return ""
	}
	t := f.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func TestOnlyCacheCommits(t *testing.T) {
	t.Parallel()
	pr := whole(t)
	store := pr.store(t)
	total := 0
	for path, c := range pr.packages {
		if path == "sink/storetest" || path == "bench" {
			continue // the suite that a store's tests run, and what measures stores
		}
		faults, allowed := pr.commits(c, store)
		total += allowed
		for _, f := range faults {
			t.Error(f)
		}
	}
	if total == 0 {
		t.Error("not even sink.Cache commits: this test looks at the wrong thing")
	}
}

func TestCommitElsewhereIsFound(t *testing.T) {
	t.Parallel()
	pr := whole(t)
	store := pr.store(t)
	for _, c := range []struct{ name, text string }{
		{"through the interface", `func f(s sink.Store) error { return s.Commit(nil) }`},
		{"through an implementation", `func f(s *memory.Store) error { return s.Commit(nil) }`},
		{"as a value", `func f(s sink.Store) func(*sink.Batch) error { return s.Commit }`},
		{"embedded", `type e struct{ sink.Store }; func f(s e) error { return s.Commit(nil) }`},
		{"in a method of another Cache", `type Cache struct{ s sink.Store }; func (c *Cache) f() error { return c.s.Commit(nil) }`},
	} {
		text := "package x\nimport (\"github.com/syncd-io/syncd/sink\"; \"github.com/syncd-io/syncd/sink/memory\")\nvar (_ *memory.Store; _ sink.Store)\n" + c.text
		if faults, _ := pr.commits(pr.snippet(t, "resync", text), store); len(faults) != 1 || !strings.Contains(faults[0], "through the gate") {
			t.Errorf("%s: %v", c.name, faults)
		}
	}
	other := `package x; type tx struct{}; func (tx) Commit(int) error { return nil }; func f() error { return tx{}.Commit(1) }`
	if faults, _ := pr.commits(pr.snippet(t, "source", other), store); faults != nil {
		t.Errorf("another Commit: %v", faults)
	}
}
