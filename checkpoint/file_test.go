package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/syncd-io/syncd"
)

func newFile(t *testing.T) *File {
	return &File{Path: filepath.Join(t.TempDir(), "shop.checkpoint"), Name: "shop"}
}

func save(f *File, data []byte) error {
	_, err := f.Save(context.Background(), func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	return err
}

func load(f *File) (data []byte, err error) {
	err = f.Load(func(r io.Reader) error {
		data, err = io.ReadAll(r)
		return err
	})
	return data, err
}

func mustSave(t *testing.T, f *File, data []byte) {
	t.Helper()
	if err := save(f, data); err != nil {
		t.Fatal(err)
	}
}

func mustLoad(t *testing.T, f *File, want []byte) {
	t.Helper()
	if got, err := load(f); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("loaded %d bytes, %v; want the %d saved", len(got), err, len(want))
	}
}

// names lists the file's directory.
func names(t *testing.T, f *File) []string {
	t.Helper()
	all, err := osFiles{}.list(filepath.Dir(f.Path))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSaveAndLoad(t *testing.T) {
	f := newFile(t)
	if _, err := load(f); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no file: %v", err)
	}
	for _, size := range []int{0, 10, 3 * frameSize, 100} {
		mustSave(t, f, noise(size))
		mustLoad(t, f, noise(size))
	}
	info, err := os.Stat(f.Path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v; it holds rows, so it is the owner's alone", info.Mode(), err)
	}
	if got := names(t, f); len(got) != 1 {
		t.Errorf("left behind: %q", got)
	}
	n, err := f.Save(context.Background(), func(io.Writer) error { return nil })
	if info, _ := os.Stat(f.Path); err != nil || n != info.Size() {
		t.Errorf("%d bytes are said to be saved, %d are there: %v", n, info.Size(), err)
	}
}

// TestSaveStopped ends saves in the middle; what was there stays.
func TestSaveStopped(t *testing.T) {
	f := newFile(t)
	mustSave(t, f, noise(50))
	stop := errors.New("the store is closed")
	for name, c := range map[string]struct {
		write func(w io.Writer, cancel func()) error
		is    error
	}{
		"by who writes": {func(w io.Writer, _ func()) error { _, _ = w.Write(noise(2 * frameSize)); return stop }, stop},
		"by the end of ctx": {func(w io.Writer, cancel func()) error {
			cancel()
			_, err := w.Write(noise(2 * frameSize))
			return err
		}, context.Canceled},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if _, err := f.Save(ctx, func(w io.Writer) error { return c.write(w, cancel) }); !errors.Is(err, c.is) || !strings.Contains(err.Error(), f.Path) {
			t.Errorf("%s: %v", name, err)
		}
		mustLoad(t, f, noise(50))
		if got := names(t, f); len(got) != 1 {
			t.Errorf("%s: left behind: %q", name, got)
		}
	}
}

// faulty is a file system whose step number failAt fails. crash says that the process ends there: no later step happens.
type faulty struct {
	fsys
	failAt int
	crash  bool
	err    error
	steps  int
	trace  []string
}

// step counts a step, and says whether it is to happen.
func (f *faulty) step(what string) error {
	f.steps++
	f.trace = append(f.trace, what)
	if f.steps == f.failAt || f.crash && f.steps > f.failAt {
		return &fs.PathError{Op: what, Path: "/data", Err: f.err}
	}
	return nil
}

func (f *faulty) create(path string) (writeFile, error) {
	if err := f.step("create"); err != nil {
		return nil, err
	}
	w, err := f.fsys.create(path)
	return &faultyFile{w, f}, err
}

func (f *faulty) rename(from, to string) error {
	if err := f.step("rename"); err != nil {
		return err
	}
	return f.fsys.rename(from, to)
}

func (f *faulty) remove(path string) error {
	if err := f.step("remove"); err != nil {
		return err
	}
	return f.fsys.remove(path)
}

func (f *faulty) syncDir(dir string) error {
	if err := f.step("sync directory"); err != nil {
		return err
	}
	return f.fsys.syncDir(dir)
}

type faultyFile struct {
	writeFile
	fs *faulty
}

