package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// witness looks at each commit of a cache that a reader behind a readiness probe can see, and holds it against what happened.
type witness struct {
	pg       *postgres
	epoch    syncd.Epoch
	timeline uint32
	reached  map[syncd.Key]int // the state that was seen of each key: how many of its facts
	mine     map[syncd.Key]int // in this life of the sidecar
	claimed  syncd.Position
	claims   int
	looks    int
	torn     int // transactions that were looked at for being torn
	bad      []string
}

func (o *witness) fail(format string, args ...any) {
	if len(o.bad) < 3 {
		o.bad = append(o.bad, fmt.Sprintf(format, args...))
	}
}

// forget lets the next life of the sidecar go back: the stream lost what the last one had read, and where a commit is not
// visible yet nobody else knows of it.
func (o *witness) forget() {
	o.pg.mu.Lock()
	defer o.pg.mu.Unlock()
	o.reached = map[syncd.Key]int{}
}

// look checks one commit.
func (o *witness) look(c *sink.Cache) {
	v := c.View()
	if v == nil {
		return
	}
	defer v.Close()
	st := v.State()
	t := st.Tables[things]
	if t == nil || !t.Listed {
		return
	}
	o.pg.mu.Lock()
	defer o.pg.mu.Unlock()
	o.looks++
	e := o.pg.eras[st.Timeline]
	at := st.Cursor.Position
	if at.Epoch != o.epoch {
		if st.Timeline != o.timeline {
			o.reached, o.mine = map[syncd.Key]int{}, map[syncd.Key]int{}
		}
		o.epoch, o.timeline = at.Epoch, st.Timeline
	}
	news := t.Verified.Position != o.claimed && t.Verified.Position.Epoch == at.Epoch
	if news {
		o.claimed = t.Verified.Position
		o.claims++
	}
	shown := map[syncd.Key][2]int{} // of the keys that are not to be fetched
	for k, facts := range e.facts {
		entry, _ := v.Get(things, k)
		_, open := t.Open[k]
		open = open || entry.Pending
		if states := o.place(st, t, k, facts, string(entry.Row), news, open); !open {
			shown[k] = states
		}
	}
	v.Rows(things, 0, func(k syncd.Key, _ sink.Entry) bool {
		if e.facts[k] == nil {
			o.fail("%s: %s is cached and never was", at, k)
		}
		return true
	})
	if at.LSN >= t.Ahead && t.Loss == 0 {
		o.whole(st, e, shown)
	}
}

// plain is a row without the columns that it has no value in.
func plain(row string) string {
	for {
		i := strings.Index(row, ":null")
		if i < 0 {
			return row
		}
		row = row[:strings.LastIndexByte(row[:i], ',')] + row[i+len(":null"):]
	}
}

// place finds which of its states is seen of a key: the lowest and the highest that look so. State 0 is "not there yet".
func (o *witness) place(st *sink.State, t *sink.TableState, k syncd.Key, facts []fact, row string, claim, open bool) [2]int {
	// A key that is to be fetched shows what this life knows of it.
	low, why := o.mine[k], "it was seen"
	if !open {
		low = max(low, o.reached[k])
	}
	for i, f := range facts {
		if claim && f.tx.end <= o.claimed.LSN && i+1 > low {
			low, why = i+1, "it is verified"
		}
		// What the cache says it is complete through it must show, but for keys that it says are to be fetched.
		if !open && t.Through.Epoch == st.Cursor.Position.Epoch && f.tx.end <= t.Through.LSN && i+1 > low {
			low, why = i+1, "the table is complete through it"
		}
	}
	row = plain(row)
	found := [2]int{-1, -1}
	for i := low; i <= len(facts); i++ {
		if i == 0 && row == "" || i > 0 && (facts[i-1].row == nil && row == "" || facts[i-1].row != nil && facts[i-1].row.json(k, len(facts[i-1].row.x)) == row) {
			if found[0] < 0 {
				found[0] = i
			}
			found[1] = i
		}
	}
	if found[0] < 0 {
		var all []string
		for i, f := range facts {
			text := "nothing"
			if f.row != nil {
				text = f.row.json(k, len(f.row.x))
			}
			all = append(all, fmt.Sprintf("%d: %s at %s by %d", i+1, text, f.tx.end, f.tx.xid))
		}
		o.fail("at %s (table through %s, loss %s, verified %s): %s shows %s, and was at state %d, since %s, of %s",
			st.Cursor.Position, t.Through, t.Loss, t.Verified.Position, k, cmp.Or(row, "nothing"), low, why, strings.Join(all, "; "))
		return [2]int{low, len(facts)}
	}
	o.reached[k], o.mine[k] = max(o.reached[k], found[0]), found[0]
	return found
}

// whole checks that no transaction is seen in part, unless the stream lost something of it, or a key of it is to be fetched.
func (o *witness) whole(st *sink.State, e *era, shown map[syncd.Key][2]int) {
	for _, x := range e.txs[max(0, len(e.txs)-20):] {
		if x.hurt || x.truncate || len(x.changes) < 2 {
			continue
		}
		o.torn++
		var with, without []syncd.Key
		for k, states := range shown {
			i := slices.IndexFunc(e.facts[k], func(f fact) bool { return f.tx == x })
			switch {
			case i < 0:
			case states[0] > i:
				with = append(with, k)
			case states[1] <= i:
				without = append(without, k)
			}
		}
		if len(with) > 0 && len(without) > 0 {
			o.fail("at %s: of transaction %d, which ends at %s, %v are seen and %v are not", st.Cursor.Position, x.xid, x.end, with, without)
		}
	}
}
