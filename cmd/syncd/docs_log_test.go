package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// logKeys finds the keys that calls of a slog.Logger are given, in all of the repository but tests, and the files of each; and all
// literal strings, since lists of keys are put together in other ways too.
func logKeys(t *testing.T) (keys map[string]map[string]bool, literals map[string]bool) {
	t.Helper()
	consts, calls := map[string]string{}, []*ast.CallExpr{}
	literals = map[string]bool{}
	set := token.NewFileSet()
	for _, dir := range []string{"source", "bus", "sink", "resync", "checkpoint", "internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "testdata") {
				return err
			}
			file, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ValueSpec:
					for i, name := range n.Names {
						if i < len(n.Values) {
							if s, ok := text(n.Values[i]); ok {
								consts[name.Name] = s
							}
						}
					}
				case *ast.CallExpr:
					calls = append(calls, n)
				case *ast.BasicLit:
					if s, ok := text(n); ok {
						literals[s] = true
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	keys = map[string]map[string]bool{}
	for _, call := range calls {
		at := 1
		switch f, ok := call.Fun.(*ast.SelectorExpr); {
		case !ok:
			continue
		case f.Sel.Name == "With":
			at = 0
		case f.Sel.Name != "Debug" && f.Sel.Name != "Info" && f.Sel.Name != "Warn" && f.Sel.Name != "Error":
			continue
		}
		for ; at < len(call.Args); at += 2 {
			key, ok := text(call.Args[at])
			if name, is := call.Args[at].(*ast.Ident); is {
				key, ok = consts[name.Name]
			}
			if ok && len(call.Args) > 1 {
				if keys[key] == nil {
					keys[key] = map[string]bool{}
				}
				keys[key][set.Position(call.Pos()).Filename] = true
			}
		}
	}
	return keys, literals
}

func text(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// TestDocsLogKeys: the keys that several parts log are documented, and what is documented is logged.
func TestDocsLogKeys(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/logging.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| (`.*?) \\|").FindAllStringSubmatch(string(doc), -1) {
		for _, k := range code.FindAllStringSubmatch(m[1], -1) {
			documented[k[1]] = true
		}
	}
	keys, literals := logKeys(t)
	if len(keys) < 30 {
		t.Fatalf("%d keys were found", len(keys))
	}
	for key, files := range keys {
		if len(files) > 2 && !documented[key] {
			t.Errorf("docs/logging.md lacks %q, which %d files log", key, len(files))
		}
	}
	delete(documented, "suppressed") // made where lines are left out
	for key := range documented {
		if !literals[key] {
			t.Errorf("docs/logging.md has %q, which nothing logs", key)
		}
	}
}
