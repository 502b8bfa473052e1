package source

import (
	"syscall"
	"time"
)

// shortSleep holds its thread for d. time.Sleep would do it for a millisecond at least, since the runtime waits for timers
// in whole milliseconds when it has nothing else to do.
func shortSleep(d time.Duration) {
	pause := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&pause, nil) // to be interrupted early is as good
}
