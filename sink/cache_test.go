package sink_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/storetest"
)

// people is the table of most of these tests; bio is its large column. The transactions have their LSNs for ids.
var people = syncd.TableInfo{Table: syncd.Table{Schema: "public", Name: "people"}, Columns: []string{"id", "n", "bio"},
	Types: []string{"integer", "integer", "text"}, Key: []string{"id"}, Schema: 11}

var pets = syncd.TableInfo{Table: syncd.Table{Schema: "public", Name: "pets"}, Columns: []string{"id"}, Types: []string{"integer"}, Key: []string{"id"}, Schema: 12}

func key(id int) syncd.Key { return syncd.MakeKey(fmt.Sprint(id)) }

func person(id, n int, bio string) string {
	return fmt.Sprintf(`{"id":%d,"n":%d,"bio":"%s"}`, id, n, bio)
}

func upsert(at syncd.LSN, ordinal uint32, id int, row string) syncd.Delta {
	return syncd.Delta{Table: people.Table, Op: syncd.Upsert, Key: key(id), Row: []byte(row), Schema: people.Schema,
		Version: syncd.Version{Epoch: 1, LSN: at, Ordinal: ordinal}, XID: syncd.XID(at), Committed: clock.Add(-time.Second)}
}

func remove(at syncd.LSN, ordinal uint32, id int) syncd.Delta {
	d := upsert(at, ordinal, id, "")
	d.Op, d.Row = syncd.Delete, nil
	return d
}

// unchanged is an upsert that leaves bio as it was.
func unchanged(at syncd.LSN, ordinal uint32, id, n int) syncd.Delta {
	d := upsert(at, ordinal, id, fmt.Sprintf(`{"id":%d,"n":%d}`, id, n))
	d.Absent = []string{"bio"}
	return d
}

// movedFrom is an unchanged that came out of a change of key.
func movedFrom(from int, d syncd.Delta) syncd.Delta {
	d.Moved, d.From = true, key(from)
	return d
}

func truncate(at syncd.LSN, ordinal uint32) syncd.Delta {
	d := upsert(at, ordinal, 0, "")
	d.Op, d.Row, d.Key = syncd.Truncate, nil, ""
	return d
}

// at moves a rig's cache to a marker, with some deltas of people, behind the feed's back.
func (r *rig) at(epoch syncd.Epoch, through syncd.LSN, deltas ...syncd.Delta) {
	r.t.Helper()
	for i := range deltas {
		deltas[i].Version.Epoch = epoch
	}
	r.flush(&sink.Flush{Deltas: map[syncd.Table][]syncd.Delta{people.Table: deltas}, Marker: &syncd.Marker{Epoch: epoch, Through: through, Safe: through}})
}

func (r *rig) flush(f *sink.Flush) {
	r.t.Helper()
	f.Seq = uint64(f.Marker.Through)
	if len(f.Deltas[people.Table]) == 0 {
		f.Deltas = nil
	}
	if err := r.cache.Flush(f); err != nil {
		r.t.Fatal(err)
	}
}

// page makes a page of people that sees everything up to an LSN.
func page(epoch syncd.Epoch, at syncd.LSN, rows ...string) *syncd.Page {
	p := &syncd.Page{Table: people.Table, Schema: people.Schema, Snapshot: inEpoch(epoch, snapshotAt(at)), Safe: at}
	for _, row := range rows {
		id, _, _ := strings.Cut(strings.TrimPrefix(row, `{"id":`), ",")
		p.Rows = append(p.Rows, syncd.Row{Key: syncd.MakeKey(id), JSON: []byte(row)})
	}
	return p
}

// answer makes a get's answer: who is asked for and not among the rows is absent.
func answerTo(p *syncd.Page, ids ...int) *syncd.Page {
	for _, id := range ids {
		p.Asked = append(p.Asked, key(id))
	}
	return p
}

func (r *rig) judge(p *syncd.Page) []sink.Finding {
	r.t.Helper()
	found, err := r.cache.Judge(p, sink.How{})
	if err != nil {
		r.t.Fatal(err)
	}
	return found
}

// list makes a complete list of one page.
func (r *rig) list(p *syncd.Page) (verified syncd.Position, claimed bool) {
	r.t.Helper()
	r.judge(p)
	return r.done(p)
}

func (r *rig) done(p *syncd.Page) (verified syncd.Position, claimed bool) {
	r.t.Helper()
	verified, claimed, err := r.cache.Done(r.t.Context(), &sink.List{Table: p.Table, Schema: p.Schema, Snapshots: []*syncd.Snapshot{p.Snapshot}, Safe: p.Safe})
	if err != nil {
		r.t.Fatal(err)
	}
	return verified, claimed
}

func (r *rig) tables(infos ...syncd.TableInfo) {
	r.t.Helper()
	if err := r.cache.SetTables(infos); err != nil {
		r.t.Fatal(err)
	}
}

// served gives a rig whose cache serves people, listed at 100 in epoch 1, with some rows.
func served(t *testing.T, rows ...string) *rig {
	t.Helper()
	r := newRig(t, storetest.NewMap())
	r.at(1, 1)
	r.tables(people)
	r.at(1, 100)
	if _, claimed := r.list(page(1, 100, rows...)); !claimed {
		t.Fatal("the first list was not claimed")
	}
	return r
}

func (r *rig) table() *sink.TableState { return r.cache.State().Tables[people.Table] }

// wantRow checks what a reader sees under a key; the empty row is none.
func (r *rig) wantRow(id int, row string) {
	r.t.Helper()
	if got := r.rows(people.Table)[key(id)]; got != row {
		r.t.Errorf("%d is %s, want %s", id, got, row)
	}
}

// wantOpen checks which keys are open.
func (r *rig) wantOpen(ids ...int) {
	r.t.Helper()
	var want []syncd.Key
	for _, id := range ids {
		want = append(want, key(id))
	}
	if got := slices.Sorted(maps.Keys(r.table().Open)); !slices.Equal(got, want) {
		r.t.Errorf("open are %q, want %q", got, want)
	}
}

