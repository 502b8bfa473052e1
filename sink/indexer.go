package sink

import "github.com/syncd-io/syncd"

// Indexer is a View that finds the rows that a filter may match without looking at all rows. A store without indexes need
// not have it.
type Indexer interface {
	// Find calls fn as View.Rows does, in the same order, until fn gives false, but may leave out rows that f does not match.
	// Where it knows no better way than to look at all rows it does not call fn and gives false.
	Find(t syncd.Table, f syncd.Filter, from uint64, fn func(syncd.Key, Entry) bool) bool
}

// IndexKeeper is a Store whose indexes can be declared. It keeps them in step with each commit.
type IndexKeeper interface {
	// SetIndexes says by which columns the rows of tables are to be found from now on. A column that a table lacks leaves out
	// its index alone. It may take as long as to read all rows of the tables whose indexes change; readers don't wait for it.
	SetIndexes(indexes map[syncd.Table][][]string) error
}

// SetIndexes says by which columns the rows of tables are to be found from now on. It does nothing where the store has no indexes.
func (c *Cache) SetIndexes(indexes map[syncd.Table][][]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range []*generation{c.serving.Load(), c.building} {
		if g == nil {
			continue
		}
		if x, ok := g.Store.(IndexKeeper); ok {
			if err := x.SetIndexes(indexes); err != nil {
				return err
			}
		}
	}
	return nil
}

// Matching calls fn for each row that f matches, in the order of View.Rows, until fn gives false. An index is used where there
// is one.
func Matching(v View, t syncd.Table, f syncd.Filter, from uint64, fn func(syncd.Key, Entry) bool) {
	if f.IsZero() {
		v.Rows(t, from, fn)
		return
	}
	matching := func(k syncd.Key, e Entry) bool { return !f.Match(e.Row) || fn(k, e) }
	if x, ok := v.(Indexer); ok && x.Find(t, f, from, matching) {
		return
	}
	v.Rows(t, from, matching)
}
