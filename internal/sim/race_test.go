//go:build race

package sim

// race says that the race detector is on, which makes everything ten times slower.
const race = true
