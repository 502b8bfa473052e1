package sink_test

import (
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// bothRules puts other rules in the place of a gate's; nil keeps the gate's own.
func bothRules(d sink.DeltaRule, r sink.RowRule) func(*sink.Cache) {
	if d == nil {
		d = sink.GateDelta
	}
	if r == nil {
		r = sink.GateRow
	}
	return func(c *sink.Cache) { c.SetRules(d, r) }
}

// without gives a table's state less some of it.
func without(t *sink.TableState, change func(t *sink.TableState)) *sink.TableState {
	c := *t
	change(&c)
	return &c
}

func noFloor(t *sink.TableState) { t.Floor = nil }

var (
	taken     = sink.Verdict{Decision: sink.Take, Kind: sink.Stale}
	untouched = sink.Verdict{Decision: sink.Drop}
)

// ablations are rules taken away one at a time.
var ablations = []struct {
	name  string
	mix   mix
	from  uint64 // a seed near the first that finds it, where that is far; only to save time
	rules func(*sink.Cache)
	bend  bend
}{
	{
		name: "deltas are not compared by version",
		mix:  mix{lose: true, zombie: true},
		rules: bothRules(func(t *sink.TableState, e sink.Entry, has bool, d *syncd.Delta) sink.Verdict {
			e.Version.LSN, e.Version.Ordinal = 0, 0
			return sink.GateDelta(t, e, has, d)
		}, nil),
	},
	{
		name: "a delta beats every list",
		mix:  mix{zombie: true},
		rules: bothRules(func(t *sink.TableState, e sink.Entry, has bool, d *syncd.Delta) sink.Verdict {
			e.Snap = nil
			return sink.GateDelta(without(t, noFloor), e, has, d)
		}, nil),
	},
	{
		name: "a delta beats a list when it lies behind the list's H",
		mix:  mix{},
		rules: bothRules(func(t *sink.TableState, e sink.Entry, has bool, d *syncd.Delta) sink.Verdict {
			if has && e.Snap != nil && d.Version.LSN <= e.Snap.H {
				return untouched
			}
			return sink.GateDelta(t, e, has, d)
		}, nil),
	},
	{
		name: "a list beats a delta that lies before the list's H",
		mix:  mix{lose: true, together: true},
		rules: bothRules(nil, func(t *sink.TableState, e sink.Entry, has bool, row []byte, s *syncd.Snapshot) sink.Verdict {
			if has && e.Snap == nil && e.Version.LSN <= s.H {
				return taken
			}
			return sink.GateRow(t, e, has, row, s)
		}),
	},
	{
		name: "one list is later than another by H",
		from: 5360,
		mix:  mix{lose: true, together: true, shared: true},
		rules: bothRules(nil, func(t *sink.TableState, e sink.Entry, has bool, row []byte, s *syncd.Snapshot) sink.Verdict {
			if has && e.Snap != nil && e.Snap.Epoch == s.Epoch && s.H >= e.Snap.H {
				return taken
			}
			return sink.GateRow(t, e, has, row, s)
		}),
	},
	{
		name: "a list can't correct a state of the same version",
		mix:  mix{spoil: true},
		rules: bothRules(nil, func(t *sink.TableState, e sink.Entry, has bool, row []byte, s *syncd.Snapshot) sink.Verdict {
			v := sink.GateRow(t, e, has, row, s)
			if v.Kind == sink.Corrupt {
				return untouched
			}
			return v
		}),
	},
	{
		name: "a listed row without an entry is not compared with the floor",
		from: 17360,
		mix:  mix{lose: true, shared: true, together: true},
		rules: bothRules(nil, func(t *sink.TableState, e sink.Entry, has bool, row []byte, s *syncd.Snapshot) sink.Verdict {
			return sink.GateRow(without(t, noFloor), e, has, row, s)
		}),
	},
	{
		name: "a delta without an entry is not compared with the floor",
		mix:  mix{lose: true, zombie: true},
		rules: bothRules(func(t *sink.TableState, e sink.Entry, has bool, d *syncd.Delta) sink.Verdict {
			return sink.GateDelta(without(t, noFloor), e, has, d)
		}, nil),
	},
	{
		name: "the last TRUNCATE is forgotten",
		mix:  mix{truncate: true, zombie: true, together: true, shared: true},
		rules: bothRules(func(t *sink.TableState, e sink.Entry, has bool, d *syncd.Delta) sink.Verdict {
			return sink.GateDelta(without(t, func(t *sink.TableState) { t.Truncated = sink.Seen{} }), e, has, d)
		}, func(t *sink.TableState, e sink.Entry, has bool, row []byte, s *syncd.Snapshot) sink.Verdict {
			return sink.GateRow(without(t, func(t *sink.TableState) { t.Truncated = sink.Seen{} }), e, has, row, s)
		}),
	},
	{
		name: "what can't be decided is taken",
		mix:  mix{lose: true, standby: true, together: true, shared: true},
		rules: bothRules(nil, func(t *sink.TableState, e sink.Entry, has bool, row []byte, s *syncd.Snapshot) sink.Verdict {
			if v := sink.GateRow(t, e, has, row, s); v.Decision != sink.Undecided {
				return v
			}
			return taken
		}),
	},
	{
		name: "pages are judged before the stream has passed them",
		mix:  mix{},
		bend: bend{page: func(p *syncd.Page) { p.Snapshot.H = 0 }},
	},
	{
		name: "a table is verified through the list's H",
		mix:  mix{lose: true},
		bend: bend{list: func(l *sink.List) {
			for _, s := range l.Snapshots {
				l.Safe = max(l.Safe, s.H)
			}
		}},
	},
	{
		name: "a digest has seen what its last page has",
		mix:  mix{lose: true, zombie: true, rewind: true, tables: true, restart: true},
		bend: bend{digest: func(d *syncd.Digest, pages []*syncd.Page) {
			high := d.Snapshot.H
			snap := *pages[len(pages)-1].Snapshot
			snap.H = high
			d.Snapshot = &snap
		}},
	},
	{
		name: "buckets that differ are not listed",
		mix:  mix{lose: true, rot: true},
		bend: bend{proof: func(c *sink.Comparison) { c.Unequal = nil }},
	},
	{
		name: "the marker before is not looked at",
		mix:  mix{lose: true},
		bend: bend{marker: func(m *syncd.Marker) { m.Previous = 0 }},
	},
	{
		name: "markers count nothing",
		from: 1290,
		mix:  mix{lose: true},
		bend: bend{marker: func(m *syncd.Marker) { m.Counts = nil }},
	},
	{
		name: "what a row did not change is taken from the key it moved to",
		mix:  mix{toast: true, move: true},
		bend: bend{delta: func(d *syncd.Delta) { d.Moved = false }},
	},
}

// TestEachRuleIsNeeded proves that the simulations can fail: with any of these rules taken away, one does.
func TestEachRuleIsNeeded(t *testing.T) {
	for _, c := range ablations {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const seeds = 60_000
			for i := range uint64(seeds) {
				if err := runSeed(c.from+i, c.mix, c.rules, c.bend); err != nil {
					what, _, _ := strings.Cut(err.Error(), "\n")
					t.Log(what)
					return
				}
			}
			t.Errorf("%d histories without a counterexample", seeds)
		})
	}
}
