package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/syncd-io/syncd"
)

// Lister answers the list service's questions. It is called by many goroutines at a time. Pages are not changed any more
// once they are given out; one page may be given to several callers.
type Lister interface {
	// Tables gives every configured table, the refused ones too.
	Tables(ctx context.Context) ([]syncd.TableInfo, error)
	// List gives one page. Its error wraps syncd.ErrBusy where as many scans run as are allowed, syncd.ErrNoTable where
	// the table is not synced. An error may say how long to wait by a method RetryAfter() time.Duration.
	List(ctx context.Context, r syncd.ListRequest) (*syncd.Page, error)
	// Digest gives a table's digest in as many buckets as were asked for; errors as List.
	Digest(ctx context.Context, r syncd.DigestRequest) (*syncd.Digest, error)
	// Get gives single keys, all read in one snapshot; errors as List.
	Get(ctx context.Context, r syncd.GetRequest) (*syncd.Page, error)
}

// MarkSender has a marker published now.
type MarkSender interface {
	// Mark returns once a marker at or past at has been handed to the stream, and gives its position. at 0 is the
	// server's current insert LSN.
	Mark(ctx context.Context, at syncd.LSN) (syncd.Position, error)
}

// ServiceObserver is told of every request answered.
type ServiceObserver interface {
	// Served is called with the endpoint, the answer's code ("200", or that of an error), how long it took, and its size
	// in bytes. It is called by many goroutines.
	Served(endpoint, code string, took time.Duration, bytes int)
}

// The endpoints of the list service.
const (
	endpointTables = "tables"
	endpointList   = "list"
	endpointDigest = "digest"
	endpointGet    = "get"
	endpointMark   = "mark"
)

// The codes of errors, as HTTP has them.
const (
	codeOK         = "200"
	codeBadRequest = "400"
	codeNoTable    = "404"
	codeBusy       = "429"
	codeFailed     = "500"
	codeAway       = "502"
	codeStopping   = "503"
	codeFormat     = "505"
)

// Service is the server's end of the list service: a NATS micro service named syncd-<name>, so that `nats micro` shows it.
// Several processes may serve one sync; a request goes to one of them, but one for a marker to all, since only the
// process that writes the stream can answer it well. A request is handed to a goroutine of its own, and
// refused at once with code 429 where too many are at work. While one is at work its client is told so every few
// seconds, and a long reply goes out no faster than its client takes it.
type Service struct {
	Conn   *nats.Conn
	Name   string // of the sync
	Lister Lister
	// Marks is asked for markers. Where it is nil this process serves lists alone: it has no endpoint "mark".
	Marks MarkSender
	// AtWork bounds the requests at work, for each endpoint; 0 is 2048. Lists that wait for one scan count each: a large fleet that
	// resyncs at once is to share it.
	AtWork int
	// Version is the program's, for `nats micro info`.
	Version  string
	Log      *slog.Logger    // nil is quiet
	Observer ServiceObserver // nil is none

	// keepalive and patience are set by tests alone.
	keepalive, patience time.Duration

	mu       sync.Mutex
	stopping bool
	working  map[*task]struct{}
	done     *sync.Cond // with mu: one of working is done
	pages    sharedPages
}

const (
	defaultAtWork = 2048
	// keepaliveEvery is how often the client of a request at work hears of it.
	keepaliveEvery = 2 * time.Second
	// partBytes is the largest part of a reply, partsAhead how many parts go out ahead of what the client says it has.
	partBytes  = 512 << 10
	partsAhead = 4
	// clientPatience is how long a client may take for a part.
	clientPatience = 30 * time.Second
	// grace is how long requests at work go on when the service stops.
	grace = time.Second
)

// endpoint is one endpoint with its count of requests.
type endpoint struct {
	name                 string
	slots                chan struct{}
	served, busy, failed atomic.Uint64
	answer               func(ctx context.Context, body []byte) (reply []byte, release func(), err error)
}

// stats is what `nats micro stats` shows of an endpoint beside the library's own numbers, which end when a request is
// handed over.
func (e *endpoint) stats() map[string]uint64 {
	return map[string]uint64{"served": e.served.Load(), "busy": e.busy.Load(), "failed": e.failed.Load(), "at_work": uint64(len(e.slots))}
}

