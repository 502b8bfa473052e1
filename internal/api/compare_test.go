package api

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/syncd-io/syncd"
)

func TestResyncAnswersWithItsReport(t *testing.T) {
	r := newRig(t)
	r.resync.report = Report{Table: "public.users", Mode: "full", Version: "1-0/1", Rows: 3, Missing: 1, Repaired: 1, Complete: true, Samples: []Sample{{"42", "missing"}}}
	const want = `{"table":"public.users","mode":"full","version":"1-0/1","rows":3,"missing":1,"stale":0,"ghost":0,"corrupt":0,` +
		`"repaired":1,"undecided":0,"seconds":0,"bytes":0,"complete":true,"samples":[{"key":"42","kind":"missing"}]}`
	wantStatus(t, r.do("POST", "/v1/tables/public.users/resync?mode=full&approve_prune=true"), 200, want)
	if r.resync.options != (ResyncOptions{Mode: "full", ApprovePrune: true}) {
		t.Errorf("options %+v", r.resync.options)
	}
	wantStatus(t, r.do("POST", "/v1/tables/public.users/resync"), 200)
	if r.resync.options != (ResyncOptions{}) {
		t.Errorf("options %+v", r.resync.options)
	}
	wantStatus(t, r.do("GET", "/v1/tables/public.users/diff"), 200, want)
	r.cache.commit(func(v *fakeView) { v.state.Tables[users].Listed = false })
	wantStatus(t, r.do("POST", "/v1/tables/public.users/resync"), 200)
}

func TestResyncThatFails(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		err    error
		status int
		retry  string
	}{
		{fmt.Errorf("list public.users: %w", syncd.ErrBusy), 429, "1"},
		{fmt.Errorf("list public.users: %w", syncd.ErrNoTable), 404, ""},
		{errors.New("list public.users: no responders"), 502, "1"},
	} {
		r.resync.err = c.err
		for _, w := range []string{"POST /v1/tables/public.users/resync", "GET /v1/tables/public.users/diff"} {
			var method, target string
			fmt.Sscan(w, &method, &target)
			got := r.do(method, target)
			wantStatus(t, got, c.status, c.err.Error())
			if got.Header().Get("Retry-After") != c.retry {
				t.Errorf("%d with Retry-After %q", got.Code, got.Header().Get("Retry-After"))
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
