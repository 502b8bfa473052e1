package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Transaction ids of 32 bits wrap around, so they may not be compared with those of snapshots. They exist in the decoder
// alone, and leave it through syncd.WidenXID. A row's xmin may be a subtransaction's, so no statement reads it.

// decoder is the file that takes ids off the replication protocol.
const decoder = "source/decode.go"

// narrow says whether a type is an integer of 32 bits.
func narrow(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && (b.Kind() == types.Uint32 || b.Kind() == types.Int32)
}

// isXID says whether a name is one of transaction ids.
func isXID(name string) bool {
	return strings.Contains(strings.ToLower(name), "xid")
}

// xids lists what is against the rules of transaction ids, and counts the ids that WidenXID widens.
func (pr *program) xids(c *checked) (faults []string, widened int) {
	for _, f := range c.files {
		file := filepath.ToSlash(filepath.Join(c.path, filepath.Base(pr.fset.Position(f.Pos()).Filename)))
		v := &xidVisitor{pr: pr, c: c, inDecoder: file == decoder, widened: map[ast.Expr]bool{}}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && c.path == "" && fn.Name.Name == "WidenXID" {
				continue
			}
			ast.Inspect(d, v.visit)
		}
		faults, widened = append(faults, v.faults...), widened+len(v.widened)
	}
	return faults, widened
}

type xidVisitor struct {
	pr        *program
	c         *checked
	inDecoder bool
	widened   map[ast.Expr]bool // the arguments of WidenXID
	faults    []string
}

func (v *xidVisitor) fault(n ast.Node, format string, args ...any) {
	v.faults = append(v.faults, fmt.Sprintf("%s/%s: ", v.c.path, v.pr.at(n))+fmt.Sprintf(format, args...))
}

func (v *xidVisitor) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		v.call(n)
	case *ast.BasicLit:
		v.literal(n)
	case *ast.SelectorExpr:
		// A field of the decoder's, used by somebody else.
		if o := v.c.info.Uses[n.Sel]; o != nil && isXID(o.Name()) && isVariable(o) && narrow(o.Type()) && !v.inDecoder && !v.widened[n] {
			v.fault(n, "%s has 32 bits: widen it with syncd.WidenXID where it is taken", o.Name())
		}
	case *ast.Ident:
		if o := v.c.info.Defs[n]; o != nil && isXID(o.Name()) && isVariable(o) && narrow(o.Type()) && !v.inDecoder {
			v.fault(n, "%s keeps a transaction id of 32 bits: keep a syncd.XID", o.Name())
		}
	}
	return true
}

func isVariable(o types.Object) bool {
	_, ok := o.(*types.Var)
	return ok
}

// call looks at WidenXID, and at conversions to XID.
func (v *xidVisitor) call(n *ast.CallExpr) {
	if len(n.Args) == 2 && named(v.c.info, n.Fun) == "WidenXID" {
		v.widened[n.Args[0]] = true
		return
	}
	tv, ok := v.c.info.Types[n.Fun]
	if !ok || !tv.IsType() || len(n.Args) != 1 {
		return
	}
	t, ok := types.Unalias(tv.Type).(*types.Named)
	if !ok || t.Obj().Name() != "XID" || t.Obj().Pkg() == nil || t.Obj().Pkg().Path() != module {
		return
	}
	if arg := v.c.info.Types[n.Args[0]]; arg.Value == nil && narrow(arg.Type) {
		v.fault(n, "an integer of 32 bits becomes a syncd.XID: use syncd.WidenXID")
	}
}

// named gives the name of the function that is called.
func named(info *types.Info, f ast.Expr) string {
	switch f := f.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}

var (
	statement = regexp.MustCompile(`(?i)\b(select|where|returning|order by)\b`)
	rowXmin   = regexp.MustCompile(`(?i)\b(xmin|xmax)\b`)
)

func (v *xidVisitor) literal(n *ast.BasicLit) {
	if n.Kind != token.STRING {
		return
	}
	text, err := strconv.Unquote(n.Value)
	if err == nil && statement.MatchString(text) && rowXmin.MatchString(text) {
		v.fault(n, "a statement reads a row's xmin or xmax, which may be a subtransaction's: use the snapshot and the delta's xid")
	}
}

func TestXIDsHave64Bits(t *testing.T) {
	t.Parallel()
	pr := whole(t)
	total := 0
	for _, c := range pr.packages {
		faults, widened := pr.xids(c)
		total += widened
		for _, f := range faults {
			t.Error(f)
		}
	}
	if total == 0 {
		t.Error("no transaction id is widened: this test looks at the wrong thing")
	}
}

func TestNarrowXIDsAreFound(t *testing.T) {
	t.Parallel()
	pr := whole(t)
	for _, c := range []struct {
		name, text string
		faults     int
	}{
		{"a field", `type x struct{ XID uint32 }`, 1},
		{"a parameter", `func f(xid uint32) {}`, 1},
		{"a conversion", `func f(n uint32) syncd.XID { return syncd.XID(n) }`, 1},
		{"a conversion on the way", `func f(n uint64) syncd.XID { return syncd.XID(uint32(n)) }`, 1},
		{"a conversion of 64 bits", `func f(n uint64) syncd.XID { return syncd.XID(n) }`, 0},
		{"a constant", `const x = syncd.XID(7)`, 0},
		{"a comparison", `func f(b *source.Begin) bool { return b.XID == 7 }`, 1},
		{"widened", `func f(b *source.Begin) syncd.XID { return syncd.WidenXID(b.XID, 7) }`, 0},
		{"a row's xmin", "const q = `SELECT t.xmin, * FROM t`", 1},
		{"a row's xmin in a filter", "const q = `SELECT * FROM t WHERE xmin::text = '7'`", 1},
		{"a slot's xmin", "const q = `SELECT catalog_xmin FROM pg_replication_slots`", 0},
		{"the wire's xmin", "const q = `{\"xmin\":`", 0},
	} {
		text := "package x\nimport (\"github.com/syncd-io/syncd\"; \"github.com/syncd-io/syncd/source\")\nvar (_ syncd.XID; _ *source.Begin)\n" + c.text
		if faults, _ := pr.xids(pr.snippet(t, "resync", text)); len(faults) != c.faults {
			t.Errorf("%s: %v", c.name, faults)
		}
	}
}
