package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/syncd-io/syncd"
)

// fakeLister answers from functions; a nil one is not to be called.
type fakeLister struct {
	tables func() ([]syncd.TableInfo, error)
	list   func(context.Context, syncd.ListRequest) (*syncd.Page, error)
	digest func(context.Context, syncd.DigestRequest) (*syncd.Digest, error)
	get    func(context.Context, syncd.GetRequest) (*syncd.Page, error)
	mark   func(context.Context, syncd.LSN) (syncd.Position, error)
}

func (l *fakeLister) Tables(context.Context) ([]syncd.TableInfo, error) { return l.tables() }
func (l *fakeLister) List(ctx context.Context, r syncd.ListRequest) (*syncd.Page, error) {
	return l.list(ctx, r)
}
func (l *fakeLister) Digest(ctx context.Context, r syncd.DigestRequest) (*syncd.Digest, error) {
	return l.digest(ctx, r)
}
func (l *fakeLister) Get(ctx context.Context, r syncd.GetRequest) (*syncd.Page, error) {
	return l.get(ctx, r)
}
func (l *fakeLister) Mark(ctx context.Context, at syncd.LSN) (syncd.Position, error) {
	return l.mark(ctx, at)
}

// serve runs a service until the test ends, or stop is called.
func serve(t testing.TB, s *Service) (stop func()) {
	t.Helper()
	s.Name, s.Log = syncName(t), testLog(t)
	before := services(t, s.Conn, s.Name)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	eventually(t, "the service is there", func() bool { return services(t, s.Conn, s.Name) > before })
	return stop
}

// services counts the services of a sync that have all their endpoints.
func services(t testing.TB, nc *nats.Conn, name string) int {
	t.Helper()
	sub, err := nc.SubscribeSync(nats.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	if err := nc.PublishRequest("$SRV.INFO."+serviceName(name), sub.Subject, nil); err != nil {
		t.Fatal(err)
	}
	n := 0
	for {
		m, err := sub.NextMsg(20 * time.Millisecond)
		if err != nil {
			return n
		}
		var info micro.Info
		if json.Unmarshal(m.Data, &info) == nil && len(info.Endpoints) >= 3 {
			n++
		}
	}
}

func bigPage(rows, bytes int) *syncd.Page {
	p := samplePages()[2]
	p.Rows = nil
	for i := range rows {
		r := syncd.Row{Key: syncd.MakeKey(fmt.Sprint(i)), JSON: fmt.Appendf(nil, `{"id":%d,"text":"%s"}`, i, strings.Repeat("x", bytes))}
		p.Rows = append(p.Rows, r)
		p.Sent.Add(r.Key, r.JSON)
	}
	return &p
}

func samePage(t *testing.T, got, want *syncd.Page) {
	t.Helper()
	w := *want
	w.Bytes = got.Bytes
	equal(t, "page", got, &w)
	if got.Bytes == 0 {
		t.Error("the page has no size")
	}
}

func TestTheListServiceAnswers(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	infos := []syncd.TableInfo{{Table: users, Columns: []string{"id"}, Types: []string{"integer"}, Key: []string{"id"}, Schema: 7}, {Table: odd, Error: "no key"}}
	page, answer, digest := samplePages()[0], samplePages()[1], sampleDigests()[0]
	var asked syncd.ListRequest
	l := &fakeLister{
		tables: func() ([]syncd.TableInfo, error) { return infos, nil },
		list:   func(_ context.Context, r syncd.ListRequest) (*syncd.Page, error) { asked = r; return &page, nil },
		get:    func(_ context.Context, r syncd.GetRequest) (*syncd.Page, error) { return &answer, nil },
		digest: func(_ context.Context, r syncd.DigestRequest) (*syncd.Digest, error) { return &digest, nil },
		mark: func(_ context.Context, at syncd.LSN) (syncd.Position, error) {
			return syncd.Position{Epoch: 3, LSN: at + 1}, nil
		},
	}
	serve(t, &Service{Conn: nc, Lister: l, Marks: l, Version: "1.2.3"})
	c := &Client{Conn: testConn(t, nil), Name: syncName(t)}

	got, err := c.Tables(ctx)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "tables", got, infos)
	want := syncd.ListRequest{Table: users, Started: true, After: syncd.MakeKey("41"), Limit: 2, Sent: syncd.Totals{Rows: 41, Digest: 1 << 63}}
	p, err := c.List(ctx, want)
	if err != nil {
		t.Fatal(err)
	}
	samePage(t, p, &page)
	equal(t, "request", asked, want)
	p, err = c.Get(ctx, syncd.GetRequest{Table: odd, Keys: answer.Asked})
	if err != nil {
		t.Fatal(err)
	}
	samePage(t, p, &answer)
	d, err := c.Digest(ctx, syncd.DigestRequest{Table: users, Bits: 2})
	if err != nil {
		t.Fatal(err)
	}
	wantDigest := digest
	wantDigest.Bytes = d.Bytes
	equal(t, "digest", d, &wantDigest)
	for _, r := range []syncd.DigestRequest{{Table: users, Bits: 3}, {Table: odd, Bits: 2}} {
		if _, err := c.Digest(ctx, r); err == nil || !strings.Contains(err.Error(), "the reply is about") {
			t.Errorf("another digest than was asked for: %v", err)
		}
	}
	if pos, err := c.Mark(ctx, 9); err != nil || pos != (syncd.Position{Epoch: 3, LSN: 10}) {
		t.Errorf("%v, %v", pos, err)
	}
	if _, err := c.Get(ctx, syncd.GetRequest{Table: odd, Keys: answer.Asked[:1]}); err == nil || !strings.Contains(err.Error(), "other keys") {
		t.Errorf("an answer about other keys: %v", err)
	}
	if _, err := c.List(ctx, syncd.ListRequest{Table: odd}); err == nil || !strings.Contains(err.Error(), "about public.users") {
		t.Errorf("a page of another table: %v", err)
	}
}

