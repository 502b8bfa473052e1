package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// startDownload runs binaries that embedded-postgres downloads (from Maven Central; the archive is kept in the user's
// cache directory). Only the download is left to it: it can neither run as root nor end with the program.
func startDownload(ctx context.Context, o Options) (*Server, error) {
	b := binaries{major: 15}
	l, err := newLocal(b)
	if err != nil {
		return nil, err
	}
	l.bin.dir = filepath.Join(l.dir, "pg", "bin")
	s, err := l.make(ctx, o, "server binaries downloaded by embedded-postgres", func(l *local) error { return download(ctx, l) })
	if err != nil {
		return nil, errors.Join(err, l.stop())
	}
	return s, nil
}

// download puts the binaries into the server's directory. embedded-postgres has no call for that alone: it is told to
// start with a data directory that can't be made, and what counts is whether the binaries are there then.
func download(ctx context.Context, l *local) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	port, err := pickPort(true)
	if err != nil {
		return err
	}
	nowhere := filepath.Join(l.dir, ownerFile, "data") // below a file
	var log bytes.Buffer
	err = embedded.NewDatabase(embedded.DefaultConfig().Version(embedded.V15).Port(uint32(port)).Logger(&log).
		CachePath(filepath.Join(cache, "syncd")).RuntimePath(filepath.Join(l.dir, "runtime")).
		BinariesPath(filepath.Join(l.dir, "pg")).DataPath(nowhere)).Start()
	if _, bad := inspect(ctx, l.bin.dir); bad != nil {
		return errors.Join(fmt.Errorf("download Postgres: %w", err), bad)
	}
	return nil
}
