package memory

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

var users = syncd.Table{Schema: "public", Name: "users"}

// upsert is a write of a row of n bytes.
func upsert(i, n int) sink.Write {
	return sink.Write{Table: users, Key: benchKey(i), Entry: sink.Entry{Row: bytes.Repeat([]byte("x"), n), Version: syncd.Version{Epoch: 1, LSN: 5, Ordinal: 1}}}
}

func remove(i int) sink.Write { return sink.Write{Table: users, Key: benchKey(i), Remove: true} }

func commit(t testing.TB, s *Store, writes ...sink.Write) {
	t.Helper()
	if err := s.Commit(&sink.Batch{Writes: writes}); err != nil {
		t.Fatal(err)
	}
}

func upserts(from, to, size int) (all []sink.Write) {
	for i := from; i < to; i++ {
		all = append(all, upsert(i, size))
	}
	return all
}

// TestGarbageStaysBounded writes the same keys again and again, with rows of all sizes, and in between deletes most of
// them: what is dead never comes to much more than a fifth of the blocks.
func TestGarbageStaysBounded(t *testing.T) {
	for _, c := range []struct {
		name                      string
		keys, batch, rounds, size int
	}{
		{"single rows of a small table", 100, 1, 20_000, 200},
		{"batches over a table", 5_000, 500, 400, 300},
		{"rows as large as some blocks", 300, 20, 500, 9_000},
		{"rows with a block each", 40, 4, 100, 2 * ownBlock},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(2, 2))
			s := New(Options{})
			for range c.rounds {
				var b sink.Batch
				seen := map[int]bool{}
				for range c.batch {
					i := r.IntN(c.keys)
					switch {
					case seen[i]:
					case r.IntN(10) == 0:
						b.Writes = append(b.Writes, remove(i))
					default:
						b.Writes = append(b.Writes, upsert(i, c.size/2+r.IntN(c.size)))
					}
					seen[i] = true
				}
				if err := s.Commit(&b); err != nil {
					t.Fatal(err)
				}
				boundGarbage(t, s)
			}
			check(t, s)
			for i := range c.keys - 1 {
				commit(t, s, remove(i))
				boundGarbage(t, s)
			}
			check(t, s)
		})
	}
}

func boundGarbage(t *testing.T, s *Store) {
	t.Helper()
	w := s.writers[users]
	if w == nil {
		return
	}
	bound := w.slab.filled/5 + 2*minBlock
	if w.victim >= 0 { // its dead go with the last live one
		bound += w.slab.stats[w.victim].filled - w.slab.stats[w.victim].live
	}
	if dead := w.slab.filled - w.slab.live; dead > bound {
		t.Fatalf("%d of %d bytes are dead, the bound is %d", dead, w.slab.filled, bound)
	}
}

// TestEmptiedTableTakesNothing removes all a table holds.
func TestEmptiedTableTakesNothing(t *testing.T) {
	s := New(Options{})
	commit(t, s, upsert(0, 10))
	small := s.MemoryUsed()
	commit(t, s, upserts(0, 10_000, 200)...)
	var all []sink.Write
	for i := range 10_000 {
		all = append(all, remove(i))
	}
	commit(t, s, all...)
	check(t, s)
	if used := s.MemoryUsed(); used > small {
		t.Errorf("an emptied table takes %d bytes, one with a row %d", used, small)
	}
	commit(t, s, upsert(1, 10))
	if _, ok, _ := s.Load(users, benchKey(1)); !ok {
		t.Error("an emptied table takes no rows any more")
	}
}

// TestSmallTables bounds what 300 tables of a row take.
func TestSmallTables(t *testing.T) {
	s := New(Options{})
	for i := range 300 {
		w := upsert(1, 50)
		w.Table.Name = string(benchKey(i))
		commit(t, s, w)
	}
	check(t, s)
	if each := s.MemoryUsed() / 300; each > 10<<10 {
		t.Errorf("a table of one row takes %d bytes", each)
	}
}

