package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// LockedError says that another process holds a data directory.
type LockedError struct {
	Dir    string // absolute
	Holder int    // the other's process id; 0: not known
}

func (e *LockedError) Error() string {
	who := "another syncd"
	if e.Holder != 0 {
		who += fmt.Sprintf(" (process %d)", e.Holder)
	}
	return fmt.Sprintf("data directory %s is in use by %s: stop it, or give each sidecar a directory of its own (sidecar.data)", e.Dir, who)
}

// Dir is a data directory that this process alone uses.
type Dir struct {
	path string
	lock *os.File
}

// errLocked is what lockFile gives when another process holds the lock.
var errLocked = errors.New("locked")

// Open makes the directory where there is none, for its owner alone, and locks it. Where another process has locked it the
// error wraps a *LockedError. The lock ends with Close or with the process, however that ends.
func Open(dir string) (*Dir, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data directory %s: %w", path, err)
	}
	name := filepath.Join(path, "lock")
	lock, err := lockFile(name)
	if errors.Is(err, errLocked) {
		return nil, &LockedError{Dir: path, Holder: holder(name)}
	}
	if err != nil {
		return nil, fmt.Errorf("lock data directory %s: %w", path, err)
	}
	d := &Dir{path: path, lock: lock}
	if err := d.sign(); err != nil {
		return nil, errors.Join(fmt.Errorf("lock data directory %s: %w", path, err), lock.Close())
	}
	return d, nil
}

// sign writes the process id into the lock's file, for the error of others.
func (d *Dir) sign() error {
	if err := d.lock.Truncate(0); err != nil {
		return err
	}
	_, err := d.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func holder(name string) int {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return pid
}

// Path is the directory's absolute path.
func (d *Dir) Path() string { return d.path }

// File is the checkpoint of a sync in the directory. The names of syncs are valid names of files.
func (d *Dir) File(name string) *File {
	return &File{Path: filepath.Join(d.path, name+".checkpoint"), Name: name}
}

// Close gives the directory free.
func (d *Dir) Close() error {
	if err := d.lock.Close(); err != nil {
		return fmt.Errorf("unlock data directory %s: %w", d.path, err)
	}
	return nil
}
