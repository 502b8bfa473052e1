package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/syncd-io/syncd/bus"
	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/daemon"
	"github.com/syncd-io/syncd/internal/harness"
)

// TestFleetOnTheBus: a source that leads, one that stands by and two sidecars say on the bus how they are, and what is gone
// is not there.
func TestFleetOnTheBus(t *testing.T) {
	t.Parallel()
	f := fleetOn(t, harness.Database(t), harness.NATS(t), "public.t", "public.nokey")
	f.db.Exec("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 7); CREATE TABLE nokey (id int)")
	f.source()
	one, two := f.sidecar(), f.cache("two", f.start)
	f.converges(one, two)
	standby := f.start("source", "standby")
	c, err := config.Load(config.Sources{File: f.configure("sidecar", "asker")}, roles["sidecar"])
	if err != nil {
		t.Fatal(err)
	}
	members := func() (mine []bus.Member, text string) {
		all, err := daemon.Fleet(t.Context(), c, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			if m.Sync == c.Name { // the server is shared with other tests
				mine = append(mine, m)
				text += fmt.Sprintf("%s %s;", m.Role, m.State)
			}
		}
		return mine, text
	}
	f.eventually("all four to be there", func() error {
		_, text := members()
		for what, n := range map[string]int{"source leads;": 1, "source stands by;": 1, "sidecar ready;": 2} {
			if strings.Count(text, what) != n {
				return fmt.Errorf("they are %s", text)
			}
		}
		return nil
	})
	mine, _ := members()
	for _, m := range mine {
		if m.Host == "" || m.PID == 0 || m.ID == "" || m.Version == "" || m.LagSeconds == nil || len(m.Tables) != 2 {
			t.Errorf("a %s says %+v", m.Role, m)
		}
		for _, table := range m.Tables {
			switch {
			case table.Table == "public.nokey":
				if table.Error == "" || table.Ready {
					t.Errorf("a %s says of a table without a key: %+v", m.Role, table)
				}
			case m.Role == "sidecar" && (table.Rows != 7 || !table.Ready || table.VerifiedAgeSeconds == nil):
				t.Errorf("a sidecar says of its table: %+v", table)
			}
		}
	}
	standby.stop()
	f.eventually("the standby to be gone", func() error {
		if _, text := members(); strings.Contains(text, "stands by") {
			return fmt.Errorf("they are %s", text)
		}
		return nil
	})
}