// task is one request at work.
type task struct {
	endpoint *endpoint
	reply    string
	started  time.Time
	answers  atomic.Bool // no more keepalives
}

// Run serves until ctx ends. Then it takes no more requests, gives those at work a second to end by themselves, and ends
// their contexts.
func (s *Service) Run(ctx context.Context) error {
	endpoints := s.endpoints()
	svc, err := micro.AddService(s.Conn, micro.Config{
		Name:        serviceName(s.Name),
		Version:     "1.0.0", // of the interface
		Description: "syncd: lists of the tables of " + s.Name,
		Metadata:    map[string]string{"sync": s.Name, "format": strconv.Itoa(Format), "program": s.Version},
		StatsHandler: func(e *micro.Endpoint) any {
			if i := slices.IndexFunc(endpoints, func(mine *endpoint) bool { return mine.name == e.Name }); i >= 0 {
				return endpoints[i].stats()
			}
			return nil
		},
	})
	if err != nil {
		return fmt.Errorf("list service %s: %w", serviceName(s.Name), err)
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	s.mu.Lock()
	s.stopping, s.working, s.done = false, make(map[*task]struct{}), sync.NewCond(&s.mu)
	s.mu.Unlock()
	for _, e := range endpoints {
		opts := []micro.EndpointOpt{micro.WithEndpointSubject(serviceSubject(s.Name, e.name))}
		if e.name == endpointMark { // asked of all: only the one that writes the stream can
			opts = append(opts, micro.WithEndpointQueueGroupDisabled())
		}
		err = svc.AddEndpoint(e.name, s.handler(work, e), opts...)
		if err != nil {
			err = fmt.Errorf("list service %s, endpoint %s: %w", serviceName(s.Name), e.name, err)
			break
		}
	}
	if err == nil {
		s.keepAlive(ctx)
	}
	return errors.Join(err, s.stop(svc, cancel))
}

// stop takes the service off the bus and waits for what is at work, whose contexts cancel ends.
func (s *Service) stop(svc micro.Service, cancel context.CancelFunc) error {
	err := svc.Stop()
	if errors.Is(err, nats.ErrConnectionClosed) {
		err = nil
	}
	hurry := time.AfterFunc(grace, func() {
		s.mu.Lock()
		s.stopping = true
		s.mu.Unlock()
		cancel()
	})
	defer hurry.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.working) > 0 {
		s.done.Wait()
	}
	s.stopping = true // what the library has yet to deliver goes to another process
	return err
}

func (s *Service) endpoints() []*endpoint {
	n := s.AtWork
	if n <= 0 {
		n = defaultAtWork
	}
	list := []*endpoint{
		{name: endpointTables, answer: s.tables},
		{name: endpointList, answer: s.list},
		{name: endpointDigest, answer: s.digest},
		{name: endpointGet, answer: s.get},
	}
	if s.Marks != nil {
		list = append(list, &endpoint{name: endpointMark, answer: s.mark})
	}
	for _, e := range list {
		e.slots = make(chan struct{}, n)
	}
	return list
}

// handler takes a request over. It answers nothing itself: the library looks at its request again when the handler has
// returned, so answers are published beside it.
func (s *Service) handler(ctx context.Context, e *endpoint) micro.Handler {
	return micro.HandlerFunc(func(req micro.Request) {
		t := &task{endpoint: e, reply: req.Reply(), started: time.Now()}
		if t.reply == "" {
			return // nobody waits for an answer
		}
		h, body := nats.Header(req.Headers()), req.Data()
		if err := s.begin(t); err != nil {
			s.refuse(t, err)
			return
		}
		go func() {
			defer s.end(t)
			s.work(ctx, t, h, body)
		}()
	})
}

func (s *Service) begin(t *task) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return errStopping
	}
	select {
	case t.endpoint.slots <- struct{}{}:
	default:
		return fmt.Errorf("%d requests to %q are at work: %w", cap(t.endpoint.slots), t.endpoint.name, syncd.ErrBusy)
	}
	s.working[t] = struct{}{}
	return nil
}

func (s *Service) end(t *task) {
	<-t.endpoint.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.working, t)
	s.done.Broadcast()
}

