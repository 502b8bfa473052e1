package sink

import "github.com/syncd-io/syncd"

// DeltaRule and RowRule are the gate's two functions. A test may put others in their place, that lack a rule, to see what
// breaks without it.
type (
	DeltaRule = func(t *TableState, e Entry, has bool, d *syncd.Delta) Verdict
	RowRule   = func(t *TableState, e Entry, has bool, row []byte, s *syncd.Snapshot) Verdict
)

// SetRules replaces the gate of a cache.
func (c *Cache) SetRules(d DeltaRule, r RowRule) { c.gate = gate{d, r} }

// Fill is fill.
func Fill(base, row []byte, absent []string) []byte { return fill(base, row, absent) }

// Wait is the wait after so many failures in a row.
var Wait = (*Feed).wait
