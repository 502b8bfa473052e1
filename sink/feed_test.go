package sink_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/storetest"
)

// following gives a rig whose feed follows a stream, with people and pets listed at 100.
func following(t *testing.T) *rig {
	t.Helper()
	r := newRig(t, storetest.NewMap())
	r.tables(people, pets)
	r.stream.marker(syncd.Marker{Epoch: 1, Through: 100, Safe: 100})
	r.drain()
	r.list(page(1, 100))
	p := page(1, 100)
	p.Table, p.Schema = pets.Table, pets.Schema
	r.list(p)
	return r
}

func pet(at syncd.LSN, ordinal uint32, id int) syncd.Delta {
	d := upsert(at, ordinal, id, fmt.Sprintf(`{"id":%d}`, id))
	d.Table, d.Schema = pets.Table, pets.Schema
	return d
}

// sent puts a flush on the stream: a message for each delta, and the marker. It gives the sequence of its first message.
func (s *script) sent(previous, through syncd.LSN, deltas ...syncd.Delta) uint64 {
	m := syncd.Marker{Epoch: 1, Previous: previous, Through: through, Safe: through, First: s.next, Counts: map[syncd.Table]int{}}
	for _, d := range deltas {
		m.Counts[d.Table]++
		s.deltas(d)
	}
	s.marker(m)
	return m.First
}

func (r *rig) losses() map[string]syncd.LSN {
	all := map[string]syncd.LSN{}
	for name, s := range r.cache.State().Tables {
		if s.Loss != 0 {
			all[name.Name] = s.Loss
		}
	}
	return all
}

func (r *rig) wantLosses(want map[string]syncd.LSN) {
	r.t.Helper()
	if got := fmt.Sprint(r.losses()); got != fmt.Sprint(want) {
		r.t.Errorf("losses are %v, want %v", got, want)
	}
}

func TestFeedAppliesWholeFlushes(t *testing.T) {
	r := following(t)
	r.stream.deltas(upsert(110, 1, 1, person(1, 1, "a")))
	r.stream.deltas(pet(110, 2, 1))
	r.drain()
	r.wantRow(1, "")
	r.stream.marker(syncd.Marker{Epoch: 1, Previous: 100, Through: 110, First: 2, Counts: map[syncd.Table]int{people.Table: 1, pets.Table: 1}})
	r.drain()
	r.wantRow(1, person(1, 1, "a"))
	r.wantLosses(nil)
	if len(r.stream.reads) > 0 {
		t.Errorf("the feed read %v again", r.stream.reads)
	}
}

// What got lost on the way, or came twice, late or out of order, is made good by reading the flush again.
func TestFeedReadsAgain(t *testing.T) {
	r := following(t)
	first := r.stream.sent(100, 120, upsert(110, 1, 1, person(1, 1, "a")), upsert(115, 1, 2, person(2, 1, "a")), pet(120, 1, 1))
	r.stream.lost[first+1] = true
	r.drain()
	r.wantRow(2, person(2, 1, "a"))
	r.wantLosses(nil)
	if want := []string{"2-5"}; !slices.Equal(r.stream.reads, want) {
		t.Errorf("the feed read %v again, want %v", r.stream.reads, want)
	}
}

func TestFeedReadsLostMarkersAgain(t *testing.T) {
	r := following(t)
	first := r.stream.sent(100, 110, upsert(110, 1, 1, person(1, 1, "a")))
	r.stream.lost[first+1] = true
	first = r.stream.sent(110, 120, upsert(120, 1, 2, person(2, 1, "a")))
	r.stream.lost[first+1] = true
	r.stream.sent(120, 130, upsert(130, 1, 2, person(2, 2, "b")))
	r.drain()
	r.wantRow(1, person(1, 1, "a"))
	r.wantRow(2, person(2, 2, "b"))
	r.wantLosses(nil)
	if want := []string{"2-7"}; !slices.Equal(r.stream.reads, want) {
		t.Errorf("the feed read %v again, want %v", r.stream.reads, want)
	}
}

