//go:build race

package harness

import "time"

// Race says that the race detector looks on, which makes everything several times as slow. A test may then do a part of
// what it does otherwise, where the rest would show the detector nothing new.
const Race = true

// HangGuard is how long a wait may last before its test fails. It says that something hangs, never that something is slow.
const HangGuard = 8 * time.Minute
