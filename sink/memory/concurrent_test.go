package memory

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// TestViewsBesideAWriter moves amounts between accounts in two tables, commit by commit. In every view their sum is the
// same, and the cursor of the state is that of the rows; and so it is in what WriteTo makes meanwhile.
func TestViewsBesideAWriter(t *testing.T) {
	const accounts, start, commits = 400, 1000, 1500
	names := []syncd.Table{{Schema: "public", Name: "a"}, {Schema: "public", Name: "b"}}
	s := New(Options{})
	row := func(table, i, amount int) sink.Write {
		return sink.Write{Table: names[table], Key: benchKey(i), Entry: sink.Entry{Row: []byte(strconv.Itoa(amount))}}
	}
	state := func(seq int) *sink.State {
		return &sink.State{Cursor: syncd.Cursor{Seq: uint64(seq)}, Tables: map[syncd.Table]*sink.TableState{names[0]: {}, names[1]: {}}}
	}
	amounts := [2][accounts]int{}
	first := &sink.Batch{State: state(0), Writes: []sink.Write{row(0, accounts, 0)}}
	for table := range names {
		for i := range accounts {
			amounts[table][i] = start
			first.Writes = append(first.Writes, row(table, i, start))
		}
	}
	if err := s.Commit(first); err != nil {
		t.Fatal(err)
	}
	audit := func(v sink.View) error {
		sum, seq := 0, 0
		for table, name := range names {
			rows := 0
			v.Rows(name, 0, func(k syncd.Key, e sink.Entry) bool {
				n, _ := strconv.Atoi(string(e.Row))
				if rows++; k == benchKey(accounts) {
					seq = n
				} else {
					sum += n
				}
				if got, ok := v.Get(name, k); !ok || string(got.Row) != string(e.Row) {
					sum = -1 << 40
				}
				return true
			})
			if rows != v.State().Tables[names[table]].Rows {
				return fmt.Errorf("%d rows, the state says %d", rows, v.State().Tables[names[table]].Rows)
			}
		}
		if sum != 2*accounts*start || uint64(seq) != v.State().Cursor.Seq {
			return fmt.Errorf("sum %d, rows of commit %d in the state of commit %d", sum, seq, v.State().Cursor.Seq)
		}
		return nil
	}
	var done atomic.Bool
	var wg sync.WaitGroup
	reader := func(look func() error) {
		wg.Go(func() {
			for !done.Load() {
				if err := look(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 2 {
		reader(func() error { v := s.View(); defer v.Close(); return audit(v) })
	}
	reader(func() error {
		r, w := io.Pipe()
		go func() {
			_, err := s.WriteTo(w)
			w.CloseWithError(err)
		}()
		read := New(Options{})
		if _, err := read.ReadFrom(r); err != nil {
			return err
		}
		return audit(read.View())
	})
	rnd := rand.New(rand.NewPCG(4, 4))
	for seq := 1; seq <= commits && !t.Failed(); seq++ {
		b := &sink.Batch{State: state(seq), Writes: []sink.Write{row(0, accounts, seq)}}
		order := rnd.Perm(accounts)
		for _, i := range order[:1+rnd.IntN(100)] {
			n := rnd.IntN(200)
			amounts[0][i] -= n
			amounts[1][i] += n
			b.Writes = append(b.Writes, row(0, i, amounts[0][i]), row(1, i, amounts[1][i]))
		}
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
	}
	done.Store(true)
	wg.Wait()
	check(t, s)
}