func TestFirstList(t *testing.T) {
	r := newRig(t, storetest.NewMap())
	r.tables(people)
	r.at(1, 100, upsert(90, 1, 1, person(1, 1, "a")))
	r.judge(page(1, 150, person(1, 2, "b"), person(2, 2, "b"))) // as it comes, ahead of the stream
	p := page(1, 140, person(3, 2, "b"))
	r.judge(p)
	if r.table().Listed || r.cache.Ready() == nil {
		t.Error("a table is served before its list is complete")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	l := &sink.List{Table: people.Table, Schema: people.Schema, Snapshots: []*syncd.Snapshot{p.Snapshot}, Safe: 140}
	if _, _, err := r.cache.Done(ctx, l); !errors.Is(err, stopped) {
		t.Errorf("a list ended before the stream had passed its pages: %v", err)
	}
	r.at(1, 145)
	if _, _, err := r.cache.Done(ctx, l); !errors.Is(err, stopped) || r.table().Listed {
		t.Errorf("a list ended before the stream had passed the other pages that were applied: %v", err)
	}
	r.at(1, 150, upsert(148, 1, 2, person(2, 2, "b")))
	if at, claimed := r.done(p); !claimed || at != (syncd.Position{Epoch: 1, LSN: 140}) {
		t.Errorf("claimed %v through %s", claimed, at)
	}
	if len(r.seen.repaired) > 0 {
		t.Errorf("a first list repaired %v", r.seen.repaired)
	}
	r.wantRow(1, person(1, 2, "b"))
	r.wantRow(3, person(3, 2, "b"))
}

// A page's rows are older than a pointer: until that was fetched, they are what is served.
func TestFirstListUnderAPointer(t *testing.T) {
	r := newRig(t, storetest.NewMap())
	r.tables(people)
	d := upsert(120, 1, 1, "")
	d.Row, d.Pointer = nil, true
	r.at(1, 120, d)
	p := page(1, 110, person(1, 1, "a"))
	r.judge(p)
	r.wantOpen()
	r.done(p)
	r.wantRow(1, person(1, 1, "a"))
	r.wantOpen(1)
	r.judge(answerTo(page(1, 115, person(1, 1, "a")), 1))
	r.wantOpen(1)
	r.judge(answerTo(page(1, 120, person(1, 2, "huge")), 1))
	r.wantRow(1, person(1, 2, "huge"))
	r.wantOpen()
}

func TestReady(t *testing.T) {
	r := newRig(t, storetest.NewMap())
	want := func(part string) {
		t.Helper()
		err := r.cache.Ready()
		if part == "" && err != nil || part != "" && (err == nil || !strings.Contains(err.Error(), part)) {
			t.Errorf("ready: %v, want %q", err, part)
		}
	}
	want("not been reached")
	r.cache.SetTarget(syncd.Position{Epoch: 1, LSN: 50})
	r.cache.SetTarget(syncd.Position{Epoch: 1, LSN: 500}) // a later call says nothing about the start
	want("ended at")
	r.at(1, 50)
	want("not known")
	refused := pets
	refused.Error = "table public.pets has no key"
	r.tables(people, refused)
	want("first list")
	r.list(page(1, 50))
	want("")
	r.tables(people, pets)
	want("") // a table that came later does not take it back
}

// A restart serves what it finds, but is not ready before it is where the stream ended then.
func TestReadyAfterRestart(t *testing.T) {
	r := served(t, person(1, 1, "a"))
	r.restart(r.store)
	r.cache.SetTarget(syncd.Position{Epoch: 1, LSN: 130})
	r.wantRow(1, person(1, 1, "a"))
	if r.cache.Ready() == nil {
		t.Error("ready behind the stream's end")
	}
	r.at(1, 130)
	if err := r.cache.Ready(); err != nil {
		t.Error(err)
	}
}

// closing is a store that says when it was closed.
type closing struct {
	*storetest.Map
	closed chan struct{}
}

func (c closing) Close() error { close(c.closed); return nil }

func (c closing) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

func TestNewEpochIsBuiltBeside(t *testing.T) {
	r := served(t, person(1, 1, "old"))
	old := closing{storetest.NewMap(), make(chan struct{})}
	if err := old.Commit(&sink.Batch{State: r.store.State(), Writes: []sink.Write{{Table: people.Table, Key: key(1), Entry: sink.Entry{Row: []byte(person(1, 1, "old")), Version: version(1, 10, 1)}}}}); err != nil {
		t.Fatal(err)
	}
	r.restart(old)

	r.at(2, 40, upsert(40, 1, 1, person(1, 9, "new")))
	if got := r.cache.Through(); got != (syncd.Position{Epoch: 2, LSN: 40}) {
		t.Errorf("the newest generation is at %s", got)
	}
	r.wantRow(1, person(1, 1, "old"))
	if _, err := r.cache.Judge(page(1, 100), sink.How{}); !errors.Is(err, sink.ErrDiscard) {
		t.Errorf("a page of the old epoch: %v", err)
	}
	p := page(2, 40, person(1, 9, "new"), person(2, 9, "new"))
	r.judge(p)
	view := r.cache.View()
	if err := r.cache.Wait(t.Context(), syncd.Position{Epoch: 1, LSN: 50}, people.Table); err != nil {
		t.Error(err)
	}
	changed := r.cache.Changed()
	r.done(p)
	<-changed
	r.wantRow(1, person(1, 9, "new"))
	r.wantRow(2, person(2, 9, "new"))
	if e, _ := view.Get(people.Table, key(1)); string(e.Row) != person(1, 1, "old") || old.isClosed() {
		t.Error("the old epoch's store was closed under a view")
	}
	view.Close()
	view.Close()
	if !old.isClosed() {
		t.Error("the old epoch's store stays open")
	}
	if err := r.cache.Wait(t.Context(), syncd.Position{Epoch: 1, LSN: 5000}, people.Table); err != nil {
		t.Errorf("a position of an older epoch: %v", err)
	}
	if err := r.cache.Close(); err != nil {
		t.Error(err)
	}
	if r.cache.View() != nil {
		t.Error("a closed cache gives views")
	}
}

// An epoch that ends before its cache was complete is given up.
func TestNewEpochWhileBuilding(t *testing.T) {
	r := served(t, person(1, 1, "old"))
	r.at(2, 40, upsert(40, 1, 1, person(1, 2, "never read")))
	r.at(3, 30, upsert(30, 1, 1, person(1, 3, "new")))
	r.at(2, 50, upsert(50, 1, 1, person(1, 4, "late"))) // of an epoch that is over
	r.wantRow(1, person(1, 1, "old"))
	r.list(page(3, 30, person(1, 3, "new")))
	r.wantRow(1, person(1, 3, "new"))
}

// Where nothing is served there is nothing to keep: the epoch begins in the same store.
func TestNewEpochBeforeTheFirstList(t *testing.T) {
	r := newRig(t, storetest.NewMap())
	r.tables(people)
	r.at(1, 10, upsert(10, 1, 1, person(1, 1, "phantom")))
	r.at(2, 5)
	if got := r.cache.Store().State().Cursor.Position; got != (syncd.Position{Epoch: 2, LSN: 5}) {
		t.Errorf("the store is at %s", got)
	}
	r.list(page(2, 5))
	r.wantRow(1, "")
}

func TestNewEpochWithoutASecondStore(t *testing.T) {
	store := storetest.NewMap()
	r := served(t, person(1, 1, "old"))
	r.store, r.cache = store, sink.New(sink.Options{Store: store})
	r.at(1, 1)
	r.tables(people)
	r.list(page(1, 1, person(1, 1, "old"), person(2, 1, "ghost"), person(4, 1, "old")))
	r.at(2, 5)
	if r.table().Listed {
		t.Error("the old epoch's rows are served as the new one's")
	}
	r.wantRow(1, person(1, 1, "old")) // for those who read past the cache
	r.wantRow(2, person(2, 1, "ghost"))
	r.at(3, 6) // before the list was complete
	r.wantRow(2, person(2, 1, "ghost"))
	large := upsert(7, 2, 4, "")
	large.Row, large.Pointer = nil, true
	r.at(3, 7, upsert(7, 1, 3, person(3, 1, "new")), large)
	r.wantRow(4, "") // what it was is not known to have been in this epoch
	p := page(3, 7, person(1, 2, "listed"), person(3, 1, "new"), person(4, 2, "fetched"))
	r.judge(p)
	r.wantRow(1, person(1, 2, "listed"))
	r.wantRow(2, person(2, 1, "ghost"))
	r.judge(answerTo(page(3, 7), 2))
	r.done(p)
	r.wantRow(2, "")
	if !r.table().Listed || r.table().Rows != 3 {
		t.Errorf("at the end the table is %+v", r.table())
	}
	err := r.cache.Walk(people.Table, 0, func(k syncd.Key, e sink.Entry) bool {
		if e.Version.Epoch != 3 {
			t.Errorf("%s is still held of epoch %d", k, e.Version.Epoch)
		}
		return true
	})
	if err != nil {
		t.Error(err)
	}
}

func TestPagesThatProveNothing(t *testing.T) {
	r := served(t, person(1, 1, "a"))
	r.flush(&sink.Flush{Marker: &syncd.Marker{Epoch: 1, Through: 110, System: 5, Timeline: 2, Start: 60}})
	good := func() *syncd.Page {
		p := page(1, 110, person(1, 2, "b"))
		p.System, p.Timeline = 5, 2
		return p
	}
	for name, spoil := range map[string]func(p *syncd.Page){
		"snapshot": func(p *syncd.Page) { p.Snapshot = nil },
		"epoch":    func(p *syncd.Page) { p.Snapshot.Epoch = 2 },
		"system":   func(p *syncd.Page) { p.System = 6 },
		"timeline": func(p *syncd.Page) { p.Timeline = 3 },
		"shape":    func(p *syncd.Page) { p.Schema++ },
		"replayed": func(p *syncd.Page) { p.Snapshot.Standby, p.Snapshot.R = true, 59 },
		"not keep": func(p *syncd.Page) { p.Table = pets.Table },
		"empty":    func(p *syncd.Page) { p.Rows[0].JSON = nil },
	} {
		p := good()
		spoil(p)
		if _, err := r.cache.Judge(p, sink.How{}); !errors.Is(err, sink.ErrDiscard) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ahead := good()
	ahead.Snapshot = snapshotAt(111)
	var e *sink.AheadError
	if _, err := r.cache.Judge(ahead, sink.How{}); !errors.As(err, &e) || e.H.LSN != 111 || e.At.LSN != 110 {
		t.Errorf("a page ahead of the stream: %v", err)
	}
	r.wantRow(1, person(1, 1, "a"))
	if _, err := r.cache.Judge(ahead, sink.How{Early: true}); err != nil {
		t.Error(err)
	}
	r.wantRow(1, person(1, 2, "b"))
	for name, l := range map[string]*sink.List{
		"no pages":      {Table: people.Table, Schema: people.Schema},
		"another table": {Table: pets.Table, Schema: pets.Schema, Snapshots: []*syncd.Snapshot{snapshotAt(100)}},
		"another shape": {Table: people.Table, Schema: 1, Snapshots: []*syncd.Snapshot{snapshotAt(100)}},
		"two epochs":    {Table: people.Table, Schema: people.Schema, Snapshots: []*syncd.Snapshot{snapshotAt(100), inEpoch(2, snapshotAt(1))}},
		"an old epoch":  {Table: people.Table, Schema: people.Schema, Snapshots: []*syncd.Snapshot{inEpoch(0, snapshotAt(100))}},
	} {
		l.Early = true
		if _, _, err := r.cache.Done(t.Context(), l); !errors.Is(err, sink.ErrDiscard) {
			t.Errorf("a list of %s: %v", name, err)
		}
	}
}

func TestRepairsByKind(t *testing.T) {
	r := served(t, person(1, 1, "right"), person(2, 1, "wrong"), person(3, 1, "gone"), person(4, 1, "older"))
	r.flush(&sink.Flush{Marker: &syncd.Marker{Epoch: 1, Through: 120}, Lost: []syncd.Table{people.Table}})
	p := answerTo(page(1, 120, person(1, 1, "right"), person(2, 2, "better"), person(5, 1, "new")), 1, 2, 3, 5)
	before := r.table()
	dry, err := r.cache.Judge(p, sink.How{Dry: true})
	if err != nil || r.table() != before {
		t.Errorf("a dry run changed the cache: %v", err)
	}
	found := r.judge(p)
	want := []sink.Finding{{Key: key(2), Kind: sink.Stale}, {Key: key(5), Kind: sink.Missing}, {Key: key(3), Kind: sink.Ghost}}
	if !slices.Equal(found, want) || !slices.Equal(dry, want) {
		t.Errorf("found %v, in the dry run %v, want %v", found, dry, want)
	}
	if again := r.judge(p); len(again) > 0 {
		t.Errorf("the same page found %v", again)
	}
	if w := map[string]int{"people stale": 1, "people missing": 1, "people ghost": 1}; !maps.Equal(r.seen.repaired, w) {
		t.Errorf("the observer was told of %v", r.seen.repaired)
	}
	r.wantRow(2, person(2, 2, "better"))
	r.wantRow(3, "")
	r.wantRow(4, person(4, 1, "older"))
}

func TestUnchangedValues(t *testing.T) {
	r := served(t, person(1, 1, "one"), person(2, 1, "two"), person(3, 1, "three"))
	r.at(1, 110, unchanged(110, 1, 1, 5))
	r.wantRow(1, person(1, 5, "one"))
	r.at(1, 120, remove(120, 1, 1), movedFrom(1, unchanged(120, 2, 4, 6)))
	r.wantRow(1, "")
	r.wantRow(4, person(4, 6, "one"))
	// Two rows swap their keys: neither leaves a tombstone, and the second takes its value from before the transaction.
	r.at(1, 130, movedFrom(3, unchanged(130, 1, 2, 7)), movedFrom(2, unchanged(130, 2, 3, 8)))
	r.wantRow(2, person(2, 7, "three"))
	r.wantRow(3, person(3, 8, "two"))
	r.wantOpen()
	// The old key's own change comes behind the new one's.
	r.at(1, 140, movedFrom(2, unchanged(140, 1, 5, 9)), upsert(140, 2, 2, person(2, 0, "another")))
	r.wantRow(5, person(5, 9, "three"))
	// One change after the other in one flush.
	r.at(1, 160, unchanged(150, 1, 5, 10), remove(155, 1, 5), movedFrom(5, unchanged(155, 2, 6, 11)), unchanged(160, 1, 6, 12))
	r.wantRow(6, person(6, 12, "three"))
	r.wantOpen()
}

// Where a value is not surely the one before, the key is fetched, and shows what it showed.
func TestValuesToBeFetched(t *testing.T) {
	for name, c := range map[string]struct {
		before func(r *rig)
		deltas []syncd.Delta
		open   int
		shows  string
	}{
		"no row":          {nil, []syncd.Delta{unchanged(110, 1, 9, 5)}, 9, ""},
		"a tombstone":     {func(r *rig) { r.at(1, 105, remove(105, 1, 1)) }, []syncd.Delta{unchanged(110, 1, 1, 5)}, 1, ""},
		"a pointer":       {func(r *rig) { r.at(1, 105, pointer(105, 1)) }, []syncd.Delta{unchanged(110, 1, 1, 5)}, 1, person(1, 1, "one")},
		"no message body": {nil, []syncd.Delta{upsert(110, 1, 1, "")}, 1, person(1, 1, "one")},
		"a loss": {func(r *rig) {
			r.flush(&sink.Flush{Marker: &syncd.Marker{Epoch: 1, Through: 105}, Lost: []syncd.Table{people.Table}})
		}, []syncd.Delta{unchanged(110, 1, 1, 5)}, 1, person(1, 1, "one")},
		"a list that is due": {func(r *rig) {
			r.flush(&sink.Flush{Marker: &syncd.Marker{Epoch: 1, Through: 105, Relist: map[syncd.Table]string{people.Table: "a partition was attached"}}})
		}, []syncd.Delta{unchanged(110, 1, 1, 5)}, 1, person(1, 1, "one")},
		"another shape":           {nil, []syncd.Delta{reshaped(unchanged(110, 1, 1, 5))}, 1, person(1, 1, "one")},
		"columns that don't fit":  {nil, []syncd.Delta{withAbsent(unchanged(110, 1, 1, 5), "nothing")}, 1, person(1, 1, "one")},
		"moved from a pointer":    {func(r *rig) { r.at(1, 105, pointer(105, 1)) }, []syncd.Delta{remove(110, 1, 1), movedFrom(1, unchanged(110, 2, 9, 5))}, 9, ""},
		"moved from nothing":      {nil, []syncd.Delta{movedFrom(7, unchanged(110, 2, 9, 5))}, 9, ""},
		"moved, and parts apart":  {func(r *rig) { r.at(1, 110, remove(110, 1, 1)) }, []syncd.Delta{movedFrom(1, unchanged(110, 2, 9, 5))}, 9, ""},
		"moved from a later list": {func(r *rig) { r.at(1, 125); r.judge(answerTo(page(1, 125, person(1, 2, "again")), 1)) }, []syncd.Delta{movedFrom(1, unchanged(120, 2, 9, 5))}, 9, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := served(t, person(1, 1, "one"))
			if c.before != nil {
				c.before(r)
			}
			r.at(1, 130, c.deltas...)
			if _, ok := r.table().Open[key(c.open)]; !ok {
				t.Errorf("%d is not open", c.open)
			}
			r.wantRow(c.open, c.shows)
			r.judge(answerTo(page(1, 130, person(c.open, 5, "fetched")), c.open))
			if _, ok := r.table().Open[key(c.open)]; ok {
				t.Errorf("%d is still open", c.open)
			}
			r.wantRow(c.open, person(c.open, 5, "fetched"))
			if n := r.seen.repaired["people missing"] + r.seen.repaired["people stale"]; n > 0 {
				t.Errorf("a fetched value counts as %d repairs", n)
			}
		})
	}
}

func pointer(at syncd.LSN, id int) syncd.Delta {
	d := upsert(at, 1, id, "")
	d.Row, d.Pointer = nil, true
	return d
}

func reshaped(d syncd.Delta) syncd.Delta { d.Schema++; return d }

func withAbsent(d syncd.Delta, column string) syncd.Delta { d.Absent = []string{column}; return d }

func TestTruncate(t *testing.T) {
	r := served(t, person(1, 1, "a"), person(2, 1, "a"))
	r.at(1, 120, upsert(110, 1, 3, person(3, 1, "a")), truncate(120, 1), upsert(120, 2, 2, person(2, 2, "b")))
	r.wantRow(1, "")
	r.wantRow(2, person(2, 2, "b"))
	r.wantRow(3, "")
	if got := r.table().Rows; got != 1 {
		t.Errorf("%d rows are counted", got)
	}
	r.at(1, 130, upsert(115, 1, 4, person(4, 1, "late")), upsert(115, 2, 1, person(1, 1, "late")))
	r.wantRow(4, "")
	r.wantRow(1, "")
	r.at(1, 140, truncate(118, 1)) // an older one, late
	r.wantRow(2, person(2, 2, "b"))
	if got := r.table().Truncated.Version.LSN; got != 120 {
		t.Errorf("the last TRUNCATE is that of %s", got)
	}
}

func TestTruncateThatAListHasSeen(t *testing.T) {
	r := served(t, person(1, 1, "a"), person(2, 1, "a"))
	p := page(1, 150, person(1, 3, "new"))
	if _, err := r.cache.Judge(p, sink.How{Early: true}); err != nil {
		t.Fatal(err)
	}
	r.at(1, 150, truncate(140, 1))
	r.wantRow(1, person(1, 3, "new"))
	r.wantRow(2, "")
}

func TestOneKeyManyTimesInAFlush(t *testing.T) {
	r := served(t)
	r.at(1, 130, upsert(110, 1, 1, person(1, 1, "a")), remove(115, 1, 1), upsert(120, 1, 1, person(1, 2, "b")), unchanged(125, 1, 1, 3), upsert(126, 1, 2, person(2, 1, "a")), remove(130, 1, 2))
	r.wantRow(1, person(1, 3, "b"))
	r.wantRow(2, "")
	if got := r.table().Rows; got != 1 {
		t.Errorf("%d rows are counted", got)
	}
	if w := map[string]int{"people upsert": 4, "people delete": 2}; !maps.Equal(r.seen.applied, w) {
		t.Errorf("the observer was told of %v", r.seen.applied)
	}
	if len(r.seen.delays) != 6 || r.seen.delays[0] != time.Second {
		t.Errorf("the observer was told of the delays %v", r.seen.delays)
	}
}

func TestNothingAboveThrough(t *testing.T) {
	r := served(t)
	late := upsert(140, 1, 1, person(1, 1, "too early"))
	other := upsert(110, 1, 2, person(2, 1, "another epoch"))
	other.Version.Epoch = 7
	r.flush(&sink.Flush{Deltas: map[syncd.Table][]syncd.Delta{people.Table: {late, other}}, Marker: &syncd.Marker{Epoch: 1, Through: 130}})
	if rows := r.rows(people.Table); len(rows) > 0 {
		t.Errorf("the cache shows %v", rows)
	}
}

func TestLoss(t *testing.T) {
	r := served(t, person(1, 1, "a"))
	r.flush(&sink.Flush{Marker: &syncd.Marker{Epoch: 1, Through: 120}, Lost: []syncd.Table{people.Table, pets.Table}})
	r.at(1, 130, upsert(130, 1, 2, person(2, 1, "a")))
	wantLoss := func(at, through syncd.LSN, relist bool) {
		t.Helper()
		if s := r.table(); s.Loss != at || s.Through.LSN != through || (s.Relist != "") != relist || s.LastLoss != 120 || s.Changed {
			t.Errorf("loss %s, last %s, through %s, relist %q", s.Loss, s.LastLoss, s.Through, s.Relist)
		}
	}
	wantLoss(120, 100, true)
	r.wantRow(2, person(2, 1, "a")) // what comes is applied all the same
	if !slices.Equal(r.seen.gaps, []syncd.Table{people.Table}) {
		t.Errorf("the observer was told of gaps in %v", r.seen.gaps)
	}
	p := page(1, 130, person(1, 1, "a"), person(2, 1, "a"))
	p.Safe = 119 // a commit was in the log and not visible yet
	if _, claimed := r.list(p); claimed {
		t.Error("a list that may not have seen what was lost claims the table")
	}
	wantLoss(120, 100, true)
	p.Safe = 120
	if _, claimed := r.list(p); !claimed {
		t.Error("a list that has seen what was lost does not claim the table")
	}
	wantLoss(0, 130, false)
}

// TestTimeOfALossyTable: a table keeps the times of the marker that it is complete through.
func TestTimeOfALossyTable(t *testing.T) {
	t.Parallel()
	r := served(t, person(1, 1, "a"))
	mark := func(at syncd.LSN, lost ...syncd.Table) {
		r.flush(&sink.Flush{Marker: &syncd.Marker{Epoch: 1, Through: at, Safe: at, Sent: clock.Add(time.Duration(at) * time.Second)}, Lost: lost})
	}
	want := func(at syncd.LSN) {
		t.Helper()
		if s := r.table(); s.Through.LSN != at || !s.Sent.Equal(clock.Add(time.Duration(at)*time.Second)) || !s.Applied.Equal(clock) {
			t.Errorf("complete through %s, sent at %s, applied at %s", s.Through, s.Sent, s.Applied)
		}
	}
	mark(110)
	want(110)
	mark(120, people.Table)
	mark(130)
	want(110)
	r.list(page(1, 130, person(1, 1, "a")))
	want(130)
}

func TestGapIsALossOfEveryTable(t *testing.T) {
	r := served(t)
	r.tables(people, pets)
	r.flush(&sink.Flush{Marker: &syncd.Marker{Epoch: 1, Through: 120}, Gap: true})
	for name, s := range r.cache.State().Tables {
		if s.Loss != 120 {
			t.Errorf("%s: loss %s", name, s.Loss)
		}
	}
	if len(r.seen.gaps) != 1 {
		t.Errorf("a table that was never listed has lost something: %v", r.seen.gaps)
	}
}

// A cause that the source names ends with a list that has seen everything up to it. Until then the table is complete only
// through where it was: rows may have changed that no delta names.
func TestRelistCause(t *testing.T) {
	r := served(t)
	r.flush(&sink.Flush{Marker: &syncd.Marker{Epoch: 1, Through: 120, Relist: map[syncd.Table]string{people.Table: "a partition was attached", pets.Table: "?"}}})
	if s := r.table(); s.Relist != "a partition was attached" || !s.Changed || s.Through.LSN != 100 {
		t.Errorf("relist %q, changed %v, through %s", s.Relist, s.Changed, s.Through)
	}
	p := page(1, 120)
	p.Safe = 119
	r.list(p)
	if r.table().Relist == "" {
		t.Error("a list that may not have seen the cause has ended it")
	}
	p.Safe = 120
	r.list(p)
	if s := r.table(); s.Relist != "" || s.RelistAt != 0 || s.Changed || s.Through.LSN != 120 {
		t.Errorf("relist %q at %s, changed %v, through %s", s.Relist, s.RelistAt, s.Changed, s.Through)
	}
}

func TestWhatStandsInTheWayOfAClaim(t *testing.T) {
	r := served(t, person(1, 1, "a"))
	r.at(1, 120, pointer(120, 1))
	p := page(1, 110, person(1, 1, "a"))
	if _, claimed := r.list(p); claimed {
		t.Error("claimed with an open key")
	}
	r.judge(answerTo(page(1, 120, person(1, 2, "b")), 1))
	if at, claimed := r.list(page(1, 105, person(1, 2, "b"))); !claimed || at.LSN != 105 {
		t.Errorf("claimed %v through %s", claimed, at)
	}
	early := page(1, 900, person(1, 3, "c"))
	if _, err := r.cache.Judge(early, sink.How{Early: true}); err != nil {
		t.Fatal(err)
	}
	_, claimed, err := r.cache.Done(t.Context(), &sink.List{Table: people.Table, Schema: people.Schema, Snapshots: []*syncd.Snapshot{early.Snapshot}, Safe: 900, Early: true})
	if claimed || err != nil {
		t.Errorf("claimed %v from a page judged early, %v", claimed, err)
	}
	if v := r.table().Verified; v.Position.LSN != 105 || !v.At.Equal(clock) {
		t.Errorf("verified %v", v)
	}
}

// A list whose Safe is below what was proved before does not take the claim back.
func TestVerifiedDoesNotGoBack(t *testing.T) {
	r := served(t)
	p := page(1, 100)
	p.Safe = 50
	if _, claimed := r.list(p); !claimed {
		t.Error("not claimed")
	}
	if v := r.table().Verified.Position.LSN; v != 100 {
		t.Errorf("verified through %s", v)
	}
}

func TestSweep(t *testing.T) {
	r := served(t)
	var deltas []syncd.Delta
	const many = 20_000 // more than are swept at a time
	for i := range many {
		deltas = append(deltas, remove(110, uint32(i+1), i))
	}
	r.at(1, 200, append(deltas, remove(200, 1, many))...)
	held := func() (n int) {
		if err := r.cache.Walk(people.Table, 0, func(syncd.Key, sink.Entry) bool { n++; return true }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	r.list(page(1, 109))
	if n := held(); n != many+1 {
		t.Errorf("%d entries are left of %d that the floor has not seen", n, many+1)
	}
	r.list(page(1, 150))
	if n := held(); n != 1 {
		t.Errorf("%d tombstones are left, the floor has seen all but one", n)
	}
	r.at(1, 210, upsert(105, 1, 3, person(3, 1, "from before the floor")))
	r.wantRow(3, "")
}

func TestSweepOfListedAbsence(t *testing.T) {
	r := served(t, person(1, 1, "a"))
	r.at(1, 200)
	p := page(1, 150)
	r.judge(p)
	r.judge(answerTo(page(1, 190), 1))
	r.done(p)
	if e, ok, _ := r.cache.Store().Load(people.Table, key(1)); !ok || e.Row != nil {
		t.Error("a tombstone is gone that the floor does not cover")
	}
	r.list(page(1, 195))
	if _, ok, _ := r.cache.Store().Load(people.Table, key(1)); ok {
		t.Error("a tombstone is left that the floor covers")
	}
}

// A list whose first pages went with the table's entries proves nothing, though nothing else has changed since.
func TestListThatOutlivesItsTable(t *testing.T) {
	r := served(t, person(1, 1, "a"))
	first := page(1, 100, person(1, 1, "a"))
	r.judge(first)
	r.tables()
	r.tables(people)
	last := page(1, 100)
	r.judge(last)
	l := &sink.List{Table: people.Table, Schema: people.Schema, Snapshots: []*syncd.Snapshot{first.Snapshot, last.Snapshot}, Safe: 100}
	if _, _, err := r.cache.Done(t.Context(), l); !errors.Is(err, sink.ErrDiscard) || r.table().Listed {
		t.Errorf("listed %v, %v", r.table().Listed, err)
	}
	r.list(page(1, 100, person(1, 1, "a")))
	r.wantRow(1, person(1, 1, "a"))
}

func TestStop(t *testing.T) {
	r := served(t, person(1, 1, "a"))
	if err := r.cache.Stop(people.Table, "too much"); err != nil || r.table().Stopped != "too much" {
		t.Errorf("stopped %q, %v", r.table().Stopped, err)
	}
	if err := r.cache.Stop(pets.Table, "too much"); !errors.Is(err, syncd.ErrNoTable) {
		t.Errorf("stop of an unknown table: %v", err)
	}
	r.list(page(1, 100, person(1, 1, "a")))
	if r.table().Stopped != "" {
		t.Error("a complete list does not take the mark away")
	}
}

func TestSetTables(t *testing.T) {
	r := served(t, person(1, 1, "a"))
	before := r.cache.State()
	r.tables(people)
	if r.cache.State() != before {
		t.Error("the same tables once more made a commit")
	}
	r.tables(people, pets)
	if s := r.cache.State().Tables[pets.Table]; s.Listed || s.Loss != 100 || !s.Through.IsZero() {
		t.Errorf("a new table has %+v", s)
	}
	wider := people
	wider.Columns, wider.Types, wider.Schema = append(slices.Clone(people.Columns), "new"), append(slices.Clone(people.Types), "text"), 20
	r.tables(wider)
	if s := r.table(); !s.Listed || s.Relist == "" || s.RelistAt != 100 {
		t.Errorf("a table with another column has %+v", s)
	}
	if _, ok := r.cache.State().Tables[pets.Table]; ok {
		t.Error("a table that is gone is still there")
	}
	r.wantRow(1, person(1, 1, "a"))
	rekeyed := wider
	rekeyed.Key, rekeyed.Schema = []string{"id", "n"}, 21
	r.tables(rekeyed)
	if s := r.table(); s.Listed || s.Loss != 100 || s.Rows != 0 {
		t.Errorf("a table with another key has %+v", s)
	}
	r.wantRow(1, "")
	refused := people
	refused.Schema, refused.Error = 0, "table public.people has no key"
	r.tables(refused)
	r.at(1, 110, upsert(110, 1, 1, person(1, 1, "a")))
	if s := r.table(); s.Info.Error == "" || s.Loss != 0 || len(r.rows(people.Table)) > 0 {
		t.Errorf("a refused table has %+v", s)
	}
	r.tables(people)
	if s := r.table(); s.Info.Error != "" || s.Listed || s.Loss != 110 {
		t.Errorf("a table that was mended has %+v", s)
	}
}

// Deltas of another shape than is known come with a change of the table, or from before it.
func TestDeltasOfAnotherShape(t *testing.T) {
	r := served(t, person(1, 1, "a"))
	r.at(1, 110, reshaped(upsert(110, 1, 1, `{"id":1,"n":2,"bio":"b","new":3}`)))
	r.wantRow(1, `{"id":1,"n":2,"bio":"b","new":3}`)
	if s := r.table(); s.Relist == "" || s.RelistAt != 110 || s.Loss != 110 || s.Through.LSN != 100 {
		t.Errorf("columns came: relist %q at %s, loss %s", s.Relist, s.RelistAt, s.Loss)
	}
	other := reshaped(upsert(120, 1, 1, `{"id":1,"n":2,"bio":"b"}`))
	other.Key = syncd.MakeKey("1", "2")
	r.at(1, 120, other)
	if s := r.table(); s.Loss != 120 || s.Rows != 1 {
		t.Errorf("the key changed: loss %s, %d rows", s.Loss, s.Rows)
	}
	r.tables(people, pets)
	pet := upsert(130, 1, 1, `{"id":1}`)
	pet.Table = pets.Table
	r.flush(&sink.Flush{Deltas: map[syncd.Table][]syncd.Delta{pets.Table: {pet}, people.Table: {upsert(130, 2, 3, person(3, 1, "a"))}}, Marker: &syncd.Marker{Epoch: 1, Through: 130}})
	if s := r.cache.State().Tables[pets.Table]; s.Loss != 130 || s.Rows != 0 {
		t.Errorf("a table that was never listed: loss %s, %d rows", s.Loss, s.Rows)
	}
	if n := r.seen.rejected["people shape"] + r.seen.rejected["pets shape"]; n != 2 {
		t.Errorf("the observer was told of %v", r.seen.rejected)
	}
}

func TestAStoreThatFails(t *testing.T) {
	store := &flaky{Store: storetest.NewMap()}
	r := newRig(t, store)
	r.tables(people)
	r.at(1, 100)
	r.list(page(1, 100, person(1, 1, "a")))
	listed := page(1, 100, person(1, 1, "a"))
	r.judge(listed)
	before := r.cache.State()
	f := &sink.Flush{Deltas: map[syncd.Table][]syncd.Delta{people.Table: {upsert(110, 1, 1, person(1, 2, "b"))}}, Marker: &syncd.Marker{Epoch: 1, Through: 110}}
	for name, do := range map[string]func() error{
		"a flush": func() error { return r.cache.Flush(f) },
		"a page":  func() error { _, err := r.cache.Judge(page(1, 100, person(2, 1, "a")), sink.How{}); return err },
		"tables":  func() error { return r.cache.SetTables(nil) },
		"a list": func() error {
			_, _, err := r.cache.Done(t.Context(), &sink.List{Table: people.Table, Schema: people.Schema, Snapshots: []*syncd.Snapshot{listed.Snapshot}, Safe: 100})
			return err
		},
	} {
		store.fail = true
		if err := do(); err == nil || !strings.Contains(err.Error(), "disk full") || r.cache.State() != before {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.wantRow(1, person(1, 1, "a"))
	r.done(listed) // once more
	if err := r.cache.Flush(f); err != nil {
		t.Fatal(err)
	}
	r.wantRow(1, person(1, 2, "b"))
	if got := r.seen.applied["people upsert"]; got != 1 {
		t.Errorf("a flush that failed and was repeated counts %d", got)
	}
}

func TestWait(t *testing.T) {
	r := served(t)
	r.flush(&sink.Flush{Marker: &syncd.Marker{Epoch: 1, Through: 120}, Lost: []syncd.Table{people.Table}})
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for name, c := range map[string]struct {
		at     syncd.Position
		tables []syncd.Table
		ok     bool
	}{
		"reached before the loss":  {syncd.Position{Epoch: 1, LSN: 100}, []syncd.Table{people.Table}, true},
		"not reached for the loss": {syncd.Position{Epoch: 1, LSN: 101}, []syncd.Table{people.Table}, false},
		"all, not reached":         {syncd.Position{Epoch: 1, LSN: 101}, nil, false},
		"all, reached":             {syncd.Position{Epoch: 1, LSN: 99}, nil, true},
		"an unknown table":         {syncd.Position{Epoch: 1, LSN: 1}, []syncd.Table{pets.Table}, false},
		"an older epoch":           {syncd.Position{Epoch: 0, LSN: 999}, nil, true},
		"a newer epoch":            {syncd.Position{Epoch: 2, LSN: 1}, nil, false},
	} {
		err := r.cache.Wait(ctx, c.at, c.tables...)
		if c.ok != (err == nil) || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	waited := make(chan error, 1)
	go func() { waited <- r.cache.Wait(t.Context(), syncd.Position{Epoch: 1, LSN: 130}, people.Table) }()
	r.list(page(1, 120))
	r.at(1, 129)
	r.at(1, 131)
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

func TestJoin(t *testing.T) {
	for name, c := range map[string]struct {
		marker  syncd.Marker
		loss    syncd.LSN
		through syncd.LSN
		bad     bool
	}{
		"further on":                        {syncd.Marker{Epoch: 1, Previous: 140, Through: 150}, 150, 100, false},
		"where it is":                       {syncd.Marker{Epoch: 1, Previous: 90, Through: 100}, 0, 100, false},
		"before, the stream lost its end":   {syncd.Marker{Epoch: 1, Previous: 70, Through: 80}, 0, 100, false},
		"an older epoch":                    {syncd.Marker{Epoch: 0, Through: 80}, 0, 0, true},
		"a new epoch, at its start":         {syncd.Marker{Epoch: 2, Through: 80}, 0, 80, false},
		"a new epoch, at its first changes": {syncd.Marker{Epoch: 2, Through: 80, Counts: map[syncd.Table]int{people.Table: 1}}, 80, 0, false},
		"a new epoch, later":                {syncd.Marker{Epoch: 2, Previous: 70, Through: 80}, 80, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := served(t)
			if err := r.cache.Join(&c.marker, 9); (err != nil) != c.bad {
				t.Fatal(err)
			}
			if c.bad {
				return
			}
			if s := r.table(); s.Loss != c.loss || s.Through.LSN != c.through {
				t.Errorf("loss %s, through %s", s.Loss, s.Through)
			}
			if got := r.cache.Cursor(); got.Seq != 9 || got.Position != c.marker.Position() {
				t.Errorf("the cursor is %+v", got)
			}
		})
	}
}

// Where the stream has lost its end, the cache waits until that has come again before it says how far it is.
func TestJoinBackwards(t *testing.T) {
	r := served(t)
	r.flush(&sink.Flush{Marker: &syncd.Marker{Epoch: 1, Through: 110}, Gap: true})
	r.at(1, 120, upsert(120, 1, 1, person(1, 1, "a")))
	if err := r.cache.Join(&syncd.Marker{Epoch: 1, Previous: 100, Through: 115}, 5); err != nil {
		t.Fatal(err)
	}
	p := page(1, 110)
	r.judge(p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := &sink.List{Table: people.Table, Schema: people.Schema, Snapshots: []*syncd.Snapshot{p.Snapshot}, Safe: 110}
	if _, _, err := r.cache.Done(ctx, l); !errors.Is(err, context.Canceled) || r.table().Through.LSN != 100 {
		t.Errorf("the table is at %s and shows what is ahead of it: %v", r.table().Through, err)
	}
	r.at(1, 120)
	if _, claimed := r.done(p); !claimed || r.table().Through.LSN != 120 {
		t.Errorf("claimed %v, the table is at %s", claimed, r.table().Through)
	}
}

// A key stays open until an answer sees every delta in question, and is later than every page.
func TestOpenKeys(t *testing.T) {
	standby := func(r, r2 syncd.LSN) *syncd.Snapshot {
		return &syncd.Snapshot{Epoch: 1, Standby: true, Xmin: 1, Xmax: 500, R: r, R2: r2, H: r2}
	}
	r := newRig(t, storetest.NewMap())
	r.tables(people)
	r.at(1, 100)
	first := page(1, 0, person(1, 1, "a"))
	first.Snapshot, first.Safe = standby(80, 100), 80
	r.list(first)
	r.at(1, 200, upsert(90, 1, 1, person(1, 2, "b")), upsert(95, 1, 1, person(1, 3, "c")), upsert(97, 1, 1, person(1, 4, "d")))
	r.wantOpen(1)
	if o := r.table().Open[key(1)]; len(o.Deltas) != 2 || o.Deltas[0].Version.LSN != 90 || o.Deltas[1].Version.LSN != 97 || o.Reason == "" || !o.Since.Equal(clock) {
		t.Errorf("open is %+v", o)
	}
	r.restart(r.store)
	r.wantOpen(1)
	beside := page(1, 0, person(1, 3, "c"))
	beside.Snapshot, beside.Safe = standby(95, 96), 95
	r.judge(answerTo(beside, 1)) // can't be told from the first
	if o := r.table().Open[key(1)]; len(o.Snaps) != 1 {
		t.Errorf("open is %+v", o)
	}
	r.wantRow(1, person(1, 1, "a"))
	old := page(1, 0, person(1, 3, "c"))
	old.Snapshot = standby(100, 110)
	old.Snapshot.R, old.Snapshot.R2 = 96, 96
	r.judge(answerTo(old, 1)) // later than the page beside, but it does not see the newest delta
	r.wantOpen(1)
	last := page(1, 0, person(1, 4, "d"))
	last.Snapshot = standby(100, 110)
	r.judge(answerTo(last, 1))
	r.wantOpen()
	r.wantRow(1, person(1, 4, "d"))
}

// Readers, the feed and lists at the same time: each view is of one commit.
func TestConcurrentUse(t *testing.T) {
	r := served(t)
	r.tables(people)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-r.cache.Changed():
				default:
				}
				readOneCommit(t, r.cache)
			}
		})
	}
	for i := range 300 {
		epoch, at := syncd.Epoch(1+i/50), syncd.LSN(101+i)
		row := func(id int) string { return person(id, int(at), "") }
		r.at(epoch, at, upsert(at, 1, 1, row(1)), upsert(at, 2, 2, row(2)))
		if i%10 == 0 {
			r.list(page(epoch, at, row(1), row(2)))
		}
	}
	close(done)
	readers.Wait()
}

func readOneCommit(t *testing.T, c *sink.Cache) {
	v := c.View()
	if v == nil {
		return
	}
	defer v.Close()
	var ns []int
	v.Rows(people.Table, 0, func(_ syncd.Key, e sink.Entry) bool {
		var p struct{ N int }
		if err := json.Unmarshal(e.Row, &p); err != nil {
			t.Error(err)
		}
		ns = append(ns, p.N)
		return true
	})
	if len(ns) == 2 && ns[0] != ns[1] || len(ns) == 1 {
		t.Errorf("a view shows half a transaction: %v", ns)
	}
}
