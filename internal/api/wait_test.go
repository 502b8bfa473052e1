package api

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/resync"
	"github.com/syncd-io/syncd/sink"
)

const row42 = "/v1/tables/public.users/rows/42"

// start runs the API's part beside the handlers until the test's bubble is done with it.
func (r *rig) start(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run gave %v", err)
		}
	}
}

// async answers a request in a goroutine of its own.
func (r *rig) async(target string) <-chan *httptest.ResponseRecorder {
	done := make(chan *httptest.ResponseRecorder, 1)
	go func() { done <- r.do("GET", target) }()
	return done
}

func TestReachedVersionsAreAnsweredAtOnce(t *testing.T) {
	r := newRig(t)
	for _, v := range []string{"0/16B3748", "0/1", "1764534000000-0/16B3748", "1764534000000-0/16B3748-3", "1764533999999-FF/FFFFFFFF", "1-FF/0"} {
		wantStatus(t, r.do("GET", row42+"?min_version="+v), 200)
		wantStatus(t, r.do("GET", "/v1/tables/public.users/rows?min_version="+v), 200)
	}
	if r.marks.asked != 0 {
		t.Errorf("the source was asked %d times", r.marks.asked)
	}
}

func TestReadWaitsForItsVersion(t *testing.T) {
	for _, v := range []string{"0/16B3800", "1764534000000-0/16B3800", "1764534000000-0/16B3800-1"} {
		for _, target := range []string{row42, "/v1/tables/public.users/rows"} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.start(t)()
				done := r.async(target + "?min_version=" + v)
				synctest.Wait()
				r.cache.commit(func(v *fakeView) { v.through(0x16B37FF, r.clock) }) // one byte short
				synctest.Wait()
				select {
				case w := <-done:
					t.Fatalf("answered early: %d %s", w.Code, w.Body)
				default:
				}
				r.cache.commit(func(v *fakeView) { v.through(0x16B3800, r.clock); v.put(users, "42", `{"id":42,"name":"new"}`) })
				w := <-done
				wantStatus(t, w, 200, "new")
				if got := w.Header().Get("Syncd-Version"); got != "1764534000000-0/16B3800" {
					t.Errorf("Syncd-Version %q", got)
				}
			})
		}
	}
}

func TestReadAsksForAMarker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.marks.publish = func() {
			<-time.After(2 * time.Millisecond) // the source at work
			r.cache.commit(func(v *fakeView) { v.through(0x16B4000, r.clock) })
		}
		defer r.start(t)()
		began := time.Now()
		var all []<-chan *httptest.ResponseRecorder
		for range 500 {
			all = append(all, r.async(row42+"?min_version=0/16B3800"))
		}
		for _, done := range all {
			wantStatus(t, <-done, 200)
		}
		if took := time.Since(began); took > 4*time.Millisecond {
			t.Errorf("the reads took %s", took)
		}
		synctest.Wait()
		if r.marks.asked < 1 || r.marks.asked > 2 {
			t.Errorf("500 reads asked the source %d times", r.marks.asked)
		}
	})
}

func TestSourceThatDoesNotAnswerLeavesMarkersOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.marks.err = errors.New("nats: no responders")
		defer r.start(t)()
		done := r.async(row42 + "?min_version=0/16B3800")
		<-time.After(time.Second)
		r.cache.commit(func(v *fakeView) { v.through(0x16B3800, r.clock) })
		wantStatus(t, <-done, 200)
	})
}

func TestTimeoutSaysHowFarBehind(t *testing.T) {
	cases := []struct {
		query string
		after time.Duration
		says  []string
	}{
		{"min_version=0/16B3848", 5 * time.Second, []string{"public.users is at 1764534000000-0/16B3748, 256 bytes of WAL behind 1764534000000-0/16B3848 after 5s"}},
		{"min_version=0/16B3848&timeout=250ms", 250 * time.Millisecond, []string{"after 250ms"}},
		{"min_version=0/16B3848&timeout=0s", 0, []string{"after 0s"}},
		{"min_version=0/16B3848&timeout=5m", 5 * time.Minute, []string{"after 5m0s"}},
		{"min_version=1764534000001-0/1", 5 * time.Second, []string{"older epoch"}},
	}
	for _, c := range cases {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			defer r.start(t)()
			began := time.Now()
			w := r.do("GET", row42+"?"+c.query)
			wantStatus(t, w, 504, c.says...)
			if took := time.Since(began); took != c.after {
				t.Errorf("%s took %s", c.query, took)
			}
		})
	}
}

func TestPendingRowClaimsOnlyWhatItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.start(t)()
		pending := syncd.Version{Epoch: epoch, LSN: 0x16B3800, Ordinal: 1}
		r.cache.commit(func(v *fakeView) {
			v.through(0x16B4000, r.clock)
			v.put(users, "43", `{"id":43}`)
			v.state.Tables[users].Open["42"] = sink.Open{Deltas: []sink.Seen{{Version: pending}}}
		})
		// The row before the change is served, and says so; other keys are as far as the table.
		for target, version := range map[string]string{
			row42:                             "1764534000000-0/16B37FF",
			"/v1/tables/public.users/rows/43": "1764534000000-0/16B4000",
			"/v1/tables/public.users/rows":    "1764534000000-0/16B37FF",
		} {
			w := r.do("GET", target)
			wantStatus(t, w, 200)
			if got := w.Header().Get("Syncd-Version"); got != version {
				t.Errorf("%s: version %s, want %s", target, got, version)
			}
		}
		wantStatus(t, r.do("GET", row42+"?min_version=0/16B37FF"), 200)
		wantStatus(t, r.do("GET", "/v1/tables/public.users/rows/43?min_version=0/16B4000"), 200)
		done, page := r.async(row42+"?min_version=0/16B3800"), r.async("/v1/tables/public.users/rows?min_version=0/16B3800")
		<-time.After(time.Second)
		if len(done) != 0 || len(page) != 0 {
			t.Fatal("a read was answered while its row was being fetched")
		}
		r.cache.commit(func(v *fakeView) {
			delete(v.state.Tables[users].Open, "42")
			v.put(users, "42", `{"id":42,"name":"fetched"}`)
		})
		wantStatus(t, <-done, 200, "fetched")
		wantStatus(t, <-page, 200, "fetched")
	})
}

func TestWaitOutlastsTheFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.start(t)()
		r.cache.commit(func(v *fakeView) { v.state.Tables[users].Listed = false })
		done := r.async(row42 + "?min_version=0/16B3748")
		<-time.After(time.Second)
		r.cache.commit(func(v *fakeView) { v.state.Tables[users].Listed = true })
		wantStatus(t, <-done, 200)
		r.cache.commit(func(v *fakeView) { v.state.Tables[users].Listed = false })
		wantStatus(t, r.do("GET", row42+"?min_version=0/16B3748"), 503, "not listed yet")
	})
}

func TestMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.start(t)()
		wantStatus(t, r.do("GET", row42+"?max_age=250ms"), 200)
		w := r.do("GET", row42+"?max_age=249ms")
		wantStatus(t, w, 503, "250ms old")
		if w.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		// While changes are missing the table is as old as what it is complete through.
		r.cache.commit(func(v *fakeView) {
			ts := v.state.Tables[users]
			ts.Loss, ts.Sent, ts.Applied = 0x16B3700, r.clock.Add(-2*time.Hour), r.clock.Add(-time.Hour)
		})
		wantStatus(t, r.do("GET", row42+"?max_age=119m"), 503, "were lost 2h0m0s ago")
		if got := r.do("GET", row42+"?max_age=2h").Header().Get("Syncd-Age"); got != "7200.000" {
			t.Errorf("Syncd-Age of a table that lacks changes: %q", got)
		}
		if got := r.do("GET", "/v1/tables/public.%22Odd%20Pairs%22/rows").Header().Get("Syncd-Age"); got != "0.250" {
			t.Errorf("Syncd-Age of another table: %q", got)
		}
		wantStatus(t, r.do("GET", "/v1/tables"), 200, `"lag_seconds":7200,`, `"lag_seconds":0.25,`)
		r.cache.commit(func(v *fakeView) { v.state.Tables[users].Loss = 0 })
		// A source whose clock is ahead of ours makes nothing younger than when it arrived.
		r.cache.commit(func(v *fakeView) { v.state.Sent, v.state.Applied = r.clock.Add(time.Hour), r.clock.Add(-time.Second) })
		wantStatus(t, r.do("GET", row42+"?max_age=900ms"), 503, "1s old")
		if got := r.do("GET", row42).Header().Get("Syncd-Age"); got != "1.000" {
			t.Errorf("Syncd-Age %q", got)
		}
	})
}

func TestWaitingReadsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.Limits.Waiting = 2
		defer r.start(t)()
		a, b := r.async(row42+"?min_version=0/16B3848"), r.async(row42+"?min_version=0/16B3848")
		synctest.Wait()
		wantStatus(t, r.do("GET", row42+"?min_version=0/16B3848"), 503, "2 reads wait")
		wantStatus(t, r.do("GET", row42), 200)
		wantStatus(t, <-a, 504)
		wantStatus(t, <-b, 504)
		wantStatus(t, r.do("GET", row42+"?min_version=0/16B3748"), 200)
	})
}

func TestRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.Limits.Requests = 1
		release := make(chan struct{})
		r.API.Resync = blockingResync{release}
		var wg sync.WaitGroup
		wg.Go(func() { wantStatus(t, r.do("POST", "/v1/tables/public.users/resync"), 200) })
		synctest.Wait()
		w := r.do("GET", row42)
		wantStatus(t, w, 503, "try again")
		if !strings.Contains(w.Header().Get("Retry-After"), "1") {
			t.Error("no Retry-After")
		}
		close(release)
		wg.Wait()
		wantStatus(t, r.do("GET", row42), 200)
	})
}

type blockingResync struct{ release chan struct{} }

func (b blockingResync) Request(ctx context.Context, _ syncd.Table, _ resync.Options) (*resync.Report, error) {
	select {
	case <-b.release:
		return &resync.Report{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
