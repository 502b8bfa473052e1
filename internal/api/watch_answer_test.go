package api

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// watched gives what a watch answers whose client goes away once it has what there is.
func (c *changing) watched(target string, header ...string) *httptest.ResponseRecorder {
	ctx, cancel := context.WithCancel(context.Background())
	req := httptest.NewRequestWithContext(ctx, "GET", target, nil)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w, done := httptest.NewRecorder(), make(chan struct{})
	go func() { defer close(done); c.ServeHTTP(w, req) }()
	synctest.Wait()
	cancel()
	<-done
	return w
}

func TestEventsAsTheyAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChanging(t, 1, sink.HistoryLimits{})
		defer c.cache.Close()
		m, _ := c.History.Head()
		at := m.Version().String()
		c.flush(syncd.Delta{Op: syncd.Upsert, Key: syncd.MakeKey(`a"é`), Row: []byte("{\"id\":1,\"n\":{\r\n  \"a\": 1,\n\r \"b\": 2}}")}, gone(2))
		c.judge(map[int]int{3: 31})
		m, _ = c.History.Head()
		w := c.watched(watchCounts + "?since=" + at)
		ids := strings.Split(m.Version().String(), "-")
		before := syncd.Version{Epoch: 1, LSN: m.Position.LSN, Ordinal: uint32(m.Commit - 1)}
		want := strings.NewReplacer("{P}", ids[0]+"-"+ids[1], "{ID}", m.Version().String(), "{BEFORE}", before.String()).Replace(`retry: 1000

event: upsert
data: {"key":["a\"é"],"version":"{P}","row":{"id":1,"n":{
data:   "a": 1,
data: 
data:  "b": 2}}}

event: delete
data: {"key":["2"],"version":"{P}"}

id: {BEFORE}
event: bookmark
data: {"version":"{P}"}

event: upsert
data: {"key":["3"],"version":"{P}","row":{"id":3,"n":31},"repair":"corrupt"}

id: {ID}
event: bookmark
data: {"version":"{P}","age_seconds":0.000}

`)
		if got := w.Body.String(); got != want {
			t.Errorf("the watch wrote\n%s\nwant\n%s", got, want)
		}
		for name, value := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "Syncd-Version": ids[0] + "-" + ids[1], "Syncd-Age": "0.000"} {
			if got := w.Header().Get(name); got != value {
				t.Errorf("%s: %q, want %q", name, got, value)
			}
		}
		w = c.watched(watchCounts + "?list=true&select=n&id=eq.3")
		if !strings.Contains(w.Body.String(), `data: {"key":["3"],"version":"`+ids[0]+"-"+ids[1]+`","row":{"n":31}}`) || strings.Count(w.Body.String(), "upsert") != 1 {
			t.Errorf("a filtered list with a selection: %s", w.Body)
		}
	})
}

func TestWatchRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChanging(t, 1, sink.HistoryLimits{})
		defer c.cache.Close()
		m, _ := c.History.Head()
		foreign := m.Version()
		foreign.Ordinal += 1 << 30
		for _, q := range []struct {
			query, last string
			status      int
			says        []string
		}{
			{"?since=yesterday", "", 400, []string{"parameter since", "yesterday"}},
			{"?list=maybe", "", 400, []string{"parameter list", "maybe"}},
			{"?since=0/1&list=true", "", 400, []string{"since", "list=true"}},
			{"?nn=eq.1", "", 400, []string{"nn", "did you mean n"}},
			{"?n=like.x", "", 400, []string{"like"}},
			{"?select=x", "", 400, []string{"select"}},
			{"?limit=1", "", 400, []string{"limit"}},
			{"", "yesterday", 400, []string{"Last-Event-ID", "yesterday"}},
			{"?since=0/1", "", 410, []string{"list=true"}},
			{"?since=" + foreign.String(), "", 410, []string{foreign.String()}},
			{"", foreign.String(), 410, []string{foreign.String()}},
			{"?since=7-0/1&timeout=10ms", "", 504, []string{"older epoch than 7-0/1"}},
			{"?since=FF/1&timeout=10ms", "", 504, []string{"behind 1-FF/1"}},
			{"?max_age=0s", "", 503, []string{"max_age"}},
		} {
			if strings.Contains(q.query, "max_age") {
				time.Sleep(time.Second) // of the bubble
			}
			w := httptest.NewRecorder()
			req := httptest.NewRequest("GET", watchCounts+q.query, nil)
			req.Header.Set("Last-Event-ID", q.last)
			c.ServeHTTP(w, req)
			wantStatus(t, w, q.status, q.says...)
		}
		w := c.watched(watchCounts+"?list=true", "Last-Event-ID", foreign.String())
		wantStatus(t, w, 200, "event: reset\n", "the rows follow", count(2, 60))
		c.Limits.Watches = 0
		wantStatus(t, c.watched(watchCounts), 503, "0 watches run already")
		if c.watching.n.Load() != 0 || c.busy.n.Load() != 0 || c.waiting.n.Load() != 0 {
			t.Errorf("%d watches, %d requests, %d waiting are counted at the end", c.watching.n.Load(), c.busy.n.Load(), c.waiting.n.Load())
		}
	})
}

// TestWatchWaitsForItsVersion: a client that was at a sidecar ahead of this one is sent nothing older than what it has.
func TestWatchWaitsForItsVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChanging(t, 1, sink.HistoryLimits{})
		defer c.cache.Close()
		ctx, cancel := context.WithCancel(context.Background())
		w, done := httptest.NewRecorder(), make(chan struct{})
		later := syncd.Position{Epoch: 1, LSN: c.at + 20}
		go func() {
			defer close(done)
			c.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", watchCounts+"?since="+later.String(), nil))
		}()
		for n := range 3 {
			synctest.Wait()
			c.flush(put(1, 70+n))
		}
		synctest.Wait()
		cancel()
		<-done
		if got := parse(t, w.Body.String()); len(got) < 2 || string(got[0].data.Row) == count(1, 70) || string(got[len(got)-2].data.Row) != count(1, 72) {
			t.Errorf("it was sent %s", w.Body)
		}
	})
}

func TestStaleFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChanging(t, 1, sink.HistoryLimits{})
		defer c.cache.Close()
		c.Stale = 5 * time.Minute
		reads := []string{"/v1/tables/public.counts/rows/1", "/v1/tables/public.counts/rows", "/v1/tables/public.counts/rows?key=in.(1)", "/readyz"}
		ask := func(path string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			c.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			return w
		}
		w, done := httptest.NewRecorder(), make(chan struct{})
		go func() { defer close(done); c.ServeHTTP(w, httptest.NewRequest("GET", watchCounts, nil)) }()
		time.Sleep(5 * time.Minute) // of the bubble
		for _, path := range reads {
			wantStatus(t, ask(path), 200)
		}
		time.Sleep(time.Second)
		for _, path := range append(reads, watchCounts) {
			w := ask(path)
			wantStatus(t, w, 503, "nothing has come from the source for 5m1s, and sidecar.stale allows 5m0s")
			if after := w.Header().Get("Retry-After"); path != "/readyz" && after != "5" || after == "" {
				t.Errorf("%s: Retry-After %q", path, w.Header().Get("Retry-After"))
			}
		}
		wantStatus(t, ask("/v1/status"), 200, `"ready":false`, "nothing has come from the source")
		wantStatus(t, ask("/healthz"), 200)
		time.Sleep(20 * time.Second)
		<-done // the watch has ended
		if !strings.Contains(w.Body.String(), `"age_seconds":300.000}`) {
			t.Errorf("its bookmarks do not say how old the cache is: %s", w.Body)
		}
		c.flush()
		for _, path := range reads {
			wantStatus(t, ask(path), 200)
		}
	})
}
