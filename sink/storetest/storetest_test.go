package storetest_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMap(t *testing.T) {
	storetest.Run(t, storetest.InMemory(func() sink.Store { return storetest.NewMap() }))
}

// mortal is a Map that outlives its process, and dies when it is told to: before a commit or after it.
type mortal struct {
	*storetest.Map
	steps int // that are left to it; negative: all
}

func (m *mortal) step() error {
	if m.steps == 0 {
		return errors.New("killed")
	}
	m.steps--
	return nil
}

func (m *mortal) Commit(b *sink.Batch) error {
	if err := m.step(); err != nil {
		return err
	}
	if err := m.Map.Commit(b); err != nil {
		return err
	}
	return m.step()
}

// TestKeptMap has the parts of the suite run that need hooks.
func TestKeptMap(t *testing.T) {
	storetest.Run(t, func(testing.TB) storetest.Place {
		kept := storetest.NewMap()
		return storetest.Place{
			Open:  func(testing.TB) sink.Store { return &mortal{kept, -1} },
			Keeps: true,
			Crash: func(_ testing.TB, s sink.Store, step int) { s.(*mortal).steps = step },
			Spoils: []storetest.Spoil{{Name: "the row", Do: func(t testing.TB, table syncd.Table, key syncd.Key) {
				e, ok, err := kept.Load(table, key)
				e.Row = []byte(`{"spoilt":true}`)
				err = errors.Join(err, kept.Commit(&sink.Batch{Writes: []sink.Write{{Table: table, Key: key, Entry: e}}}))
				if !ok || err != nil {
					t.Fatal(ok, err)
				}
			}}},
		}
	})
}
