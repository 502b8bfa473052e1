package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/syncd-io/syncd/sink"
)

// Check looks at the file of a store, and changes nothing. That its directory can be written to is not looked at.
func Check(o Options) []sink.Precondition {
	p := sink.Precondition{Name: "file", OK: true, Detail: o.Path}
	abs, err := filepath.Abs(o.Path)
	if err != nil {
		return []sink.Precondition{{Name: p.Name, Detail: err.Error(), Mend: "name another path"}}
	}
	size, err := size(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.Detail += " will be made"
		return []sink.Precondition{p}
	case err != nil:
		p.OK, p.Detail = false, err.Error()
		p.Mend = "let the user that syncd runs as read and write the file, or name another path"
		return []sink.Precondition{p}
	}
	if why := stranger(abs, o.Name, size); why != "" {
		p.OK, p.Detail = false, fmt.Sprintf("%s: %s", abs, why)
		p.Mend = "name another path: at its start syncd would put this file aside and begin with an empty one"
	}
	return []sink.Precondition{p, checkLock(abs)}
}

// size gives the size of a file that can be read and written.
func size(path string) (int64, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is no file", path)
	}
	return info.Size(), nil
}

// stranger says why a file is none that a store of this name goes on with; empty where it is one, or that can't be told without
// opening it for writing.
func stranger(path, name string, size int64) string {
	if size == 0 {
		return ""
	}
	id, sqlite, err := header(path)
	switch {
	case err != nil:
		return err.Error()
	case !sqlite:
		return "it is no SQLite file"
	case id == 0 && logged(path):
		return "" // what marks it as ours may be in the log still
	case id != applicationID:
		return "it was not written by syncd"
	}
	c, err := openConn(path, "ro&immutable=1") // so nothing is made beside it
	if err != nil {
		return ""
	}
	defer c.close()
	for key, want := range map[string]string{"format": strconv.Itoa(format), "name": name} {
		// What is in the log is not seen, so what can't be read says nothing.
		if v, err := c.one("SELECT value FROM _syncd_meta WHERE key = ?", key); err == nil && v != nil && v != want {
			return fmt.Sprintf("its %s is %v, want %s", key, v, want)
		}
	}
	return ""
}

// header reads the application's number from the head of a file, and says whether it is a SQLite file's.
func header(path string) (id uint32, ok bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	b := make([]byte, 100)
	if _, err := io.ReadFull(f, b); err != nil {
		return 0, false, nil // it is shorter than a head
	}
	return binary.BigEndian.Uint32(b[68:]), string(b[:16]) == "SQLite format 3\x00", nil
}

// logged says whether there is a log beside the file that was not taken into it.
func logged(path string) bool {
	info, err := os.Stat(path + "-wal")
	return err == nil && info.Size() > 0
}

// checkLock asks whether another process writes to the file. Who does has a transaction open on the file beside it that keeps all
// others from reading there.
func checkLock(path string) sink.Precondition {
	p := sink.Precondition{Name: "file in use", OK: true, Detail: "by nobody"}
	if _, err := os.Stat(path + "-lock"); errors.Is(err, fs.ErrNotExist) {
		return p
	}
	c, err := openConn(path+"-lock", "ro")
	if err == nil {
		_, err = c.one("SELECT count(*) FROM sqlite_master")
		err = errors.Join(err, c.close())
	}
	switch {
	case code(err) == codeBusy:
		p.OK, p.Detail = false, (&InUseError{path}).Error()
		p.Mend = "stop that sidecar, or name another path; where it is the one of this configuration, nothing is to be mended"
	case err != nil:
		p.OK, p.Detail = false, fmt.Sprintf("%s-lock: %v", path, err)
		p.Mend = "let the user that syncd runs as read and write the file"
	}
	return p
}
