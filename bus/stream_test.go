package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/internal/natsserver"
)

// consumers counts the consumers of the stream, dead ones that the server has not yet taken away too.
func (s *Stream) consumers(ctx context.Context) (int, error) {
	var resp struct {
		Error *apiError `json:"error"`
		State struct {
			Consumers int `json:"consumer_count"`
		} `json:"state"`
	}
	if err := s.api().call(ctx, "STREAM.INFO", struct{}{}, &resp); err != nil {
		return 0, err
	}
	if resp.Error != nil {
		return 0, resp.Error
	}
	return resp.State.Consumers, nil
}

func cursor(seq uint64, lsn syncd.LSN) syncd.Cursor {
	return syncd.Cursor{Seq: seq, Position: syncd.Position{Epoch: 1, LSN: lsn}}
}

// threeFlushes makes a stream of six messages: deltas and marker of 10, 20 and 30.
func threeFlushes(t *testing.T, nc *nats.Conn) *Publisher {
	t.Helper()
	p := testPublisher(t, nc, nil)
	for lsn := syncd.LSN(10); lsn <= 30; lsn += 10 {
		publish(t, p, testFlush(lsn-10, lsn, 2))
	}
	waitAcked(t, p, 30)
	return p
}

func TestSubscribeGoesOnBehindTheCursor(t *testing.T) {
	nc := testConn(t, nil)
	p := threeFlushes(t, nc)
	sub := subscribe(t, testStream(t, nc), cursor(4, 20))
	if m := next(t, sub); m.Seq != 5 || len(m.Deltas) != 2 || m.Deltas[0].Version.LSN != 30 {
		t.Errorf("%+v", m)
	}
	if m := next(t, sub); m.Seq != 6 || m.Marker.Through != 30 {
		t.Errorf("%+v", m)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := sub.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("nothing there: %v", err)
	}
	publish(t, p, testFlush(30, 40, 1))
	if m := next(t, sub); m.Seq != 7 {
		t.Errorf("%+v", m)
	}
	sub = subscribe(t, testStream(t, nc), cursor(8, 40)) // at the end
	publish(t, p, testFlush(40, 50, 1))
	if m := next(t, sub); m.Seq != 9 {
		t.Errorf("%+v", m)
	}
}