var errStopping = errors.New("the list service is stopping")

// work answers one request.
func (s *Service) work(ctx context.Context, t *task, h nats.Header, body []byte) {
	err := checkFormat(h)
	if err != nil && !errors.Is(err, syncd.ErrFormat) {
		err = badRequest{err}
	}
	if err != nil {
		s.refuse(t, err)
		return
	}
	reply, release, err := t.endpoint.answer(ctx, body)
	t.answers.Store(true)
	if err != nil {
		if ctx.Err() != nil {
			err = errStopping
		}
		s.refuse(t, err)
		return
	}
	defer release()
	if err := s.send(ctx, t.reply, reply); err != nil {
		t.endpoint.failed.Add(1)
		quiet(s.Log).Debug("a reply was not taken", "endpoint", t.endpoint.name, logError, err)
		s.observe(t, codeFailed, 0)
		return
	}
	t.endpoint.served.Add(1)
	s.observe(t, codeOK, len(reply))
}

func (s *Service) observe(t *task, code string, bytes int) {
	if s.Observer != nil {
		s.Observer.Served(t.endpoint.name, code, time.Since(t.started), bytes)
	}
}

// badRequest is an error in the request itself.
type badRequest struct{ error }

func (e badRequest) Unwrap() error { return e.error }

// refuse answers with an error: its code and text in the headers that the micro protocol has for them, and the text in
// the body too.
func (s *Service) refuse(t *task, err error) {
	code, h := errorCode(err), nats.Header{headerFormat: {strconv.Itoa(Format)}}
	h[micro.ErrorCodeHeader] = []string{code}
	h[micro.ErrorHeader] = []string{strings.ToValidUTF8(strings.Join(strings.Fields(err.Error()), " "), "?")}
	if code == codeBusy {
		t.endpoint.busy.Add(1)
		h[headerRetry] = []string{strconv.Itoa(retrySeconds(err))}
	} else {
		t.endpoint.failed.Add(1)
	}
	body, jerr := json.Marshal(map[string]string{"error": err.Error()})
	if jerr == nil {
		jerr = s.Conn.PublishMsg(&nats.Msg{Subject: t.reply, Header: h, Data: body})
	}
	if jerr != nil {
		quiet(s.Log).Debug("an error could not be told to the client", "endpoint", t.endpoint.name, logError, errors.Join(err, jerr))
	}
	s.observe(t, code, len(body))
}

func errorCode(err error) string {
	var bad badRequest
	switch {
	case errors.As(err, &bad):
		return codeBadRequest
	case errors.Is(err, syncd.ErrNoTable):
		return codeNoTable
	case errors.Is(err, syncd.ErrBusy):
		return codeBusy
	case errors.Is(err, syncd.ErrFormat):
		return codeFormat
	case errors.Is(err, errStopping):
		return codeStopping
	case errors.Is(err, syncd.ErrAway):
		return codeAway
	}
	return codeFailed
}

// retrySeconds is how long a client that was told to come again is to wait: what the error says, at least a second.
func retrySeconds(err error) int {
	var says interface{ RetryAfter() time.Duration }
	if errors.As(err, &says) {
		return max(1, int((says.RetryAfter()+time.Second-1)/time.Second))
	}
	return 1
}

func (s *Service) tables(ctx context.Context, _ []byte) ([]byte, func(), error) {
	list, err := s.Lister.Tables(ctx)
	if err != nil {
		return nil, nil, err
	}
	return appendTableInfos(nil, list), func() {}, nil
}