// Write writes the first half when it fails, as a full disk does.
func (w *faultyFile) Write(b []byte) (int, error) {
	if err := w.fs.step("write"); err != nil {
		n, _ := w.writeFile.Write(b[:len(b)/2])
		return n, err
	}
	return w.writeFile.Write(b)
}

func (w *faultyFile) Sync() error {
	if err := w.fs.step("sync"); err != nil {
		return err
	}
	return w.writeFile.Sync()
}

func (w *faultyFile) Close() error {
	err := w.writeFile.Close()
	if err := w.fs.step("close"); err != nil {
		return err
	}
	return err
}

// TestSaveFailsAtEachStep has each step of a save fail, once with the process going on and once with its end. Afterwards
// the file is the one before or the new one; with the process going on it is the one before unless all but the last step
// was done, nothing is left beside it, and the next save is as good as any.
func TestSaveFailsAtEachStep(t *testing.T) {
	before, after := noise(100), noise(2*frameSize+5)
	whole := &faulty{fsys: osFiles{}}
	f := newFile(t)
	f.fs = whole
	mustSave(t, f, after)
	if want := "create write write write write write sync close rename sync directory"; strings.Join(whole.trace, " ") != want {
		t.Fatalf("the steps are %q, want %q", whole.trace, want)
	}
	for _, crash := range []bool{false, true} {
		for at := 1; at <= whole.steps; at++ {
			t.Run(fmt.Sprintf("step %d %s, crash %v", at, whole.trace[at-1], crash), func(t *testing.T) {
				f := newFile(t)
				mustSave(t, f, before)
				f.fs = &faulty{fsys: osFiles{}, failAt: at, crash: crash, err: syscall.ENOSPC}
				if err := save(f, after); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "save checkpoint "+f.Path) {
					t.Fatalf("the error is %v", err)
				}
				f.fs = nil
				want := before
				if at == whole.steps {
					want = after
				}
				mustLoad(t, f, want)
				if got := names(t, f); !crash && len(got) != 1 {
					t.Errorf("left behind: %q", got)
				}
				mustSave(t, f, after)
				mustLoad(t, f, after)
				if got := names(t, f); len(got) != 1 {
					t.Errorf("left behind: %q", got)
				}
			})
		}
	}
}

// TestSaveFlushesOnTheWay writes more than syncBytes.
func TestSaveFlushesOnTheWay(t *testing.T) {
	f := newFile(t)
	disk := &faulty{fsys: osFiles{}}
	f.fs = disk
	mustSave(t, f, make([]byte, syncBytes+syncBytes/2))
	if n := len(slices.DeleteFunc(disk.trace, func(s string) bool { return s != "sync" })); n != 2 {
		t.Errorf("%d flushes of the file, want one on the way and one at the end", n)
	}
}

func TestLoadPutsAside(t *testing.T) {
	disk := errors.New("input/output error")
	good := framed(t, "shop", noise(1000), 1000)
	broken := bytes.Clone(good)
	broken[500] ^= 1
	for _, c := range []struct {
		name  string
		file  []byte
		read  func(io.Reader) error // nil: all
		fault Fault
		text  string
	}{
		{"corrupt", broken, nil, Corrupt, "checksum"},
		{"cut short", good[:600], nil, Truncated, "before its end"},
		{"empty", nil, nil, Truncated, "before its end"},
		{"foreign", []byte("something else entirely"), nil, Foreign, "not a checkpoint"},
		{"another sync's", framed(t, "other", nil, 1), nil, Foreign, `"other"`},
		{"of no use", good, func(io.Reader) error { return disk }, Useless, "input/output"},
		{"content of a newer form", good, func(io.Reader) error { return fmt.Errorf("store: %w", syncd.ErrFormat) }, Newer, "newer format"},
		{"not read to its end", good, func(r io.Reader) error { _, err := r.Read(make([]byte, 10)); return err }, Useless, "to its end"},
		{"damage that who reads it does not mind", good[:600], func(r io.Reader) error { _, _ = io.ReadAll(r); return nil }, Truncated, "before its end"},
		{"damage behind what was read", good[:len(good)-1], func(r io.Reader) error { _, err := io.ReadFull(r, make([]byte, 1000)); return err }, Truncated, "before its end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFile(t)
			f.now = func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC) }
			if err := os.WriteFile(f.Path, c.file, 0o600); err != nil {
				t.Fatal(err)
			}
			read := c.read
			if read == nil {
				read = func(r io.Reader) error { _, err := io.ReadAll(r); return err }
			}
			err := f.Load(read)
			var bad *FileError
			if !errors.As(err, &bad) || bad.Fault != c.fault || bad.Path != f.Path || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("got %v, want %s, %q", err, c.fault, c.text)
			}
			if want := f.Path + ".bad-20260102T030405.000006Z"; bad.Aside != want {
				t.Errorf("put aside as %s, want %s", bad.Aside, want)
			}
			if aside, err := os.ReadFile(bad.Aside); err != nil || !bytes.Equal(aside, c.file) {
				t.Errorf("what was put aside is another file: %v", err)
			}
			if _, err := load(f); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("loaded again: %v", err)
			}
			mustSave(t, f, noise(10))
			mustLoad(t, f, noise(10))
		})
	}
}

