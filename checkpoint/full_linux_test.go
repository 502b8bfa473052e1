package checkpoint

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// TestDiskFull saves to Linux's device that is always full.
func TestDiskFull(t *testing.T) {
	f := newFile(t)
	mustSave(t, f, noise(100))
	if err := os.Symlink("/dev/full", f.Path+".tmp"); err != nil {
		t.Fatal(err)
	}
	if err := save(f, noise(3*frameSize)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got %v", err)
	}
	mustLoad(t, f, noise(100))
	mustSave(t, f, noise(200))
	mustLoad(t, f, noise(200))
}