func TestErrorsComeBackAsWhatTheyAre(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	var fail error
	l := &fakeLister{
		list: func(context.Context, syncd.ListRequest) (*syncd.Page, error) { return nil, fail },
		mark: func(context.Context, syncd.LSN) (syncd.Position, error) { return syncd.Position{}, fail },
	}
	serve(t, &Service{Conn: nc, Lister: l, Marks: l})
	c := &Client{Conn: nc, Name: syncName(t)}
	for _, c2 := range []struct{ fail, is error }{
		{fmt.Errorf("2 scans run: %w", syncd.ErrBusy), syncd.ErrBusy},
		{fmt.Errorf("public.users: %w", syncd.ErrNoTable), syncd.ErrNoTable},
		{errors.New("canceling statement\ndue to statement timeout"), nil},
	} {
		fail = c2.fail
		_, err := c.List(ctx, syncd.ListRequest{Table: users})
		if err == nil || !strings.Contains(err.Error(), fail.Error()) || c2.is != nil && !errors.Is(err, c2.is) ||
			c2.is == nil && (errors.Is(err, syncd.ErrBusy) || errors.Is(err, syncd.ErrNoTable)) {
			t.Errorf("%v came back as %v", fail, err)
		}
	}
	fail = &BusyError{"later", 7 * time.Second}
	_, err := c.Mark(ctx, 0)
	var busy *BusyError
	if !errors.As(err, &busy) || busy.RetryAfter() != 7*time.Second {
		t.Errorf("%v", err)
	}
	for _, c := range []struct {
		format, body, code string
	}{
		{"1", `{"table":`, "400"},
		{"1", `{}`, "400"},
		{"", `{}`, "400"},
		{"2", `whatever`, "505"},
	} {
		m := &nats.Msg{Subject: serviceSubject(syncName(t), "list"), Data: []byte(c.body), Header: nats.Header{}}
		if c.format != "" {
			m.Header[headerFormat] = []string{c.format}
		}
		r, err := nc.RequestMsg(m, apiTimeout)
		if err != nil || r.Header.Get(micro.ErrorCodeHeader) != c.code || r.Header.Get(headerFormat) != "1" {
			t.Errorf("%+v: %v, %v", c, r.Header, err)
		}
	}
}

