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

func TestFlushesComeBackAsTheyWere(t *testing.T) {
	nc := testConn(t, nil)
	p := testPublisher(t, nc, nil)
	f := &syncd.Flush{Deltas: sampleDeltas(), Marker: sampleMarkers()[0]}
	f.Deltas = append(f.Deltas, syncd.Delta{Table: odd, Op: syncd.Delete, Key: syncd.MakeKey("1"), Version: version(0x16B3748, 10), XID: 9, Committed: when, Schema: 2})
	publish(t, p, f)
	publish(t, p, testFlush(0x16B3748, 0x16B3749, 0))
	waitAcked(t, p, 0x16B3749)

	sub := subscribe(t, testStream(t, nc), syncd.Cursor{})
	equal(t, "the first table", next(t, sub), syncd.Message{Seq: 1, Deltas: sampleDeltas()})
	if m := next(t, sub); m.Seq != 2 || len(m.Deltas) != 1 || m.Deltas[0].Table != odd || m.Deltas[0].Schema != 2 {
		t.Errorf("the second table: %+v", m)
	}
	want := sampleMarkers()[0]
	want.First = 1
	equal(t, "the marker", next(t, sub), syncd.Message{Seq: 3, Marker: &want})
	if m := next(t, sub); m.Marker == nil || m.Seq != 4 || m.Marker.First != 4 {
		t.Errorf("an empty flush: %+v", m)
	}
}

func TestLastFindsItsPlace(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	p := &Publisher{Conn: nc, Name: syncName(t)}
	runPublisher(t, p)
	if _, _, _, err := p.Last(ctx); !errors.Is(err, syncd.ErrNoStream) {
		t.Fatalf("no stream: %v", err)
	}
	if err := p.Publish(ctx, testFlush(0, 1, 1)); err == nil {
		t.Fatal("published without a session")
	}
	for range 2 { // the second finds it there
		if err := p.Create(ctx, false); err != nil {
			t.Fatal(err)
		}
	}
	if m, seq, ok, err := p.Last(ctx); err != nil || ok {
		t.Fatalf("an empty stream: %+v, %d, %v, %v", m, seq, ok, err)
	}
	publish(t, p, testFlush(0, 10, 3))
	publish(t, p, testFlush(10, 20, 0))
	waitAcked(t, p, 20)
	m, seq, ok, err := p.Last(ctx)
	if err != nil || !ok || seq != 3 || m.Through != 20 || m.Previous != 10 || m.First != 3 {
		t.Fatalf("%+v, %d, %v, %v", m, seq, ok, err)
	}
	if pos, _ := p.Acked(); pos != (syncd.Position{Epoch: 1, LSN: 20}) {
		t.Errorf("acknowledged %v", pos)
	}
	publish(t, p, testFlush(20, 30, 1))
	waitAcked(t, p, 30)
}

func TestPacksByTableAndShapeAndSize(t *testing.T) {
	nc := testConn(t, nil)
	p := testPublisher(t, nc, func(p *Publisher) { p.MessageBytes = 4 << 10; p.Window = 16 << 10 })
	f := testFlush(0, 10, 500)
	for i := range f.Deltas {
		if i%3 == 0 {
			f.Deltas[i].Table = odd
		}
		if i >= 250 {
			f.Deltas[i].Schema = 6
		}
	}
	publish(t, p, f)
	waitAcked(t, p, 10)
	sub := subscribe(t, testStream(t, nc), syncd.Cursor{})
	got := 0
	last := map[shape]uint32{}
	for {
		m := next(t, sub)
		if m.Marker != nil {
			if m.Marker.First != 1 || got != 500 {
				t.Errorf("%d deltas, marker %+v", got, m.Marker)
			}
			return
		}
		if len(m.Deltas) > 40 {
			t.Errorf("%d deltas in one message", len(m.Deltas))
		}
		for _, d := range m.Deltas {
			if d.Table != m.Deltas[0].Table || d.Schema != m.Deltas[0].Schema {
				t.Error("a message of two tables or shapes")
			}
			if d.Version.Ordinal <= last[shape{d.Table, d.Schema}] {
				t.Errorf("%v is not behind %d", d.Version, last[shape{d.Table, d.Schema}])
			}
			last[shape{d.Table, d.Schema}] = d.Version.Ordinal
		}
		got += len(m.Deltas)
	}
}

