package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/syncd-io/syncd"
)

// PublishObserver is told how publishing goes. Its methods are called under a lock: they return at once.
type PublishObserver interface {
	// Acknowledged is called for each acknowledged message: its size, and how long after it was handed over.
	Acknowledged(bytes int, took time.Duration)
	// InFlight is called when what was handed over and is not acknowledged has changed.
	InFlight(messages, bytes int)
	// Retried is called when sending stopped and the tail is to be settled.
	Retried(err error)
}

// Publisher writes flushes to a sync's stream, in order, each message once.
//
// Each message carries the sequence it expects the stream to end with, so the server stores it in its place or not at
// all; messages are sent without waiting for the acks of those before. When the outcome of a message is not known (a lost
// ack, a reconnect, a leader change), or one is refused, sending stops. What of the tail is stored is then read back from
// the stream's leader and compared, and the rest is sent again under the same sequences. A message of somebody else in
// their place ends publishing with syncd.ErrFenced.
//
// Chosen: the expected last sequence of the whole stream, which the server checks in a pipeline, replicated or not.
// Refused: expected sequences per subject (a replicated stream refuses them while another is under way), atomic batches
// (2 ms each), message ids (a window, and forgotten at a restart), expected message ids (a replica that caught up from a
// snapshot does not know the last id). With sequences alone, messages that are already under way when another source
// writes its first can be stored behind it, with a hole in between: markers count their deltas, so every consumer sees
// that as a loss and lists. To keep it rare, a publisher that has heard nothing for a while sends one message and waits
// for its ack before it sends more.
//
// Set the fields before Run. Run must be running for Publish to return. Last begins a session; one goroutine calls Last,
// Create and Publish.
type Publisher struct {
	Conn *nats.Conn
	Name string // of the sync
	// Limits are those of the stream: what Create makes it with, and what Last brings an existing one to.
	Limits Limits
	// Window bounds the bytes that are sent and not acknowledged; 0 is 16 MiB. One message may exceed it alone.
	Window int
	// MessageBytes is the size that a message of several deltas is filled to; 0 is 256 KiB. The server's limit caps it.
	MessageBytes int
	// AckTimeout is how long an ack may take before the outcome counts as unknown; 0 is 5 s.
	AckTimeout time.Duration
	Log        *slog.Logger    // nil is quiet
	Observer   PublishObserver // nil is none

	mu        sync.Mutex
	listening bool
	session   *session
	changed   chan struct{} // closed when something a waiting Publish looks at has changed
	ackedCh   chan struct{} // closed when Acked's answer has changed; nil while nobody asked
	wake      chan struct{} // tells Run that sending stopped
	inbox     string
	free      [][]byte // buffers of acknowledged messages
}

// session is what a Publisher knows between one Last and the next.
type session struct {
	id       string // of this run, in the header of each message
	attempt  uint64 // counts sendings of the tail; part of the reply subjects, so that late refusals are known as such
	limit    int    // the largest message the server and the stream take, headers included
	next     uint64 // the sequence the next message gets
	tail     []outgoing
	bytes    int // of tail
	heard    time.Time
	acked    syncd.Position
	stopped  error // why sending stopped; nil while it flows
	failures int   // settlements since the last ack
	err      error // why publishing ended; nil while it goes on
}

// outgoing is a message that is not known to be stored with everything before it.
type outgoing struct {
	subject string
	header  nats.Header
	data    []byte
	seq     uint64
	sent    time.Time
	acked   bool
	marker  bool
	through syncd.Position // of a marker
}

const (
	defaultWindow       = 16 << 20
	defaultMessageBytes = 256 << 10
	defaultAckTimeout   = 5 * time.Second
	// headerRoom is more than the headers of any message take.
	headerRoom = 1 << 10
	// mostInFlight bounds the number of messages in flight, which settling reads back one by one.
	mostInFlight = 4096
	// silence is how long a publisher may have heard no ack before it sends one message alone.
	silence = 3 * time.Second
)

func (p *Publisher) api() streamAPI { return streamAPI{p.Conn, StreamName(p.Name)} }

// Last begins a session: it reads the stream's end and gives the last marker on it, with its sequence. ok is false where
// the stream holds no marker. Everything handed over before is forgotten. The error wraps syncd.ErrNoStream where there
// is no stream, ErrNoJetStream where JetStream is not there. Limits that differ from the configured ones are set.
func (p *Publisher) Last(ctx context.Context) (m syncd.Marker, seq uint64, ok bool, err error) {
	info, err := p.api().info(ctx)
	if err != nil {
		return m, 0, false, fmt.Errorf("read the end of the stream: %w", err)
	}
	if err := checkOurs(info.Config, p.Name); err != nil {
		return m, 0, false, err
	}
	if cfg, differs := adjust(info.Config, streamConfig(p.Name, p.Limits)); differs {
		if err := p.update(ctx, cfg); err != nil {
			return m, 0, false, err
		}
	}
	m, seq, ok, err = p.api().lastMarker(ctx, p.Name)
	if err != nil {
		return m, 0, false, fmt.Errorf("read the last marker: %w", err)
	}
	p.begin(info, m.Position())
	return m, seq, ok, nil
}

