// Package harness gives tests real servers: one Postgres for each test binary, on which each test has a database of its own,
// and one embedded NATS, on which each test has a stream of its own. Tests may run in parallel.
//
// The shared Postgres is set against us on purpose: its transaction ids begin at epoch 5, and its defaults print times,
// floats, bytes and money in other forms than syncd wants. What must not happen on it, because it reaches every test
// there: a transaction left open for long (it holds up the making of slots), ALTER SYSTEM, a restart. A test that needs
// those takes a Server of its own.
//
// A missing server fails the test. Nothing here skips one.
package harness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/syncd-io/syncd/internal/pgserver"
)

// contrary are defaults under which whoever relies on the server's defaults gets a wrong text.
var contrary = map[string]string{
	"TimeZone":           "Asia/Kolkata",
	"DateStyle":          "SQL, DMY",
	"IntervalStyle":      "sql_standard",
	"bytea_output":       "escape",
	"extra_float_digits": "-3",
}

// shared holds what the tests of one binary share.
var shared struct {
	postgres once[*pgserver.Server]
	nats     once[embedded]
}

// once starts a thing when it is first asked for.
type once[T any] struct {
	mu    sync.Mutex
	tried bool
	value T
	err   error
}

func (o *once[T]) get(start func() (T, error)) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.tried {
		o.tried = true
		o.value, o.err = start()
	}
	return o.value, o.err
}

// end gives the thing to stop, where it was ever started.
func (o *once[T]) end(stop func(T) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.tried || o.err != nil {
		return nil
	}
	return stop(o.value)
}

// Main runs a package's tests, stops the shared servers, and fails where goroutines are left. It is the whole of a
// TestMain:
//
//	func TestMain(m *testing.M) { harness.Main(m) }
func Main(m *testing.M, options ...goleak.Option) {
	code := m.Run()
	err := errors.Join(shared.postgres.end((*pgserver.Server).Stop), shared.nats.end(embedded.stop))
	if err == nil && code == 0 {
		err = goleak.Find(options...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "after the tests:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Postgres gives the server that the tests of this binary share. It is started at the first call.
func Postgres(t testing.TB) *pgserver.Server {
	t.Helper()
	s, err := shared.postgres.get(func() (*pgserver.Server, error) {
		ctx, cancel := context.WithTimeout(context.Background(), HangGuard)
		defer cancel()
		return pgserver.Start(ctx, against(pgserver.Options{TCP: true}))
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Server gives a Postgres of the test's own, for tests that change settings, restart it or kill it. It ends with the
// test. Where o leaves the epoch 0 it is 5.
func Server(t testing.TB, o pgserver.Options) *pgserver.Server {
	t.Helper()
	o.Own = true
	return started(t)(pgserver.Start(t.Context(), against(o)))
}

// Standby gives a hot standby of s, which ends with the test.
func Standby(t testing.TB, s *pgserver.Server, o pgserver.Options) *pgserver.Server {
	t.Helper()
	return started(t)(s.NewStandby(t.Context(), o))
}

// Copy gives a server made of a backup of s as it is now, as after a restore. It ends with the test.
func Copy(t testing.TB, s *pgserver.Server, o pgserver.Options) *pgserver.Server {
	t.Helper()
	return started(t)(s.NewCopy(t.Context(), o))
}

func started(t testing.TB) func(*pgserver.Server, error) *pgserver.Server {
	return func(s *pgserver.Server, err error) *pgserver.Server {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
}

func against(o pgserver.Options) pgserver.Options {
	if o.Epoch == 0 {
		o.Epoch = 5
	}
	set := maps.Clone(contrary)
	maps.Copy(set, o.Settings)
	o.Settings = set
	return o
}

// Eventually waits until holds gives nil. It asks again and again, and fails the test with holds's last error when
// HangGuard is over or the test ends.
func Eventually(t testing.TB, what string, holds func() error) {
	t.Helper()
	guard := time.After(HangGuard)
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%s: %v: %v", what, t.Context().Err(), err)
		case <-guard:
			t.Fatalf("%s: not after %v: %v", what, HangGuard, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Receive gives the next value of a channel, or the zero value of one that is closed. It fails the test when HangGuard is over.
func Receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(HangGuard):
		t.Fatalf("%s: not after %v", what, HangGuard)
	}
	panic("unreachable: Fatalf returned")
}

// Logger gives a logger whose lines show with the test's own where it fails.
func Logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}