func TestRowAboveTheLimitGoesAsPointer(t *testing.T) {
	nc := testConn(t, nil)
	p := testPublisher(t, nc, nil)
	limit := int(nc.MaxPayload())
	f := testFlush(0, 10, 4)
	row := func(n int) []byte { return fmt.Appendf(nil, `{"id":1,"text":"%s"}`, strings.Repeat("x", n)) }
	f.Deltas[1].Row = row(limit + 1)
	f.Deltas[2].Row = row(limit - 4096)                                                               // fits, alone
	f.Deltas[3].Row = fmt.Appendf(nil, "{\"id\":1,\n\"text\":\"%s\"}", strings.Repeat(`\"`, limit/3)) // its text is escaped once more, and then does not fit
	publish(t, p, f)
	waitAcked(t, p, 10)
	sub := subscribe(t, testStream(t, nc), syncd.Cursor{})
	var all []syncd.Delta
	for {
		m := next(t, sub)
		if m.Marker != nil {
			break
		}
		all = append(all, m.Deltas...)
	}
	for i, pointer := range []bool{false, true, false, true} {
		if d := all[i]; d.Pointer != pointer || (d.Row == nil) != pointer || d.Version.Ordinal != uint32(i+1) {
			t.Errorf("delta %d: pointer %v, %d bytes", i, d.Pointer, len(d.Row))
		}
	}
	f = testFlush(10, 20, 1)
	f.Deltas[0].Key = syncd.MakeKey(strings.Repeat("k", limit))
	if err := p.Publish(testContext(t), f); err == nil || !strings.Contains(err.Error(), "max_payload") {
		t.Errorf("a key above the limit: %v", err)
	}
}

// A source that was replaced can't write any more, and a stream that was written by somebody else is noticed.
func TestASecondPublisherFencesTheFirst(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	old := testPublisher(t, nc, nil)
	publish(t, old, testFlush(0, 10, 1))
	waitAcked(t, old, 10)

	young := &Publisher{Conn: testConn(t, nil), Name: old.Name, Log: testLog(t)}
	runPublisher(t, young)
	if _, _, ok, err := young.Last(ctx); err != nil || !ok {
		t.Fatal(ok, err)
	}
	publish(t, young, testFlush(10, 20, 1))
	waitAcked(t, young, 20)

	err := old.Publish(ctx, testFlush(10, 21, 1)) // it learns of it by the ack
	for err == nil {
		_, moved := old.Acked()
		if err = old.Err(); err == nil {
			select {
			case <-moved:
			case <-ctx.Done():
				t.Fatal("never fenced")
			}
		}
	}
	if !errors.Is(err, syncd.ErrFenced) {
		t.Fatal(err)
	}
	if err := old.Publish(ctx, testFlush(21, 22, 1)); !errors.Is(err, syncd.ErrFenced) {
		t.Fatal(err)
	}
	publish(t, young, testFlush(20, 30, 1))
	waitAcked(t, young, 30)
	if m, _, _, err := old.Last(ctx); err != nil || m.Through != 30 || old.Err() != nil {
		t.Errorf("a new session: %+v, %v, %v", m, err, old.Err())
	}
}

// After a silence one message goes alone, so that a source that was held up while another took over leaves no hole.
func TestAfterASilenceOneMessageGoesAlone(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	old := testPublisher(t, nc, nil)
	publish(t, old, testFlush(0, 10, 1))
	waitAcked(t, old, 10)
	if _, err := nc.Request(CommitSubject(old.Name), AppendMarker(nil, &syncd.Marker{Epoch: 1, Through: 20, Sent: when}), apiTimeout); err != nil {
		t.Fatal(err)
	}
	old.mu.Lock()
	old.session.heard = time.Now().Add(-2 * silence)
	old.mu.Unlock()
	if err := old.Publish(ctx, testFlush(10, 21, 1)); !errors.Is(err, syncd.ErrFenced) {
		t.Fatal(err)
	}
	info, err := old.api().info(ctx)
	if err != nil || info.State.LastSeq != 3 {
		t.Errorf("the stream ends at %d: %v", info.State.LastSeq, err)
	}
}

