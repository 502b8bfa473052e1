package source

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/syncd-io/syncd"
	"pgregory.net/rapid"
)

// testRow is a row of the table (k int, a int, x text) of the tests, of which x is large.
type testRow struct{ a, x int }

// testTable makes a roster that has the table, and a builder that has seen its Relation.
func testBuilder(t interface{ Fatal(...any) }, spillBytes int) *builder {
	intType := &Type{OID: 23, Schema: "pg_catalog", Name: "int4", Category: Integer, Typmod: -1}
	textType := &Type{OID: 25, Schema: "pg_catalog", Name: "text", Category: Quoted, Typmod: -1}
	cols := []Column{{"k", intType, "integer"}, {"a", intType, "integer"}, {"x", textType, "text"}}
	shape, err := NewShape(tableT, cols, []string{"k"})
	if err != nil {
		t.Fatal(err)
	}
	facts := []columnFacts{{Name: "k", Type: 23, Typmod: -1}, {Name: "a", Type: 23, Typmod: -1}, {Name: "x", Type: 25, Typmod: -1}}
	r := newRoster(Config{})
	r.state[tableT] = &rosterTable{
		config: TableConfig{Table: tableT}, shape: shape, info: shape.Info(),
		verdict: verdict{Key: []string{"k"}, Columns: facts, Publish: facts},
	}
	b := &builder{Epoch: 9, Tables: r, SpillBytes: spillBytes, Relist: func(syncd.Table, string, syncd.LSN) {}}
	rel := Relation{OID: 1, Namespace: []byte("public"), Name: []byte("t"), Identity: 'd', Columns: []RelationColumn{
		{Key: true, Name: []byte("k"), Type: 23, Typmod: -1}, {Name: []byte("a"), Type: 23, Typmod: -1}, {Name: []byte("x"), Type: 25, Typmod: -1}}}
	if err := b.relate(context.Background(), &rel); err != nil {
		t.Fatal(err)
	}
	return b
}

func textValue(n int) Value { return Value{Text, []byte(strconv.Itoa(n))} }

func newTuple(k int, r testRow, unchanged bool) []Value {
	x := textValue(r.x)
	if unchanged {
		x = Value{Kind: Unchanged}
	}
	return []Value{textValue(k), textValue(r.a), x}
}

func keyTuple(k int) []Value { return []Value{textValue(k), {Kind: Null}, {Kind: Null}} }

// writer makes the changes of a random transaction on a table, as pgoutput would send them.
type writer struct {
	t    *rapid.T
	rows map[int]testRow
	next int
	send func(*Change)
	trim func()
}

func (w *writer) step() {
	keys := slices.Sorted(maps.Keys(w.rows))
	w.next++
	op := rapid.SampledFrom([]string{"insert", "insert", "update", "update", "toast", "toast", "move", "move", "delete", "truncate"}).Draw(w.t, "op")
	if op == "truncate" && rapid.IntRange(0, 9).Draw(w.t, "really") > 0 || len(keys) == 0 {
		op = "insert"
	}
	free := rapid.IntRange(0, 30).Draw(w.t, "free key")
	if op == "insert" || op == "move" {
		if _, taken := w.rows[free]; taken {
			op = "update"
		}
	}
	k := 0
	if len(keys) > 0 {
		k = rapid.SampledFrom(keys).Draw(w.t, "key")
	}
	switch op {
	case "insert":
		w.rows[free] = testRow{w.next, w.next}
		w.send(&Change{Relation: 1, New: newTuple(free, w.rows[free], false)})
	case "update", "toast":
		r := testRow{w.next, w.next}
		if op == "toast" {
			r.x = w.rows[k].x
		}
		w.rows[k] = r
		w.send(&Change{Relation: 1, New: newTuple(k, r, op == "toast")})
	case "move":
		r := testRow{w.next, w.rows[k].x}
		delete(w.rows, k)
		w.rows[free] = r
		w.send(&Change{Relation: 1, OldTuple: OldKey, Old: keyTuple(k), New: newTuple(free, r, true)})
	case "delete":
		delete(w.rows, k)
		w.send(&Change{Relation: 1, OldTuple: OldKey, Old: keyTuple(k)})
	case "truncate":
		clear(w.rows)
		w.trim()
	}
}

