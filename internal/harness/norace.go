//go:build !race

package harness

import "time"

// Race says that the race detector looks on.
const Race = false

// HangGuard is how long a wait may last before its test fails. It says that something hangs, never that something is slow.
const HangGuard = 2 * time.Minute
