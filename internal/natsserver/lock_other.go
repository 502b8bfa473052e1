//go:build !unix

package natsserver

import (
	"os"
	"path/filepath"
)

// lockDir keeps a file open in the directory. These systems have no advisory lock in the standard library.
func lockDir(dir string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, "syncd.lock"), os.O_CREATE|os.O_RDWR, 0o600)
}
