package resync

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
)

// TestARunIsLoggedOnce: however much it finds, and however it ends, a run is one line; its report names a few keys, and counts all.
func TestARunIsLoggedOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		rows, lost int // in the cache, and of them changed without a delta
		prune      float64
		fails      bool
		want       string
	}{
		"many repairs": {rows: 500, lost: 400, prune: 1, want: "resync complete"},
		"stopped":      {rows: 100, lost: 90, want: "resync stopped"},
		"failed":       {rows: 10, prune: 1, fails: true, want: "resync did not complete"},
		"in sync":      {rows: 10, prune: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := pair(tt.rows)
			for i := range tt.lost {
				s.commit(key(i), "")
			}
			c.apply(s.position())
			if tt.fails {
				s.before = func(context.Context, any) error { return errors.New("permission denied for table users") }
			}
			var log bytes.Buffer
			r := runner(s, c)
			r.MaxPrune = tt.prune
			r.Logger = slog.New(slog.NewTextHandler(&log, nil))
			asked := make(chan error, 1)
			go func() {
				_, err := r.Request(t.Context(), users, Options{Mode: Full})
				asked <- err
			}()
			for ran := false; !ran; {
				ran, _ = r.Step(t.Context())
			}
			if err := <-asked; (err != nil) != (tt.fails || tt.want == "resync stopped") {
				t.Error(err)
			}
			lines := strings.Count(log.String(), "\n")
			if tt.want == "" && lines != 0 || tt.want != "" && (lines != 1 || !strings.Contains(log.String(), tt.want)) {
				t.Errorf("%d lines: %s", lines, log.String())
			}
			rep := r.Last(users)
			if tt.prune == 1 && !tt.fails && (rep.Ghost != tt.lost || len(rep.Samples) != min(tt.lost, MaxSamples)) {
				t.Errorf("%d ghosts, %d samples of %d", rep.Ghost, len(rep.Samples), tt.lost)
			}
			if tt.fails && len(c.content()) != tt.rows {
				t.Errorf("%d rows are left of %d after a list that failed", len(c.content()), tt.rows)
			}
		})
	}
}

// TestErrorsAreNoEmptyTable: a source that may not read, or whose filter fails, or that takes too long, says so: whatever the
// run was asked to delete, it deletes nothing.
func TestErrorsAreNoEmptyTable(t *testing.T) {
	for _, mode := range []Mode{Full, Digest} {
		for _, why := range []error{errors.New("permission denied for table users"), errors.New("division by zero"), context.DeadlineExceeded, syncd.ErrNoTable, syncd.ErrBusy} {
			s, c := pair(10)
			s.before = func(context.Context, any) error { return why }
			got, err := once(t.Context(), runner(s, c), Options{Mode: mode, ApprovePrune: true})
			if !errors.Is(err, why) || got.Complete || got.Differences() != 0 || len(c.content()) != 10 || len(c.done) != 0 {
				t.Errorf("%s, %v: error %v, %+v, %d rows left", mode, why, err, got, len(c.content()))
			}
		}
	}
}
