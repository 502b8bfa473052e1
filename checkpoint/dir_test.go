package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// holdEnv names a directory that this test binary, started again, is to lock until it is killed.
const holdEnv = "SYNCD_TEST_HOLD"

func hold(dir string) {
	if _, err := Open(dir); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("locked")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func TestDir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "data")
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v; it holds rows, so it is the owner's alone", info.Mode(), err)
	}
	if d.Path() != path {
		t.Errorf("path %s, want %s", d.Path(), path)
	}
	f := d.File("shop")
	mustSave(t, f, noise(10))
	mustLoad(t, &File{Path: filepath.Join(path, "shop.checkpoint"), Name: "shop"}, noise(10))
	var locked *LockedError
	if _, err := Open(path); !errors.As(err, &locked) || locked.Dir != path || locked.Holder != os.Getpid() {
		t.Errorf("opened twice: %v", err)
	}
	for _, part := range []string{path, fmt.Sprint(os.Getpid()), "sidecar.data"} {
		if !strings.Contains(locked.Error(), part) {
			t.Errorf("%q does not say %q", locked, part)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(path)
	if err != nil {
		t.Fatalf("closed and opened again: %v", err)
	}
	mustLoad(t, again.File("shop"), noise(10))
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if err := again.Close(); err == nil {
		t.Error("closed twice without a complaint")
	}
}

// TestLockOfAnotherProcess locks a directory in another process, which is then killed.
func TestLockOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), holdEnv+"="+dir)
	if _, err := other.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Process.Kill() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	var locked *LockedError
	if _, err := Open(dir); !errors.As(err, &locked) || locked.Holder != other.Process.Pid {
		t.Fatalf("opened beside process %d: %v", other.Process.Pid, err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	d, err := Open(dir)
	if err != nil {
		t.Fatalf("the other process is dead: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lockDir := t.TempDir()
	if err := os.Mkdir(filepath.Join(lockDir, "lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below"), lockDir} {
		d, err := Open(dir)
		if d != nil || err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("open %s: %v", dir, err)
		}
	}
}
