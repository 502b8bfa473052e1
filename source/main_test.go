package source

import (
	"testing"

	"github.com/syncd-io/syncd/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