// consume applies a flush's deltas as a consumer does: absent values come from the row as it was before the flush.
func consume(t *rapid.T, rows map[int]testRow, deltas []syncd.Delta) {
	before := maps.Clone(rows)
	seen := map[syncd.Key]bool{}
	for _, d := range deltas {
		if d.Op == syncd.Truncate {
			clear(rows)
			continue
		}
		k, err := strconv.Atoi(string(d.Key))
		if err != nil || seen[d.Key] {
			t.Fatalf("delta %+v: %v, seen %v", d, err, seen[d.Key])
		}
		seen[d.Key] = true
		if d.Op == syncd.Delete {
			delete(rows, k)
			continue
		}
		var r testRow
		switch {
		case d.Pointer:
			r = testRow{-1, -1}
		case len(d.Absent) == 0:
			if _, err := fmt.Sscanf(string(d.Row), `{"k":`+strconv.Itoa(k)+`,"a":%d,"x":"%d"}`, &r.a, &r.x); err != nil {
				t.Fatalf("row %s: %v", d.Row, err)
			}
		default:
			if _, err := fmt.Sscanf(string(d.Row), `{"k":`+strconv.Itoa(k)+`,"a":%d}`, &r.a); err != nil {
				t.Fatalf("row %s without %v: %v", d.Row, d.Absent, err)
			}
			base := k
			if d.Moved {
				if base, err = strconv.Atoi(string(d.From)); err != nil {
					t.Fatal(err)
				}
			}
			old, ok := before[base]
			if !ok {
				t.Fatalf("row %s of key %d takes x from key %d, which was not there", d.Row, k, base)
			}
			r.x = old.x
		}
		rows[k] = r
	}
}

func TestTransactionsAreReduced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := testBuilder(t, 1<<30)
		w := &writer{t: t, rows: map[int]testRow{}, send: func(c *Change) {
			if err := b.change(c); err != nil {
				t.Fatal(err)
			}
		}, trim: func() {
			if err := b.truncate(&Truncated{Relations: []uint32{1}}); err != nil {
				t.Fatal(err)
			}
		}}
		got := map[int]testRow{}
		for n := range rapid.IntRange(1, 6).Draw(t, "transactions") {
			if err := b.start(Begin{Final: 1, XID: 1}, false); err != nil {
				t.Fatal(err)
			}
			for range rapid.IntRange(1, 80).Draw(t, "changes") {
				w.step()
				if rapid.IntRange(0, 20).Draw(t, "taken") == 0 {
					if deltas, _ := b.take(); deltas != nil { // an open transaction stays
						consume(t, got, deltas)
					}
				}
			}
			b.commit(syncd.LSN(n+1), time.Unix(1, 0), 7)
			deltas, bytes := b.take()
			last := syncd.Version{Epoch: 9, LSN: syncd.LSN(n + 1)}
			for i, d := range deltas {
				if d.Version.Position() != last.Position() || d.Version.Compare(last) <= 0 {
					t.Fatalf("delta %d has version %s behind %s", i, d.Version, last)
				}
				last = d.Version
			}
			if bytes < len(deltas)*deltaOverhead || b.bytes != 0 {
				t.Fatalf("%d deltas count as %d bytes, %d are left", len(deltas), bytes, b.bytes)
			}
			consume(t, got, deltas)
			if !maps.Equal(got, w.rows) {
				t.Fatalf("a consumer has %v, the table %v", got, w.rows)
			}
		}
	})
}

func TestLargeTransactionsAreReduced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := testBuilder(t, rapid.IntRange(300, 6000).Draw(t, "limit"))
		defer b.close()
		w := &writer{t: t, rows: map[int]testRow{}, send: func(c *Change) {
			if err := b.change(c); err != nil {
				t.Fatal(err)
			}
		}, trim: func() {
			if err := b.truncate(&Truncated{Relations: []uint32{1}}); err != nil {
				t.Fatal(err)
			}
		}}
		if err := b.start(Begin{Final: 1, XID: 1}, false); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(60, 120).Draw(t, "changes") {
			w.step()
		}
		if err := b.toDisk(); err != nil {
			t.Fatal(err)
		}
		s, err := b.commitSpilled(5, time.Unix(1, 0), 7)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		got := map[int]testRow{}
		ordinal, count := uint32(0), 0
		for last := false; !last; {
			var deltas []syncd.Delta
			if deltas, last, err = s.next(rapid.IntRange(1, 4000).Draw(t, "part")); err != nil {
				t.Fatal(err)
			}
			for _, d := range deltas {
				if d.Version.Position() != (syncd.Position{Epoch: 9, LSN: 5}) || d.Version.Ordinal <= ordinal || d.XID != 7 || d.Table != tableT {
					t.Fatalf("delta %+v behind ordinal %d", d, ordinal)
				}
				ordinal = d.Version.Ordinal
				count++
			}
			consume(t, got, deltas)
		}
		if count != s.counts[tableT] {
			t.Fatalf("%d deltas, %v counted", count, s.counts)
		}
		for k, r := range got {
			if want := w.rows[k]; r != (testRow{-1, -1}) && r != want && r.x != -1 {
				t.Fatalf("a consumer has %v under %d, the table %v", r, k, want)
			}
		}
		if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(w.rows))) {
			t.Fatalf("a consumer has %v, the table %v", got, w.rows)
		}
	})
}

