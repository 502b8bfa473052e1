package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/syncd-io/syncd/internal/config"
)

// document is one file for people.
type document struct {
	path string // from the repository's root
	text string
}

// documents reads every Markdown file of the repository.
func documents(t *testing.T) (all []document) {
	t.Helper()
	const root = "../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == "testdata") {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		all = append(all, document{strings.TrimPrefix(path, root+"/"), string(text)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("%d documents were found", len(all))
	}
	return all
}

var (
	fence   = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```$")
	code    = regexp.MustCompile("`([^`\n]+)`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+)$`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// anchors gives what a file's headings can be linked as.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		slug := notSlug.ReplaceAllString(strings.ToLower(m[1]), "")
		all[strings.ReplaceAll(slug, " ", "-")] = true
	}
	return all
}

// TestDocsLinks: what a document links to is there, with the heading that it names.
func TestDocsLinks(t *testing.T) {
	t.Parallel()
	docs := documents(t)
	texts := map[string]string{}
	for _, d := range docs {
		texts[d.path] = d.text
	}
	for _, d := range docs {
		prose := code.ReplaceAllString(fence.ReplaceAllString(d.text, ""), "")
		for _, m := range link.FindAllStringSubmatch(prose, -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			path := d.path
			if file != "" {
				path = filepath.Join(filepath.Dir(d.path), file)
			}
			if _, err := os.Stat(filepath.Join("../..", path)); err != nil {
				t.Errorf("%s links to %s, which is not there", d.path, m[1])
			}
			if anchor != "" && !anchors(texts[path])[anchor] {
				t.Errorf("%s links to %s: there is no such heading", d.path, m[1])
			}
		}
	}
}

// commandLines gives the command lines of syncd in a document: those in text, and those in fenced blocks.
func commandLines(text string) (all []string) {
	take := func(line string) {
		line, _, _ = strings.Cut(line, " #")
		for part := range strings.SplitSeq(line, "|") {
			part = strings.TrimPrefix(strings.TrimSpace(part), "go run ./cmd/")
			if rest, ok := strings.CutPrefix(part, "syncd "); ok {
				all = append(all, rest)
			}
		}
	}
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		if m[1] == "sh" || m[1] == "" {
			for line := range strings.Lines(m[2]) {
				take(line)
			}
		}
	}
	for _, m := range code.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		take(strings.ReplaceAll(m[1], `\|`, "/"))
	}
	return all
}

// checkLine wants a command that there is, and flags that it has.
func checkLine(line string) error {
	words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '[' || r == ']' })
	root := newRoot(new(bool))
	cmd, _, err := root.Find(words)
	if err != nil {
		return err
	}
	if cmd == root && len(words) > 0 && words[0] != "COMMAND" && words[0] != "help" {
		return fmt.Errorf("there is no command %s", words[0])
	}
	cmd.InitDefaultHelpFlag()
	for _, w := range words {
		if name, ok := strings.CutPrefix(w, "--"); ok {
			name, _, _ = strings.Cut(name, "=")
			if name = strings.Trim(name, ".,…"); name != "" && cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
				return &flagError{cmd, name}
			}
		}
	}
	return nil
}

type flagError struct {
	cmd  *cobra.Command
	flag string
}

func (e *flagError) Error() string { return e.cmd.CommandPath() + " has no flag --" + e.flag }

// TestDocsCommands: commands and flags that documents name exist.
func TestDocsCommands(t *testing.T) {
	t.Parallel()
	n := 0
	for _, d := range documents(t) {
		for _, line := range commandLines(d.text) {
			n++
			if err := checkLine(line); err != nil {
				t.Errorf("%s: syncd %s: %v", d.path, line, err)
			}
		}
	}
	if n < 50 {
		t.Errorf("%d command lines were found", n)
	}
	for line, want := range map[string]bool{"status --json": true, "statuss": false, "status --jason": false, "resync [TABLE...] --mode digest": true} {
		if got := checkLine(line) == nil; got != want {
			t.Errorf("syncd %s: %v", line, got)
		}
	}
}

// configKeys are the keys that the reference has.
func configKeys(t *testing.T) map[string]bool {
	t.Helper()
	reference, err := config.Reference()
	if err != nil {
		t.Fatal(err)
	}
	all, group := map[string]bool{}, ""
	for line := range strings.Lines(reference) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			if group = strings.TrimSpace(title) + "."; group == "top level." {
				group = ""
			}
		}
		if row, ok := strings.CutPrefix(line, "| `"); ok {
			key, _, _ := strings.Cut(row, "`")
			all[strings.ReplaceAll(group+key, "[]", "")] = true
		}
	}
	return all
}

var configKey = regexp.MustCompile(`^(source|bus|sidecar|log|metrics)\.[a-z_.\[\]]+$`)

// TestDocsConfiguration: keys of the configuration that documents name exist, and the examples of a whole file are good.
func TestDocsConfiguration(t *testing.T) {
	t.Parallel()
	keys, files := configKeys(t), 0
	for _, d := range documents(t) {
		if d.path == "CHANGELOG.md" {
			continue // it may name what was
		}
		for _, m := range code.FindAllStringSubmatch(fence.ReplaceAllString(d.text, ""), -1) {
			key, _, _ := strings.Cut(m[1], ": ")
			if key = strings.ReplaceAll(key, "[]", ""); configKey.MatchString(key) && !keys[key] {
				t.Errorf("%s names %s, which is no key", d.path, m[1])
			}
		}
		for _, m := range fence.FindAllStringSubmatch(d.text, -1) {
			if m[1] != "yaml" || !strings.HasPrefix(m[2], "name: ") {
				continue
			}
			files++
			file := filepath.Join(t.TempDir(), "syncd.yaml")
			if err := os.WriteFile(file, []byte(strings.ReplaceAll(m[2], "${DATABASE_URL}", "postgres://syncd@db/shop")), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := config.Load(config.Sources{File: file}, 0); err != nil {
				t.Errorf("%s: %v", d.path, err)
			}
		}
	}
	if files < 2 {
		t.Errorf("%d examples of a configuration were found", files)
	}
}
