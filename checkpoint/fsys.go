package checkpoint

import (
	"io"
	"os"
)

// fsys is what File needs of the file system; a test's fails on purpose.
type fsys interface {
	create(path string) (writeFile, error) // for the owner alone; what was there is lost
	open(path string) (io.ReadCloser, error)
	rename(from, to string) error
	remove(path string) error
	syncDir(dir string) error          // makes renames in it last
	list(dir string) ([]string, error) // the names in it
}

type writeFile interface {
	io.WriteCloser
	Sync() error
}

type osFiles struct{}

func (osFiles) create(path string) (writeFile, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
}

func (osFiles) open(path string) (io.ReadCloser, error) { return os.Open(path) }
func (osFiles) rename(from, to string) error            { return os.Rename(from, to) }
func (osFiles) remove(path string) error                { return os.Remove(path) }
func (osFiles) syncDir(dir string) error                { return syncDir(dir) }

func (osFiles) list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}
