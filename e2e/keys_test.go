package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestKeysInOtherForms: a key is found under each form of its value that Postgres takes for the same, and a text that is no
// value of the column's type is refused by name.
func TestKeysInOtherForms(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "public.flags", "public.things", "public.prices", "public.pairs")
	f.db.Exec(`CREATE TABLE flags (on_sale bool PRIMARY KEY, n int); INSERT INTO flags VALUES (true, 1), (false, 2);
		CREATE TABLE things (id uuid PRIMARY KEY); INSERT INTO things VALUES ('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11');
		CREATE TABLE prices (p numeric(10,2) PRIMARY KEY); INSERT INTO prices VALUES (1.5);
		CREATE TABLE pairs (a smallint, b text, PRIMARY KEY (a, b)); INSERT INTO pairs VALUES (-7, 'x,(y)'), (8, '')`)
	f.source()
	s := f.sidecar()
	s.listed()
	f.db.Exec("UPDATE flags SET n = 3 WHERE on_sale; INSERT INTO things VALUES ('b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')") // by the stream
	for path, want := range map[string]string{
		"flags/rows/true":  `{"on_sale":true,"n":3}`,
		"flags/rows/t":     `{"on_sale":true,"n":3}`,
		"flags/rows/FALSE": `{"on_sale":false,"n":2}`,
		"things/rows/A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11":   `{"id":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}`,
		"things/rows/%7Bb0eebc999c0b4ef8bb6d6bb9bd380a11%7D": `{"id":"b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}`,
		"prices/rows/1.50":                               `{"p":1.50}`,
		"pairs/rows/-007,x%2C(y)":                        `{"a":-7,"b":"x,(y)"}`,
		`pairs/rows?key=in.((-7,"x,(y)"),(08,""),(9,z))`: `"items":[{"a":-7,"b":"x,(y)"},{"a":8,"b":""}],"missing":[["9","z"]]`,
	} {
		path, query, _ := strings.Cut(path, "?")
		if query != "" {
			query = strings.NewReplacer(`"`, "%22", ",", "%2C").Replace(query) + "&"
		}
		b, err := s.ask(http.MethodGet, "/v1/tables/public."+path+"?"+query+"timeout=1m&min_version="+f.db.LSN().String())
		if err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s: %s, %v; want %s", path, b, err, want)
		}
	}
	for path, says := range map[string]string{"flags/rows/maybe": "boolean", "things/rows/1": "uuid", "prices/rows/dear": "numeric(10,2)", "pairs/rows/40000,x": "smallint"} {
		_, err := s.ask(http.MethodGet, "/v1/tables/public."+path)
		if a, ok := errors.AsType[*answerError](err); !ok || a.status != http.StatusBadRequest || !strings.Contains(a.body, says) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestSeveralTablesFromOneCommit: money moves between two tables, and whoever reads both at once always sees all of it.
func TestSeveralTablesFromOneCommit(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "public.cash", "public.bank")
	f.db.Exec(`CREATE TABLE cash (id int PRIMARY KEY, amount int); INSERT INTO cash VALUES (1, 1000);
		CREATE TABLE bank (id int PRIMARY KEY, amount int); INSERT INTO bank VALUES (1, 0)`)
	f.source()
	s := f.sidecar()
	s.listed()
	versions := map[string]bool{}
	f.eventually("reads of 20 commits", func() error {
		f.db.Exec(`BEGIN; UPDATE cash SET amount = amount - 1; UPDATE bank SET amount = amount + 1; COMMIT`) // and reads while it is on its way
		b, err := s.send(http.MethodPost, "/v1/read", `{"reads":[{"table":"public.bank","keys":[[1]]},{"table":"public.cash"}]}`)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Version string
			Results []struct{ Items []struct{ Amount int } }
		}
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if sum := got.Results[0].Items[0].Amount + got.Results[1].Items[0].Amount; sum != 1000 {
			t.Fatalf("%d in all: %s", sum, b)
		}
		if versions[got.Version] = true; len(versions) < 20 {
			return fmt.Errorf("%d so far", len(versions))
		}
		return nil
	})
}