func (p *Publisher) update(ctx context.Context, cfg jetstream.StreamConfig) error {
	js, err := jetstream.New(p.Conn)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if _, err := js.UpdateStream(ctx, cfg); err != nil {
		return fmt.Errorf("set the limits of stream %s: %w", cfg.Name, err)
	}
	quiet(p.Log).Info("the stream's limits were set to the configured ones", logStream, cfg.Name)
	return nil
}

func (p *Publisher) begin(info *streamInfo, acked syncd.Position) {
	limit := int(p.Conn.MaxPayload())
	if n := int(info.Config.MaxMsgSize); n > 0 {
		limit = min(limit, n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = &session{id: newID(), limit: limit, next: info.State.LastSeq + 1, heard: time.Now(), acked: acked}
	p.broadcast()
}

// Create makes the stream where it is missing; an existing one is left as it is. recreate says that a stream is known to
// have been there before, which is worth a warning in the log. Whether it may be made anew is the caller's decision.
func (p *Publisher) Create(ctx context.Context, recreate bool) error {
	name := StreamName(p.Name)
	js, err := jetstream.New(p.Conn)
	if err != nil {
		return fmt.Errorf("make stream %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*apiTimeout)
	defer cancel()
	_, err = js.CreateStream(ctx, streamConfig(p.Name, p.Limits))
	switch {
	case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
		info, err := p.api().info(ctx)
		if err != nil {
			return err
		}
		return checkOurs(info.Config, p.Name)
	case apiCode(err) == codeSubjectsOverlap:
		return fmt.Errorf("make stream %s: %w: %s", name, err, capturedBy(ctx, p.Conn, p.Name))
	case err != nil:
		return fmt.Errorf("make stream %s: %w", name, p.api().explain(ctx, err))
	}
	if recreate {
		quiet(p.Log).Warn("the stream was made anew; every consumer relists", logStream, name)
	} else {
		quiet(p.Log).Info("the stream was made", logStream, name)
	}
	return nil
}

// DeleteStream removes a sync's stream, for good. One that is not of syncd's making is left, with an error; existed is false
// where there was none.
func DeleteStream(ctx context.Context, conn *nats.Conn, name string) (existed bool, err error) {
	info, err := streamAPI{conn, StreamName(name)}.info(ctx)
	if errors.Is(err, syncd.ErrNoStream) {
		return false, nil
	}
	if err == nil {
		err = checkOurs(info.Config, name)
	}
	if err != nil {
		return false, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return false, err
	}
	if err := js.DeleteStream(ctx, StreamName(name)); err != nil {
		return false, fmt.Errorf("delete stream %s: %w", StreamName(name), err)
	}
	return true, nil
}

// Acked gives the position of the last marker that JetStream has acknowledged, with everything before it, and a channel
// that is closed when that moves or publishing ends.
func (p *Publisher) Acked() (syncd.Position, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ackedCh == nil {
		p.ackedCh = make(chan struct{})
	}
	if p.session == nil {
		return syncd.Position{}, p.ackedCh
	}
	return p.session.acked, p.ackedCh
}

// Err gives why publishing ended: an error that wraps syncd.ErrFenced where another source wrote, syncd.ErrNoStream where
// the stream is gone. nil while it goes on. Last begins anew.
func (p *Publisher) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session == nil {
		return nil
	}
	return p.session.err
}

// broadcast wakes whoever waits for the state to change. The lock is held.
func (p *Publisher) broadcast() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
	p.signalAcked()
}

func (p *Publisher) signalAcked() {
	if p.ackedCh != nil {
		close(p.ackedCh)
		p.ackedCh = nil
	}
}

// end ends the session's publishing for good. The lock is held.
func (p *Publisher) end(s *session, err error) {
	if s.err == nil {
		s.err = err
	}
	p.broadcast()
}

// stop stops sending until Run has settled the tail. The lock is held.
func (p *Publisher) stop(s *session, err error) {
	if s.stopped != nil || s.err != nil {
		return
	}
	s.stopped = err
	if p.Observer != nil {
		p.Observer.Retried(err)
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
