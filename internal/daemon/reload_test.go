package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/syncd-io/syncd/internal/config"
)

func TestReload(t *testing.T) {
	var log bytes.Buffer
	started := config.Default()
	next := *started
	var readErr, applyErr error
	applied := 0
	r := &reloader{
		started: started, now: started, log: slog.New(slog.NewTextHandler(&log, nil)),
		read: func() (*config.Config, error) { c := next; return &c, readErr },
		apply: map[string]func(*config.Config) error{"sidecar.tables": func(*config.Config) error {
			applied++
			return applyErr
		}},
	}
	step := func(wantApplied int, says ...string) {
		t.Helper()
		log.Reset()
		r.step()
		if applied != wantApplied {
			t.Errorf("applied %d times, want %d", applied, wantApplied)
		}
		for _, s := range says {
			if !strings.Contains(log.String(), s) {
				t.Errorf("the log lacks %q: %s", s, &log)
			}
		}
	}
	step(0, "is the same")
	next.Sidecar.Tables = []config.SidecarTable{{Table: "public.users"}}
	step(1, "was read again", "changed=sidecar.tables")
	step(1, "is the same")
	next.Sidecar.Listen = "127.0.0.1:1"
	step(1, "needs a restart", "restart=sidecar.listen")
	step(1, "restart=sidecar.listen") // until it is done
	next.Sidecar.Listen = started.Sidecar.Listen
	step(1, "is the same")
	readErr = config.Problems{{Key: "name", Message: "is missing"}, {Key: "source", Message: "is missing"}}
	next.Sidecar.Tables = nil
	step(1, "has mistakes", "name: is missing; source: is missing")
	readErr, applyErr = nil, errors.New("the source is away")
	step(2, "the source is away")
	applyErr = nil
	step(3, "changed=sidecar.tables") // tried again
}
