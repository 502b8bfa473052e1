package memory

import (
	"testing"

	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/storetest"
)

func TestLacks(t *testing.T) {
	storetest.Lacks(t, storetest.InMemory(func() sink.Store { return New(Options{}) }), "Prefetcher", "Promoter")
}
