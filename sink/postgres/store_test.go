package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/remote"
	"github.com/syncd-io/syncd/sink/storetest"
)

func TestMain(m *testing.M) { harness.Main(m) }

// dying fails each statement from some step of a commit on.
type dying struct {
	armed, dead atomic.Bool
	left        atomic.Int64
}

// TraceQueryStart implements pgx.QueryTracer: a context that has ended fails the statement.
func (d *dying) TraceQueryStart(ctx context.Context, c *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if d.armed.Load() && d.left.Add(-1) < 0 {
		d.dead.Store(true)
	}
	if d.dead.Load() {
		_ = c.PgConn().Conn().Close()
	}
	return ctx
}

func (d *dying) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

var places atomic.Int64

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// suite is a place for the conformance suite: a schema of a database.
func suite(db *harness.DB) func(testing.TB) storetest.Place {
	return func(t testing.TB) storetest.Place {
		o := Options{URL: db.URL, Schema: fmt.Sprintf("Cache %d", places.Add(1))}
		var now *dying
		sql := func(t testing.TB, text string, table syncd.Table, k syncd.Key) {
			t.Helper()
			p := &place{schema: o.Schema}
			db.Exec(strings.NewReplacer("BASE", p.in(base(table)), "VIEW", p.in(visible(table))).Replace(text), order(k.Hash()))
		}
		return storetest.Place{
			Keeps: true,
			Open: func(t testing.TB) sink.Store {
				p, err := newPlace(o)
				must(t, err)
				now = &dying{}
				p.config.ConnConfig.Tracer = now
				s, err := remote.New(t.Context(), p, harness.Logger(t))
				must(t, err)
				return s
			},
			Crash: func(t testing.TB, _ sink.Store, step int) {
				now.left.Store(int64(step))
				now.armed.Store(true)
			},
			Spoils: []storetest.Spoil{
				{Name: "another value in a column", Do: func(t testing.TB, table syncd.Table, k syncd.Key) {
					sql(t, "UPDATE BASE SET name = 'Mallory' WHERE _syncd_hash = $1", table, k)
				}},
				{Name: "another JSON", Do: func(t testing.TB, table syncd.Table, k syncd.Key) {
					sql(t, "UPDATE BASE SET _syncd_row = '{}' WHERE _syncd_hash = $1", table, k)
				}},
				{Name: "no entry", Do: func(t testing.TB, table syncd.Table, k syncd.Key) {
					sql(t, "DELETE FROM BASE WHERE _syncd_hash = $1", table, k)
				}},
				{Name: "a garbled entry", Do: func(t testing.TB, table syncd.Table, k syncd.Key) {
					sql(t, `UPDATE BASE SET _syncd_meta = '\xffff' WHERE _syncd_hash = $1`, table, k)
				}},
			},
		}
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, suite(harness.Database(t)))
}
