package sink_test

import (
	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// reader checks what readers of the cache see, against the server's history.
type reader struct {
	s     *simulation
	epoch syncd.Epoch
	// seen is the state of each key that was read last: it must not go back.
	seen [simTables][simKeys]int
	// ahead is how far the cache was once, where its cursor was put back.
	ahead   syncd.Position
	repairs int
}

func (r *reader) rewound(from syncd.Position) {
	if from.Compare(r.ahead) > 0 {
		r.ahead = from
	}
}

// forget takes note that a table begins again.
func (r *reader) forget(table int) { r.seen[table] = [simKeys]int{} }

// found counts what lists repaired.
func (r *reader) found(_ syncd.Table, found []sink.Finding) {
	for _, f := range found {
		if f.Kind != sink.NoRepair {
			r.repairs++
		}
	}
}

// check looks at all that can be read now.
func (r *reader) check() {
	r.s.follower.check()
	v := r.s.cache.View()
	defer v.Close()
	at := v.State().Cursor.Position
	h := r.s.past[at.Epoch]
	if h == nil {
		return
	}
	if at.Epoch != r.epoch {
		r.epoch, r.seen, r.ahead = at.Epoch, [simTables][simKeys]int{}, syncd.Position{}
	}
	for table := range simTables {
		t := v.State().Tables[tableName(table)]
		if t == nil || !t.Listed {
			continue
		}
		for key := range simKeys {
			r.checkKey(v, t, h, place{table, key})
		}
		rows := 0
		v.Rows(tableName(table), 0, func(syncd.Key, sink.Entry) bool { rows++; return true })
		if rows != t.Rows {
			r.s.bad("%s counts %d rows and shows %d", tableName(table), t.Rows, rows)
		}
	}
}

// checkKey checks one key: its state is one that was, not older than what was read before, and, where nothing is known to be
// missing, the very one at the table's through.
func (r *reader) checkKey(v sink.View, t *sink.TableState, h *history, at place) {
	e, _ := v.Get(tableName(at.table), keyOf(at.key))
	_, open := t.Open[keyOf(at.key)]
	shown, err := valueOf(e.Row)
	if err != nil {
		r.s.bad("%v", err)
		return
	}
	if shown.a >= garbage || shown.x >= garbage {
		return
	}
	facts := h[at.table][at.key]
	seen := &r.seen[at.table][at.key]
	if r.s.cache.Ready() != nil {
		seen = new(int) // not behind a readiness probe
	}
	found := -1
	for i := *seen; i < len(facts); i++ {
		if keep(t.Info.Selector, facts[i].value) == shown || t.Loss != 0 && facts[i].value == shown { // the selector may have changed
			found = i
			break
		}
	}
	inParts := r.s.mix.parts || r.s.mix.small // half a transaction may be shown, with values filled before a loss is noticed
	unsure := open || e.Pending || t.Loss != 0 || t.Through.Compare(r.ahead) < 0 || inParts
	switch {
	case found < 0 && inParts:
		return
	case found < 0 && !shown.there && (e.Pending || open || t.Loss != 0):
		return
	case found < 0:
		r.s.bad("%s/%d shows %+v, which is older than what was read before (%+v), or never was", tableName(at.table), at.key, shown, facts[*seen].value)
	case shown.there || !unsure:
		*seen = found
	}
	if unsure {
		return
	}
	if want := keep(t.Info.Selector, facts[h.at(at.table, at.key, t.Through.LSN)].value); want != shown {
		r.s.bad("%s/%d shows %+v, and at %s it was %+v", tableName(at.table), at.key, shown, t.Through, want)
	}
}

// verified checks a claim: each key shows the state it had at that position, or a later one. It can't know of rows that were
// spoilt since the list began, or whose state is later than what is claimed.
func (r *reader) verified(table int, p syncd.Position, unspoilt bool) {
	h := r.s.past[p.Epoch]
	for key := range simKeys {
		var e sink.Entry
		_ = r.s.cache.Walk(tableName(table), 0, func(k syncd.Key, held sink.Entry) bool {
			if k == keyOf(key) {
				e = held
			}
			return true
		})
		shown, err := valueOf(e.Row)
		if err != nil {
			r.s.bad("%v", err)
			return
		}
		facts := h[table][key]
		need := h.at(table, key, p.LSN)
		later := e.Version.LSN > p.LSN || e.Snap != nil && e.Snap.H > p.LSN
		ok := (later || !unspoilt) && (shown.a >= garbage || shown.x >= garbage)
		for _, f := range facts[need:] {
			ok = ok || keep(r.s.selectorOf(table), f.value) == shown
		}
		if !ok {
			r.s.bad("%s is claimed to be verified through %s, where %d was %+v, and shows %+v", tableName(table), p, key, facts[need].value, shown)
		}
	}
}
