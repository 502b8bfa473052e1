package arch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/syncd-io/syncd"

// rule says what a package outside its tests may import. Paths of ours are relative to the module, "" is the root; a
// path stands for what lies below it too. The standard library is always allowed.
type rule struct {
	ours   []string
	theirs []string
}

const (
	pgx        = "github.com/jackc/pgx/v5"
	pglogrepl  = "github.com/jackc/pglogrepl"
	natsGo     = "github.com/nats-io/nats.go"
	prometheus = "github.com/prometheus/client_golang"
)

// rules are the arrows of ARCHITECTURE.md. A package without a rule is free: commands, whole-system tests and internal
// packages assemble the stages. Nobody imports a command.
var rules = map[string]rule{
	"":           {},
	"source":     {ours: []string{""}, theirs: []string{pgx, pglogrepl}},
	"bus":        {ours: []string{""}, theirs: []string{natsGo}},
	"sink":       {ours: []string{""}},
	"resync":     {ours: []string{""}},
	"checkpoint": {ours: []string{""}, theirs: []string{natsGo}},
	"metrics":    {ours: []string{""}, theirs: []string{prometheus}},
	"informer":   {ours: []string{"", "bus", "sink", "resync", "checkpoint"}},
}

// drivers are what the sinks of servers and files import beside the rule of sink.
var drivers = map[string][]string{
	"sink/sqlite":    {"modernc.org/sqlite"},
	"sink/redis":     {"github.com/redis/go-redis/v9"},
	"sink/postgres":  {pgx},
	"sink/storetest": {"pgregory.net/rapid"}, // the suite that each sink's tests run
}

// servers are the packages of internal that the tests of stages may import.
var servers = []string{"internal/pgserver", "internal/harness", "internal/natsserver", "internal/redisserver"}

// ruleOf gives the rule of a package: its own or that of the directory above, whose package it may import as well.
func ruleOf(pkg string) (r rule, ok bool) {
	top, _, below := strings.Cut(pkg, "/")
	if r, ok = rules[top]; !ok {
		return r, false
	}
	if below {
		r.ours = append(slices.Clone(r.ours), top)
	}
	r.theirs = append(slices.Clone(r.theirs), drivers[pkg]...)
	return r, true
}

// allows says why an import is against the rule, or "".
func (r rule) allows(pkg, imported string) string {
	path, ours := relative(imported)
	if ours {
		if path == pkg || slices.Contains(r.ours, path) || slices.ContainsFunc(r.ours, func(o string) bool { return o != "" && strings.HasPrefix(path, o+"/") }) {
			return ""
		}
		return "a stage speaks the root package's types and imports no other stage; declare the interface next to its use"
	}
	if !strings.Contains(strings.Split(imported, "/")[0], ".") || slices.ContainsFunc(r.theirs, func(t string) bool { return imported == t || strings.HasPrefix(imported, t+"/") }) {
		return ""
	}
	return "a dependency that this package is to do without"
}

// relative gives a package's path within the module.
func relative(path string) (string, bool) {
	if path == module {
		return "", true
	}
	return strings.CutPrefix(path, module+"/")
}

// against lists the imports of a package that are against the rules.
func against(p pkg) []string {
	name, _ := relative(p.ImportPath)
	var faults []string
	fault := func(imported, why string) {
		faults = append(faults, fmt.Sprintf("%s imports %s: %s", p.ImportPath, imported, why))
	}
	r, ruled := ruleOf(name)
	for _, i := range p.Imports {
		path, ours := relative(i)
		if ours && (path == "cmd" || strings.HasPrefix(path, "cmd/")) {
			fault(i, "nobody imports a command")
			continue
		}
		if why := r.allows(name, i); ruled && why != "" {
			fault(i, why)
		}
	}
	for _, i := range slices.Concat(p.TestImports, p.XTestImports) {
		if path, ours := relative(i); ruled && ours && strings.HasPrefix(path, "internal/") && !slices.Contains(servers, path) {
			fault(i, "tests of stages take servers from internal, and nothing else")
		}
	}
	return faults
}

func TestImportArrows(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range list(t, "-json=ImportPath,Imports,TestImports,XTestImports", "./...") {
		name, _ := relative(p.ImportPath)
		seen[name] = true
		for _, f := range against(p) {
			t.Error(f)
		}
	}
	for _, name := range []string{"", "source", "bus", "sink", "sink/memory", "resync", "metrics", "cmd/syncd"} {
		if !seen[name] {
			t.Errorf("package %q was not looked at", name)
		}
	}
}

// TestArrowsAreHeld holds that the rules refuse what they are there for.
func TestArrowsAreHeld(t *testing.T) {
	t.Parallel()
	ours := func(p string) string { return module + "/" + p }
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"source", module, true}, {"source", pgx + "/pgconn", true}, {"source", pglogrepl, true}, {"source", "net/url", true},
		{"source", natsGo, false}, {"source", ours("bus"), false}, {"source", ours("internal/config"), false}, {"source", ours("cmd/syncd"), false},
		{"sink", pgx, false}, {"sink", ours("resync"), false}, {"sink", ours("sink/memory"), false},
		{"sink/memory", ours("sink"), true}, {"sink/memory", module, true}, {"sink/memory", ours("sink/redis"), true}, {"sink/memory", ours("checkpoint"), false},
		{"sink/redis", "github.com/redis/go-redis/v9", true}, {"sink/memory", "github.com/redis/go-redis/v9", false},
		{"resync", ours("sink"), false}, {"resync", "golang.org/x/sync/errgroup", false},
		{"checkpoint", natsGo + "/jetstream", true}, {"metrics", prometheus + "/prometheus", true}, {"metrics", ours("sink"), false},
		{"", "time", true}, {"", ours("source"), false}, {"", pgx, false},
		{"informer", ours("sink/memory"), true}, {"informer", ours("source"), false}, {"informer", pgx, false},
		{"internal/daemon", ours("source"), true}, {"internal/daemon", ours("cmd/syncd"), false}, {"cmd/syncd", ours("internal/config"), true},
	} {
		p := pkg{ImportPath: strings.TrimSuffix(ours(c.from), "/"), Imports: []string{c.to}}
		if got := against(p); (len(got) == 0) != c.ok {
			t.Errorf("%s -> %s: %v", c.from, c.to, got)
		}
	}
	for to, ok := range map[string]bool{"internal/harness": true, "internal/config": false, "sink": true} {
		p := pkg{ImportPath: ours("bus"), XTestImports: []string{ours(to)}}
		if got := against(p); (len(got) == 0) != ok {
			t.Errorf("a test of bus -> %s: %v", to, got)
		}
	}
}
