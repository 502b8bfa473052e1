package source

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/syncd-io/syncd"
)

// Watch follows a Postgres by logical replication and publishes its changes as versioned deltas with markers. Its place is
// the stream's last marker: it keeps nothing of its own.
//
// Of several sources with one slot one leads, and the others stand by: the slot has one user at a time.
type Watch struct {
	Config    Config
	Publisher Publisher
	// Recreate says that a stream that was deleted is to be made anew.
	Recreate bool
	// MaxTransaction is how many bytes of one transaction's changes are kept in memory; 0 is 64 MiB. A larger one is kept on
	// disk, in the directory for temporary files, and published in parts.
	MaxTransaction int

	disk      func() (spillFile, error) // makes the files for large transactions; nil is a temporary one
	roster    *roster
	slot      sync.Mutex  // held while the slot is made or dropped
	onStandby atomic.Bool // the server was a standby at the last start

	mu       sync.Mutex
	term     *term        // the one that leads; nil while standing by
	last     syncd.Marker // the last marker of the stream that is known of
	known    bool
	over     string // why the epoch that the slot and the stream agree on is over all the same
	leading  bool
	reported string // the last trouble that was logged
	warned   bool   // of what is dangerous about the server
}

// ErrStandby says that this source does not lead at the moment.
var ErrStandby = errors.New("this source stands by")

// errWait says that another source leads.
type errWait struct{ why string }

func (e *errWait) Error() string { return e.why }

// StopError says that a source can't go on without a person: why, and what mends it.
type StopError struct{ Why string }

// Error gives the reason.
func (e *StopError) Error() string { return e.Why }

const (
	standbyPause = time.Second
	retryPause   = 100 * time.Millisecond
	retryMax     = 5 * time.Second
	stewardPause = time.Second
)

// NewWatch makes a Watch of c, which it fills by Defaults. It starts nothing.
func NewWatch(c Config, p Publisher) *Watch {
	c = c.Defaults()
	return &Watch{Config: c, Publisher: p, roster: newRoster(c)}
}

// Run leads or stands by until ctx ends, and then gives nil. Faults of Postgres and of the publisher it outlasts: it waits,
// and goes on where the stream stands. It gives an error where only a person can help, *StopError, and where the
// replication stream can't be understood, *ProtocolError.
func (w *Watch) Run(ctx context.Context) error {
	if err := w.Config.Validate(); err != nil {
		return err
	}
	var steward sync.WaitGroup
	defer steward.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	steward.Go(func() { w.steward(ctx) })
	pause := retryPause
	for {
		began := time.Now()
		err := w.Step(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if final(err) {
			return err
		}
		if time.Since(began) > retryMax {
			pause = retryPause
		}
		if sleep(ctx, w.afterStep(err, &pause)) != nil {
			return nil
		}
	}
}

// final says whether trying again is of no use.
func final(err error) bool {
	var stop *StopError
	var protocol *ProtocolError
	return errors.As(err, &stop) || errors.As(err, &protocol)
}

// afterStep says how long to wait before the next step, and logs what ended the one before: once, where it repeats itself.
func (w *Watch) afterStep(err error, pause *time.Duration) time.Duration {
	var wait *errWait
	var over *epochOverError
	report := err.Error()
	switch {
	case errors.As(err, &wait):
		*pause = retryPause
		w.report(report, func() { w.Config.Logger.Info("stands by", "reason", report) })
		return jitter(standbyPause)
	case errors.As(err, &over):
		w.setOver(over.why)
		w.Config.Logger.Warn("what the slot replays is not what the stream holds", "reason", over.why)
		return 0
	}
	var local *localError
	if errors.As(err, &local) {
		*pause = retryMax // however long it took: each try reads the transaction from the server again
	}
	w.report(report, func() { w.Config.Logger.Warn("replication is interrupted, and will be tried again", "error", report) })
	w.Config.Observer.Reconnected()
	d := jitter(*pause)
	*pause = min(2**pause, retryMax)
	return d
}

func (w *Watch) report(what string, log func()) {
	w.mu.Lock()
	again := w.reported == what
	w.reported = what
	w.mu.Unlock()
	if !again {
		log()
	}
}

// jitter gives between half of d and d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// Step leads once: it finds its place, and publishes until something ends it, which it gives the reason of.
func (w *Watch) Step(ctx context.Context) error {
	t, err := w.begin(ctx)
	if err != nil {
		return err
	}
	w.lead(t)
	defer w.lead(nil)
	w.warn(t.server)
	w.Config.Logger.Info("leads", "epoch", t.pump.marker().Epoch, "through", t.pump.marker().Through.String(), "reason", t.plan.Why)
	return t.run(ctx)
}

// warn says what about the server is dangerous, once.
func (w *Watch) warn(s server) {
	w.mu.Lock()
	warned := w.warned
	w.warned = true
	w.mu.Unlock()
	if warned {
		return
	}
	if danger, mend := ofKeepSize(s.keepSize, w.Config.MaxSlotWAL); danger != "" {
		w.Config.Logger.Warn("max_slot_wal_keep_size is "+danger, "mend", mend)
	}
	if matchesStandby(s.standbyNames, s.application) {
		w.Config.Logger.Warn("the server takes syncd for a synchronous standby: every commit waits for it",
			"synchronous_standby_names", s.standbyNames, "mend", "name the real standbys in synchronous_standby_names, then SELECT pg_reload_conf()")
	}
}

// lead says who leads; nil for nobody here.
func (w *Watch) lead(t *term) {
	w.mu.Lock()
	if t == nil && w.term != nil {
		w.last, w.known = w.term.pump.marker(), true
	}
	w.term, w.reported = t, ""
	is := t != nil
	changed := w.leading != is
	w.leading = is
	w.mu.Unlock()
	if changed {
		w.Config.Observer.Leader(is)
	}
}

func (w *Watch) current() *term {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.term
}

// Last gives the last marker that is known of: of this source while it leads, else the stream's as it was a moment ago. ok
// is false before any is.
func (w *Watch) Last() (m syncd.Marker, ok bool) {
	if t := w.current(); t != nil {
		return t.pump.marker(), true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.known
}

// Leads says whether this source is the one that publishes.
func (w *Watch) Leads() bool { return w.current() != nil }

func (w *Watch) setLast(m syncd.Marker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.known = m, true
}

func (w *Watch) setOver(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = why
}

func (w *Watch) isOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over != ""
}

// Tables tells of the configured tables, in their order: their shape, or why they can't be synced.
func (w *Watch) Tables() []syncd.TableInfo { return w.roster.infos() }

// SetTables changes what is synced. Within a second or two the publication follows, added tables are listed, and the others
// are left alone.
func (w *Watch) SetTables(tables []TableConfig) { w.roster.setTables(tables) }

// Mark publishes a marker that is at or past at, as soon as the server has flushed its log up to there, and gives its
// position. at 0 means the end of the server's log as it is now. It makes the server move where nothing else does. The error
// wraps ErrStandby where another source leads.
func (w *Watch) Mark(ctx context.Context, at syncd.LSN) (syncd.Position, error) {
	t := w.current()
	if t == nil {
		return syncd.Position{}, fmt.Errorf("send a marker: %w", ErrStandby)
	}
	p, err := t.mark(ctx, at)
	if err != nil {
		return syncd.Position{}, fmt.Errorf("send a marker at %s: %w", at, err)
	}
	return p, nil
}
