package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/syncd-io/syncd/sink/sqlite"
)

// TestCheckSinks: what check prints of sinks, and its status as they are met, amiss or away.
func TestCheckSinks(t *testing.T) {
	t.Parallel()
	s := newSync(t, "")
	s.write("", "public.people")
	b, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	check := func(sinks string, more ...string) outcome {
		t.Helper()
		file := filepath.Join(t.TempDir(), "syncd.yaml")
		text := strings.Replace(string(b), s.dir+"/sidecar}", s.dir+"/sidecar, "+sinks+"}", 1)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return invoke(t, append([]string{"check", "-c", file}, more...)...)
	}
	path := filepath.Join(s.dir, "cache.db")
	const file, away = "{sqlite: {path: PATH}}", "{redis: {url: \"redis://u:s3cret@127.0.0.1:1/0\"}}"
	both := strings.ReplaceAll("sinks: [memory, "+file+"]", "PATH", path)
	check(both).want(t, 0, "ok    sink      sqlite directory", "ok    sink      sqlite file", "preconditions are met")
	other := s.db.Name + "_other"
	held, err := sqlite.Open(sqlite.Options{Path: path, Name: s.db.Name})
	if err != nil {
		t.Fatal(err)
	}
	check(both).want(t, exitNo, "FAIL  sink      sqlite file in use", "mend: stop that sidecar")
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	check(both).want(t, 0)
	check(both, "--set", "name="+other).want(t, exitNo, "sqlite file: "+path, "want "+other)
	o := check(strings.Replace(both, "memory", away, 1))
	o.want(t, exitUnreachable, "FAIL  sink      redis server", "is the server running")
	json := check("sink: "+away, "--json")
	json.want(t, exitUnreachable, `"part":"sink","name":"redis server","ok":false`, `"unreachable":true`)
	if strings.Contains(o.out+o.errs+json.out+json.errs, "s3cret") {
		t.Error("a password was printed")
	}
	check("sink: {postgres: {url: \""+s.db.URL+"\", schema: public}}").want(t, exitNo, "FAIL  sink      postgres names", "schema public has people already", "name another schema")
	check("sink: {postgres: {url: \""+s.db.URL+"\"}}").want(t, 0, "ok    sink      postgres rights")
}