// A message of another source between ours is noticed although the sequences fit.
func TestAForeignMessageInTheTailIsNoticed(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	p := testPublisher(t, nc, nil)
	publish(t, p, testFlush(0, 10, 1))
	waitAcked(t, p, 10)
	// What another wrote: it stands where the flush's first message is about to go. The marker that follows expects just
	// that sequence, and is stored.
	if _, err := nc.Request(CommitSubject(p.Name), AppendMarker(nil, &syncd.Marker{Epoch: 1, Through: 20, Sent: when}), apiTimeout); err != nil {
		t.Fatal(err)
	}
	err := p.Publish(ctx, testFlush(10, 21, 1))
	for err == nil {
		_, moved := p.Acked()
		if err = p.Err(); err == nil {
			select {
			case <-moved:
			case <-ctx.Done():
				t.Fatal("never noticed")
			}
		}
	}
	if !errors.Is(err, syncd.ErrFenced) || !strings.Contains(err.Error(), "message 3") {
		t.Fatal(err)
	}
	if pos, _ := p.Acked(); pos.LSN != 10 {
		t.Errorf("acknowledged %v over a hole", pos)
	}
}

// recorder collects what is on a stream, in order.
func collect(t *testing.T, sub Subscription, through syncd.LSN) (deltas []syncd.Delta, markers []syncd.Marker) {
	t.Helper()
	seq := uint64(0)
	for {
		m := next(t, sub)
		if m.Seq != seq+1 {
			t.Fatalf("message %d follows %d", m.Seq, seq)
		}
		seq = m.Seq
		deltas = append(deltas, m.Deltas...)
		if m.Marker != nil {
			markers = append(markers, *m.Marker)
			if m.Marker.Through >= through {
				return deltas, markers
			}
		}
	}
}

func TestServerRestartsAmidPublishing(t *testing.T) {
	const flushes = 1000
	srv := testServer(t, nil)
	nc := testConn(t, srv)
	p := testPublisher(t, nc, func(p *Publisher) { p.AckTimeout = time.Second })
	sub := subscribe(t, testStream(t, testConn(t, srv)), syncd.Cursor{}) // goes on over the restarts, too
	restart := make(chan struct{}, 3)
	restarted := make(chan error, 1)
	go func() {
		for range restart {
			srv.Stop()
			if err := srv.Start(); err != nil {
				restarted <- err
				return
			}
		}
		restarted <- nil
	}()
	for i := range flushes {
		if i%300 == 100 {
			waitAcked(t, p, syncd.LSN(i-50)) // so that each restart meets messages of its own
			restart <- struct{}{}
		}
		publish(t, p, testFlush(syncd.LSN(i), syncd.LSN(i+1), 3))
	}
	close(restart)
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	waitAcked(t, p, flushes)
	deltas, markers := collect(t, sub, flushes)
	if len(deltas) != 3*flushes || len(markers) != flushes {
		t.Fatalf("%d deltas, %d markers", len(deltas), len(markers))
	}
	for i, d := range deltas {
		if want := (syncd.Version{Epoch: 1, LSN: syncd.LSN(i/3 + 1), Ordinal: uint32(i%3 + 1)}); d.Version != want {
			t.Fatalf("delta %d is %v, not %v", i, d.Version, want)
		}
	}
	for i, m := range markers {
		if m.Through != syncd.LSN(i+1) || m.First != uint64(2*i+1) {
			t.Fatalf("marker %d: %+v", i, m)
		}
	}
}

// Acks get lost on the way, though what they acknowledge is stored.
func TestLostAcksAreSettled(t *testing.T) {
	nc := testConn(t, nil)
	p := testPublisher(t, nc, func(p *Publisher) { p.AckTimeout = 200 * time.Millisecond })
	publish(t, p, testFlush(0, 10, 1))
	waitAcked(t, p, 10)
	p.mu.Lock()
	inbox := p.inbox
	p.inbox = nats.NewInbox() // nobody listens there
	p.mu.Unlock()
	publish(t, p, testFlush(10, 20, 2))
	publish(t, p, testFlush(20, 30, 1))
	p.mu.Lock()
	p.inbox = inbox
	p.mu.Unlock()
	waitAcked(t, p, 30)
	info, err := p.api().info(testContext(t))
	if err != nil || info.State.LastSeq != 6 {
		t.Errorf("the stream ends at %d: %v", info.State.LastSeq, err)
	}
}

