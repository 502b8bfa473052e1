package pgserver

import (
	"errors"
	"os"
	"syscall"
)

// On Windows a server is given by URL or runs in Docker: these make the rest say so.
const (
	sigStop     = syscall.Signal(0)
	sigContinue = syscall.Signal(0)
)

type ordinary struct {
	name string
}

func ordinaryUser() (*ordinary, error) {
	return nil, errors.New("server binaries are not used on Windows: start Docker, or give a superuser's URL by --postgres or SYNCD_TEST_POSTGRES")
}

func (*ordinary) own(string) error                 { return nil }
func (*ordinary) attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
func dieWithParent(*syscall.SysProcAttr)           {}
func lock(*os.File) error                          { return errors.ErrUnsupported }
func childrenOf(int) ([]int, error)                { return nil, errors.ErrUnsupported }
func alive(int) bool                               { return false }
func killPID(int)                                  {}
func removeSharedMemory(int)                       {}
