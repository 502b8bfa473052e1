package api

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/resync"
)

func TestResyncAnswersWithItsReport(t *testing.T) {
	r := newRig(t)
	*r.resync.report = resync.Report{Table: "public.users", Mode: "full", Version: "1-0/1", Rows: 3, Missing: 1, Repaired: 1, Complete: true, Samples: []resync.Sample{{Key: "42", Kind: "missing"}}}
	const want = `{"table":"public.users","mode":"full","version":"1-0/1","rows":3,"missing":1,"stale":0,"ghost":0,"corrupt":0,` +
		`"repaired":1,"undecided":0,"seconds":0,"bytes":0,"complete":true,"samples":[{"key":"42","kind":"missing"}]}`
	wantStatus(t, r.do("POST", "/v1/tables/public.users/resync?mode=full&approve_prune=true"), 200, want)
	if r.resync.options != (resync.Options{Mode: "full", ApprovePrune: true}) {
		t.Errorf("options %+v", r.resync.options)
	}
	wantStatus(t, r.do("POST", "/v1/tables/public.users/resync"), 200)
	if r.resync.options != (resync.Options{}) {
		t.Errorf("options %+v", r.resync.options)
	}
	wantStatus(t, r.do("GET", "/v1/tables/public.users/diff"), 200, want)
	if r.resync.options != (resync.Options{Mode: "full", Dry: true}) {
		t.Errorf("options %+v", r.resync.options)
	}
	r.resync.report.Samples = nil
	wantStatus(t, r.do("GET", "/v1/tables/public.users/diff"), 200, `"samples":[]`)
	r.cache.commit(func(v *fakeView) { v.state.Tables[users].Listed = false })
	wantStatus(t, r.do("POST", "/v1/tables/public.users/resync"), 200)
}

type busyFor time.Duration

func (b busyFor) Error() string             { return syncd.ErrBusy.Error() }
func (b busyFor) Is(target error) bool      { return target == syncd.ErrBusy }
func (b busyFor) RetryAfter() time.Duration { return time.Duration(b) }

func TestResyncThatFails(t *testing.T) {
	r := newRig(t)
	cases := []struct {
		err    error
		status int
		retry  string
	}{
		{fmt.Errorf("list public.users: %w", syncd.ErrBusy), 429, "1"},
		{fmt.Errorf("list public.users: %w", busyFor(2500*time.Millisecond)), 429, "3"},
		{fmt.Errorf("list public.users: %w", syncd.ErrNoTable), 404, ""},
		{errors.New("list public.users: no responders"), 502, "1"},
		{fmt.Errorf("resync public.users: %w", resync.ErrStopped), 409, ""},
	}
	for _, c := range cases {
		for _, report := range []*resync.Report{nil, {Table: "public.users", Rows: 7}} {
			r.resync.err, r.resync.report = c.err, report
			for method, target := range map[string]string{"POST": "/v1/tables/public.users/resync", "GET": "/v1/tables/public.users/diff"} {
				w := r.do(method, target)
				wantStatus(t, w, c.status, c.err.Error(), `"error":`)
				if w.Header().Get("Retry-After") != c.retry {
					t.Errorf("%d with Retry-After %q", w.Code, w.Header().Get("Retry-After"))
				}
				if report != nil {
					wantStatus(t, w, c.status, `"rows":7`)
				}
			}
		}
	}
}

func TestResyncEndsWithItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.API.Resync = blockingResync{make(chan struct{})}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan int)
		go func() { done <- r.doContext(ctx, "POST", "/v1/tables/public.users/resync").Code }()
		synctest.Wait()
		cancel()
		if code := <-done; code != 503 {
			t.Errorf("status %d", code)
		}
	})
}
