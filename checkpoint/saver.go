package checkpoint

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// Source is what a Saver saves. Its dynamic type must be comparable, such as a pointer: a Saver tells by == whether it has
// another one before it.
type Source interface {
	// WriteTo writes everything as of one moment. It is called from the Saver's goroutine.
	io.WriterTo
	// Commits gives how many commits there were, and how many entries they wrote, since the source was made or read. Either
	// may come from any moment at or before a WriteTo that follows.
	Commits() (commits, writes uint64)
}

// Observer is told of every attempt to save.
type Observer interface {
	// Saved says when an attempt ended, how long it took and how large the file is; err says why the file before is still
	// there.
	Saved(at time.Time, took time.Duration, bytes int64, err error)
}

// Saver is the stage that keeps a file up to date.
type Saver struct {
	File *File
	// Source gives what there is to save now; nil: nothing. A cache puts another store in its place when an epoch begins.
	Source func() Source
	// Interval is the time between two saves while entries change. Default 5 minutes: what a restarted process then has to
	// read again of the stream is a matter of seconds. The first comes after a tenth of it. After a long save the pause is ten times as long as that took.
	Interval time.Duration
	// Idle is the time between two saves while nothing but the place in the stream moves. Default 1 hour; the stream has to
	// reach back as far.
	Idle time.Duration
	// Last bounds the save at the end of Run. Default 3 seconds. One that does not finish leaves the file before, and the
	// stream has what came since.
	Last     time.Duration
	Observer Observer     // nil: nobody is told
	Logger   *slog.Logger // nil: quiet

	saved progress
	took  time.Duration // by the last attempt
}

// progress is what can be told of a source without reading it.
type progress struct {
	source          Source
	commits, writes uint64
}

func progressOf(s Source) progress {
	p := progress{source: s}
	if s != nil {
		p.commits, p.writes = s.Commits()
	}
	return p
}

// change is how much a source differs from what was saved.
type change uint8

const (
	unchanged change = iota
	moved            // only the place in the stream, or another part of the state
	rewritten        // entries too
)

func (p progress) since(saved progress) change {
	switch {
	case p.source == nil || p.commits == 0:
		return unchanged // as it was made or read
	case p.source != saved.source || p.writes != saved.writes:
		return rewritten
	case p.commits != saved.commits:
		return moved
	}
	return unchanged
}

// Step saves the source if anything of it changed since the last save, and says whether it did.
func (s *Saver) Step(ctx context.Context) (bool, error) {
	source := s.Source()
	now := progressOf(source)
	if now.since(s.saved) == unchanged {
		return false, nil
	}
	start := time.Now()
	n, err := s.File.Save(ctx, func(w io.Writer) error {
		_, err := source.WriteTo(w)
		return err
	})
	end := time.Now()
	s.took = end.Sub(start)
	if s.Observer != nil {
		s.Observer.Saved(end, s.took, n, err)
	}
	if err != nil {
		return false, err
	}
	s.saved = now
	s.logger().Debug("checkpoint saved", "path", s.File.Path, "bytes", n, "took", s.took)
	return true, nil
}

// Run saves at intervals until ctx ends, and once more then. A save that fails is logged and tried again at the next
// interval; the error of the last one is returned.
func (s *Saver) Run(ctx context.Context) error {
	since := time.Now()
	pause := s.interval() / 10 // what was just listed for the first time is not to be listed again
	for {
		select {
		case <-ctx.Done():
			return s.last(ctx)
		case <-time.After(pause):
		}
		if !due(progressOf(s.Source()).since(s.saved), time.Since(since), s.idle()) {
			continue
		}
		done, err := s.Step(ctx)
		pause = max(s.interval(), 10*s.took)
		if err != nil && ctx.Err() == nil {
			s.logger().Warn("the checkpoint was not saved; the one before stays", "error", err)
		}
		if done {
			since = time.Now()
		}
	}
}

// due says whether an interval's end is the time to save.
func due(c change, since, idle time.Duration) bool {
	return c == rewritten || c == moved && since >= idle
}

// last saves when the process is about to end.
func (s *Saver) last(ctx context.Context) error {
	limit := s.Last
	if limit == 0 {
		limit = 3 * time.Second
	}
	late := fmt.Errorf("not done within %v", limit)
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), limit, late)
	defer cancel()
	_, err := s.Step(ctx)
	return err
}

func (s *Saver) interval() time.Duration {
	if s.Interval == 0 {
		return 5 * time.Minute
	}
	return s.Interval
}

func (s *Saver) idle() time.Duration {
	if s.Idle == 0 {
		return time.Hour
	}
	return s.Idle
}

func (s *Saver) logger() *slog.Logger {
	if s.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Logger
}
