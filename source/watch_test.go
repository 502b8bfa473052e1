package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
)

// running is a Watch that runs until the test ends, or until stop.
type running struct {
	t      *testing.T
	watch  *Watch
	stream *Memory
	ended  chan error
	stop   func() error
}

// configFor is a configuration for a test's database.
func configFor(t *testing.T, db *harness.DB, tables ...string) Config {
	t.Helper()
	c := Config{Name: db.Name, Postgres: db.URL, Manage: true, TrailInterval: -1, Logger: harness.Logger(t)}
	for _, name := range tables {
		table, err := syncd.ParseTable(name)
		if err != nil {
			t.Fatal(err)
		}
		c.Tables = append(c.Tables, TableConfig{Table: table})
	}
	return c
}

func run(t *testing.T, w *Watch) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	r := &running{t: t, watch: w, stream: w.Publisher.(*Memory), ended: ended}
	r.stop = func() error {
		cancel()
		err := harness.Receive(t, "the watch's end", ended)
		r.stop = func() error { return err }
		return err
	}
	t.Cleanup(func() {
		if err := r.stop(); err != nil && !t.Failed() {
			t.Errorf("the watch ended with %v", err)
		}
	})
	return r
}

// reach waits until the stream has everything that is committed now.
func (r *running) reach(db *harness.DB) {
	r.t.Helper()
	at := db.LSN()
	harness.Eventually(r.t, fmt.Sprintf("a marker at %s", at), func() error {
		p, err := r.watch.Mark(r.t.Context(), at)
		if err == nil && p.LSN < at {
			err = fmt.Errorf("it is at %s", p.LSN)
		}
		return err
	})
}

// leads waits until the watch leads.
func (r *running) leads() {
	r.t.Helper()
	harness.Eventually(r.t, "the watch leads", func() error {
		if r.watch.current() == nil {
			return errors.New("it stands by")
		}
		return nil
	})
}

// replica is what a consumer without faults makes of a stream.
type replica struct {
	rows    map[syncd.Table]map[syncd.Key]map[string]json.RawMessage
	through syncd.Position
	version syncd.Version
	commits int
	open    bool // the last flush was a part
	parts   map[syncd.Table]int
}

// follow applies flushes, and checks what each of them promises.
func follow(t *testing.T, flushes []syncd.Flush) *replica {
	t.Helper()
	r := &replica{rows: map[syncd.Table]map[syncd.Key]map[string]json.RawMessage{}}
	for _, f := range flushes {
		r.marker(t, &f)
		for len(f.Deltas) > 0 {
			n := slices.IndexFunc(f.Deltas, func(d syncd.Delta) bool { return d.Version.LSN != f.Deltas[0].Version.LSN })
			if n < 0 {
				n = len(f.Deltas)
			}
			r.commit(t, f.Deltas[:n], &f.Marker)
			f.Deltas = f.Deltas[n:]
		}
		r.through = f.Marker.Position()
	}
	return r
}

func (r *replica) marker(t *testing.T, f *syncd.Flush) {
	t.Helper()
	m := &f.Marker
	if m.Epoch != r.through.Epoch {
		if m.Epoch < r.through.Epoch || m.Previous != 0 || m.Through != m.Start || len(f.Deltas) > 0 {
			t.Errorf("the first marker of epoch %d behind %s is %+v with %d deltas", m.Epoch, r.through, *m, len(f.Deltas))
		}
		clear(r.rows) // a consumer lists
	} else if m.Previous != r.through.LSN || m.Through < m.Previous {
		t.Errorf("a marker from %s to %s behind %s", m.Previous, m.Through, r.through)
	}
	if m.Safe > m.Through || m.System == 0 || m.Timeline == 0 || m.Start == 0 {
		t.Errorf("marker %+v", *m)
	}
	if r.parts == nil {
		r.parts = map[syncd.Table]int{}
	}
	counts := r.parts
	for _, d := range f.Deltas {
		counts[d.Table]++
	}
	if m.Part {
		if m.Through != m.Previous || len(m.Counts) > 0 {
			t.Errorf("the marker of a part is %+v", *m)
		}
		return
	}
	r.parts = nil
	if !maps.Equal(counts, m.Counts) {
		t.Errorf("the marker at %s counts %v, the flush has %v", m.Through, m.Counts, counts)
	}
}

func (r *replica) commit(t *testing.T, deltas []syncd.Delta, m *syncd.Marker) {
	t.Helper()
	if !r.open {
		r.commits++
	}
	r.open = m.Part
	before := map[syncd.Table]map[syncd.Key]map[string]json.RawMessage{}
	for table, rows := range r.rows {
		before[table] = maps.Clone(rows)
	}
	seen := map[string]bool{}
	for _, d := range deltas {
		if d.Version.Compare(r.version) <= 0 || d.Version.Epoch != m.Epoch || d.Version.LSN > m.Through && !m.Part || d.Version.LSN <= m.Previous {
			t.Errorf("%s %s has version %s behind %s, in the flush from %s to %s", d.Table, d.Key, d.Version, r.version, m.Previous, m.Through)
		}
		r.version = d.Version
		if d.Version.Ordinal == 0 || d.XID != deltas[0].XID || d.XID == 0 || d.Committed.IsZero() {
			t.Errorf("a change is %+v", d)
		}
		if id := d.Table.String() + "/" + d.Key.Path() + d.Op.String()[:1]; seen[id] {
			t.Errorf("two states of %s in one transaction", id)
		} else {
			seen[id] = true
		}
		r.apply(t, d, before)
	}
}

