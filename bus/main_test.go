package bus

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run runs the tests on the shared server and sees that they leave no goroutine behind.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "syncd-bus")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	sharedDir = dir
	code := m.Run()
	if sharedServer != nil {
		if err := sharedServer.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}
