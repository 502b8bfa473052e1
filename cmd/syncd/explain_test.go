package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/syncd-io/syncd/internal/explain"
)

// explained gives an explanation's JSON.
func explained(t *testing.T, change func(e *explain.Explanation)) answerOf {
	t.Helper()
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	e := explain.Explanation{
		Table: "public.users", Key: "42",
		Postgres: explain.Postgres{Exists: true, Row: json.RawMessage(`{"id":42}`), Snapshot: "11:11:", H: "0/70", Passed: true},
		Stream: explain.Stream{From: 1, To: 9, Whole: true, Deltas: []explain.Delta{
			{Seq: 8, Op: "upsert", Version: "7-0/6C-1", XID: 10, Committed: at, Row: json.RawMessage(`{"id":42}`), Absent: []string{"bio"}}}},
		Cache:   explain.Cache{Held: "row", Row: json.RawMessage(`{"id":42}`), Origin: "delta", Version: "7-0/6C-1", XID: 10},
		State:   explain.State{Listed: true, Rows: 1, Through: "7-0/70", VerifiedThrough: "7-0/64", VerifiedAt: &at},
		Verdict: explain.Verdict{Code: explain.Equal, Text: "The cache has the very row that Postgres has."},
	}
	change(&e)
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return answerOf{200, string(b)}
}

func TestExplain(t *testing.T) {
	f := newFakeSidecar(t, map[string]answerOf{
		"GET /v1/tables/public.users/explain/42": explained(t, func(*explain.Explanation) {}),
		"GET /v1/tables/public.users/explain/43": explained(t, func(e *explain.Explanation) {
			e.Postgres, e.Cache.Open = explain.Postgres{}, &explain.Open{Reason: "the row of its change is not a JSON object", Parked: true}
			e.Stream = explain.Stream{From: 5, To: 9, Unread: 2}
			e.Verdict = explain.Verdict{Code: explain.Ghost, Text: "The cache has a row that Postgres no longer has.", Do: "run: syncd resync public.users"}
		}),
		"GET /v1/tables/public.users/explain/44": explained(t, func(e *explain.Explanation) {
			e.Postgres = explain.Postgres{Error: "no responders"}
			e.Stream = explain.Stream{Error: "no NATS"}
			e.Cache = explain.Cache{Held: "nothing"}
			e.Verdict = explain.Verdict{Code: explain.Unknown, Text: "Postgres could not be asked.", Do: "see that the source runs"}
		}),
		"GET /v1/tables/public.users/explain/45": {200, `{}`},
	})
	for _, tt := range []struct {
		key    string
		status int
		says   []string
	}{
		{"42", 0, []string{"snapshot 11:11:, not beyond 0/70", "message 8: upsert 7-0/6C-1 of transaction 10, committed 2026-05-01T12:00:00Z", "without bio, which did not change",
			"looked at all of it, messages 1 to 9", "from delta 7-0/6C-1 of transaction 10", "complete through 7-0/70, proved through 7-0/64", "Verdict: equal\n  The cache has the very row"}},
		{"43", 1, []string{"no such row", "messages 5 to 9; there are earlier ones", "2 messages of the table can't be read", "parked since", "What to do: run: syncd resync public.users"}},
		{"44", 3, []string{"could not be asked: no responders", "could not be read: no NATS", "Cache\n  nothing"}},
	} {
		got := f.run(t, "explain", "public.users", tt.key)
		if got.status != tt.status {
			t.Errorf("explain %s: status %d, want %d: %s", tt.key, got.status, tt.status, got.errs)
		}
		for _, text := range tt.says {
			if !strings.Contains(got.out, text) {
				t.Errorf("explain %s does not say %q:\n%s", tt.key, text, got.out)
			}
		}
	}
	if got := f.run(t, "explain", "public.users", "42", "--json"); got.status != 0 || got.out != f.answers["GET /v1/tables/public.users/explain/42"].body {
		t.Errorf("--json: %+v", got)
	}
	for args, status := range map[string]int{"public.users 45": 3, "public.users 46": 1, "public.users": 2, "users 42": 2, "a.b.c 42": 2} {
		if got := f.run(t, append([]string{"explain"}, strings.Fields(args)...)...); got.status != status || got.errs == "" {
			t.Errorf("explain %s: %+v, want status %d and a word", args, got, status)
		}
	}
}
