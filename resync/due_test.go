package resync

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/syncd-io/syncd"
)

var (
	start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	users = syncd.Table{Schema: "public", Name: "users"}
)

func TestDue(t *testing.T) {
	s := Schedule{Interval: 10 * time.Minute} // no jitter: exact times
	at := func(d time.Duration) time.Time { return start.Add(d) }
	listed := func(c Candidate) Candidate {
		c.Listed = true
		if c.Resynced.IsZero() {
			c.Resynced = at(-time.Minute)
		}
		return c
	}
	for _, tc := range []struct {
		name string
		c    Candidate
		now  time.Duration
		run  bool
		wake time.Duration // from start; -1: none
	}{
		{"never listed: at once", Candidate{}, 0, true, -1},
		{"first list is running", Candidate{Running: true}, 0, false, -1},
		{"refused by the source", Candidate{Refused: true}, time.Hour, false, -1},
		{"refused, and asked for", Candidate{Refused: true, Requested: true}, 0, false, -1},
		{"the last run before the start counts", listed(Candidate{}), 0, false, 9 * time.Minute},
		{"its interval is over", listed(Candidate{}), 9 * time.Minute, true, -1},
		{"overdue at the start: soon", listed(Candidate{Resynced: at(-time.Hour)}), 0, true, -1},
		{"the clock was set back", listed(Candidate{Resynced: at(time.Hour)}), 0, false, 10 * time.Minute},
		{"a cause: at once", listed(Candidate{Cause: "a loss"}), 0, true, -1},
		{"a cause while a run is under way: after it", listed(Candidate{Cause: "a loss", Running: true}), 0, false, -1},
		{"a parked key is a cause", listed(Candidate{Parked: 1}), 0, true, -1},
		{"asked for: at once", listed(Candidate{Requested: true}), 0, true, -1},
		{"asked for, in spite of failures", listed(Candidate{Requested: true, Failures: 9, Ended: at(0)}), 0, true, -1},
		{"stopped: a cause waits for the interval", listed(Candidate{Cause: "x", Stopped: true}), 0, false, 9 * time.Minute},
		{"stopped a minute ago: Resynced stands, the interval counts from the end",
			listed(Candidate{Stopped: true, Resynced: at(-time.Hour), Ended: at(time.Minute)}), 2 * time.Minute, false, 11 * time.Minute},
		{"a first list that was stopped waits for the interval too", Candidate{Stopped: true, Ended: at(0)}, time.Minute, false, 10 * time.Minute},
		{"stopped: asked for", listed(Candidate{Stopped: true, Requested: true}), 0, true, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.c.Table = users
			run, wake := Due(at(tc.now), start, s, []Candidate{tc.c})
			if got := len(run) == 1; got != tc.run {
				t.Errorf("run = %v, want %v", run, tc.run)
			}
			want := time.Time{}
			if tc.wake >= 0 {
				want = at(tc.wake)
			}
			if !wake.Equal(want) {
				t.Errorf("wake = %v, want %v", wake, want)
			}
		})
	}
}

func TestDueWithoutInterval(t *testing.T) {
	c := Candidate{Table: users, Listed: true, Resynced: start.Add(-1000 * time.Hour)}
	if run, wake := Due(start, start, Schedule{}, []Candidate{c}); run != nil || !wake.IsZero() {
		t.Errorf("due %v, wake %v; without an interval only causes and requests count", run, wake)
	}
}

func TestDueOrder(t *testing.T) {
	table := func(name string) syncd.Table { return syncd.Table{Schema: "public", Name: name} }
	run, _ := Due(start, start.Add(-time.Hour), Schedule{Interval: time.Minute}, []Candidate{
		{Table: table("late"), Listed: true, Resynced: start.Add(-2 * time.Minute)},
		{Table: table("later"), Listed: true, Resynced: start.Add(-3 * time.Minute)},
		{Table: table("cause"), Listed: true, Resynced: start, Cause: "a loss"},
		{Table: table("first")},
		{Table: table("asked"), Listed: true, Resynced: start, Requested: true},
	})
	want := []syncd.Table{table("asked"), table("first"), table("cause"), table("later"), table("late")}
	if !slices.Equal(run, want) {
		t.Errorf("order %v, want %v", run, want)
	}
}