// What is lost in the stream too is a loss of its table, and of no other.
func TestFeedNoticesLosses(t *testing.T) {
	for name, lose := range map[string]func(s *script, seq uint64){
		"gone": func(s *script, seq uint64) {
			s.messages = slices.DeleteFunc(s.messages, func(m syncd.Message) bool { return m.Seq == seq })
		},
		"not to be read": func(s *script, seq uint64) { s.unread[seq] = true },
	} {
		t.Run(name, func(t *testing.T) {
			r := following(t)
			first := r.stream.sent(100, 120, upsert(110, 1, 1, person(1, 1, "a")), upsert(115, 1, 2, person(2, 1, "a")), pet(120, 1, 1))
			lose(r.stream, first)
			r.drain()
			r.wantRow(2, person(2, 1, "a"))
			r.wantLosses(map[string]syncd.LSN{"people": 120})
			r.stream.sent(120, 130, pet(130, 1, 2))
			r.drain()
			if got := r.cache.State().Tables[pets.Table].Through.LSN; got != 130 {
				t.Errorf("the other table is at %s", got)
			}
			r.list(page(1, 130, person(1, 1, "a"), person(2, 1, "a")))
			r.wantLosses(nil)
		})
	}
}

func TestFeedNoticesLostMarkers(t *testing.T) {
	r := following(t)
	first := r.stream.sent(100, 110, upsert(110, 1, 1, person(1, 1, "a")))
	r.stream.unread[first+1] = true
	r.stream.sent(110, 120, upsert(120, 1, 2, person(2, 1, "a")))
	r.drain()
	r.wantLosses(map[string]syncd.LSN{"people": 120, "pets": 120})
	r.wantRow(2, person(2, 1, "a"))
}

func TestFeedNoticesMoreThanWasSent(t *testing.T) {
	r := following(t)
	r.stream.deltas(upsert(110, 1, 1, person(1, 1, "a")))
	r.stream.marker(syncd.Marker{Epoch: 1, Previous: 100, Through: 110, First: 2})
	r.drain()
	r.wantLosses(map[string]syncd.LSN{"people": 110})
}

// Lines that come twice are counted once, and what was applied before is not counted.
func TestFeedCountsDistinctDeltas(t *testing.T) {
	r := following(t)
	d := upsert(110, 1, 1, person(1, 1, "a"))
	r.stream.sent(100, 110, d)
	r.drain()
	first := r.stream.deltas(d, upsert(115, 1, 2, person(2, 1, "a")))
	r.stream.deltas(upsert(120, 1, 2, person(2, 2, "b")), upsert(115, 1, 2, person(2, 1, "a")))
	r.stream.marker(syncd.Marker{Epoch: 1, Previous: 110, Through: 120, First: first, Counts: map[syncd.Table]int{people.Table: 2}})
	r.drain()
	r.wantLosses(nil)
	r.wantRow(2, person(2, 2, "b"))
}

// The headless rest of a source that died is dropped: it may be of an epoch that never was.
func TestFeedDropsHeadlessRests(t *testing.T) {
	r := following(t)
	r.stream.deltas(upsert(110, 1, 1, person(1, 1, "never committed")))
	r.stream.sent(100, 110, upsert(110, 1, 2, person(2, 1, "a")))
	r.drain()
	r.wantRow(1, "")
	r.wantRow(2, person(2, 1, "a"))
	r.wantLosses(nil)
}

func TestFeedOldEpochs(t *testing.T) {
	r := following(t)
	r.stream.sent(100, 110, upsert(110, 1, 1, person(1, 1, "a")))
	r.stream.marker(syncd.Marker{Epoch: 0, Through: 999, First: r.stream.next})
	r.stream.sent(110, 120, upsert(120, 1, 1, person(1, 2, "b")))
	r.drain()
	r.wantRow(1, person(1, 2, "b"))
	r.wantLosses(nil)
}

func TestFeedNewEpoch(t *testing.T) {
	r := following(t)
	r.stream.marker(syncd.Marker{Epoch: 2, Through: 40, Start: 40, First: r.stream.next, System: 5})
	d := upsert(50, 1, 1, person(1, 2, "b"))
	d.Version.Epoch = 2
	r.stream.deltas(d)
	r.stream.marker(syncd.Marker{Epoch: 2, Previous: 40, Through: 50, Start: 40, System: 5, First: r.stream.next - 1, Counts: map[syncd.Table]int{people.Table: 1}})
	r.drain()
	r.wantLosses(nil) // the epoch was followed from its start
	s := r.cache.State()
	if s.Cursor.Position != (syncd.Position{Epoch: 2, LSN: 50}) || s.System != 5 || s.Start != 40 {
		t.Errorf("the new generation is %+v", s)
	}
	if e, ok := held(t, r.cache, 1); !ok || string(e.Row) != person(1, 2, "b") {
		t.Errorf("the new generation holds %+v", e)
	}
	r.wantRow(1, "")
}

