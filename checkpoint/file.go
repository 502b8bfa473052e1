package checkpoint

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/syncd-io/syncd"
)

// File is a checkpoint on disk. One goroutine at a time may use it, and one process: see Open.
type File struct {
	// Path is where the file is. Beside it lie Path.tmp, while one is being written, and Path.bad-<time>, put aside.
	Path string
	// Name is the sync's; a file of another one is not taken for this one's.
	Name string

	fs  fsys             // nil: the system's
	now func() time.Time // nil: time.Now
}

// FileError says that a file was there and is no good. It is not fatal: list anew.
type FileError struct {
	Path  string
	Aside string // where the file was put; empty where it could not be moved
	Fault Fault
	Err   error
}

func (e *FileError) Error() string {
	if e.Aside == "" {
		return fmt.Sprintf("checkpoint %s is %s: %v", e.Path, e.Fault, e.Err)
	}
	return fmt.Sprintf("checkpoint %s is %s and was put aside as %s: %v", e.Path, e.Fault, filepath.Base(e.Aside), e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }

const (
	keepBad   = 3        // files put aside that are kept
	syncBytes = 64 << 20 // bytes between two flushes to the disk, so that the last one is short
)

// Save replaces the file by what write writes. When it returns nil the new file is on the disk; after an error the old one
// is where it was, except that it can't be told which one a power failure would leave when only the last step, flushing the
// directory, failed. An end of ctx stops it between two writes. It gives the size of the new file.
func (f *File) Save(ctx context.Context, write func(io.Writer) error) (int64, error) {
	n, err := f.save(ctx, write)
	if err != nil {
		return n, fmt.Errorf("save checkpoint %s: %w", f.Path, err)
	}
	return n, nil
}

func (f *File) save(ctx context.Context, write func(io.Writer) error) (int64, error) {
	beside := f.Path + ".tmp"
	file, err := f.files().create(beside)
	if err != nil {
		return 0, err
	}
	n, err := writeFrames(&steadyWriter{ctx: ctx, file: file}, f.Name, write)
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = f.files().rename(beside, f.Path)
	}
	if err != nil {
		return n, errors.Join(err, notExisting(f.files().remove(beside)))
	}
	if err := f.files().syncDir(filepath.Dir(f.Path)); err != nil {
		return n, fmt.Errorf("flush the directory: %w", err)
	}
	return n, nil
}

func writeFrames(w io.Writer, name string, write func(io.Writer) error) (int64, error) {
	frames, err := newFrameWriter(w, name)
	if err != nil {
		return 0, err
	}
	if err := write(frames); err != nil {
		return frames.n, err
	}
	return frames.n, frames.end()
}

// steadyWriter writes to a file until ctx ends, and flushes it now and then.
type steadyWriter struct {
	ctx   context.Context
	file  writeFile
	dirty int
}

func (w *steadyWriter) Write(b []byte) (int, error) {
	if err := context.Cause(w.ctx); err != nil {
		return 0, err
	}
	n, err := w.file.Write(b)
	if w.dirty += n; err == nil && w.dirty >= syncBytes {
		w.dirty = 0
		err = w.file.Sync()
	}
	return n, err
}

func notExisting(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Load has read read the file. What read makes of it must not be used before it met io.EOF, since only then the file is
// proved whole; and it must read as far. The error wraps fs.ErrNotExist where there is no file. It is a *FileError where
// the file is no good, or read could make nothing of it; the file was then put aside, if that was possible. Any other
// error leaves the file where it is: that of a context that ended, and one that has a method Intact() bool that gives true,
// which says that the file is good and the fault lies elsewhere.
func (f *File) Load(read func(io.Reader) error) error {
	err := f.load(read)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist) || blameless(err):
		return fmt.Errorf("load checkpoint %s: %w", f.Path, err)
	}
	bad := &FileError{Path: f.Path, Fault: faultOf(err), Err: err}
	if bad.Aside, err = f.putAside(); err != nil {
		bad.Err = fmt.Errorf("%w; putting it aside: %w", bad.Err, err)
	}
	return bad
}

func (f *File) load(read func(io.Reader) error) error {
	file, err := f.files().open(f.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	frames, err := newFrameReader(bufio.NewReaderSize(file, frameSize), f.Name)
	if err != nil {
		return err
	}
	err = read(frames)
	switch {
	case frames.err != nil && frames.err != io.EOF:
		return frames.err // whatever read made of it
	case err != nil:
		return err
	}
	switch n, err := frames.Read(make([]byte, 1)); {
	case n > 0:
		return errors.New("it was not read to its end")
	case err != io.EOF:
		return err
	}
	return nil
}

// blameless says whether an error of a load says nothing against the file.
func blameless(err error) bool {
	var intact interface{ Intact() bool }
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &intact) && intact.Intact()
}

func faultOf(err error) Fault {
	var fault *faultError
	var path *fs.PathError
	switch {
	case errors.As(err, &fault):
		return fault.fault
	case errors.Is(err, syncd.ErrFormat):
		return Newer
	case errors.As(err, &path):
		return Unreadable
	}
	return Useless
}

// putAside renames the file. It gives its new path, unless it could not be renamed.
func (f *File) putAside() (string, error) {
	now := time.Now
	if f.now != nil {
		now = f.now
	}
	aside := f.Path + ".bad-" + now().UTC().Format("20060102T150405.000000Z")
	if err := f.files().rename(f.Path, aside); err != nil {
		return "", err
	}
	return aside, f.pruneAside()
}

// pruneAside removes all but the newest of the files put aside.
func (f *File) pruneAside() error {
	dir, base := filepath.Split(f.Path)
	names, err := f.files().list(dir)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, base+".bad-") })
	slices.Sort(names)
	for _, old := range names[:max(0, len(names)-keepBad)] {
		err = errors.Join(err, f.files().remove(filepath.Join(dir, old)))
	}
	return err
}

func (f *File) files() fsys {
	if f.fs == nil {
		return osFiles{}
	}
	return f.fs
}
