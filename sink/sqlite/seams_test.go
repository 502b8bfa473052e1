package sqlite

import (
	"testing"

	"github.com/syncd-io/syncd/sink/storetest"
)

// Its indexes serve those who query the file with SQL; filters over HTTP look at all rows.
func TestLacks(t *testing.T) { storetest.Lacks(t, place, "Indexer", "Tidier", "Warmer") }