func (r *replica) apply(t *testing.T, d syncd.Delta, before map[syncd.Table]map[syncd.Key]map[string]json.RawMessage) {
	t.Helper()
	switch d.Op {
	case syncd.Truncate:
		delete(r.rows, d.Table)
	case syncd.Delete:
		delete(r.rows[d.Table], d.Key)
	case syncd.Upsert:
		base := d.Key
		if d.Moved {
			base = d.From
		}
		if r.rows[d.Table] == nil {
			r.rows[d.Table] = map[syncd.Key]map[string]json.RawMessage{}
		}
		if old, ok := before[d.Table][base]; d.Pointer || len(d.Absent) > 0 && ok && old == nil {
			r.rows[d.Table][d.Key] = nil // a consumer fetches it
			return
		}
		row := map[string]json.RawMessage{}
		if err := json.Unmarshal(d.Row, &row); err != nil {
			t.Fatalf("%s %s: row %q: %v", d.Table, d.Key, d.Row, err)
		}
		for _, name := range d.Absent {
			v, ok := before[d.Table][base][name]
			if _, dup := row[name]; dup || !ok {
				t.Errorf("%s %s: column %s is absent, and so it is under %s", d.Table, d.Key, name, base)
			}
			row[name] = v
		}
		r.rows[d.Table][d.Key] = row
	}
}

// equal compares with the table itself. The rows compare as JSON: a row that was filled has its columns in another order here.
func (r *replica) equal(t *testing.T, db *harness.DB, table syncd.Table, columns ...string) {
	t.Helper()
	want := harness.Oracle(t, db, table, columns...)
	for key, text := range want {
		if got, ok := r.rows[table][key]; ok && got == nil {
			continue // to be fetched
		}
		row := map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(text), &row); err != nil {
			t.Fatal(err)
		}
		if !maps.EqualFunc(row, r.rows[table][key], func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
			t.Errorf("%s %s is %s, Postgres has %s", table, key, r.rows[table][key], text)
		}
	}
	for key := range r.rows[table] {
		if _, ok := want[key]; !ok {
			t.Errorf("%s %s is not in Postgres", table, key)
		}
	}
}

var tableT = syncd.Table{Schema: "public", Name: "t"}

