package sink

import "github.com/syncd-io/syncd"

// Digester is a Store that knows the digests of its tables, so that a resync can compare a table without reading it.
type Digester interface {
	// Digest gives the totals of the rows in each of 2^bits hash buckets of a table, as of the last commit, and the least
	// epoch of the table's entries, tombstones too; zero where it has none. Calls count as those of Load do. What it gives
	// belongs to the caller.
	Digest(t syncd.Table, bits int) (buckets []syncd.Totals, oldest syncd.Epoch, err error)
}
