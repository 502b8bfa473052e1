package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/syncd-io/syncd/internal/harness"
)

// shortDir gives a directory whose path is short enough for sockets in it, and that any user can enter.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "sd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

// startDemo starts a demonstration on a server of its own, with all its files in a directory.
func startDemo(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	t.Setenv("TMPDIR", dir)
	t.Setenv("SYNCD_TEST_POSTGRES", "") // a server of its own, whatever the tests run on
	return start(t, append([]string{"demo", "--addr", "127.0.0.1:0"}, args...)...)
}

// leavesNothing fails where files, or processes that use them, are left.
func leavesNothing(t *testing.T, dir string) {
	t.Helper()
	if left, _ := filepath.Glob(dir + "/*"); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
	harness.Eventually(t, "the processes of the demonstration to be gone", func() error {
		out, err := exec.Command("ps", "-eo", "pid,args").Output()
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, dir) {
				return &exitError{exitNo, os.ErrExist}
			}
		}
		return nil
	})
}

func TestDemo(t *testing.T) {
	dir := shortDir(t)
	p := startDemo(t, dir, "--duration", "4s")
	began := time.Now()
	p.says("status page http://127.0.0.1:")
	t.Logf("the first line came after %s", time.Since(began))
	p.ends(0)
	for _, part := range []string{"rows wrong", "The sidecar has noticed", "diff public.orders", "0 rows of the cache are wrong"} {
		if !strings.Contains(p.logs.String(), part) {
			t.Errorf("the output lacks %q", part)
		}
	}
	leavesNothing(t, dir)
}

func TestDemoInterrupted(t *testing.T) {
	for _, moment := range []string{"Postgres ", "the cache follows"} {
		dir := shortDir(t)
		p := startDemo(t, dir)
		p.says(moment)
		if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		p.ends(0)
		leavesNothing(t, dir)
	}
}

func TestDemoWrongUsage(t *testing.T) {
	invoke(t, "demo", "--duration", "1s").want(t, exitUsage, "at least 3s")
	invoke(t, "demo", "--duration", "soon").want(t, exitUsage, "--duration")
	invoke(t, "demo", "--postgres", "postgres://127.0.0.1:1/postgres").want(t, exitNo, "127.0.0.1")
}
