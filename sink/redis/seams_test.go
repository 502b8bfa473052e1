package redis

import (
	"testing"

	"github.com/syncd-io/syncd/sink/storetest"
)

func TestLacks(t *testing.T) {
	t.Parallel()
	storetest.Lacks(t, suite(JSON), "IndexKeeper", "Indexer", "Promoter", "Tidier", "Warmer")
}
