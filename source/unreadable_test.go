package source

import (
	"net/url"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
)

// TestUnreadableIsNotEmpty: where the role that lists may not read the table, sees only some of its rows, or the filter fails on
// one, there is no page, no digest and no answer to a get.
func TestUnreadableIsNotEmpty(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	role := syncd.QuoteIdent("reader_" + db.Name)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text); INSERT INTO public.t SELECT i, 'x' FROM generate_series(1, 100) i;
		CREATE ROLE ` + role + ` LOGIN PASSWORD 'reads'; GRANT SELECT ON public.t TO ` + role)
	defer db.Exec(`DROP OWNED BY ` + role + `; DROP ROLE ` + role)
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("reader_"+db.Name, "reads")
	cfg := configFor(t, db, "public.t")
	cfg.ListPostgres = u.String()
	l := run(t, NewWatch(cfg, new(Memory))).lister()
	ask := map[string]func() (rows int, err error){
		"list": func() (int, error) {
			p, err := l.List(t.Context(), syncd.ListRequest{Table: tableT})
			if err != nil {
				return 0, err
			}
			return len(p.Rows), nil
		},
		"digest": func() (int, error) {
			d, err := l.Digest(t.Context(), syncd.DigestRequest{Table: tableT, Bits: 2})
			if err != nil {
				return 0, err
			}
			return int(d.Rows()), nil
		},
		"get": func() (int, error) {
			p, err := l.Get(t.Context(), syncd.GetRequest{Table: tableT, Keys: []syncd.Key{"1", "2"}})
			if err != nil {
				return 0, err
			}
			return len(p.Rows), nil
		},
	}
	for _, step := range []struct {
		name, harm, mend string
	}{
		{"nothing", "", ""},
		{"no right", "REVOKE SELECT ON public.t FROM " + role, "GRANT SELECT ON public.t TO " + role},
		{"row-level security", "ALTER TABLE public.t ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON public.t USING (id > 1000)",
			"ALTER TABLE public.t DISABLE ROW LEVEL SECURITY; DROP POLICY few ON public.t"},
		{"a timeout", "ALTER ROLE " + role + " SET statement_timeout = '1ms'", "ALTER ROLE " + role + " RESET statement_timeout"},
		{"all mended", "", ""},
	} {
		if step.harm != "" {
			db.Exec(step.harm)
		}
		l.flights.drop() // what was read a moment ago, when it could be, is given out still
		for what, f := range ask {
			rows, err := f()
			// A role's own timeout is not taken over, so that one harms nothing.
			if harmed := step.harm != "" && step.name != "a timeout"; (err != nil) != harmed || err == nil && rows == 0 {
				t.Errorf("%s, %s: %d rows, %v", step.name, what, rows, err)
			}
		}
		if step.mend != "" {
			db.Exec(step.mend)
		}
	}
}