func held(t *testing.T, c *sink.Cache, id int) (e sink.Entry, ok bool) {
	t.Helper()
	if err := c.Walk(people.Table, 0, func(k syncd.Key, held sink.Entry) bool {
		if k == key(id) {
			e, ok = held, true
		}
		return !ok
	}); err != nil {
		t.Fatal(err)
	}
	return e, ok
}

// A transaction in parts is seen in parts, counted as a whole, and applied once though it is read again.
func TestFeedParts(t *testing.T) {
	r := following(t)
	first := r.stream.deltas(upsert(110, 1, 1, person(1, 1, "a")))
	r.stream.marker(syncd.Marker{Epoch: 1, Previous: 100, Through: 100, Part: true, First: first})
	second := r.stream.deltas(upsert(110, 2, 2, person(2, 1, "a")))
	r.drain()
	r.wantRow(1, person(1, 1, "a"))
	r.wantRow(2, "")
	if got := r.cache.Cursor(); got.Seq != 1 || got.Position.LSN != 100 {
		t.Errorf("after a part the cursor is %+v", got)
	}
	r.stream.marker(syncd.Marker{Epoch: 1, Previous: 100, Through: 110, First: second, Counts: map[syncd.Table]int{people.Table: 2}})
	r.drain()
	r.wantRow(2, person(2, 1, "a"))
	r.wantLosses(nil)
	if len(r.stream.reads) > 0 {
		t.Errorf("the feed read %v again", r.stream.reads)
	}
}

func TestFeedRestartsWithinParts(t *testing.T) {
	r := following(t)
	first := r.stream.deltas(upsert(110, 1, 1, person(1, 1, "a")), upsert(110, 2, 3, person(3, 1, "a")))
	r.stream.marker(syncd.Marker{Epoch: 1, Previous: 100, Through: 100, Part: true, First: first})
	r.drain()
	r.restart(r.store)
	second := r.stream.deltas(upsert(110, 3, 2, person(2, 1, "a")))
	r.stream.marker(syncd.Marker{Epoch: 1, Previous: 100, Through: 110, First: second, Counts: map[syncd.Table]int{people.Table: 3}})
	r.drain()
	r.wantRow(2, person(2, 1, "a"))
	r.wantLosses(nil)
}

// A source that died amid a transaction's parts is followed by one that sends markers, and then all of it again.
func TestFeedSourceDiesWithinParts(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart=%v", restart), func(t *testing.T) {
			r := following(t)
			all := []syncd.Delta{
				upsert(120, 1, 1, person(1, 1, "a")), upsert(120, 2, 2, person(2, 1, "a")),
				upsert(120, 3, 1, person(1, 2, "a")), upsert(120, 4, 3, person(3, 1, "a")),
			}
			part := func(deltas ...syncd.Delta) {
				first := r.stream.deltas(deltas...)
				r.stream.marker(syncd.Marker{Epoch: 1, Previous: 100, Through: 100, Part: true, First: first})
			}
			part(all[:2]...)
			part(all[2])
			r.stream.deltas(all[3]) // headless
			r.drain()
			r.stream.sent(100, 110)
			r.drain()
			r.wantLosses(nil)
			if restart {
				r.restart(r.store)
			}
			first := r.stream.deltas(all[:3]...)
			r.stream.marker(syncd.Marker{Epoch: 1, Previous: 110, Through: 110, Part: true, First: first})
			first = r.stream.deltas(all[3])
			r.stream.marker(syncd.Marker{Epoch: 1, Previous: 110, Through: 120, First: first, Counts: map[syncd.Table]int{people.Table: 4}})
			r.drain()
			r.wantRow(1, person(1, 2, "a"))
			r.wantRow(3, person(3, 1, "a"))
			r.wantLosses(nil)
			if len(r.stream.reads) > 0 {
				t.Errorf("the feed read %v again", r.stream.reads)
			}
			r.stream.sent(120, 130, upsert(130, 1, 1, person(1, 3, "a")))
			r.drain()
			r.wantLosses(nil)
		})
	}
}

