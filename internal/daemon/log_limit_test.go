package daemon

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/syncd-io/syncd/internal/config"
)

// TestLogIsBounded: a loop that fails every second for an hour logs a line in ten seconds and says what it left out; other
// stages, other messages and lines below a warning are not held back by it.
func TestLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, _ := NewLogger(config.Log{Level: "info", Format: "json"}, &out)
		feed := log.With("role", "sidecar").With("stage", "feed")
		for i := range 3600 {
			feed.Warn("the stream can't be followed", "error", fmt.Errorf("attempt %d", i))
			feed.Info("tried")
			time.Sleep(time.Second)
		}
		log.With("stage", "watch").Warn("the stream can't be followed")
		feed.Error("something else")
		warned, left := 0, 0
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, `"level":"WARN"`) && strings.Contains(line, `"stage":"feed"`) {
				warned++
				if strings.Contains(line, `"suppressed":9`) {
					left += 9
				}
			}
		}
		if warned < 360 || warned > 380 || left < 3000 {
			t.Errorf("%d lines of 3600, which say that %d were left out", warned, left)
		}
		if n := strings.Count(out.String(), `"msg":"tried"`); n != 3600 {
			t.Errorf("%d of 3600 lines of information", n)
		}
		for _, want := range []string{`"stage":"watch"`, `"msg":"something else"`} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the log lacks %s", want)
			}
		}
	})
}

// TestLogForgets: kinds without end don't grow the memory without end.
func TestLogForgets(t *testing.T) {
	r := &repeats{kind: map[logKind]*allowance{}}
	for i := range 10 * logKinds {
		r.take(logKind{"nats", fmt.Sprint(i)}, time.Unix(0, 0))
	}
	if len(r.kind) > logKinds {
		t.Errorf("%d kinds are remembered", len(r.kind))
	}
}