// TestBadFilesDoNotPileUp puts many files aside: the newest stay.
func TestBadFilesDoNotPileUp(t *testing.T) {
	f := newFile(t)
	var asides []string
	for i := range keepBad + 4 {
		f.now = func() time.Time { return time.Date(2026, 1, 2, 3, 4, i, 0, time.UTC) }
		if err := os.WriteFile(f.Path, []byte("bad"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := load(f)
		var bad *FileError
		if !errors.As(err, &bad) {
			t.Fatal(err)
		}
		asides = append(asides, filepath.Base(bad.Aside))
	}
	if got := names(t, f); !slices.Equal(got, asides[len(asides)-keepBad:]) {
		t.Errorf("there are %q", got)
	}
}

// full is an error of who reads, that the file is not to blame for.
type full struct{}

func (full) Error() string { return "the cache would take more than max_memory allows" }
func (full) Intact() bool  { return true }

func TestLoadLeavesAGoodFile(t *testing.T) {
	f := newFile(t)
	mustSave(t, f, noise(1000))
	for _, fault := range []error{full{}, context.Canceled, context.DeadlineExceeded} {
		err := f.Load(func(io.Reader) error { return fmt.Errorf("read the store: %w", fault) })
		var bad *FileError
		if !errors.Is(err, fault) || errors.As(err, &bad) {
			t.Errorf("got %v", err)
		}
		mustLoad(t, f, noise(1000))
	}
}

// unreadable is a file system on which files can't be read, and perhaps not be moved.
type unreadable struct {
	osFiles
	renameErr error
}

func (u unreadable) open(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{iotest.ErrReader(syscall.EIO), f}, nil
}

func (u unreadable) rename(from, to string) error {
	if u.renameErr != nil {
		return u.renameErr
	}
	return u.osFiles.rename(from, to)
}

type denied struct{ osFiles }

func (denied) open(path string) (io.ReadCloser, error) {
	return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.EACCES}
}

func TestLoadUnreadable(t *testing.T) {
	for _, c := range []struct {
		name string
		fs   fsys
		is   []error
		left bool // at its place
	}{
		{"bad disk", unreadable{}, []error{syscall.EIO}, false},
		{"no right to read", denied{}, []error{fs.ErrPermission}, false},
		{"bad disk, no right to move", unreadable{renameErr: fs.ErrPermission}, []error{syscall.EIO, fs.ErrPermission}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFile(t)
			mustSave(t, f, noise(1000))
			f.fs = c.fs
			_, err := load(f)
			var bad *FileError
			if !errors.As(err, &bad) || bad.Fault != Unreadable || (bad.Aside == "") != c.left {
				t.Fatalf("got %v", err)
			}
			for _, is := range c.is {
				if !errors.Is(err, is) {
					t.Errorf("%v does not wrap %v", err, is)
				}
			}
			f.fs = nil
			mustSave(t, f, noise(10))
			mustLoad(t, f, noise(10))
		})
	}
}
