package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"

	"github.com/syncd-io/syncd/internal/config"
)

// reloader takes a changed configuration over into a running process, as far as that goes.
type reloader struct {
	started *config.Config // what the process began with
	now     *config.Config // what was read last
	read    func() (*config.Config, error)
	// apply takes over single keys; what has none here needs a restart. It is called with the whole new configuration.
	apply map[string]func(*config.Config) error
	log   *slog.Logger
}

// run reads the configuration again at each signal, until ctx ends.
func (r *reloader) run(ctx context.Context, signals <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-signals:
			r.step()
		}
	}
}

// step reads the configuration again. One with a mistake changes nothing.
func (r *reloader) step() {
	next, err := r.read()
	if err != nil {
		r.log.Error("the configuration has mistakes and was not taken over; syncd config validate shows them", "error", oneLine(err))
		return
	}
	var done, rest []string
	failed := false
	for _, key := range config.Changes(r.now, next) {
		if apply, ok := r.apply[key]; ok {
			if err := apply(next); err != nil {
				r.log.Error("take over a changed key", "key", key, "error", err)
				failed = true
				continue
			}
			done = append(done, key)
		}
	}
	for _, key := range config.Changes(r.started, next) {
		if _, ok := r.apply[key]; !ok {
			rest = append(rest, key)
		}
	}
	if failed {
		return // the next signal tries it all again
	}
	r.now = next
	switch {
	case len(rest) > 0:
		r.log.Warn("the configuration was read again; some of it needs a restart", "changed", strings.Join(done, " "), "restart", strings.Join(rest, " "))
	case len(done) > 0:
		r.log.Info("the configuration was read again", "changed", strings.Join(done, " "))
	default:
		r.log.Info("the configuration was read again and is the same")
	}
}

// oneLine puts several mistakes on one line.
func oneLine(err error) string {
	if p, ok := errors.AsType[config.Problems](err); ok {
		return strings.ReplaceAll(p.Error(), "\n", "; ")
	}
	return err.Error()
}