func TestANewerReplyIsTold(t *testing.T) {
	nc := testConn(t, nil)
	answerAs(t, nc, "list", func(m *nats.Msg) {
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{headerFormat: {"2"}, headerPart: {"1/1"}}, Data: []byte("?")})
	})
	c := &Client{Conn: nc, Name: syncName(t)}
	if _, err := c.List(testContext(t), syncd.ListRequest{Table: users}); !errors.Is(err, syncd.ErrFormat) {
		t.Error(err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	c := &Client{Conn: testConn(t, nil), Name: syncName(t)}
	if _, err := c.Tables(testContext(t)); !errors.Is(err, nats.ErrNoResponders) || !strings.Contains(err.Error(), "no source answers") {
		t.Error(err)
	}
}

func TestLongRepliesGoInPartsAsTheClientTakesThem(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	page := bigPage(600, 10<<10) // 6 MiB, and one row larger than a message
	page.Rows[300].JSON = fmt.Appendf(nil, `{"id":300,"text":"%s"}`, strings.Repeat("y", 2<<20))
	l := &fakeLister{list: func(context.Context, syncd.ListRequest) (*syncd.Page, error) { return page, nil }}
	serve(t, &Service{Conn: nc, Lister: l, patience: 500 * time.Millisecond})
	c := &Client{Conn: testConn(t, nil), Name: syncName(t)}
	got, err := c.List(ctx, syncd.ListRequest{Table: users})
	if err != nil {
		t.Fatal(err)
	}
	samePage(t, got, page)
	var totals syncd.Totals
	for _, r := range got.Rows {
		totals.Add(r.Key, r.JSON)
	}
	totals.Digest -= syncd.RowDigest(syncd.MakeKey("300"), page.Rows[300].JSON) - syncd.RowDigest(syncd.MakeKey("300"), fmt.Appendf(nil, `{"id":300,"text":"%s"}`, strings.Repeat("x", 10<<10)))
	equal(t, "totals", totals, page.Sent)

	// A client that takes nothing is sent no more than the first few parts.
	sub, err := nc.SubscribeSync(nats.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	m := &nats.Msg{Subject: serviceSubject(syncName(t), "list"), Reply: sub.Subject, Header: nats.Header{headerFormat: {"1"}},
		Data: appendListRequest(nil, &syncd.ListRequest{Table: users})}
	if err := nc.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	for i := range partsAhead {
		part, err := sub.NextMsg(apiTimeout)
		if err != nil || part.Header.Get(headerPart) != fmt.Sprintf("%d/16", i+1) || len(part.Data) != partBytes {
			t.Fatalf("part %d: %v, %d bytes, %v", i+1, part.Header, len(part.Data), err)
		}
	}
	if part, err := sub.NextMsg(700 * time.Millisecond); !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("one part too many: %v", part.Header)
	}
}

// answerAs answers an endpoint by hand.
func answerAs(t *testing.T, nc *nats.Conn, endpoint string, fn func(*nats.Msg)) {
	t.Helper()
	sub, err := nc.Subscribe(serviceSubject(syncName(t), endpoint), fn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestAReplyIsWholeOrAnError(t *testing.T) {
	page := samplePages()[0]
	body := appendPage(nil, &page)
	half := len(body) / 2
	a, b := body[:half], body[half:]
	for _, c := range []struct {
		name  string
		parts []string
		data  [][]byte
		want  string // empty: it is right
	}{
		{"whole", []string{"1/2", "2/2"}, [][]byte{a, b}, ""},
		{"at work in between", []string{"0/0", "1/2", "0/0", "2/2"}, [][]byte{nil, a, nil, b}, ""},
		{"a missing part", []string{"1/3", "3/3"}, [][]byte{a, b}, "part 3 of 3 came where part 2"},
		{"a missing end", []string{"1/2"}, [][]byte{a}, "nothing for 200ms after 1 of 2"},
		{"a doubled part", []string{"1/2", "1/2", "2/2"}, [][]byte{a, a, b}, "part 1 of 2 came where part 2"},
		{"another order", []string{"2/2", "1/2"}, [][]byte{b, a}, "part 2 of 2 came where part 1"},
		{"another total", []string{"1/2", "2/3"}, [][]byte{a, b}, "part 2 of 3 came where part 2 of 2"},
		{"no number", []string{"x"}, [][]byte{body}, "Syncd-Part"},
		{"a wrong number", []string{"0/2"}, [][]byte{body}, "Syncd-Part"},
		{"cut off between lines", []string{"1/1"}, [][]byte{bytes.Join(bytes.SplitAfter(body, []byte("\n"))[:2], nil)}, "cut off"},
		{"cut off in a line", []string{"1/1"}, [][]byte{body[:len(body)-5]}, "line 3"},
		{"empty", []string{"1/1"}, [][]byte{nil}, "empty"},
		{"more rows", []string{"1/1"}, [][]byte{append(bytes.Clone(body), `{"key":["9"],"row":{}}`...)}, "more rows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nc := testConn(t, nil)
			answerAs(t, nc, "list", func(m *nats.Msg) {
				for i := range c.parts {
					_ = m.RespondMsg(&nats.Msg{Header: nats.Header{headerFormat: {"1"}, headerPart: {c.parts[i]}}, Data: c.data[i]})
				}
			})
			client := &Client{Conn: nc, Name: syncName(t), Silence: 200 * time.Millisecond}
			got, err := client.List(testContext(t), syncd.ListRequest{Table: users})
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				samePage(t, got, &page)
			} else if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want …%s…", err, c.want)
			}
		})
	}
}