// Who reads a transaction again, amid whose parts a source died, gives each key's last state the same version, whatever is
// kept in memory or synced by then.
func TestOrdinalsAreThoseOfTheServer(t *testing.T) {
	for _, limit := range []int{1, 600, 1 << 30} {
		b := testBuilder(t, limit)
		b.relations[2] = nil // a table that is not synced
		if err := b.start(Begin{Final: 1, XID: 1}, false); err != nil {
			t.Fatal(err)
		}
		for _, c := range []*Change{
			{Relation: 1, New: newTuple(1, testRow{1, 1}, false)},
			{Relation: 2, New: newTuple(1, testRow{1, 1}, false)},
			{Relation: 1, New: newTuple(1, testRow{2, 2}, false)},
			{Relation: 1, OldTuple: OldKey, Old: keyTuple(1), New: newTuple(2, testRow{3, 3}, false)},
			{Relation: 2, OldTuple: OldKey, Old: keyTuple(1), New: newTuple(2, testRow{3, 3}, false)},
			{Relation: 1, New: newTuple(3, testRow{4, 4}, false)},
			{Relation: 1, OldTuple: OldKey, Old: keyTuple(3)},
		} {
			if err := b.change(c); err != nil {
				t.Fatal(err)
			}
		}
		got := map[syncd.Key]uint32{}
		var deltas []syncd.Delta
		if b.spill != nil {
			s, err := b.commitSpilled(5, time.Unix(1, 0), 7)
			if err != nil {
				t.Fatal(err)
			}
			for last := false; !last; {
				var part []syncd.Delta
				if part, last, err = s.next(1 << 20); err != nil {
					t.Fatal(err)
				}
				deltas = append(deltas, part...)
			}
			s.close()
		} else {
			b.commit(5, time.Unix(1, 0), 7)
			deltas, _ = b.take()
		}
		for _, d := range deltas {
			got[d.Key] = d.Version.Ordinal
		}
		if want := map[syncd.Key]uint32{"1": 4, "2": 5, "3": 9}; !maps.Equal(got, want) {
			t.Errorf("with %d bytes: ordinals %v, want %v", limit, got, want)
		}
	}
}

func TestFullIdentityFillsFromTheOldRow(t *testing.T) {
	b := testBuilder(t, 0)
	if err := b.start(Begin{Final: 1, XID: 1}, false); err != nil {
		t.Fatal(err)
	}
	c := &Change{Relation: 1, OldTuple: OldRow, Old: newTuple(1, testRow{2, 3}, false), New: newTuple(1, testRow{4, 0}, true)}
	if err := b.change(c); err != nil {
		t.Fatal(err)
	}
	c = &Change{Relation: 1, OldTuple: OldRow, Old: newTuple(7, testRow{2, 3}, false), New: newTuple(8, testRow{4, 0}, true)}
	if err := b.change(c); err != nil {
		t.Fatal(err)
	}
	b.commit(5, time.Unix(1, 0), 7)
	deltas, _ := b.take()
	want := []string{`1 {"k":1,"a":4,"x":"3"}`, `7 `, `8 {"k":8,"a":4,"x":"3"}`}
	for i, d := range deltas {
		if got := fmt.Sprintf("%s %s", d.Key, d.Row); got != want[i] || len(d.Absent) > 0 {
			t.Errorf("delta %d is %s, want %s", i, got, want[i])
		}
	}
	if len(deltas) != 3 || !deltas[2].Moved || deltas[2].From != "7" {
		t.Errorf("deltas %+v", deltas)
	}
}

func TestChangesThatMakeNoSense(t *testing.T) {
	b := testBuilder(t, 0)
	insert := &Change{Relation: 1, New: newTuple(1, testRow{}, false)}
	if err := b.change(insert); err == nil {
		t.Error("a change outside of a transaction")
	}
	if err := b.start(Begin{Final: 1}, false); err != nil {
		t.Fatal(err)
	}
	if err := b.start(Begin{Final: 2}, false); err == nil {
		t.Error("a transaction within another")
	}
	for name, c := range map[string]*Change{
		"an unknown relation":  {Relation: 2, New: newTuple(1, testRow{}, false)},
		"a key that is NULL":   {Relation: 1, New: keyTuple(1)[1:]},
		"too few columns":      {Relation: 1, New: newTuple(1, testRow{}, false)[:1]},
		"a delete without key": {Relation: 1, OldTuple: OldKey, Old: []Value{{Kind: Null}, {Kind: Null}, {Kind: Null}}},
	} {
		if err := b.change(c); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
