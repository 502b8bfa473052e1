//go:build !race

package harness

// Race says that the race detector looks on.
const Race = false
