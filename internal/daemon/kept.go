package daemon

import (
	"fmt"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/config"
)

// kept says what a sidecar keeps of the source's tables, and how it finds it.
type kept struct {
	tables    []syncd.Table // nil: all that the source syncs
	selectors map[syncd.Table]string
	indexes   map[syncd.Table][][]string
}

// keptOf reads sidecar.tables.
func keptOf(c *config.Config) (kept, error) {
	k := kept{selectors: map[syncd.Table]string{}, indexes: map[syncd.Table][][]string{}}
	for _, t := range c.Sidecar.Tables {
		name, err := syncd.ParseTable(t.Table)
		if err != nil {
			return kept{}, fmt.Errorf("sidecar.tables: %w", err)
		}
		k.tables = append(k.tables, name)
		if t.Selector != "" {
			k.selectors[name] = t.Selector
		}
		for _, columns := range t.Indexes {
			k.indexes[name] = append(k.indexes[name], columns)
		}
	}
	return k, nil
}
