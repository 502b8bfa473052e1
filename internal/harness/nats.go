package harness

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/syncd-io/syncd/internal/natsserver"
)

// Bus is one test's place on a NATS server with JetStream.
type Bus struct {
	// Name is a name for syncd that no other test has. Its stream, where the test makes one, goes with the test.
	Name string
	// URL is the server's address on loopback.
	URL    string
	Server *natsserver.Server

	t testing.TB
}

// embedded is the server that the tests of one binary share, with its directory.
type embedded struct {
	server *natsserver.Server
	dir    string
}

func startNATS() (embedded, error) {
	dir, err := os.MkdirTemp("", "syncd-nats-")
	if err != nil {
		return embedded{}, err
	}
	s, err := natsserver.Start(natsserver.Config{Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		return embedded{}, errors.Join(err, os.RemoveAll(dir))
	}
	return embedded{s, dir}, nil
}

func (e embedded) stop() error { return errors.Join(e.server.Close(), os.RemoveAll(e.dir)) }

// NATS gives a place on the server that the tests of this binary share. It is started at the first call.
func NATS(t testing.TB) *Bus {
	t.Helper()
	e, err := shared.nats.get(startNATS)
	if err != nil {
		t.Fatal(err)
	}
	return busOn(t, e.server)
}

// NATSServer gives a NATS of the test's own, for tests that stop it or set it otherwise. Where c names no directory it
// has one of its own, and where it names no address it listens on a free port of loopback. It ends with the test.
func NATSServer(t testing.TB, c natsserver.Config) *Bus {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	s, err := natsserver.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Bus{Name: Name(t), URL: s.URL(), Server: s, t: t}
}

func busOn(t testing.TB, s *natsserver.Server) *Bus {
	b := &Bus{Name: Name(t), URL: s.URL(), Server: s, t: t}
	t.Cleanup(b.drop)
	return b
}

// Stream is the name of the stream that syncd makes for Name.
func (b *Bus) Stream() string { return "SYNCD_" + strings.ToUpper(b.Name) }

// Conn opens a connection through memory, which is closed at the test's end.
func (b *Bus) Conn(options ...nats.Option) *nats.Conn {
	b.t.Helper()
	c, err := nats.Connect("", append([]nats.Option{nats.InProcessServer(b.Server)}, options...)...)
	if err != nil {
		b.t.Fatalf("connect to the test's NATS: %v", err)
	}
	b.t.Cleanup(c.Close)
	return c
}

// drop removes the test's stream from the shared server.
func (b *Bus) drop() {
	ctx, cancel := context.WithTimeout(context.Background(), HangGuard)
	defer cancel()
	c, err := nats.Connect("", nats.InProcessServer(b.Server))
	if err != nil {
		b.t.Errorf("connect to the tests' NATS: %v", err)
		return
	}
	defer c.Close()
	js, err := jetstream.New(c)
	if err == nil {
		err = js.DeleteStream(ctx, b.Stream())
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		b.t.Errorf("remove the test's stream: %v", err)
	}
}
