package sidecar

import (
	"log/slog"
	"strings"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// tableSet hands the tables to the cache, and says of which declared indexes can't be made. The catalog is its only caller.
type tableSet struct {
	*sink.Cache
	indexes func() map[syncd.Table][][]string
	log     *slog.Logger
	said    map[string]bool
}

// SetTables implements resync.TableSet.
func (s *tableSet) SetTables(infos []syncd.TableInfo) error {
	if err := s.Cache.SetTables(infos); err != nil || s.indexes == nil {
		return err
	}
	now := map[string]bool{}
	declared := s.indexes()
	for i := range infos {
		for _, columns := range declared[infos[i].Table] {
			if _, err := syncd.NewIndex(infos[i], columns); err != nil && infos[i].Error == "" {
				now[err.Error()] = true
				if !s.said[err.Error()] {
					s.log.Warn("an index can't be made, reads do without it", "table", infos[i].Table, "columns", strings.Join(columns, ","), "error", err)
				}
			}
		}
	}
	s.said = now
	return nil
}
