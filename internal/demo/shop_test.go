package demo

import (
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/syncd-io/syncd/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// Every kind of transaction writes rows, and the shop stays about as large as it was.
func TestShop(t *testing.T) {
	db := harness.Database(t)
	db.Exec(shopSchema)
	s := &shop{conn: db.Conn(), rand: rand.New(rand.NewPCG(1, 2))}
	wrote := map[int]int64{}
	for i, a := range acts {
		for range 20 {
			err := pgx.BeginFunc(t.Context(), s.conn, func(tx pgx.Tx) error {
				n, err := a.do(s, t.Context(), tx)
				wrote[i] += n
				return err
			})
			if err != nil {
				t.Fatalf("act %d: %v", i, err)
			}
		}
		if wrote[i] == 0 {
			t.Errorf("act %d wrote nothing", i)
		}
	}
	for range 1000 {
		if err := s.step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.changes.Load(); n < 1000 {
		t.Errorf("1000 transactions changed %d rows", n)
	}
	if n := db.Text("SELECT count(*) BETWEEN 1000 AND 3500 FROM orders"); n != "t" {
		t.Errorf("%s orders", db.Text("SELECT count(*) FROM orders"))
	}
}

func TestDiffering(t *testing.T) {
	a := shopRows{"x/1": "one", "x/2": "two", "x/3": "three"}
	b := shopRows{"x/1": "one", "x/2": "TWO", "x/4": "four"}
	if got := differing(a, b); len(got) != 3 || !got["x/2"] || !got["x/3"] || !got["x/4"] {
		t.Errorf("%v", got)
	}
}