func TestTheWindowBoundsWhatIsInFlight(t *testing.T) {
	srv := testServer(t, nil)
	nc := testConn(t, srv)
	o := &countingObserver{}
	p := testPublisher(t, nc, func(p *Publisher) { p.Window = 64 << 10; p.MessageBytes = 8 << 10; p.Observer = o })
	publish(t, p, testFlush(0, 10, 5000))
	waitAcked(t, p, 10)
	if o.most > 64<<10 || o.acknowledged < 60 {
		t.Errorf("%d bytes in flight, %d acknowledged", o.most, o.acknowledged)
	}
	srv.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	blocked := make(chan error, 1)
	go func() { blocked <- p.Publish(ctx, testFlush(10, 20, 5000)) }()
	eventually(t, "sending stops", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.session.stopped != nil
	})
	cancel()
	if err := <-blocked; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
}

type countingObserver struct{ most, acknowledged, retried int }

func (o *countingObserver) Acknowledged(int, time.Duration) { o.acknowledged++ }
func (o *countingObserver) InFlight(_, bytes int)           { o.most = max(o.most, bytes) }
func (o *countingObserver) Retried(error)                   { o.retried++ }

func TestStreamsThatAreNotOursAreRefused(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	js := testJetStream(t, nc)
	name := syncName(t)
	p := &Publisher{Conn: nc, Name: name}
	for _, c := range []struct {
		cfg  jetstream.StreamConfig
		want string
	}{
		{jetstream.StreamConfig{Name: "OTHER_" + strings.ToUpper(name), Subjects: []string{"syncd." + name + ".>"}}, "OTHER_"},
		{jetstream.StreamConfig{Name: StreamName(name), Subjects: []string{"x." + name}}, "subjects"},
		{jetstream.StreamConfig{Name: StreamName(name), Subjects: streamSubjects(name), Storage: jetstream.MemoryStorage}, "storage"},
		{jetstream.StreamConfig{Name: StreamName(name), Subjects: streamSubjects(name), Discard: jetstream.DiscardNew}, "discards"},
		{jetstream.StreamConfig{Name: StreamName(name), Subjects: streamSubjects(name), MaxMsgsPerSubject: 1}, "a subject"},
	} {
		if _, err := js.CreateStream(ctx, c.cfg); err != nil {
			t.Fatal(err)
		}
		err := p.Create(ctx, false)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.want, err)
		}
		if c.cfg.Name == StreamName(name) {
			if _, err := DeleteStream(ctx, nc, name); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("deleting %s: %v", c.want, err)
			}
		}
		if err := js.DeleteStream(ctx, c.cfg.Name); err != nil {
			t.Fatal(err)
		}
	}
	testPublisher(t, nc, nil)
	for _, want := range []bool{true, false} {
		if existed, err := DeleteStream(ctx, nc, name); err != nil || existed != want {
			t.Errorf("deleting ours: %v, %v", existed, err)
		}
	}
}

