package daemon

import (
	"os"
	"runtime/debug"

	"github.com/syncd-io/syncd/internal/config"
	"github.com/syncd-io/syncd/sink/memory"
)

// tuneMemory has the garbage collector run often in a process that is a sidecar and nothing else: its rows are nothing to
// look at for the collector, and with Go's default the process would take twice their size. GOGC, where it is set, has the
// last word. What it gives puts the process back as it was.
func tuneMemory(roles config.Role) (restore func()) {
	if _, set := os.LookupEnv("GOGC"); set || roles != config.SidecarRole {
		return func() {}
	}
	old := debug.SetGCPercent(memory.GCPercent)
	return func() { debug.SetGCPercent(old) }
}
