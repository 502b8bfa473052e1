package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/syncd-io/syncd"
)

// world is a small Postgres with a source: tables, the transactions that change them, and what is not published yet.
type world struct {
	r      *rand.Rand
	epoch  syncd.Epoch
	xid    syncd.XID
	lsn    syncd.LSN
	seq    uint64
	last   syncd.LSN // Through of the last marker
	tables map[syncd.Table]*worldTable
	queue  []syncd.Delta // of commits that no flush has published
	past   []syncd.Delta // the last ones published, for repetitions
	pruned bool          // one of the tables is left out of the cache
}

// worldTable is one table: its shape and its rows.
type worldTable struct {
	info syncd.TableInfo
	rows map[syncd.Key][]byte
}

func newWorld(seed uint64) *world {
	w := &world{r: rand.New(rand.NewPCG(seed, 7)), epoch: 1, xid: 100, lsn: 1000, last: 1000, tables: map[syncd.Table]*worldTable{}}
	w.tables[users] = &worldTable{rows: map[syncd.Key][]byte{}, info: syncd.TableInfo{Table: users, Key: []string{"id"}, Schema: 10,
		Columns: []string{"id", "name", "price", "active", "doc"}, Types: []string{"bigint", "text", "numeric", "boolean", "jsonb"}}}
	w.tables[items] = &worldTable{rows: map[syncd.Key][]byte{}, info: syncd.TableInfo{Table: items, Key: []string{"region", "n"}, Schema: 20,
		Columns: []string{"n", "region", "Ratio \"x\"", "tags"}, Types: []string{"integer", "character varying(20)", "double precision", "text[]"}}}
	return w
}

// infos are the tables that the cache keeps.
func (w *world) infos() (all []syncd.TableInfo) {
	for _, name := range w.names() {
		if !w.pruned || name != items {
			all = append(all, w.tables[name].info)
		}
	}
	return all
}

func (w *world) names() []syncd.Table {
	return slices.SortedFunc(maps.Keys(w.tables), func(a, b syncd.Table) int { return len(a.Name) - len(b.Name) })
}

func (w *world) anyTable() *worldTable { return w.tables[w.names()[w.r.IntN(len(w.tables))]] }

const worldKeys = 12

// randomKey gives one of the few keys that a table's rows have.
func (t *worldTable) randomKey(r *rand.Rand) syncd.Key {
	n := strconv.Itoa(r.IntN(worldKeys))
	if len(t.info.Key) == 1 {
		return syncd.MakeKey(n)
	}
	return syncd.MakeKey([]string{"eu", "ü\" '"}[r.IntN(2)], n)
}

// row makes a row under a key. Columns that the table gained are at its end.
func (t *worldTable) row(r *rand.Rand, k syncd.Key) []byte {
	v := k.Values()
	var b []byte
	if t.info.Table == users {
		names := []string{`"Ann"`, `"O'Neil \"x\" \u0007"`, `null`, `""`, `"日本"`}
		numbers := []string{`12.50`, `-0.000`, `99999999999999999999.5`, `"NaN"`, `null`, `7`}
		b = fmt.Appendf(nil, `{"id":%s,"name":%s,"price":%s,"active":%v,"doc":{"a": [%d, null]}`, v[0], names[r.IntN(len(names))], numbers[r.IntN(len(numbers))], r.IntN(2) == 0, r.IntN(1000))
	} else {
		floats := []string{`1.1`, `1e+300`, `"-Infinity"`, `null`, `-0`}
		b = fmt.Appendf(nil, `{"n":%s,"region":%q,"Ratio \"x\"":%s,"tags":["a",null,"%d"]`, v[1], v[0], floats[r.IntN(len(floats))], r.IntN(1000))
	}
	for _, c := range t.added() {
		b = fmt.Appendf(b, `,%q:%d`, c, r.IntN(50))
	}
	return append(b, '}')
}

// added are the columns that came with changes of the shape.
func (t *worldTable) added() []string {
	if t.info.Table == users {
		return t.info.Columns[5:]
	}
	return t.info.Columns[4:]
}

// commit makes a transaction of a few changes, at most one of a key.
func (w *world) commit() {
	w.xid += syncd.XID(1 + w.r.IntN(3))
	w.lsn += syncd.LSN(8 * (1 + w.r.IntN(20)))
	seen := map[syncd.Key]bool{}
	for i := range 1 + w.r.IntN(5) {
		t := w.anyTable()
		d := syncd.Delta{Table: t.info.Table, Key: t.randomKey(w.r), XID: w.xid, Schema: t.info.Schema, Version: syncd.Version{Epoch: w.epoch, LSN: w.lsn, Ordinal: uint32(i + 1)}}
		if seen[d.Key] {
			continue
		}
		seen[d.Key] = true
		switch old := t.rows[d.Key]; {
		case i == 0 && w.r.IntN(25) == 0:
			d.Op, d.Key = syncd.Truncate, ""
			clear(t.rows)
		case w.r.IntN(3) == 0:
			d.Op = syncd.Delete
			delete(t.rows, d.Key)
		case old != nil && w.r.IntN(12) == 0:
			d.Op, d.Pointer = syncd.Upsert, true
			t.rows[d.Key] = t.row(w.r, d.Key)
		default:
			d.Op, d.Row = syncd.Upsert, t.row(w.r, d.Key)
			t.rows[d.Key] = d.Row
		}
		w.queue = append(w.queue, d)
		if d.Op == syncd.Truncate {
			return // in a transaction of its own
		}
	}
}

// alter gives a table another column, or takes it away again. Its rows are as if they were all written anew.
func (w *world) alter() {
	t := w.anyTable()
	i := t.info
	if n := len(t.added()); n > 1 {
		i.Columns, i.Types = i.Columns[:len(i.Columns)-n], i.Types[:len(i.Types)-n]
	} else {
		i.Columns = append(slices.Clone(i.Columns), fmt.Sprintf("extra_%d", i.Schema))
		i.Types = append(slices.Clone(i.Types), []string{"integer", "text"}[w.r.IntN(2)])
	}
	i.Schema++
	t.info = i
	w.lsn += 8
	for k := range t.rows {
		t.rows[k] = t.row(w.r, k)
	}
}

// page is what a snapshot taken now shows of a table: of all rows, or of the keys asked for.
func (w *world) page(name syncd.Table, asked []syncd.Key, only *syncd.BucketSet) *syncd.Page {
	t := w.tables[name]
	p := &syncd.Page{Table: name, Schema: t.info.Schema, Safe: w.last, Asked: asked, Last: true,
		Snapshot: &syncd.Snapshot{Epoch: w.epoch, Xmin: w.xid + 1, Xmax: w.xid + 1, H: w.lsn}}
	for _, k := range slices.Sorted(maps.Keys(t.rows)) {
		if asked == nil && only.Holds(k.Hash()) || slices.Contains(asked, k) {
			p.Rows = append(p.Rows, syncd.Row{Key: k, JSON: t.rows[k]})
			p.Sent.Add(k, t.rows[k])
		}
	}
	return p
}

// digest is the digest of a table as a snapshot taken now shows it.
func (w *world) digest(name syncd.Table, bits int) *syncd.Digest {
	p := w.page(name, nil, nil)
	d := &syncd.Digest{Table: name, Schema: p.Schema, Form: syncd.DigestForm, Snapshot: p.Snapshot, Safe: p.Safe, Bits: bits, Buckets: make([]syncd.Totals, 1<<bits)}
	for _, r := range p.Rows {
		d.Buckets[syncd.BucketOf(r.Key.Hash(), bits)].Add(r.Key, r.JSON)
	}
	return d
}
