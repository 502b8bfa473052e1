package postgres

import (
	"testing"

	"github.com/syncd-io/syncd/internal/harness"
	"github.com/syncd-io/syncd/sink/storetest"
)

func TestLacks(t *testing.T) {
	t.Parallel()
	storetest.Lacks(t, suite(harness.Database(t)), "IndexKeeper", "Indexer", "Promoter", "Tidier", "Warmer")
}
