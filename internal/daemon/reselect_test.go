//go:build unix

package daemon

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/internal/harness"
)

// TestSelectorOfARunningProcess: SIGHUP takes over a selector and indexes, of tables that stay; the rows come and go.
func TestSelectorOfARunningProcess(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	c := newConfig(t, db)
	db.Exec("INSERT INTO people SELECT i, 'P' || i % 2 FROM generate_series(2, 9) i")
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP) // so that it ends nothing, whoever is not listening yet
	defer signal.Stop(signals)
	var next atomic.Pointer[config.Config]
	r := startRunning(t, c, db, func(o *Options) {
		o.Reload = func() (*config.Config, error) { return next.Load(), nil }
	})
	r.ready()
	for _, step := range []struct {
		table config.SidecarTable
		rows  int
	}{
		{config.SidecarTable{Table: "public.people", Selector: "name=eq.P1", Indexes: []config.Index{{"name"}, {"nam"}}}, 4},
		{config.SidecarTable{Table: "public.people", Selector: "name=in.(P0,Ann)"}, 5},
		{config.SidecarTable{Table: "public.people"}, 9},
	} {
		changed := *c
		changed.Sidecar.Tables = []config.SidecarTable{step.table}
		next.Store(&changed)
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, "the rows of "+step.table.Selector, func() error {
			_, tables, _ := r.get("/v1/tables")
			_, rows, _ := r.get("/v1/tables/public.people/rows")
			relists := strings.Contains(tables, `"relist"`)
			if n := strings.Count(rows, `"id"`); n != step.rows || relists || len(step.table.Indexes) > 0 != strings.Contains(tables, "did you mean name?") {
				return fmt.Errorf("%d rows, want %d; %s", n, step.rows, tables)
			}
			return nil
		})
	}
	r.ends()
}