func TestACursorThatProvesNothingIsTooOld(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	p := threeFlushes(t, nc)
	s := testStream(t, nc)
	refused := func(what string, c syncd.Cursor) {
		t.Helper()
		sub, err := s.Subscribe(ctx, c)
		if !errors.Is(err, syncd.ErrTooOld) {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			_ = sub.Close()
		}
	}
	refused("beyond the end", cursor(5000, 30))
	refused("not a marker", cursor(3, 20))
	refused("another position", cursor(4, 21))
	refused("another epoch", syncd.Cursor{Seq: 4, Position: syncd.Position{Epoch: 2, LSN: 20}})

	js := testJetStream(t, nc)
	st, err := js.Stream(ctx, StreamName(s.Name))
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Purge(ctx, jetstream.WithPurgeSequence(4)); err != nil {
		t.Fatal(err)
	}
	refused("before the first", cursor(2, 10))
	sub := subscribe(t, s, cursor(4, 20))
	if m := next(t, sub); m.Seq != 5 {
		t.Errorf("%+v", m)
	}
	if err := js.DeleteStream(ctx, StreamName(s.Name)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Subscribe(ctx, cursor(4, 20)); !errors.Is(err, syncd.ErrNoStream) {
		t.Errorf("no stream: %v", err)
	}
	if err := p.Create(ctx, true); err != nil {
		t.Fatal(err)
	}
	refused("made anew", cursor(4, 20))
	_ = subscribe(t, s, syncd.Cursor{})
}

func TestAGapIsSeen(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	p := threeFlushes(t, nc)
	sub := subscribe(t, testStream(t, nc), cursor(2, 10))
	if m := next(t, sub); m.Seq != 3 {
		t.Fatalf("%+v", m)
	}
	// What was asked for is in the client already; what comes later is not.
	for lsn := syncd.LSN(40); lsn <= 60; lsn += 10 {
		publish(t, p, testFlush(lsn-10, lsn, 1))
	}
	waitAcked(t, p, 60)
	st, err := testJetStream(t, nc).Stream(ctx, StreamName(p.Name))
	if err != nil {
		t.Fatal(err)
	}
	sub2 := subscribe(t, testStream(t, nc), syncd.Cursor{})
	if m := next(t, sub2); m.Seq != 1 {
		t.Fatalf("%+v", m)
	}
	for seq := uint64(9); seq <= 10; seq++ {
		if err := st.DeleteMsg(ctx, seq); err != nil {
			t.Fatal(err)
		}
	}
	sub3 := subscribe(t, testStream(t, nc), cursor(8, 40))
	if m := next(t, sub3); m.Seq != 11 {
		t.Errorf("behind the gap comes %d", m.Seq)
	}
	got, err := testStream(t, nc).Read(ctx, 7, 11)
	if err != nil || len(got) != 3 || got[0].Seq != 7 || got[1].Seq != 8 || got[2].Seq != 11 {
		t.Errorf("read again: %+v, %v", got, err)
	}
}

func TestReadGivesTheSameAgain(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	p := threeFlushes(t, nc)
	s := testStream(t, nc)
	sub := subscribe(t, s, syncd.Cursor{})
	var want []syncd.Message
	for range 6 {
		want = append(want, next(t, sub))
	}
	got, err := s.Read(ctx, 1, 6)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "all", got, want)
	got, err = s.Read(ctx, 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "one flush", got, want[2:4])
	if got, err := s.Read(ctx, 7, 100); err != nil || len(got) != 0 {
		t.Errorf("beyond the end: %v, %v", got, err)
	}
	if _, err := nc.Request(CommitSubject(p.Name), []byte("no headers"), apiTimeout); err != nil {
		t.Fatal(err)
	}
	got, err = s.Read(ctx, 5, 7)
	if !errors.Is(err, syncd.ErrMalformed) || !strings.Contains(err.Error(), "message 7") || len(got) != 2 {
		t.Errorf("a malformed message: %v, %v", got, err)
	}
	m, seq, ok, err := s.Tail(ctx)
	if !errors.Is(err, syncd.ErrMalformed) || ok {
		t.Errorf("a malformed tail: %+v, %d, %v, %v", m, seq, ok, err)
	}
}

func TestAMalformedMessageConcernsItself(t *testing.T) {
	nc := testConn(t, nil)
	p := threeFlushes(t, nc)
	m := &nats.Msg{Subject: DeltaSubject(p.Name, users), Header: deltaHeader(users, 5), Data: []byte(`{"op":"upsert"`)}
	if _, err := nc.RequestMsg(m, apiTimeout); err != nil {
		t.Fatal(err)
	}
	sub := subscribe(t, testStream(t, nc), cursor(6, 30))
	_, err := sub.Next(testContext(t))
	var bad *MalformedError
	if !errors.As(err, &bad) || !errors.Is(err, syncd.ErrMalformed) || bad.Seq != 7 || bad.Line != 1 || bad.Offset != 14 {
		t.Fatalf("%v", err)
	}
	if _, _, _, err := p.Last(testContext(t)); err != nil {
		t.Fatal(err)
	}
	publish(t, p, testFlush(30, 40, 1))
	if m := next(t, sub); m.Seq != 8 {
		t.Errorf("behind it comes %d", m.Seq)
	}
}

func TestTailIsTheLastMarker(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	s := testStream(t, nc)
	if _, _, _, err := s.Tail(ctx); !errors.Is(err, syncd.ErrNoStream) {
		t.Errorf("no stream: %v", err)
	}
	p := testPublisher(t, nc, nil)
	if _, _, ok, err := s.Tail(ctx); ok || err != nil {
		t.Errorf("an empty stream: %v, %v", ok, err)
	}
	publish(t, p, testFlush(0, 10, 1))
	waitAcked(t, p, 10)
	if m, seq, ok, err := s.Tail(ctx); err != nil || !ok || seq != 2 || m.Through != 10 {
		t.Errorf("%+v, %d, %v, %v", m, seq, ok, err)
	}
}

// whyObserver remembers why a subscription began anew.
type whyObserver struct{ why []error }

func (o *whyObserver) Behind(uint64) {}

func (o *whyObserver) Resubscribed(err error) { o.why = append(o.why, err) }

