package e2e

import (
	"testing"

	"github.com/syncd-io/syncd/internal/redisserver"
)

// redisURL gives the URL of a Redis of the test's own.
func redisURL(t *testing.T) string {
	t.Helper()
	server, err := redisserver.Start(t.Context(), redisserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server.URL()
}
