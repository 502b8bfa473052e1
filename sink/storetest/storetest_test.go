package storetest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMap(t *testing.T) {
	storetest.Run(t, func(*testing.T) sink.Store { return storetest.NewMap() })
}
