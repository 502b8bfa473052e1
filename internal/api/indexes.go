package api

import (
	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// addIndexErrors says of each table which of its declared indexes can't be made.
func (a *API) addIndexErrors(all []Table, st *sink.State) {
	if a.Indexes == nil {
		return
	}
	declared := a.Indexes()
	for i := range all {
		t, err := syncd.ParseTable(all[i].Table)
		if err != nil || all[i].Error != "" {
			continue
		}
		for _, columns := range declared[t] {
			if _, err := syncd.NewIndex(st.Tables[t].Info, columns); err != nil {
				all[i].IndexErrors = append(all[i].IndexErrors, err.Error())
			}
		}
	}
}
