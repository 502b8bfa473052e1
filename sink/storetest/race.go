//go:build race

package storetest

// underRace says that the race detector watches: what it looks for needs few rounds, and it makes each many times as long.
const underRace = true