// A consumer that joins behind a part's marker stands where that stands.
func TestFeedJoinsWithinParts(t *testing.T) {
	r := newRig(t, storetest.NewMap())
	r.tables(people)
	r.stream.sent(0, 100)
	first := r.stream.deltas(upsert(110, 1, 1, person(1, 1, "a")))
	seq := r.stream.marker(syncd.Marker{Epoch: 1, Previous: 100, Through: 100, Part: true, First: first})
	r.drain()
	if got, want := r.cache.Cursor(), (syncd.Cursor{Seq: seq, Position: syncd.Position{Epoch: 1, LSN: 100}}); got != want {
		t.Errorf("the cursor is %+v, want %+v", got, want)
	}
	second := r.stream.deltas(upsert(110, 2, 2, person(2, 1, "a")))
	r.stream.marker(syncd.Marker{Epoch: 1, Previous: 100, Through: 110, First: second, Counts: map[syncd.Table]int{people.Table: 2}})
	r.drain()
	r.wantLosses(map[string]syncd.LSN{"people": 110})
}

// A part may have filled values from rows whose own change was lost: that what was lost turned up later does not mend it.
func TestFeedLossInAPart(t *testing.T) {
	r := following(t)
	r.stream.sent(100, 105, upsert(105, 1, 1, person(1, 1, "old")))
	lost := r.stream.deltas(upsert(110, 1, 1, person(1, 2, "new")))
	r.stream.lost[lost] = true
	r.stream.deltas(unchanged(110, 2, 1, 3))
	r.stream.marker(syncd.Marker{Epoch: 1, Previous: 105, Through: 105, Part: true, First: lost})
	r.drain()
	r.wantRow(1, person(1, 3, "old")) // nobody knows yet
	r.stream.marker(syncd.Marker{Epoch: 1, Previous: 105, Through: 110, First: r.stream.next, Counts: map[syncd.Table]int{people.Table: 2}})
	r.drain()
	r.wantLosses(map[string]syncd.LSN{"people": 110})
	r.list(page(1, 110, person(1, 3, "new")))
	r.wantRow(1, person(1, 3, "new"))
	r.wantLosses(nil)
}

// A flush that is larger than the buffer is applied in parts, though its source made none.
func TestFeedOverflow(t *testing.T) {
	r := following(t)
	r.feed.MaxBuffer = 1500
	var deltas []syncd.Delta
	for i := range 20 {
		deltas = append(deltas, upsert(110, uint32(i+1), i, person(i, 1, "a")))
	}
	first := r.stream.sent(100, 110, deltas...)
	r.stream.lost[first+19] = true
	r.drain()
	if n := len(r.rows(people.Table)); n != 20 {
		t.Errorf("%d rows are there of 20", n)
	}
	r.wantLosses(map[string]syncd.LSN{"people": 110})
	r.stream.sent(110, 120, deltas[0])
	r.drain()
	if got := r.cache.Through().LSN; got != 120 {
		t.Errorf("the cache is at %s", got)
	}
}

func TestFeedJoinsAtTheEnd(t *testing.T) {
	r := newRig(t, storetest.NewMap())
	r.tables(people)
	r.stream.sent(100, 110, upsert(110, 1, 1, person(1, 1, "a")))
	r.stream.sent(110, 120, upsert(120, 1, 2, person(2, 1, "a")))
	r.drain()
	if got := r.cache.Cursor(); got.Seq != 4 || got.Position.LSN != 120 {
		t.Errorf("joined at %+v", got)
	}
	if _, ok := held(t, r.cache, 2); ok {
		t.Error("the stream was read from its start")
	}
	r.wantLosses(map[string]syncd.LSN{"people": 120})
	if err := r.cache.Ready(); err == nil || !strings.Contains(err.Error(), "first list") {
		t.Errorf("ready: %v", err)
	}
	p := page(1, 120, person(1, 1, "a"), person(2, 1, "a"))
	p.Safe = 110
	r.list(p)
	if r.table().Listed {
		t.Error("served from a list that may not have seen what was before the end")
	}
	p.Safe = 120
	r.list(p)
	if err := r.cache.Ready(); err != nil {
		t.Error(err)
	}
}

func TestFeedTooOld(t *testing.T) {
	r := following(t)
	r.stream.sent(100, 110, upsert(110, 1, 1, person(1, 1, "a")))
	r.drain()
	if err := r.feed.Close(); err != nil {
		t.Fatal(err)
	}
	r.stream.sent(110, 120, upsert(120, 1, 2, person(2, 1, "a")))
	r.stream.sent(120, 130, upsert(130, 1, 3, person(3, 1, "a")))
	r.stream.messages = r.stream.messages[len(r.stream.messages)-1:]
	r.drain()
	r.wantLosses(map[string]syncd.LSN{"people": 130, "pets": 130})
	r.stream.sent(130, 140, upsert(140, 1, 4, person(4, 1, "a")))
	r.drain()
	r.wantRow(4, person(4, 1, "a"))
	if s := r.table(); s.Through.LSN != 110 {
		t.Errorf("the table is at %s", s.Through)
	}
}

