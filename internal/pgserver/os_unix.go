//go:build unix

package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	sigStop     = syscall.SIGSTOP
	sigContinue = syscall.SIGCONT
)

// ordinary is the user that Postgres runs as where the program itself is root. A nil one changes nothing.
type ordinary struct {
	name     string
	uid, gid uint32
}

// ordinaryUser gives the user to run Postgres as: nil where that is the program's own.
func ordinaryUser() (*ordinary, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil && uid != 0 {
			return &ordinary{name, uint32(uid), uint32(gid)}, nil
		}
	}
	return nil, errors.New("as root Postgres refuses to run, and this machine has neither a user postgres nor a user nobody: run as another user")
}

// own gives a file to the user.
func (o *ordinary) own(path string) error {
	if o == nil {
		return nil
	}
	if err := os.Chown(path, int(o.uid), int(o.gid)); err != nil {
		return fmt.Errorf("give %s to user %s: %w", path, o.name, err)
	}
	return nil
}

func (o *ordinary) attributes() *syscall.SysProcAttr {
	// A process group of its own: the terminal's Ctrl-C is for the program, which then ends the server in order.
	a := &syscall.SysProcAttr{Setpgid: true}
	if o != nil {
		a.Credential = &syscall.Credential{Uid: o.uid, Gid: o.gid}
	}
	return a
}

// lock takes the file's lock, or gives an error at once where another process has it. It goes with the process.
func lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// killPID ends a process; that it may have ended by itself is all that can go wrong.
func killPID(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }
