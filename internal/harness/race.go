//go:build race

package harness

// Race says that the race detector looks on, which makes everything several times as slow. A test may then do a part of
// what it does otherwise, where the rest would show the detector nothing new.
const Race = true
