package source

import (
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/internal/pgserver"
)

// TestMarkBehindAPageHeader: where the log happens to end with a page, pg_current_wal_insert_lsn gives a place behind the next
// page's header, which nothing has reached. Who wrote, took that and reads with it must not wait until somebody writes again.
func TestMarkBehindAPageHeader(t *testing.T) {
	t.Parallel()
	db := harness.DatabaseOn(t, harness.Server(t, pgserver.Options{Settings: map[string]string{"autovacuum": "off"}}))
	db.Exec(`CREATE TABLE public.t (id int PRIMARY KEY, v text)`)
	w := run(t, NewWatch(configFor(t, db, "public.t"), new(Memory)))
	w.leads()
	const page, header = 8192, 24
	emit := func(n int) syncd.LSN {
		db.Exec(`SELECT pg_logical_emit_message(false, '', $1)`, strings.Repeat("x", n))
		return db.LSN()
	}
	at, most := db.LSN(), syncd.LSN(0)
	for n := 0; at%page != header; n++ {
		if n == 1000 {
			t.Fatalf("the log did not end with a page, it is at %s", at)
		}
		if left := page - at%page; most > 0 && left > most {
			at = emit(int(left - most)) // most: what a message takes beside its content
		} else if next := emit(8); most == 0 && next/page == at/page {
			most, at = next-at-8, next
		} else {
			at = next
		}
	}
	p, err := w.watch.Mark(t.Context(), 0)
	if err != nil || p.LSN < at {
		t.Errorf("the end of the log is given as %s, and a marker was sent at %s: %v", at, p, err)
	}
}