// A store that fails costs nothing: the feed comes again from the cursor.
func TestFeedStoreFails(t *testing.T) {
	r := following(t)
	store := &flaky{Store: r.store}
	r.restart(store)
	r.drain()
	r.stream.sent(100, 110, upsert(110, 1, 1, person(1, 1, "a")))
	store.fail = true
	if err := r.feed.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := r.feed.Step(t.Context())
	if err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Fatalf("step: %v", err)
	}
	if r.stream.sub != nil {
		t.Error("the subscription was left open")
	}
	r.drain()
	r.wantRow(1, person(1, 1, "a"))
	r.wantLosses(nil)
}

func TestFeedErrorsSayWhat(t *testing.T) {
	for what, c := range map[string]struct {
		subscribed bool
		broken     error
	}{
		"read the stream's last marker: no such stream": {false, syncd.ErrNoStream},
		"cut": {true, errors.New("cut")},
	} {
		r := newRig(t, storetest.NewMap())
		r.tables(people)
		r.stream.sent(0, 10)
		if c.subscribed {
			r.drain()
		}
		r.stream.broken = c.broken
		if err := r.feed.Step(t.Context()); err == nil || err.Error() != what || !errors.Is(err, c.broken) {
			t.Errorf("step: %v, want %s", err, what)
		}
	}
	r := newRig(t, storetest.NewMap())
	r.at(2, 10)
	r.stream.sent(0, 10)
	if err := r.feed.Step(t.Context()); err == nil || !strings.Contains(err.Error(), "another stream") {
		t.Errorf("a stream of an older epoch: %v", err)
	}
}

func TestFeedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, storetest.NewMap())
		r.tables(people)
		ctx, cancel := context.WithCancelCause(t.Context())
		r.stream.broken, r.stream.until = errors.New("no connection"), time.Now().Add(time.Minute)
		r.stream.sent(0, 10, upsert(10, 1, 1, person(1, 1, "a")))
		ended := make(chan error, 1)
		go func() { ended <- r.feed.Run(ctx) }()
		<-time.After(time.Minute + 10*time.Second) // of the bubble's clock: the feed tries again and again meanwhile
		synctest.Wait()
		if got := r.cache.Through().LSN; got != 10 {
			t.Errorf("the cache is at %s", got)
		}
		stop := errors.New("stop")
		cancel(stop)
		if err := <-ended; !errors.Is(err, stop) {
			t.Errorf("run: %v", err)
		}
		if r.stream.sub != nil {
			t.Error("the subscription was left open")
		}
	})
}

func TestFeedRunEndsWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, storetest.NewMap())
		r.stream.broken = errors.New("no connection")
		r.feed.MinWait, r.feed.MaxWait = time.Hour, time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.feed.Run(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("run: %v", err)
		}
	})
}

func TestFeedRunEndsAtANewerFormat(t *testing.T) {
	r := newRig(t, storetest.NewMap())
	r.stream.broken = fmt.Errorf("message 7: %w", syncd.ErrFormat)
	if err := r.feed.Run(t.Context()); !errors.Is(err, syncd.ErrFormat) {
		t.Errorf("run: %v", err)
	}
}

func TestFeedWaits(t *testing.T) {
	for _, c := range []struct {
		low, high time.Duration
		failures  int
		chance    float64
		want      time.Duration
	}{
		{0, 0, 0, 0, 100 * time.Millisecond},
		{0, 0, 0, 1, 50 * time.Millisecond},
		{0, 0, 3, 0, 800 * time.Millisecond},
		{0, 0, 7, 0, 10 * time.Second},
		{0, 0, 1000, 0.5, 7500 * time.Millisecond},
		{time.Second, 3 * time.Second, 1, 0, 2 * time.Second},
		{time.Second, 3 * time.Second, 2, 0, 3 * time.Second},
	} {
		f := &sink.Feed{MinWait: c.low, MaxWait: c.high}
		if got := sink.Wait(f, c.failures, c.chance); got != c.want {
			t.Errorf("after %d failures, with chance %v: %v, want %v", c.failures, c.chance, got, c.want)
		}
	}
}
