//go:build race

package sink_test

import "flag"

// The race detector looks at how goroutines meet; that one history after another comes out right is for runs without it.
func init() {
	*histories = 30
	if err := flag.Set("rapid.checks", "20"); err != nil {
		panic(err) // rapid has no such flag
	}
}
