package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/syncd-io/syncd/internal/harness"
)

// sqlCase is one file of testdata/cases.
type sqlCase struct {
	name                    string // NNN-name
	schemas                 []string
	publication             string // one that the file makes; empty: none
	since                   int    // the first version that can run it; 0: all can
	setup, changes, cleanup string
}

var (
	caseName   = regexp.MustCompile(`^(\d{3})-.+\.sql$`)
	annotation = regexp.MustCompile(`(?m)^-- @(\w+): (.*)$`)
	identifier = regexp.MustCompile(`"(?:[^"]|"")+"|[^\s,"]+`)
)

// readCases reads the files of the folder $SYNCD_CASES, or of testdata/cases.
func readCases(t *testing.T) []sqlCase {
	t.Helper()
	dir := os.Getenv("SYNCD_CASES")
	if dir == "" {
		dir = filepath.Join("testdata", "cases")
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []sqlCase
	for _, f := range files {
		if m := caseName.FindStringSubmatch(f.Name()); m != nil {
			text, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if c := parseCase(t, m[1], strings.TrimSuffix(f.Name(), ".sql"), string(text)); c.since <= harness.Postgres(t).Version()/10000 {
				all = append(all, c)
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s holds no case", dir)
	}
	return all
}

func parseCase(t *testing.T, number, name, text string) sqlCase {
	t.Helper()
	c := sqlCase{name: name, schemas: []string{"case_" + number}}
	var ok bool
	if c.setup, c.changes, ok = strings.Cut(text, "-- STEP: changes\n"); !ok {
		t.Fatalf("case %s has no line -- STEP: changes", name)
	}
	c.changes, c.cleanup, _ = strings.Cut(c.changes, "-- STEP: cleanup\n")
	for _, a := range annotation.FindAllStringSubmatch(text, -1) {
		switch {
		case a[1] == "publication" && strings.TrimSpace(a[2]) == "own":
			c.publication = "case_" + number
		case a[1] == "since":
			var err error
			if c.since, err = strconv.Atoi(strings.TrimSpace(a[2])); err != nil {
				t.Fatalf("case %s: @since: %v", name, err)
			}
		case a[1] == "schemas":
			for _, s := range identifier.FindAllString(a[2], -1) {
				c.schemas = append(c.schemas, strings.ReplaceAll(strings.Trim(s, `"`), `""`, `"`))
			}
		}
	}
	return c
}

// ownServer says whether a case changes roles, settings, slots or databases, so that it has a server of its own.
func (c *sqlCase) ownServer() bool { return c.name >= "140" && c.name < "150" }

// TestCases runs each script twice: the first time syncd starts between its setup and its changes, the second time it runs
// all along. Each time every table that can be replicated comes to equal Postgres by itself, one that can't is refused by
// name, and a resync finds nothing to repair. (Under the race detector each runs once.)
func TestCases(t *testing.T) {
	t.Parallel()
	for _, c := range readCases(t) {
		if c.ownServer() {
			continue // TestServerCases
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			runCase(t, &c, harness.Database(t))
		})
	}
}

// runCase runs a case in a database.
func runCase(t *testing.T, c *sqlCase, db *harness.DB) {
	f := fleetOn(t, db, harness.NATS(t))
	f.publication = c.publication
	if c.publication == "" {
		f.tables = discover(t, c, db)
	}
	first := startPSQL(t, db)
	first.run(c.setup)
	f.source()
	s := f.sidecar()
	s.listed()
	first.run(c.changes)
	f.converges(s)
	// What the script has set for the database is the default of sessions from now on.
	db.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'syncd'")
	s.resyncFindsNothing(10)
	first.run(c.cleanup)
	first.quit()
	if harness.Race {
		return
	}

	second := startPSQL(t, db)
	second.run(c.setup)
	second.run(c.changes)
	f.converges(s)
	s.resyncFindsNothing(3)
	second.run(c.cleanup)
	f.converges(s)
}

// array gives texts as SQL writes them.
func array(texts []string) string {
	quoted := make([]string, len(texts))
	for i, s := range texts {
		quoted[i] = "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return "ARRAY[" + strings.Join(quoted, ", ") + "]"
}

// discover runs the script while nobody watches, to see which tables it makes.
func discover(t *testing.T, c *sqlCase, db *harness.DB) []tableConfig {
	t.Helper()
	p := startPSQL(t, db)
	var all []tableConfig
	for _, script := range []string{c.setup, c.changes} {
		p.run(script)
		p.run(`SELECT format('%I.%I', n.nspname, c.relname) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = ANY (` + array(c.schemas) + `) AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY 1;`)
		for _, name := range p.said {
			n := tableConfig{table: table(t, name)}
			if !slices.ContainsFunc(all, func(o tableConfig) bool { return o.table == n.table }) {
				all = append(all, n)
			}
		}
	}
	p.run(c.cleanup)
	p.quit()
	if len(all) == 0 {
		t.Fatalf("case %s makes no table in %q", c.name, c.schemas)
	}
	return all
}
