package sink_test

import (
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// commits gives how many commits changed a row while fn ran.
func (r *rig) commits(fn func()) uint64 {
	before, _ := r.cache.History().Head()
	fn()
	after, _ := r.cache.History().Head()
	return after.Commit - before.Commit
}

// TestFeedJoinsWhatHasArrived: flushes that wait behind each other are one commit, of the last one's position; one that came
// alone is a commit of its own.
func TestFeedJoinsWhatHasArrived(t *testing.T) {
	t.Parallel()
	r := following(t)
	r.stream.polls = true
	r.stream.sent(100, 110, upsert(110, 1, 1, person(1, 1, "a")), upsert(110, 2, 2, person(2, 1, "a")))
	r.stream.sent(110, 120, pet(120, 1, 1), upsert(120, 2, 1, person(1, 2, "b")))
	r.stream.sent(120, 130, upsert(130, 1, 3, person(3, 1, "a")))
	if n := r.commits(r.drain); n != 1 {
		t.Errorf("%d commits", n)
	}
	r.wantRow(1, person(1, 2, "b"))
	r.wantRow(2, person(2, 1, "a"))
	r.wantRow(3, person(3, 1, "a"))
	if at := r.cache.Through().LSN; at != 130 {
		t.Errorf("the cache is at %s", at)
	}
	r.stream.sent(130, 140, upsert(140, 1, 1, person(1, 3, "c")))
	if n := r.commits(r.drain); n != 1 {
		t.Errorf("%d commits of one flush", n)
	}
	r.wantRow(1, person(1, 3, "c"))
	r.wantLosses(nil)
}

// TestFeedJoinsNoMoreThanIsWhole: what is incomplete, a part, or says more than how far the stream has come is applied alone, and
// what lies above a marker is left out as if that had come alone.
func TestFeedJoinsNoMoreThanIsWhole(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		middle  func(s *script)
		commits uint64
		losses  map[string]syncd.LSN
		row     string
	}{
		"whole": {func(s *script) { s.sent(110, 120, upsert(120, 1, 2, person(2, 1, "a"))) }, 1, nil, person(2, 1, "a")},
		"lost on the way": {func(s *script) {
			s.lost[s.sent(110, 120, upsert(120, 1, 2, person(2, 1, "a")))] = true
		}, 1, nil, person(2, 1, "a")},
		"lost": {func(s *script) {
			s.marker(syncd.Marker{Epoch: 1, Previous: 110, Through: 120, First: s.next, Counts: map[syncd.Table]int{people.Table: 1}})
		}, 2, map[string]syncd.LSN{"people": 120}, ""},
		"a part": {func(s *script) {
			s.deltas(upsert(120, 1, 2, person(2, 1, "a")))
			s.marker(syncd.Marker{Epoch: 1, Part: true, First: s.next - 1})
			s.marker(syncd.Marker{Epoch: 1, Previous: 110, Through: 120, First: s.next, Counts: map[syncd.Table]int{people.Table: 1}})
		}, 3, nil, person(2, 1, "a")},
		"a relist": {func(s *script) {
			s.deltas(upsert(120, 1, 2, person(2, 1, "a")))
			s.marker(syncd.Marker{Epoch: 1, Previous: 110, Through: 120, First: s.next - 1, Counts: map[syncd.Table]int{people.Table: 1},
				Relist: map[syncd.Table]string{pets.Table: "why not"}})
		}, 3, map[string]syncd.LSN{"pets": 120}, person(2, 1, "a")},
		"above its marker": {func(s *script) {
			s.deltas(upsert(125, 1, 2, person(2, 1, "a")))
			s.marker(syncd.Marker{Epoch: 1, Previous: 110, Through: 120, First: s.next - 1, Counts: map[syncd.Table]int{}})
		}, 1, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := following(t)
			r.stream.polls = true
			r.stream.sent(100, 110, upsert(110, 1, 1, person(1, 1, "a")))
			c.middle(r.stream)
			r.stream.sent(120, 130, upsert(130, 1, 1, person(1, 2, "b")))
			if n := r.commits(r.drain); n != c.commits {
				t.Errorf("%d commits, want %d", n, c.commits)
			}
			r.wantRow(1, person(1, 2, "b"))
			r.wantRow(2, c.row)
			r.wantLosses(c.losses)
			if at := r.cache.Through().LSN; at != 130 {
				t.Errorf("the cache is at %s", at)
			}
		})
	}
}

var _ sink.Poller = (*scriptSub)(nil)