func (s *Service) list(ctx context.Context, body []byte) ([]byte, func(), error) {
	var p parser
	r, err := p.listRequest(body)
	if err != nil {
		return nil, nil, badRequest{err}
	}
	page, err := s.Lister.List(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	reply, release := s.pages.encode(page)
	return reply, release, nil
}

func (s *Service) digest(ctx context.Context, body []byte) ([]byte, func(), error) {
	var p parser
	r, err := p.digestRequest(body)
	if err != nil {
		return nil, nil, badRequest{err}
	}
	d, err := s.Lister.Digest(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	return appendDigest(make([]byte, 0, 1024+14*len(d.Buckets)), d), func() {}, nil
}

func (s *Service) get(ctx context.Context, body []byte) ([]byte, func(), error) {
	var p parser
	r, err := p.getRequest(body)
	if err != nil {
		return nil, nil, badRequest{err}
	}
	page, err := s.Lister.Get(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	if page.Asked == nil { // an answer to a get says what was asked
		answer := *page
		answer.Asked = r.Keys
		page = &answer
	}
	reply, release := s.pages.encode(page)
	return reply, release, nil
}

func (s *Service) mark(ctx context.Context, body []byte) ([]byte, func(), error) {
	var p parser
	at, err := p.markRequest(body)
	if err != nil {
		return nil, nil, badRequest{err}
	}
	pos, err := s.Marks.Mark(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	return appendMarkReply(nil, pos), func() {}, nil
}

// keepAlive tells the clients of requests at work that they are, until ctx ends.
func (s *Service) keepAlive(ctx context.Context) {
	every := s.keepalive
	if every == 0 {
		every = keepaliveEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, t := range s.atWork() {
			// Lost where the connection is down, and then so is the reply.
			_ = s.Conn.PublishMsg(&nats.Msg{Subject: t.reply, Header: nats.Header{headerFormat: {strconv.Itoa(Format)}, headerPart: {"0/0"}}})
		}
	}
}

// atWork gives the requests that have no answer yet.
func (s *Service) atWork() (list []*task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.working {
		if !t.answers.Load() {
			list = append(list, t)
		}
	}
	return list
}

// send sends a reply in parts. Beyond the first few, a part goes out when the client says that it has taken one.
func (s *Service) send(ctx context.Context, to string, body []byte) error {
	size := min(partBytes, int(s.Conn.MaxPayload())-headerRoom)
	parts := max(1, (len(body)+size-1)/size)
	h := nats.Header{headerFormat: {strconv.Itoa(Format)}}
	var credits chan *nats.Msg
	if parts > partsAhead {
		credits = make(chan *nats.Msg, parts)
		inbox := s.Conn.NewInbox()
		sub, err := s.Conn.ChanSubscribe(inbox, credits)
		if err != nil {
			return err
		}
		defer func() { _ = sub.Unsubscribe() }() // fails only where the connection is closed
		h[headerCredit] = []string{inbox}
	}
	taken := 0
	for i := range parts {
		for i-taken >= partsAhead {
			n, err := s.awaitCredit(ctx, credits)
			if err != nil {
				return fmt.Errorf("part %d of %d: %w", i+1, parts, err)
			}
			taken = max(taken, min(n, i))
		}
		part := nats.Header{headerPart: {strconv.Itoa(i+1) + "/" + strconv.Itoa(parts)}}
		for k, v := range h {
			part[k] = v
		}
		err := s.Conn.PublishMsg(&nats.Msg{Subject: to, Header: part, Data: body[i*size : min(len(body), (i+1)*size)]})
		if err != nil {
			return fmt.Errorf("part %d of %d: %w", i+1, parts, err)
		}
	}
	return nil
}

func (s *Service) awaitCredit(ctx context.Context, credits <-chan *nats.Msg) (int, error) {
	wait := s.patience
	if wait == 0 {
		wait = clientPatience
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case m := <-credits:
		return strconv.Atoi(string(m.Data))
	case <-t.C:
		return 0, fmt.Errorf("the client has taken nothing for %v", wait)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// sharedPages encodes a page once for all who wait for it at a time: many sidecars that list together are given one page.
type sharedPages struct {
	mu    sync.Mutex
	pages map[*syncd.Page]*sharedPage
}

type sharedPage struct {
	once  sync.Once
	body  []byte
	users int
}

// encode gives the body of a page; release is called when it is no longer needed.
func (s *sharedPages) encode(p *syncd.Page) (body []byte, release func()) {
	s.mu.Lock()
	e := s.pages[p]
	if e == nil {
		if s.pages == nil {
			s.pages = make(map[*syncd.Page]*sharedPage)
		}
		e = &sharedPage{}
		s.pages[p] = e
	}
	e.users++
	s.mu.Unlock()
	e.once.Do(func() { e.body = appendPage(make([]byte, 0, pageBytes(p)), p) })
	return e.body, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if e.users--; e.users == 0 {
			delete(s.pages, p)
		}
	}
}
