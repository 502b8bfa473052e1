package bus

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/natsserver"
)

// shared is one server for the tests that neither stop it nor set it up their own way; each uses a sync of its own name.
var shared = sync.OnceValues(func() (s *natsserver.Server, err error) {
	sharedServer, err = natsserver.Start(natsserver.Config{Dir: filepath.Join(sharedDir, "nats")})
	return sharedServer, err
})

var (
	sharedDir    string
	sharedServer *natsserver.Server // nil until a test needs it
)

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// testServer starts a server on a port of its own.
func testServer(t testing.TB, change func(*natsserver.Config)) *natsserver.Server {
	t.Helper()
	cfg := natsserver.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"}
	if change != nil {
		change(&cfg)
	}
	s, err := natsserver.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// testConn connects to a server, nil being the shared one.
func testConn(t testing.TB, s *natsserver.Server) *nats.Conn {
	t.Helper()
	cfg := Config{Name: t.Name(), Log: testLog(t)}
	if s == nil {
		var err error
		if s, err = shared(); err != nil {
			t.Fatal(err)
		}
		cfg.InProcess = s
	} else {
		cfg.URL = s.URL()
	}
	nc, err := Connect(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		nc.SetClosedHandler(func(*nats.Conn) { close(closed) })
		nc.Close()
		<-closed
	})
	return nc
}

// syncName gives a name for this test's sync.
func syncName(t testing.TB) string {
	name := strings.ToLower(t.Name())
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, name)[:min(len(name), 50)]
}

// testLog shows the log of a test that failed.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(&testWriter{t: t}, nil))
}

type testWriter struct {
	t  testing.TB
	mu sync.Mutex
}

func (w *testWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t.Output().Write(b)
	return len(b), nil
}

// testPublisher runs a publisher with a stream of its own, a session begun.
func testPublisher(t testing.TB, nc *nats.Conn, change func(*Publisher)) *Publisher {
	t.Helper()
	p := &Publisher{Conn: nc, Name: syncName(t), Log: testLog(t)}
	if change != nil {
		change(p)
	}
	runPublisher(t, p)
	ctx := testContext(t)
	if err := p.Create(ctx, false); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := p.Last(ctx); err != nil {
		t.Fatal(err)
	}
	return p
}

func runPublisher(t testing.TB, p *Publisher) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// testFlush gives a flush of n deltas whose commit ends at lsn.
func testFlush(previous, lsn syncd.LSN, n int) *syncd.Flush {
	f := &syncd.Flush{Marker: syncd.Marker{
		Epoch: 1, Previous: previous, Through: lsn, Counts: map[syncd.Table]int{users: n}, Safe: lsn, Commit: lsn, XID: syncd.XID(lsn), System: 7, Timeline: 1, Sent: when,
	}}
	for i := range n {
		f.Deltas = append(f.Deltas, syncd.Delta{
			Table: users, Op: syncd.Upsert, Key: syncd.MakeKey(fmt.Sprint(i)), Version: syncd.Version{Epoch: 1, LSN: lsn, Ordinal: uint32(i + 1)},
			XID: syncd.XID(lsn), Committed: when, Row: fmt.Appendf(nil, `{"id":%d,"lsn":%d}`, i, lsn), Schema: 5,
		})
	}
	if n == 0 {
		f.Marker.Counts = map[syncd.Table]int{}
	}
	return f
}

func publish(t testing.TB, p *Publisher, f *syncd.Flush) {
	t.Helper()
	if err := p.Publish(testContext(t), f); err != nil {
		t.Fatal(err)
	}
}

// waitAcked waits until the publisher's acknowledged position is there.
func waitAcked(t testing.TB, p *Publisher, lsn syncd.LSN) {
	t.Helper()
	ctx := testContext(t)
	for {
		pos, moved := p.Acked()
		if pos.LSN >= lsn {
			return
		}
		if err := p.Err(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-moved:
		case <-ctx.Done():
			t.Fatalf("acknowledged up to %v, not %v", pos, lsn)
		}
	}
}

func testStream(t testing.TB, nc *nats.Conn) *Stream {
	return &Stream{Conn: nc, Name: syncName(t), Log: testLog(t)}
}

func subscribe(t testing.TB, s interface {
	Subscribe(ctx context.Context, c syncd.Cursor) (Subscription, error)
}, c syncd.Cursor) Subscription {
	t.Helper()
	sub, err := s.Subscribe(testContext(t), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sub.Close(); err != nil {
			t.Error(err)
		}
	})
	return sub
}

func next(t testing.TB, sub Subscription) syncd.Message {
	t.Helper()
	m, err := sub.Next(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func testJetStream(t testing.TB, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// eventually waits until ok, asking again whenever the servers may have moved.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx := testContext(t)
	for !ok() {
		if pause(ctx, 5*time.Millisecond) != nil {
			t.Fatalf("never: %s", what)
		}
	}
}
