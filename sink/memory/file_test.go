package memory

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/codec"
)

func stored(t testing.TB, s *Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := s.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sample is a store with something of everything.
func sample(t testing.TB) *Store {
	s := New(Options{})
	snap := &syncd.Snapshot{Epoch: 1, Xmin: 3, Xmax: 9, Xip: []syncd.XID{4, 7}}
	b := &sink.Batch{State: &sink.State{
		Cursor: syncd.Cursor{Seq: 9, Position: syncd.Position{Epoch: 1, LSN: 77}},
		Tables: map[syncd.Table]*sink.TableState{users: {Listed: true, Floor: snap,
			Open: map[syncd.Key]sink.Open{"a": {Snaps: []*syncd.Snapshot{snap}, Reason: "undecided"}}}},
	}}
	for i := range 100 {
		w := upsert(i, i%20)
		if i%3 == 0 {
			w.Entry = sink.Entry{Row: w.Entry.Row, Version: syncd.Version{Epoch: 1}, Snap: snap}
		}
		if i%7 == 0 {
			w.Entry.Row = nil
		}
		b.Writes = append(b.Writes, w)
	}
	other := upsert(1, 5)
	other.Table.Name = "other"
	b.Writes = append(b.Writes, other)
	if err := s.Commit(b); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestReadFromBroken cuts a file short at each byte, and flips one bit in each: what is read is then refused, or at least
// a store that is right in itself, and never a panic. (Bits that turn are found by the checksums of package checkpoint.)
func TestReadFromBroken(t *testing.T) {
	good := stored(t, sample(t))
	for i := range good {
		s := New(Options{})
		if n, err := s.ReadFrom(bytes.NewReader(good[:i])); !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, codec.ErrShort) {
			t.Fatalf("the first %d of %d bytes: %d read, %v", i, len(good), n, err)
		}
		if len(s.State().Tables) > 0 || s.MemoryUsed() > 0 {
			t.Fatalf("a part of a file is served")
		}
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		if _, err := s.ReadFrom(bytes.NewReader(bad)); err == nil {
			check(t, s)
		}
	}
}

func TestReadFromErrors(t *testing.T) {
	good := stored(t, sample(t))
	newer := bytes.Clone(good)
	newer[len(fileMagic)] = fileFormat + 1
	broken := errors.New("the disk is on fire")
	for _, c := range []struct {
		name  string
		limit int64
		from  io.Reader
		want  string
		is    error
	}{
		{"newer", 0, bytes.NewReader(newer), "newer format", syncd.ErrFormat},
		{"foreign", 0, strings.NewReader("SQLite format 3\x00 and more"), "not written by a memory store", nil},
		{"empty", 0, strings.NewReader(""), "header", io.ErrUnexpectedEOF},
		{"more behind its end", 0, io.MultiReader(bytes.NewReader(good), strings.NewReader("x")), "goes on behind its end", nil},
		{"reader fails", 0, io.MultiReader(bytes.NewReader(good[:700]), iotest.ErrReader(broken)), "table", broken},
		{"reader fails at the end", 0, io.MultiReader(bytes.NewReader(good), iotest.ErrReader(broken)), "", broken},
		{"too large", 3_000, bytes.NewReader(good), "max_memory", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := New(Options{MaxMemory: c.limit})
			commit(t, s, upsert(5, 5))
			_, err := s.ReadFrom(c.from)
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			if _, ok, _ := s.Load(users, benchKey(5)); !ok {
				t.Error("the store lost what it held")
			}
			check(t, s)
		})
	}
}

func TestWriteToErrors(t *testing.T) {
	s, full := sample(t), errors.New("no space left on device")
	size := len(stored(t, s))
	for _, room := range []int{0, 10, size / 2, size - 1} {
		w := &limited{room: room, err: full}
		if n, err := s.WriteTo(w); !errors.Is(err, full) || n != int64(room) {
			t.Errorf("room for %d bytes: %d written, %v", room, n, err)
		}
	}
}

// limited takes so many bytes.
type limited struct {
	room int
	err  error
}

func (w *limited) Write(b []byte) (int, error) {
	if len(b) <= w.room {
		w.room -= len(b)
		return len(b), nil
	}
	n := w.room
	w.room = 0
	return n, w.err
}

// TestLoadedStoreGoesOn writes to a store that was read, and reads a file written by that.
func TestLoadedStoreGoesOn(t *testing.T) {
	s := New(Options{})
	commit(t, s, upserts(0, 20_000, 100)...)
	commit(t, s, upsert(1, 3*maxBlock))
	first := stored(t, s)
	again := New(Options{})
	if _, err := again.ReadFrom(bytes.NewReader(first)); err != nil {
		t.Fatal(err)
	}
	check(t, again)
	if !bytes.Equal(stored(t, again), first) {
		t.Error("what was read is written in another way")
	}
	for range 5 {
		commit(t, again, upserts(0, 20_000, 90)...)
		check(t, again)
		boundGarbage(t, again)
	}
}

// TestLengthsAreNotBelieved reads a file that announces more than it holds; it must not take memory for it.
func TestLengthsAreNotBelieved(t *testing.T) {
	var e codec.Encoder
	e.B = append(e.B, fileMagic...)
	e.Uint(fileFormat)
	e.Uint(1 << 60)
	e.B = append(e.B, make([]byte, 3*maxBlock)...)
	allocated := testing.AllocsPerRun(1, func() {
		if _, err := New(Options{}).ReadFrom(bytes.NewReader(e.B)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	})
	if allocated > 100 {
		t.Errorf("%v allocations", allocated)
	}
}

func FuzzReadFrom(f *testing.F) {
	f.Add(stored(f, New(Options{})))
	f.Add(stored(f, sample(f)))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := New(Options{})
		if _, err := s.ReadFrom(bytes.NewReader(b)); err != nil {
			return
		}
		check(t, s)
		again := New(Options{})
		if _, err := again.ReadFrom(bytes.NewReader(stored(t, s))); err != nil {
			t.Fatalf("what was read and written can't be read: %v", err)
		}
		commit(t, s, upsert(1, 10), upsert(2, 20), remove(3))
		check(t, s)
	})
}
