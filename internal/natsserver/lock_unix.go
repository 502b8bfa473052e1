//go:build unix

package natsserver

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockDir takes the directory for this process until the file is closed or the process ends.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "syncd.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s is in use by another process (%w): stop that one, or name another directory in bus.embedded.dir", dir, err)
	}
	return f, nil
}
