package pgserver

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel end the server, in its immediate mode, when the program is killed.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGQUIT }

// childrenOf lists the processes whose parent is pid.
func childrenOf(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var children []int
	for _, s := range stats {
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(s)))
		if err != nil {
			continue
		}
		if _, parent, ok := stat(child); ok && parent == pid {
			children = append(children, child)
		}
	}
	return children, nil
}

// alive says whether a process runs. One that has ended but was not waited for does not.
func alive(pid int) bool {
	state, _, ok := stat(pid)
	return pid > 0 && ok && state != 'Z' && state != 'X'
}

// stat reads state and parent of a process (proc(5)): the fields behind the name, which may itself hold anything.
func stat(pid int) (state byte, parent int, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 2 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(string(f[1]))
	return f[0][0], parent, err == nil
}

// removeSharedMemory removes a segment that a killed postmaster left. One still in use stays until it is not.
func removeSharedMemory(id int) {
	if id >= 0 {
		_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	}
}