func TestAConsumerTakenAwayIsMadeAnew(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	p := threeFlushes(t, nc)
	o := &whyObserver{}
	s := testStream(t, nc)
	s.Observer = o
	sub := subscribe(t, s, cursor(2, 10))
	if m := next(t, sub); m.Seq != 3 {
		t.Fatalf("%+v", m)
	}
	if err := testJetStream(t, nc).DeleteConsumer(ctx, StreamName(s.Name), sub.(*subscription).consumer); err != nil {
		t.Fatal(err)
	}
	publish(t, p, testFlush(30, 40, 1))
	for seq := uint64(4); seq <= 8; seq++ {
		if m := next(t, sub); m.Seq != seq {
			t.Fatalf("message %d, not %d", m.Seq, seq)
		}
	}
	if len(o.why) != 1 || !strings.Contains(o.why[0].Error(), "Consumer Deleted") {
		t.Errorf("%v", o.why)
	}
	if n, err := s.consumers(ctx); n != 1 || err != nil {
		t.Errorf("%d consumers, %v", n, err)
	}
}

func TestSilenceIsNoticed(t *testing.T) {
	nc := testConn(t, nil)
	p := threeFlushes(t, nc)
	s := testStream(t, nc)
	s.Heartbeat = 100 * time.Millisecond
	sub := subscribe(t, s, cursor(6, 30)).(*subscription)
	sub.refill()
	if err := sub.sub.Unsubscribe(); err != nil { // the server sends on, and nothing arrives
		t.Fatal(err)
	}
	publish(t, p, testFlush(30, 40, 1))
	if m := next(t, sub); m.Seq != 7 {
		t.Errorf("%+v", m)
	}
}

func TestADroppedDeliveryIsNoticed(t *testing.T) {
	nc := testConn(t, nil)
	threeFlushes(t, nc)
	o := &whyObserver{}
	s := testStream(t, nc)
	s.Observer = o
	sub := subscribe(t, s, cursor(2, 10)).(*subscription)
	sub.refill()
	eventually(t, "messages arrive", func() bool { return len(sub.msgs) >= 2 })
	<-sub.msgs
	for seq := uint64(3); seq <= 6; seq++ {
		if m := next(t, sub); m.Seq != seq {
			t.Fatalf("message %d, not %d", m.Seq, seq)
		}
	}
	if len(o.why) != 1 || !strings.Contains(o.why[0].Error(), "dropped") {
		t.Errorf("%v", o.why)
	}
}

func TestAStreamDeletedUnderASubscription(t *testing.T) {
	for _, recreated := range []bool{false, true} {
		t.Run(fmt.Sprintf("recreated=%v", recreated), func(t *testing.T) {
			nc, ctx := testConn(t, nil), testContext(t)
			p := threeFlushes(t, nc)
			sub := subscribe(t, testStream(t, nc), cursor(2, 10))
			for range 4 {
				next(t, sub)
			}
			if err := testJetStream(t, nc).DeleteStream(ctx, StreamName(p.Name)); err != nil {
				t.Fatal(err)
			}
			if recreated {
				if err := p.Create(ctx, true); err != nil {
					t.Fatal(err)
				}
				if _, _, _, err := p.Last(ctx); err != nil {
					t.Fatal(err)
				}
				for lsn := syncd.LSN(10); lsn <= 50; lsn += 10 { // the numbers are in range again
					publish(t, p, testFlush(lsn-10, lsn, 2))
				}
				waitAcked(t, p, 50)
			}
			for range 2 {
				if m, err := sub.Next(ctx); !errors.Is(err, syncd.ErrTooOld) {
					t.Fatalf("%+v, %v", m, err)
				}
			}
		})
	}
}

func TestGoesOnAfterTheServerRestarted(t *testing.T) {
	srv := testServer(t, nil)
	nc := testConn(t, srv)
	p := threeFlushes(t, nc)
	sub := subscribe(t, testStream(t, testConn(t, srv)), cursor(2, 10))
	for seq := uint64(3); seq <= 6; seq++ {
		if m := next(t, sub); m.Seq != seq {
			t.Fatalf("message %d, not %d", m.Seq, seq)
		}
	}
	srv.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := sub.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	publish(t, p, testFlush(30, 40, 1))
	if m := next(t, sub); m.Seq != 7 {
		t.Errorf("%+v", m)
	}
}