func TestWatchCapturesEveryOperation(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text, big text);
		ALTER TABLE public.t ALTER big SET STORAGE EXTERNAL;
		CREATE TABLE public.other (id int PRIMARY KEY)`)
	w := run(t, NewWatch(configFor(t, db, "public.t"), new(Memory)))
	w.leads()
	steps := []struct{ name, sql string }{
		{"insert", `INSERT INTO public.t SELECT i, 'v' || i, repeat(i::text, 5000) FROM generate_series(1, 50) i`},
		{"unchanged TOAST", `UPDATE public.t SET v = 'w' WHERE id <= 20`},
		{"change of key with unchanged TOAST", `UPDATE public.t SET id = id + 1000 WHERE id <= 5`},
		{"key swap", `BEGIN; UPDATE public.t SET id = -1 WHERE id = 10; UPDATE public.t SET id = 10 WHERE id = 11; UPDATE public.t SET id = 11 WHERE id = -1; COMMIT`},
		{"a chain of moves", `BEGIN; UPDATE public.t SET id = 500 WHERE id = 12; UPDATE public.t SET id = 501, v = 'x' WHERE id = 500; UPDATE public.t SET id = 502 WHERE id = 501; COMMIT`},
		{"moved away and back", `BEGIN; UPDATE public.t SET id = 600 WHERE id = 13; UPDATE public.t SET id = 13, v = 'back' WHERE id = 600; COMMIT`},
		{"inserted, updated and moved", `BEGIN; INSERT INTO public.t VALUES (700, 'a', repeat('z', 9000)); UPDATE public.t SET v = 'b' WHERE id = 700; UPDATE public.t SET id = 701 WHERE id = 700; COMMIT`},
		{"deleted and inserted", `BEGIN; DELETE FROM public.t WHERE id = 14; INSERT INTO public.t VALUES (14, 'new', NULL); COMMIT`},
		{"inserted and deleted", `BEGIN; INSERT INTO public.t VALUES (800, 'a', 'b'); DELETE FROM public.t WHERE id = 800; COMMIT`},
		{"set large, then left alone", `BEGIN; UPDATE public.t SET big = repeat('q', 9000) WHERE id = 15; UPDATE public.t SET v = 'after' WHERE id = 15; COMMIT`},
		{"rolled back", `BEGIN; DELETE FROM public.t; ROLLBACK`},
		{"savepoint", `BEGIN; UPDATE public.t SET v = 's1' WHERE id = 16; SAVEPOINT a; UPDATE public.t SET v = 's2' WHERE id = 16; ROLLBACK TO a; COMMIT`},
		{"one row often", `BEGIN; DO $$ BEGIN FOR i IN 1..5000 LOOP UPDATE public.t SET v = i::text WHERE id = 17; END LOOP; END $$; COMMIT`},
		{"delete", `DELETE FROM public.t WHERE id BETWEEN 30 AND 40`},
		{"another table", `INSERT INTO public.other VALUES (1)`},
		{"truncate in the midst", `BEGIN; INSERT INTO public.t VALUES (900, 'gone', ''); TRUNCATE public.t; INSERT INTO public.t SELECT i, 'n', repeat('r', 8000) FROM generate_series(1, 30) i; UPDATE public.t SET v = 'm' WHERE id < 5; COMMIT`},
		{"truncate", `TRUNCATE public.t, public.other`},
	}
	for _, s := range steps {
		db.Exec(s.sql)
		w.reach(db)
		flushes, _ := w.stream.Flushes()
		follow(t, flushes).equal(t, db, tableT)
		if t.Failed() {
			t.Fatalf("after step %q", s.name)
		}
	}
}

func TestLargeTransactionsGoInParts(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text, big text); ALTER TABLE public.t ALTER big SET STORAGE EXTERNAL;
		CREATE TABLE public.u (id int PRIMARY KEY)`)
	watch := NewWatch(configFor(t, db, "public.t", "public.u"), new(Memory))
	watch.MaxTransaction = 100_000
	w := run(t, watch)
	w.leads()
	db.Exec(`INSERT INTO public.t SELECT i, 'v' || i, repeat('b', 3000) FROM generate_series(1, 2000) i`)
	db.Exec(`INSERT INTO public.t VALUES (-1, 'small', NULL)`)
	db.Exec(`BEGIN; INSERT INTO public.t VALUES (5000, 'first', ''); UPDATE public.t SET v = 'u' WHERE id <= 1000; UPDATE public.t SET id = -id - 10 WHERE id BETWEEN 1 AND 100;
		INSERT INTO public.u SELECT generate_series(1, 500); UPDATE public.t SET id = id - 10000, v = 'twice' WHERE id < -10; DELETE FROM public.t WHERE id BETWEEN 500 AND 600; COMMIT`)
	db.Exec(`BEGIN; UPDATE public.t SET v = 'gone'; TRUNCATE public.t; INSERT INTO public.t SELECT i, 'v', repeat('c', 3000) FROM generate_series(1, 1500) i; DELETE FROM public.u; COMMIT`)
	w.reach(db)
	flushes, _ := w.stream.Flushes()
	r := follow(t, flushes)
	r.equal(t, db, tableT)
	r.equal(t, db, syncd.Table{Schema: "public", Name: "u"})
	if r.commits != 4 {
		t.Errorf("%d commits in the stream, 4 were made", r.commits)
	}
	parts := 0
	for _, f := range flushes {
		if f.Marker.Part {
			parts++
		}
	}
	if parts == 0 {
		t.Error("nothing came in parts")
	}
}

func TestGeneratedColumns(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) STORED, v text);
		CREATE TABLE public.u (id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) STORED, v text)`)
	cfg := configFor(t, db, "public.t", "public.u")
	cfg.Tables[1].Generated = GeneratedFetch
	w := run(t, NewWatch(cfg, new(Memory)))
	l := w.lister()
	db.Exec(`INSERT INTO public.t VALUES (1, DEFAULT, 'a'); INSERT INTO public.u VALUES (1, DEFAULT, 'a'), (2, DEFAULT, 'b'); DELETE FROM public.u WHERE id = 2`)
	w.reach(db)
	want := map[string]string{"t": `{"id":1,"v":"a"}`, "u": `{"id":1,"g":2,"v":"a"}`}
	for name, row := range want {
		p := pages(t, l, syncd.Table{Schema: "public", Name: name}, 0)[0]
		if len(p.Rows) != 1 || string(p.Rows[0].JSON) != row {
			t.Errorf("%s is listed as %s, want %s", name, p.Rows, row)
		}
	}
	flushes, _ := w.stream.Flushes()
	for _, f := range flushes {
		for _, d := range f.Deltas {
			if fetch := d.Table.Name == "u" && d.Op == syncd.Upsert; d.Pointer != fetch || !fetch && d.Op == syncd.Upsert && string(d.Row) != want["t"] {
				t.Errorf("delta %+v", d)
			}
			if info := w.info(d.Table.Name, synced); d.Schema != info.Schema {
				t.Errorf("delta of %s has shape %x, the table %x", d.Table, d.Schema, info.Schema)
			}
		}
	}
}
