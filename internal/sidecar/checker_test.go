package sidecar

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/syncd-io/syncd"
)

// other shows one row otherwise to whoever gets it singly.
type other struct {
	*world
	key syncd.Key
}

func (o other) Get(ctx context.Context, q syncd.GetRequest) (*syncd.Page, error) {
	p, err := o.world.Get(ctx, q)
	if err != nil {
		return nil, err
	}
	for i := range p.Rows {
		if p.Rows[i].Key == o.key {
			p.Rows[i].JSON = []byte(`{"other":true}`)
		}
	}
	return p, nil
}

// counter gives the value of a counter of a table and window.
func counter(t *testing.T, reg *prometheus.Registry, name, window string) float64 {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetName() == "window" && l.GetValue() == window {
					return m.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}

// TestCheckerCountsAndAsks: a sidecar samples its cache; a row that stays otherwise than Postgres has it is counted in each
// window, and after the last its table is listed, though no run is due.
func TestCheckerCountsAndAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		for i := range 20 {
			w.write(key(i), true)
		}
		show(w)
		w.publish()
		reg := prometheus.NewRegistry()
		keepOver(t, w, other{w, key(3)}, Config{MaxPrune: 0.5, Checks: 2, Registerer: reg}, func(_ context.Context, s *Sidecar) {
			pass(5 * time.Minute)
			for window, least := range map[string]float64{"1s": 10, "10s": 10, "1m": 8} {
				yes, no := counter(t, reg, "syncd_consistent_within_total", window), counter(t, reg, "syncd_inconsistent_within_total", window)
				if share := no / (yes + no); no < least || share < 0.01 || share > 0.15 {
					t.Errorf("within %s: %v consistent, %v not; want one in twenty not", window, yes, no)
				}
			}
			before := s.cache.State().Tables[things].Resynced
			pass(2 * time.Minute)
			if no := counter(t, reg, "syncd_inconsistent_within_total", "5m"); no == 0 {
				t.Error("nothing was counted within 5m")
			}
			if after := s.cache.State().Tables[things].Resynced; !after.After(before) {
				t.Errorf("the table was last listed at %v: the checker's request was not heard", after)
			}
		})
	})
}