func TestMaxMemory(t *testing.T) {
	const limit = 8 << 20
	s := New(Options{MaxMemory: limit})
	n := 0
	var err error
	for ; err == nil; n += 100 {
		err = s.Commit(&sink.Batch{Writes: upserts(n, n+100, 500)})
	}
	var full *FullError
	if !errors.As(err, &full) || full.Max != limit || full.Need <= limit {
		t.Fatalf("got %v, want a FullError of more than %d bytes", err, limit)
	}
	for _, part := range []string{"commit 100 writes", "max_memory", "8.0 MiB", "raise sidecar.max_memory"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	n -= 100
	if _, ok, _ := s.Load(users, benchKey(n)); ok {
		t.Error("a part of the refused commit is visible")
	}
	if live := int64(n * 520); live < limit/2 {
		t.Errorf("full with %d bytes of rows", live)
	}
	// Replacing and removing goes on, for as long as one likes, within the limit.
	r := rand.New(rand.NewPCG(3, 3))
	for range 2000 {
		commit(t, s, upsert(r.IntN(n), 500), upsert(n-1, 500))
		if used := s.MemoryUsed(); used > limit {
			t.Fatalf("%d bytes are used, the limit is %d", used, limit)
		}
	}
	check(t, s)
	commit(t, s, remove(0), remove(1), remove(2))
	commit(t, s, upsert(n, 500))
	if err := s.Commit(&sink.Batch{Drop: []syncd.Table{users}, Writes: upserts(0, n*9/10, 500)}); err != nil {
		t.Errorf("what replaces all is refused: %v", err)
	}
	check(t, s)
}

func TestClosed(t *testing.T) {
	s := New(Options{})
	commit(t, s, upsert(1, 10))
	v := s.View()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ok := v.Get(users, benchKey(1)); !ok {
		t.Error("a view taken before lost its rows")
	}
	if s.MemoryUsed() != 0 {
		t.Errorf("%d bytes are in use", s.MemoryUsed())
	}
	if err := s.Commit(&sink.Batch{}); !errors.Is(err, errClosed) {
		t.Errorf("commit: %v", err)
	}
	if n, err := s.WriteTo(io.Discard); n != 0 || !errors.Is(err, errClosed) {
		t.Errorf("write: %d bytes, %v; an empty store in place of the one before would be the end of a checkpoint", n, err)
	}
	if _, err := s.ReadFrom(bytes.NewReader(stored(t, New(Options{})))); !errors.Is(err, errClosed) {
		t.Errorf("read: %v", err)
	}
}

// TestKeptRowStays keeps rows and keys while their entries are replaced, moved and dropped.
func TestKeptRowStays(t *testing.T) {
	s := New(Options{})
	commit(t, s, upserts(0, 1000, 100)...)
	type kept struct{ key, row, isKey, isRow string }
	var all []kept
	s.View().Rows(users, 0, func(k syncd.Key, e sink.Entry) bool {
		if cap(e.Row) != len(e.Row) {
			t.Fatalf("appending to the row of %s would write into the store", k)
		}
		all = append(all, kept{string(k), string(e.Row), strings.Clone(string(k)), string(bytes.Clone(e.Row))})
		return true
	})
	for range 20 {
		commit(t, s, upserts(0, 1000, 90)...)
	}
	if err := s.Commit(&sink.Batch{Drop: []syncd.Table{users}}); err != nil {
		t.Fatal(err)
	}
	for _, k := range all {
		if k.key != k.isKey || k.row != k.isRow {
			t.Fatalf("row %s has changed", k.isKey)
		}
	}
}

// TestCommits says what of the two numbers moves.
func TestCommits(t *testing.T) {
	s := New(Options{})
	for _, c := range []struct {
		batch           sink.Batch
		commits, writes uint64
	}{
		{sink.Batch{State: &sink.State{}}, 1, 0},
		{sink.Batch{Writes: upserts(0, 3, 1)}, 2, 3},
		{sink.Batch{Drop: []syncd.Table{users}}, 3, 4},
	} {
		if err := s.Commit(&c.batch); err != nil {
			t.Fatal(err)
		}
		if commits, writes := s.Commits(); commits != c.commits || writes != c.writes {
			t.Errorf("%d commits, %d writes; want %d, %d", commits, writes, c.commits, c.writes)
		}
	}
}

// TestCollidingHashes has thousands of keys share a hash, or nearly so: the directory stays in proportion to them.
func TestCollidingHashes(t *testing.T) {
	for name, hash := range map[string]func(syncd.Key) uint64{
		"all of one hash":       func(syncd.Key) uint64 { return 0x123456789abcdef },
		"two groups":            func(k syncd.Key) uint64 { return k.Hash() & (1<<63 | 0xffff) },
		"alike in the top bits": func(k syncd.Key) uint64 { return k.Hash() >> 40 },
	} {
		t.Run(name, func(t *testing.T) {
			const n = 3000
			s := newStore(Options{}, hash)
			for i := 0; i < n; i += 500 {
				commit(t, s, upserts(i, i+500, 10)...)
			}
			check(t, s)
			if places := s.writers[users].dir.n; places > n/4 {
				t.Errorf("%d places for %d keys", places, n)
			}
			for i := range n {
				if _, ok, _ := s.Load(users, benchKey(i)); !ok {
					t.Fatalf("key %d is lost", i)
				}
			}
		})
	}
}