// The server comes back without the end of what it had sent, and the stream grows over it.
func TestALostTailThatHasGrownAgain(t *testing.T) {
	srv := testServer(t, nil)
	nc, ctx := testConn(t, srv), testContext(t)
	p := threeFlushes(t, nc)
	sub := subscribe(t, testStream(t, testConn(t, srv)), cursor(2, 10))
	for range 4 {
		next(t, sub)
	}
	js := testJetStream(t, nc)
	if err := js.DeleteStream(ctx, StreamName(p.Name)); err != nil {
		t.Fatal(err)
	}
	if err := p.Create(ctx, true); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := p.Last(ctx); err != nil {
		t.Fatal(err)
	}
	for lsn := syncd.LSN(10); lsn <= 30; lsn += 10 { // byte for byte what was there, but not the same messages
		publish(t, p, testFlush(lsn-10, lsn, 2))
	}
	waitAcked(t, p, 30)
	srv.Stop()
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	if m, err := sub.Next(ctx); !errors.Is(err, syncd.ErrTooOld) {
		t.Fatalf("%+v, %v", m, err)
	}
}

func TestTheBufferBoundsWhatIsFetched(t *testing.T) {
	srv := testServer(t, func(c *natsserver.Config) { c.MaxPayload = 16 << 10 })
	nc := testConn(t, srv)
	p := testPublisher(t, nc, func(p *Publisher) { p.MessageBytes = 8 << 10 })
	publish(t, p, testFlush(0, 10, 20000))
	waitAcked(t, p, 10)
	s := testStream(t, nc)
	s.Buffer = 64 << 10
	sub := subscribe(t, s, syncd.Cursor{}).(*subscription)
	deltas := 0
	for {
		m := next(t, sub)
		deltas += len(m.Deltas)
		if n := len(sub.msgs); n > 16 { // 64 KiB of 8 KiB messages, and what the server says of the pulls
			t.Fatalf("%d messages wait", n)
		}
		if m.Marker != nil {
			break
		}
	}
	if deltas != 20000 {
		t.Errorf("%d deltas", deltas)
	}
}

func TestCloseTakesTheConsumerBack(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	threeFlushes(t, nc)
	s := testStream(t, nc)
	sub, err := s.Subscribe(ctx, syncd.Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := sub.Next(ctx); err == nil {
		t.Error("a closed subscription gave a message")
	}
	eventually(t, "no consumer", func() bool {
		n, err := s.consumers(ctx)
		return err == nil && n == 0
	})
}

func TestAClosedConnectionEndsTheSubscription(t *testing.T) {
	srv := testServer(t, nil)
	threeFlushes(t, testConn(t, srv))
	nc, err := Connect(testContext(t), Config{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	sub := subscribe(t, testStream(t, nc), cursor(6, 30))
	nc.Close()
	if _, err := sub.Next(testContext(t)); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Error(err)
	}
}

func BenchmarkDeliver(b *testing.B) {
	for _, n := range []int{1, 10000} {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			nc := testConn(b, nil)
			p := testPublisher(b, nc, nil)
			list := benchDeltas(n)
			total := max(200_000/n, 20)
			if n == 1 {
				total = 50_000
			}
			for i := range total {
				f := testFlush(syncd.LSN(i), syncd.LSN(i+1), 0)
				f.Deltas = atLSN(list, syncd.LSN(i+1))
				publish(b, p, f)
			}
			waitAcked(b, p, syncd.LSN(total))
			b.SetBytes(int64(len(encodeDeltas(list))))
			sub := subscribe(b, testStream(b, nc), syncd.Cursor{})
			b.ResetTimer()
			for i := range b.N {
				if i%total == 0 && i > 0 {
					sub = subscribe(b, testStream(b, nc), syncd.Cursor{})
				}
				for next(b, sub).Marker == nil {
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkLatency is from handing over a flush of one delta to its marker's arrival at a subscriber.
func BenchmarkLatency(b *testing.B) {
	nc := testConn(b, nil)
	p := testPublisher(b, nc, nil)
	sub := subscribe(b, testStream(b, nc), syncd.Cursor{})
	list := benchDeltas(1)
	lsn := syncd.LSN(0)
	for b.Loop() {
		lsn++
		f := testFlush(lsn-1, lsn, 0)
		f.Deltas = atLSN(list, lsn)
		publish(b, p, f)
		for next(b, sub).Marker == nil {
		}
	}
}