func TestLimitsAreSetToTheConfiguredOnes(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	p := testPublisher(t, nc, func(p *Publisher) { p.Limits = Limits{MaxAge: time.Hour, MaxBytes: 1 << 20} })
	p.Limits = Limits{MaxAge: 2 * time.Hour, MaxBytes: 2 << 20}
	if _, _, _, err := p.Last(ctx); err != nil {
		t.Fatal(err)
	}
	info, err := p.api().info(ctx)
	if err != nil || info.Config.MaxAge != 2*time.Hour || info.Config.MaxBytes != 2<<20 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestAStreamDeletedWhilePublishing(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	p := testPublisher(t, nc, nil)
	publish(t, p, testFlush(0, 10, 1))
	waitAcked(t, p, 10)
	if err := testJetStream(t, nc).DeleteStream(ctx, StreamName(p.Name)); err != nil {
		t.Fatal(err)
	}
	var err error
	for lsn := syncd.LSN(11); err == nil; lsn++ {
		err = p.Publish(ctx, testFlush(lsn-1, lsn, 1))
	}
	if !errors.Is(err, syncd.ErrNoStream) {
		t.Error(err)
	}
}

// A stream that was made anew under the publisher has an end that was never acknowledged.
func TestAStreamThatLostItsTail(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	p := testPublisher(t, nc, nil)
	publish(t, p, testFlush(0, 10, 1))
	waitAcked(t, p, 10)
	if err := testJetStream(t, nc).DeleteStream(ctx, StreamName(p.Name)); err != nil {
		t.Fatal(err)
	}
	if err := p.Create(ctx, true); err != nil {
		t.Fatal(err)
	}
	var err error
	for lsn := syncd.LSN(11); err == nil; lsn++ {
		err = p.Publish(ctx, testFlush(lsn-1, lsn, 1))
	}
	if errors.Is(err, syncd.ErrFenced) || !errors.Is(err, errUnsettled) {
		t.Error(err)
	}
}

// A stream on a server that has no room stops the publisher, which goes on when there is room again.
func TestOutOfRoomAndBack(t *testing.T) {
	srv := testServer(t, func(c *natsserver.Config) { c.MaxPayload = 64 << 10 })
	nc, ctx := testConn(t, srv), testContext(t)
	p := testPublisher(t, nc, nil)
	js := testJetStream(t, nc)
	cfg := streamConfig(p.Name, Limits{})
	cfg.MaxMsgSize = 100 // refuses everything, like a full disk
	if _, err := js.UpdateStream(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	publish(t, p, testFlush(0, 10, 1))
	publish2 := make(chan error, 1)
	go func() { publish2 <- p.Publish(ctx, testFlush(10, 20, 1)) }()
	eventually(t, "a second settlement", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.session.failures >= 2
	})
	cfg.MaxMsgSize = -1
	if _, err := js.UpdateStream(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	if err := <-publish2; err != nil {
		t.Fatal(err)
	}
	waitAcked(t, p, 20)
	info, err := p.api().info(ctx)
	if err != nil || info.State.LastSeq != 4 {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestAcksOfAnotherStreamAreRefused(t *testing.T) {
	p := &Publisher{Name: "shop", inbox: "_INBOX.x"}
	p.session = &session{next: 6, tail: []outgoing{{seq: 5}}}
	p.ack(&nats.Msg{Subject: "_INBOX.x.0.5", Data: []byte(`{"stream":"OTHER","seq":5}`)})
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "OTHER") {
		t.Error(err)
	}
}

func TestJetStreamMissingIsTold(t *testing.T) {
	srv := testServer(t, func(c *natsserver.Config) { c.NoJetStream = true })
	p := &Publisher{Conn: testConn(t, srv), Name: syncName(t)}
	_, _, _, err := p.Last(testContext(t))
	if !errors.Is(err, ErrNoJetStream) || errors.Is(err, syncd.ErrNoStream) {
		t.Errorf("last: %v", err)
	}
	if err := p.Create(testContext(t), false); !errors.Is(err, ErrNoJetStream) {
		t.Errorf("create: %v", err)
	}
}

func TestMarkerOfANewerFormat(t *testing.T) {
	nc := testConn(t, nil)
	p := testPublisher(t, nc, nil)
	m := &nats.Msg{Subject: CommitSubject(p.Name), Data: []byte("whatever"), Header: nats.Header{headerFormat: {"2"}}}
	if _, err := nc.RequestMsg(m, apiTimeout); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := p.Last(testContext(t)); !errors.Is(err, syncd.ErrFormat) {
		t.Errorf("last: %v", err)
	}
	sub := subscribe(t, testStream(t, nc), syncd.Cursor{})
	if _, err := sub.Next(testContext(t)); !errors.Is(err, syncd.ErrFormat) || !strings.Contains(err.Error(), "message 1") {
		t.Errorf("next: %v", err)
	}
}

func BenchmarkPublish(b *testing.B) {
	for _, n := range []int{1, 10, 1000, 10000} {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			p := testPublisher(b, testConn(b, nil), nil)
			list := benchDeltas(n)
			size := len(encodeDeltas(list))
			b.SetBytes(int64(size))
			b.ReportAllocs()
			lsn := syncd.LSN(0)
			for b.Loop() {
				lsn++
				f := testFlush(lsn-1, lsn, 0)
				f.Deltas = atLSN(list, lsn)
				publish(b, p, f)
			}
			waitAcked(b, p, lsn)
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func atLSN(list []syncd.Delta, lsn syncd.LSN) []syncd.Delta {
	out := append([]syncd.Delta(nil), list...)
	for i := range out {
		out[i].Version.LSN = lsn
	}
	return out
}
