package sink

import (
	"maps"
	"slices"
	"time"

	"github.com/syncd-io/syncd"
)

// SetTables says which tables the newest generation is to keep, and their shapes: what the source gives, less what this
// consumer leaves out. Calling it again with the same tables changes nothing.
//
//   - A table that is new is to be listed. What the stream said of it so far was left out, so its list must have seen
//     everything up to here.
//   - One that is gone, or refused, loses its entries.
//   - One with another key loses its entries and is listed like a new one.
//   - One with other columns or types, or another selector, keeps its entries and is to be listed.
func (c *Cache) SetTables(infos []syncd.TableInfo) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.heed(&err)
	ch := c.change()
	gone := maps.Clone(ch.state.Tables)
	changed := false
	for _, info := range infos {
		delete(gone, info.Table)
		changed = ch.setTable(checked(info)) || changed
	}
	for name := range gone {
		delete(ch.state.Tables, name)
		ch.reset(name, "the table is not kept any more")
		ch.batch.Drop = append(ch.batch.Drop, name)
		changed = true
	}
	if !changed {
		return nil
	}
	if err := c.commit(ch); err != nil {
		return err
	}
	for _, name := range ch.batch.Drop {
		delete(c.judged, name)
	}
	return nil
}

// setTable takes over one table's shape, and says whether it changed.
func (c *change) setTable(info syncd.TableInfo) bool {
	t := c.state.Tables[info.Table]
	switch {
	case t == nil:
		c.state.Tables[info.Table] = c.freshTable(info)
	case sameInfo(t.Info, info):
		return false
	case t.Info.Error != "" || info.Error != "" || !slices.Equal(t.Info.Key, info.Key):
		c.batch.Drop = append(c.batch.Drop, info.Table)
		c.reset(info.Table, "the table begins anew: its key changed, or it was refused or mended")
		c.state.Tables[info.Table] = c.freshTable(info)
	default:
		reset, why := "the table's columns changed", "the table's shape changed"
		if t.Info.Selector != info.Selector {
			reset, why = "the table's selector changed", "the table's selector changed"
		}
		t.Info = info
		c.reset(info.Table, reset)
		c.altered(t, c.state.Cursor.Position.LSN, why)
	}
	return true
}

// freshTable is the state of a table that nothing is known of yet.
func (c *change) freshTable(info syncd.TableInfo) *TableState {
	t := &TableState{Info: info}
	if at := c.state.Cursor.Position.LSN; at > 0 && info.Error == "" {
		c.openLoss(t, at, "the table is new")
		t.Through, t.Sent, t.Applied = syncd.Position{}, time.Time{}, time.Time{}
	}
	return t
}

func sameInfo(a, b syncd.TableInfo) bool {
	return a.Schema == b.Schema && a.Error == b.Error && a.Selector == b.Selector && slices.Equal(a.Key, b.Key) &&
		slices.Equal(a.Columns, b.Columns) && slices.Equal(a.Types, b.Types)
}
