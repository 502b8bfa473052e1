//go:build unix && !linux

package pgserver

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent does nothing: only Linux tells a child that its parent was killed. The next start removes the files.
func dieWithParent(*syscall.SysProcAttr) {}

// childrenOf lists the processes whose parent is pid.
func childrenOf(pid int) ([]int, error) {
	out, err := exec.Command("ps", "-A", "-o", "pid=,ppid=").Output()
	if err != nil {
		return nil, err
	}
	var children []int
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) != 2 || f[1] != strconv.Itoa(pid) {
			continue
		}
		child, err := strconv.Atoi(f[0])
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	return children, nil
}

// alive says whether a process runs.
func alive(pid int) bool { return pid > 0 && syscall.Kill(pid, 0) != syscall.ESRCH }

// removeSharedMemory does nothing: the server's next start in the same directory removes the segment.
func removeSharedMemory(int) {}
