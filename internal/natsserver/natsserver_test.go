package natsserver

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, url string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func stream(t *testing.T, nc *nats.Conn) jetstream.Stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRunsWithoutAPort(t *testing.T) {
	s, err := Start(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.URL() != "" {
		t.Errorf("it opened %s", s.URL())
	}
	nc := connect(t, "", nats.InProcessServer(s))
	stream(t, nc)
}

func TestKeepsStreamsOverARestartOnTheSamePort(t *testing.T) {
	s, err := Start(Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", SyncInterval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	url := s.URL()
	nc := connect(t, url)
	stream(t, nc)
	if _, err := nc.Request("s", []byte("x"), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	s.Stop()
	if _, err := s.InProcessConn(); err == nil {
		t.Error("a stopped server gave a connection")
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if s.URL() != url {
		t.Errorf("was at %s, is at %s", url, s.URL())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	info, err := stream(t, connect(t, url)).Info(ctx)
	if err != nil || info.State.LastSeq != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestOneProcessADirectory(t *testing.T) {
	dir := t.TempDir()
	s, err := Start(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second server started: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Start(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWrongAddressIsNamed(t *testing.T) {
	for _, listen := range []string{"nowhere", "127.0.0.1:port"} {
		if _, err := Start(Config{Dir: t.TempDir(), Listen: listen}); err == nil || !strings.Contains(err.Error(), listen) {
			t.Errorf("%s: %v", listen, err)
		}
	}
}
