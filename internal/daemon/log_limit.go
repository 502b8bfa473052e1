package daemon

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// What of warnings and errors that repeat is let through: so many at once, then one in each pause.
const (
	logBurst = 10
	logPause = 10 * time.Second
	// logKinds bounds the memory for kinds of lines; beyond it all begin anew.
	logKinds = 1000
)

// limited is a handler that keeps warnings and errors which repeat from filling a disk: those of one message and one stage.
// The next line of the kind that is let through says how many were left out. Lines below a warning pass.
type limited struct {
	slog.Handler
	stage string
	*repeats
}

// repeats are what was logged of each kind, by all handlers made of one.
type repeats struct {
	mu   sync.Mutex
	kind map[logKind]*allowance
}

type logKind struct {
	stage, message string
}

// allowance is what may still be logged of a kind.
type allowance struct {
	left       int
	filled     time.Time
	suppressed int
}

func newLimited(h slog.Handler) slog.Handler {
	return &limited{Handler: h, repeats: &repeats{kind: map[logKind]*allowance{}}}
}

// Handle implements slog.Handler.
func (l *limited) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		return l.Handler.Handle(ctx, r)
	}
	ok, suppressed := l.take(logKind{l.stage, r.Message}, r.Time)
	if !ok {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("suppressed", suppressed))
	}
	return l.Handler.Handle(ctx, r)
}

// take says whether a line may go out at now, and how many did not since the last that did.
func (r *repeats) take(k logKind, now time.Time) (ok bool, suppressed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.kind[k]
	if a == nil {
		if len(r.kind) >= logKinds {
			clear(r.kind)
		}
		a = &allowance{left: logBurst, filled: now}
		r.kind[k] = a
	}
	if n := int(now.Sub(a.filled) / logPause); n > 0 {
		a.left = min(a.left+n, logBurst)
		a.filled = a.filled.Add(time.Duration(n) * logPause)
	}
	if a.left == 0 {
		a.suppressed++
		return false, 0
	}
	a.left--
	suppressed, a.suppressed = a.suppressed, 0
	return true, suppressed
}

// WithAttrs implements slog.Handler.
func (l *limited) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := &limited{l.Handler.WithAttrs(attrs), l.stage, l.repeats}
	for _, a := range attrs {
		if a.Key == "stage" {
			next.stage = a.Value.String()
		}
	}
	return next
}

// WithGroup implements slog.Handler.
func (l *limited) WithGroup(name string) slog.Handler {
	return &limited{l.Handler.WithGroup(name), l.stage, l.repeats}
}
