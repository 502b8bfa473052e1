package source

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
)

// checkDigest compares the digest of a table with the rows it should be of, and lists of some of its buckets with the rows in them.
func checkDigest(t *testing.T, l *Lister, table syncd.Table, rows map[syncd.Key]string) {
	t.Helper()
	const bits = 3
	want := make([]syncd.Totals, 1<<bits)
	for k, row := range rows {
		want[syncd.BucketOf(k.Hash(), bits)].Add(k, []byte(row))
	}
	d, err := l.Digest(t.Context(), syncd.DigestRequest{Table: table, Bits: bits})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.Buckets, want) || d.Bits != bits || d.Form != syncd.DigestForm || d.Table != table || d.Snapshot == nil {
		t.Errorf("digest %+v\nwant %+v", d, want)
	}
	for _, some := range [][]int{{}, {5}, {0, 1, 7}} {
		set := syncd.NewBucketSet(bits, some)
		wanted := map[syncd.Key]string{}
		for k, row := range rows {
			if set.Holds(k.Hash()) {
				wanted[k] = row
			}
		}
		got := listed(t, pagesOf(t, l, syncd.ListRequest{Table: table, Limit: 7, Buckets: set}))
		if !maps.Equal(got, wanted) {
			t.Errorf("buckets %v: listed %v\nwant %v", some, got, wanted)
		}
	}
}

// pagesOf makes a list to its end.
func pagesOf(t *testing.T, l *Lister, r syncd.ListRequest) (all []*syncd.Page) {
	t.Helper()
	for {
		p, err := l.List(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, p); p.Last {
			return all
		}
		r.Started, r.After, r.Sent = true, p.After, p.Sent
	}
}

// TestDigestOfSeveralPages: they are read apart, many who ask together share one reading, each has as many buckets as asked
// for, and lists that run leave it waiting no longer than its turn.
func TestDigestOfSeveralPages(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec("CREATE TABLE public.many (id int PRIMARY KEY, v text); INSERT INTO public.many SELECT i, repeat('x', i % 50) FROM generate_series(1, 5000) i")
	table := syncd.Table{Schema: "public", Name: "many"}
	w := NewWatch(configFor(t, db, "public.many"), new(Memory))
	pages := &counting{Observer: w.Config.Observer}
	w.Config.Observer = pages
	l := run(t, w).lister()
	l.PageRows = 100
	want := syncd.Totals{}
	for k, row := range harness.Oracle(t, db, table) {
		want.Add(k, []byte(row))
	}
	var together sync.WaitGroup
	for i := range 20 {
		together.Go(func() {
			d, err := l.Digest(t.Context(), syncd.DigestRequest{Table: table, Bits: i % 15})
			if err != nil {
				t.Error(err)
				return
			}
			if got := syncd.Sum(d.Buckets); got != want || len(d.Buckets) != 1<<(i%15) {
				t.Errorf("%d buckets of %+v, want %+v", len(d.Buckets), got, want)
			}
			if d.Safe > d.Snapshot.H {
				t.Errorf("safe %s lies behind H %s", d.Safe, d.Snapshot.H)
			}
		})
	}
	together.Wait()
	if n, once := pages.total(), 5000/(100*digestPages)+1; n < once || n > 4*once {
		t.Errorf("20 digests read %d pages", n)
	}
	for _, bits := range []int{-1, syncd.MaxDigestBits + 1} {
		if _, err := l.Digest(t.Context(), syncd.DigestRequest{Table: table, Bits: bits}); err == nil {
			t.Errorf("a digest in 2^%d buckets", bits)
		}
	}
	if _, err := l.Digest(t.Context(), syncd.DigestRequest{Table: syncd.Table{Schema: "public", Name: "none"}}); !errors.Is(err, syncd.ErrNoTable) {
		t.Errorf("of no table: %v", err)
	}
	if _, err := l.List(t.Context(), syncd.ListRequest{Table: table, Buckets: &syncd.BucketSet{Bits: 20}}); err == nil {
		t.Error("a list of buckets that there are not")
	}
}

// counting counts pages.
type counting struct {
	Observer
	mu sync.Mutex
	n  int
}

func (c *counting) Listed(t syncd.Table, rows, bytes int) {
	c.mu.Lock()
	c.n++
	c.mu.Unlock()
	c.Observer.Listed(t, rows, bytes)
}

func (c *counting) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// TestDigestKeepsToItsTurn: while as many scans run as may, a digest is told that the source is busy.
func TestDigestKeepsToItsTurn(t *testing.T) {
	t.Parallel()
	db := harness.Database(t)
	db.Exec("CREATE TABLE public.few (id int PRIMARY KEY); INSERT INTO public.few SELECT generate_series(1, 10)")
	l := run(t, NewWatch(configFor(t, db, "public.few"), new(Memory))).lister()
	l.Wait = 1
	for range cap(l.scans) {
		l.scans <- struct{}{}
	}
	r := syncd.DigestRequest{Table: syncd.Table{Schema: "public", Name: "few"}}
	if _, err := l.Digest(t.Context(), r); !errors.Is(err, syncd.ErrBusy) {
		t.Errorf("got %v", err)
	}
	for range cap(l.scans) {
		<-l.scans
	}
	l.Wait = 0 // the usual one: there is a turn to be had
	if d, err := l.Digest(t.Context(), r); err != nil || d.Rows() != 10 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestDigestOfAnotherShape: pages of two shapes make no digest.
func TestDigestOfAnotherShape(t *testing.T) {
	page := func(change func(*syncd.Page)) *syncd.Page {
		p := &syncd.Page{Schema: 1, System: 2, Timeline: 3, Snapshot: &syncd.Snapshot{Epoch: 4, Xmin: 5, Xmax: 5, H: 9}, Safe: 8}
		change(p)
		return p
	}
	for name, change := range map[string]func(*syncd.Page){
		"shape": func(p *syncd.Page) { p.Schema++ }, "system": func(p *syncd.Page) { p.System++ },
		"timeline": func(p *syncd.Page) { p.Timeline++ }, "epoch": func(p *syncd.Page) { p.Snapshot.Epoch++ },
	} {
		d := digesting{}
		if err := errors.Join(d.add(page(func(*syncd.Page) {})), d.add(page(change))); !errors.Is(err, errOrigin) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := digesting{}
	for _, change := range []func(*syncd.Page){
		func(p *syncd.Page) { p.Snapshot.H, p.Snapshot.Xmin, p.Snapshot.Xmax = 12, 7, 7 },
		func(p *syncd.Page) { p.Safe = 6 },
		func(p *syncd.Page) { p.Safe, p.Snapshot.Xmax, p.Snapshot.Xip = 7, 8, []syncd.XID{5} },
	} {
		if err := d.add(page(change)); err != nil {
			t.Fatal(err)
		}
	}
	res, err := d.end()
	if err != nil || res.digest.Safe != 6 || res.digest.Snapshot.H != 12 || res.digest.Snapshot.Xmax != 5 {
		t.Errorf("%+v, %v", fmt.Sprint(res.digest), err)
	}
}
