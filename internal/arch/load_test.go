package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// pkg is what go list says of a package.
type pkg struct {
	ImportPath                         string
	Dir                                string
	Export                             string
	GoFiles                            []string
	Imports, TestImports, XTestImports []string
}

// list runs go list at the module's root.
func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Dir = filepath.Join("..", "..")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// program is all of syncd outside its tests, with types.
type program struct {
	fset     *token.FileSet
	packages map[string]*checked // by path within the module
	importer types.Importer
}

// checked is one package with types.
type checked struct {
	path  string
	types *types.Package
	files []*ast.File
	info  *types.Info
}

var load struct {
	once sync.Once
	p    *program
}

// whole loads the program, once for all tests.
func whole(t *testing.T) *program {
	t.Helper()
	load.once.Do(func() { load.p = loadAll(t) })
	if load.p == nil {
		t.Fatal("the program could not be loaded")
	}
	return load.p
}

func loadAll(t *testing.T) *program {
	t.Helper()
	exports := map[string]string{}
	for _, p := range list(t, "-export", "-deps", "-json=ImportPath,Export", "./...") {
		exports[p.ImportPath] = p.Export
	}
	fset := token.NewFileSet()
	pr := &program{fset: fset, packages: map[string]*checked{}}
	pr.importer = importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		file, ok := exports[path]
		if !ok || file == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(file)
	})
	for _, p := range list(t, "-json=ImportPath,Dir,GoFiles", "./...") {
		c := &checked{}
		c.path, _ = relative(p.ImportPath)
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			c.files = append(c.files, f)
		}
		if err := pr.check(c, p.ImportPath); err != nil {
			t.Fatalf("type-check %s: %v", p.ImportPath, err)
		}
		pr.packages[c.path] = c
	}
	return pr
}

func (pr *program) check(c *checked, path string) (err error) {
	c.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{},
		Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	config := types.Config{Importer: pr.importer}
	c.types, err = config.Check(path, pr.fset, c.files, c.info)
	return err
}

// snippet checks a file of its own, as if it were in a package of the module.
func (pr *program) snippet(t *testing.T, path, text string) *checked {
	t.Helper()
	f, err := parser.ParseFile(pr.fset, "snippet.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	c := &checked{path: path, files: []*ast.File{f}}
	if err := pr.check(c, strings.TrimSuffix(module+"/"+path, "/")); err != nil {
		t.Fatal(err)
	}
	return c
}

// at names a place in the source.
func (pr *program) at(n ast.Node) string {
	p := pr.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", filepath.Base(p.Filename), p.Line)
}