// TestBackoff holds the waits after failures: they double, stay within their limit, and keep at least half of it.
func TestBackoff(t *testing.T) {
	s := Schedule{Interval: time.Hour}.withDefaults()
	for _, tc := range []struct {
		failures, repeats int
		low, high         time.Duration
	}{
		{1, 0, 125 * time.Millisecond, 250 * time.Millisecond},
		{2, 0, 250 * time.Millisecond, 500 * time.Millisecond},
		{7, 0, 8 * time.Second, 16 * time.Second},
		{60, 0, 30 * time.Second, time.Minute},
		{0, 1, 125 * time.Millisecond, 250 * time.Millisecond},
		{0, 60, 30 * time.Minute, time.Hour}, // what a run can't mend is tried less and less
	} {
		t.Run(fmt.Sprintf("failures=%d,repeats=%d", tc.failures, tc.repeats), func(t *testing.T) {
			seen := map[time.Duration]bool{}
			for seed := range uint64(100) {
				s.Seed = seed
				c := Candidate{Table: users, Listed: true, Resynced: start, Cause: "x", Ended: start, Failures: tc.failures, Repeats: tc.repeats}
				_, wake := Due(start, start, s, []Candidate{c})
				d := wake.Sub(start)
				if d < tc.low || d > tc.high {
					t.Fatalf("seed %d waits %v, want %v to %v", seed, d, tc.low, tc.high)
				}
				seen[d] = true
			}
			if len(seen) < 90 {
				t.Errorf("100 caches wait %d different times; they would come back together", len(seen))
			}
		})
	}
}

func TestJitterAndSpread(t *testing.T) {
	s := Schedule{Interval: 10 * time.Minute, Jitter: 0.2, Spread: 10 * time.Second}
	var low, high int
	for seed := range uint64(1000) {
		s.Seed = seed
		_, wake := Due(start, start, s, []Candidate{{Table: users, Listed: true, Resynced: start}})
		d := wake.Sub(start)
		if d < 8*time.Minute || d > 12*time.Minute {
			t.Fatalf("interval %v, want 8 to 12 minutes", d)
		}
		if d < 10*time.Minute {
			low++
		} else {
			high++
		}
		_, wake = Due(start, start, s, []Candidate{{Table: users, Listed: true, Resynced: start.Add(-time.Hour)}})
		if d := wake.Sub(start); d < 0 || d > 10*time.Second {
			t.Fatalf("an overdue run begins %v after the start, want within 10 s", d)
		}
	}
	if low < 400 || high < 400 {
		t.Errorf("%d below and %d above the interval of 1000: not even", low, high)
	}
}

// TestWakeIsExact: between now and wake nothing comes due, and at wake something does.
func TestWakeIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Schedule{
			Interval: time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "interval")),
			Jitter:   rapid.Float64Range(0, 1).Draw(t, "jitter"),
			Spread:   time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "spread")),
			Seed:     rapid.Uint64().Draw(t, "seed"),
		}
		now := start.Add(time.Duration(rapid.Int64Range(0, int64(3*time.Hour)).Draw(t, "now")))
		var cs []Candidate
		for i := range rapid.IntRange(0, 4).Draw(t, "tables") {
			c := Candidate{
				Table:    syncd.Table{Schema: "public", Name: fmt.Sprint(i)},
				Refused:  rapid.IntRange(0, 9).Draw(t, "refused") == 0,
				Listed:   rapid.Bool().Draw(t, "listed"),
				Cause:    rapid.SampledFrom([]string{"", "a loss"}).Draw(t, "cause"),
				Parked:   rapid.IntRange(0, 1).Draw(t, "parked"),
				Stopped:  rapid.Bool().Draw(t, "stopped"),
				Running:  rapid.IntRange(0, 9).Draw(t, "running") == 0,
				Failures: rapid.IntRange(0, 40).Draw(t, "failures"),
				Repeats:  rapid.IntRange(0, 40).Draw(t, "repeats"),
			}
			if rapid.Bool().Draw(t, "resynced before") {
				c.Resynced = now.Add(-time.Duration(rapid.Int64Range(0, int64(4*time.Hour)).Draw(t, "resynced")))
			}
			if c.Failures+c.Repeats > 0 {
				c.Ended = now.Add(-time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "ended")))
			}
			cs = append(cs, c)
		}
		run, wake := Due(now, start, s, cs)
		if wake.IsZero() {
			wake = now.Add(1000 * time.Hour)
			if later, _ := Due(wake, start, s, cs); len(later) != len(run) {
				t.Fatalf("no wake-up, but %v comes due later", later)
			}
			return
		}
		if !wake.After(now) {
			t.Fatalf("wake %v is not after now %v", wake, now)
		}
		if before, _ := Due(wake.Add(-1), start, s, cs); len(before) != len(run) {
			t.Fatalf("due before the wake-up: %v, at now %v", before, run)
		}
		if then, _ := Due(wake, start, s, cs); len(then) <= len(run) {
			t.Fatalf("nothing new is due at the wake-up")
		}
	})
}
