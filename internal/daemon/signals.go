package daemon

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Grace is how long a process takes to stop at most: what is not done then is given up. Nothing is lost by that, it is
// only done again after the next start.
const Grace = 5 * time.Second

// exitInterrupted is the status of a process that was told twice to stop, as shells give it for SIGINT.
const exitInterrupted = 130

// Interrupts says how signals end a process.
type Interrupts struct {
	Log *slog.Logger
	// Exit ends the process at once; default os.Exit.
	Exit func(status int)
	// Grace is how long stopping may take; default Grace.
	Grace time.Duration
}

// Context gives a context that ends at the first SIGINT or SIGTERM. A second one, or the end of the grace, ends the
// process at once, with status 130 or 1. The caller calls stop once nothing is left to stop; signals then do what they do
// by default.
func (i Interrupts) Context(parent context.Context) (ctx context.Context, stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(parent)
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		i.watch(signals, cancel, stopped)
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(stopped)
		<-done
		cancel()
	}
}

func (i Interrupts) watch(signals <-chan os.Signal, cancel func(), stopped <-chan struct{}) {
	exit, grace := i.Exit, i.Grace
	if exit == nil {
		exit = os.Exit
	}
	if grace == 0 {
		grace = Grace
	}
	select {
	case s := <-signals:
		i.Log.Info("stopping; a second signal ends at once", "signal", s.String())
		cancel()
	case <-stopped:
		return
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-signals:
		i.Log.Warn("ended at once by a second signal")
		exit(exitInterrupted)
	case <-timer.C:
		i.Log.Error("stopping takes too long: ended at once; what was not done is done after the next start", "grace", grace)
		exit(1)
	case <-stopped:
	}
}