func TestTooManyAtWorkAreRefusedAtOnce(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	l := &fakeLister{
		list: func(context.Context, syncd.ListRequest) (*syncd.Page, error) {
			entered <- struct{}{}
			<-leave
			return bigPage(1, 1), nil
		},
		get: func(_ context.Context, r syncd.GetRequest) (*syncd.Page, error) { p := bigPage(1, 1); return p, nil },
	}
	serve(t, &Service{Conn: nc, Lister: l, AtWork: 2})
	c := &Client{Conn: testConn(t, nil), Name: syncName(t)}
	done := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := c.List(ctx, syncd.ListRequest{Table: users})
			done <- err
		}()
	}
	<-entered
	<-entered
	if _, err := c.List(ctx, syncd.ListRequest{Table: users}); !errors.Is(err, syncd.ErrBusy) {
		t.Errorf("a third list: %v", err)
	}
	if _, err := c.Get(ctx, syncd.GetRequest{Table: users, Keys: []syncd.Key{"1"}}); err != nil { // of a kind of its own
		t.Errorf("a get meanwhile: %v", err)
	}
	close(leave)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if _, err := c.List(ctx, syncd.ListRequest{Table: users}); err != nil {
		t.Errorf("a list afterwards: %v", err)
	}
}

func TestALongScanIsToldToBeAtWork(t *testing.T) {
	nc, ctx := testConn(t, nil), testContext(t)
	l := &fakeLister{list: func(ctx context.Context, _ syncd.ListRequest) (*syncd.Page, error) {
		return bigPage(1, 1), pause(ctx, 700*time.Millisecond)
	}}
	serve(t, &Service{Conn: nc, Lister: l, keepalive: 50 * time.Millisecond})
	c := &Client{Conn: testConn(t, nil), Name: syncName(t), Silence: 300 * time.Millisecond}
	if _, err := c.List(ctx, syncd.ListRequest{Table: users}); err != nil {
		t.Error(err)
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := c.List(short, syncd.ListRequest{Table: users}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestSeveralServicesShareTheRequests(t *testing.T) {
	ctx := testContext(t)
	var first, second atomic.Int64
	count := func(n *atomic.Int64) *fakeLister {
		return &fakeLister{list: func(context.Context, syncd.ListRequest) (*syncd.Page, error) {
			n.Add(1)
			return bigPage(3, 10), nil
		}, mark: func(context.Context, syncd.LSN) (syncd.Position, error) { return syncd.Position{Epoch: 1, LSN: 1}, nil }}
	}
	a, b := count(&first), count(&second)
	stop := serve(t, &Service{Conn: testConn(t, nil), Lister: a, Marks: a})
	serve(t, &Service{Conn: testConn(t, nil), Lister: b}) // lists only
	c := &Client{Conn: testConn(t, nil), Name: syncName(t)}
	for range 100 {
		if _, err := c.List(ctx, syncd.ListRequest{Table: users}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Mark(ctx, 0); err != nil {
			t.Fatal(err)
		}
	}
	if first.Load() == 0 || second.Load() == 0 || first.Load()+second.Load() != 100 {
		t.Errorf("%d and %d requests", first.Load(), second.Load())
	}
	stop()
	for range 10 {
		if _, err := c.List(ctx, syncd.ListRequest{Table: users}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Mark(ctx, 0); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("nobody has marks: %v", err)
	}
}

func TestAMarkIsAskedOfWhoeverWritesTheStream(t *testing.T) {
	ctx := testContext(t)
	standby := &fakeLister{mark: func(context.Context, syncd.LSN) (syncd.Position, error) {
		return syncd.Position{}, errors.New("this source stands by")
	}}
	writer := &fakeLister{mark: func(ctx context.Context, at syncd.LSN) (syncd.Position, error) {
		return syncd.Position{Epoch: 1, LSN: at}, pause(ctx, 10*time.Millisecond)
	}}
	for range 2 {
		serve(t, &Service{Conn: testConn(t, nil), Lister: standby, Marks: standby})
	}
	c := &Client{Conn: testConn(t, nil), Name: syncName(t)}
	if _, err := c.Mark(ctx, 7); err == nil || !strings.Contains(err.Error(), "stands by") {
		t.Errorf("nobody writes: %v", err)
	}
	serve(t, &Service{Conn: testConn(t, nil), Lister: writer, Marks: writer})
	for range 20 {
		if pos, err := c.Mark(ctx, 7); err != nil || pos.LSN != 7 {
			t.Fatal(pos, err)
		}
	}
}

func TestStoppingEndsWhatIsAtWork(t *testing.T) {
	nc := testConn(t, nil)
	entered := make(chan struct{}, 1)
	l := &fakeLister{list: func(ctx context.Context, _ syncd.ListRequest) (*syncd.Page, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	stop := serve(t, &Service{Conn: nc, Lister: l})
	c := &Client{Conn: testConn(t, nil), Name: syncName(t)}
	done := make(chan error, 1)
	go func() {
		_, err := c.List(testContext(t), syncd.ListRequest{Table: users})
		done <- err
	}()
	<-entered
	stop()
	if err := <-done; !errors.Is(err, errStopping) && !errors.Is(err, nats.ErrNoResponders) {
		t.Error(err)
	}
}

// TestAskAnother: a request that reaches a source which can't reach its Postgres is sent again, and not for ever.
func TestAskAnother(t *testing.T) {
	var away, asked atomic.Int64
	l := &fakeLister{tables: func() ([]syncd.TableInfo, error) {
		if asked.Add(1); away.Add(-1) >= 0 {
			return nil, fmt.Errorf("list: %w", syncd.ErrAway)
		}
		return []syncd.TableInfo{{Table: users}}, nil
	}}
	serve(t, &Service{Conn: testConn(t, nil), Lister: l})
	c := &Client{Conn: testConn(t, nil), Name: syncName(t)}
	away.Store(3)
	if all, err := c.Tables(testContext(t)); err != nil || len(all) != 1 || asked.Load() != 4 {
		t.Errorf("%v, %v, asked %d times", all, err, asked.Load())
	}
	away.Store(1000)
	asked.Store(0)
	if _, err := c.Tables(testContext(t)); !errors.Is(err, syncd.ErrAway) || asked.Load() > attempts {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
}

func TestOnePageForManyIsEncodedOnce(t *testing.T) {
	var s sharedPages
	p := bigPage(10, 10)
	a, releaseA := s.encode(p)
	b, releaseB := s.encode(p)
	if &a[0] != &b[0] {
		t.Error("two bodies")
	}
	releaseA()
	c, releaseC := s.encode(p)
	if &a[0] != &c[0] {
		t.Error("forgotten while in use")
	}
	releaseB()
	releaseC()
	if len(s.pages) != 0 {
		t.Error("kept for ever")
	}
}

func BenchmarkListPage(b *testing.B) {
	nc := testConn(b, nil)
	page := bigPage(5000, 180)
	l := &fakeLister{list: func(context.Context, syncd.ListRequest) (*syncd.Page, error) { return page, nil }}
	serve(b, &Service{Conn: nc, Lister: l})
	c := &Client{Conn: testConn(b, nil), Name: syncName(b)}
	b.SetBytes(int64(len(appendPage(nil, page))))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.List(context.Background(), syncd.ListRequest{Table: users}); err != nil {
			b.Fatal(err)
		}
	}
}
