package daemon

import (
	"context"
	"io"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/syncd-io/syncd/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func tell(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		t.Fatal(err)
	}
}

func TestSignals(t *testing.T) {
	for name, c := range map[string]struct {
		first, second syscall.Signal
		grace         time.Duration
		status        int
	}{
		"twice SIGINT":          {syscall.SIGINT, syscall.SIGINT, time.Minute, 130},
		"SIGTERM then SIGINT":   {syscall.SIGTERM, syscall.SIGINT, time.Minute, 130},
		"the grace is exceeded": {syscall.SIGTERM, 0, time.Millisecond, 1},
	} {
		t.Run(name, func(t *testing.T) {
			exited := make(chan int, 1)
			ctx, stop := Interrupts{Log: quiet, Grace: c.grace, Exit: func(s int) { exited <- s }}.Context(t.Context())
			defer stop()
			tell(t, c.first)
			<-ctx.Done()
			if c.second != 0 {
				tell(t, c.second)
			}
			if s := <-exited; s != c.status {
				t.Errorf("status %d, want %d", s, c.status)
			}
		})
	}
}

func TestStoppedInTime(t *testing.T) {
	ctx, stop := Interrupts{Log: quiet, Exit: func(s int) { t.Errorf("exit %d", s) }}.Context(t.Context())
	tell(t, syscall.SIGTERM)
	<-ctx.Done()
	stop()
	ctx, stop = Interrupts{Log: quiet, Exit: func(s int) { t.Errorf("exit %d", s) }}.Context(t.Context())
	stop() // without any signal
	if ctx.Err() != context.Canceled {
		t.Errorf("the context is open: %v", ctx.Err())
	}
}
