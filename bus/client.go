package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/syncd-io/syncd"
)

// Client asks the list service. It is used by many goroutines. Its errors wrap syncd.ErrBusy, syncd.ErrNoTable and
// syncd.ErrFormat where they are those; one that wraps syncd.ErrBusy says how long to wait by a method RetryAfter. A reply
// of which a part is missing, doubled or out of order is an error.
type Client struct {
	Conn *nats.Conn
	Name string // of the sync
	// Silence is how long the source may say nothing, neither parts nor that it is still at work; 0 is 10 s. How long a
	// request may take in all is the context's business.
	Silence time.Duration
}

const (
	defaultSilence = 10 * time.Second
	// othersWithin is how long, after one source has refused a marker, another that is asked too may take to begin.
	othersWithin = 300 * time.Millisecond
)

// BusyError says that the source refused a request since it has too many, and when to come again.
type BusyError struct {
	Message string
	After   time.Duration
}

// Error gives what the source said.
func (e *BusyError) Error() string { return fmt.Sprintf("%s; try again in %v", e.Message, e.After) }

// Is says that it is a syncd.ErrBusy.
func (e *BusyError) Is(target error) bool { return target == syncd.ErrBusy }

// RetryAfter says how long to wait.
func (e *BusyError) RetryAfter() time.Duration { return e.After }

// Tables gives every table that the source is configured with, the refused ones too.
func (c *Client) Tables(ctx context.Context) ([]syncd.TableInfo, error) {
	body, err := c.ask(ctx, endpointTables, []byte("{}"))
	if err != nil {
		return nil, fmt.Errorf("ask the source for its tables: %w", err)
	}
	var p parser
	list, err := p.tableInfos(body)
	if err != nil {
		return nil, located(err, serviceSubject(c.Name, endpointTables), 0)
	}
	return list, nil
}

// List gives one page of a table.
func (c *Client) List(ctx context.Context, r syncd.ListRequest) (*syncd.Page, error) {
	page, err := c.page(ctx, endpointList, appendListRequest(nil, &r), r.Table, r.Selector)
	if err != nil {
		return nil, fmt.Errorf("list %v: %w", r.Table, err)
	}
	if page.Asked != nil {
		return nil, fmt.Errorf("list %v: the reply is one to a get", r.Table)
	}
	return page, nil
}

// Digest gives the digest of a table.
func (c *Client) Digest(ctx context.Context, r syncd.DigestRequest) (*syncd.Digest, error) {
	body, err := c.ask(ctx, endpointDigest, appendDigestRequest(nil, &r))
	if err != nil {
		return nil, fmt.Errorf("digest %v: %w", r.Table, err)
	}
	var p parser
	d, err := p.digest(body)
	switch {
	case err != nil:
		return nil, located(err, serviceSubject(c.Name, endpointDigest), 0)
	case d.Selector != r.Selector:
		return nil, fmt.Errorf("digest %v: %w", r.Table, &selectorError{r.Selector, d.Selector})
	case d.Table != r.Table || d.Bits != r.Bits:
		return nil, fmt.Errorf("digest %v: the reply is about %v in 2^%d buckets", r.Table, d.Table, d.Bits)
	}
	return d, nil
}

// Get gives single keys of a table.
func (c *Client) Get(ctx context.Context, r syncd.GetRequest) (*syncd.Page, error) {
	page, err := c.page(ctx, endpointGet, appendGetRequest(nil, &r), r.Table, r.Selector)
	if err != nil {
		return nil, fmt.Errorf("get %d keys of %v: %w", len(r.Keys), r.Table, err)
	}
	if !slices.Equal(page.Asked, r.Keys) {
		return nil, fmt.Errorf("get %d keys of %v: the reply is about other keys", len(r.Keys), r.Table)
	}
	return page, nil
}

// Mark has the source publish a marker at or past at now, 0 being what its server has written by now, and gives the
// marker's position.
func (c *Client) Mark(ctx context.Context, at syncd.LSN) (syncd.Position, error) {
	body, err := c.ask(ctx, endpointMark, appendMarkRequest(nil, at))
	if err != nil {
		return syncd.Position{}, fmt.Errorf("ask the source for a marker: %w", err)
	}
	var p parser
	pos, err := p.markReply(body)
	if err != nil {
		return pos, located(err, serviceSubject(c.Name, endpointMark), 0)
	}
	return pos, nil
}

func (c *Client) page(ctx context.Context, endpoint string, request []byte, t syncd.Table, selector string) (*syncd.Page, error) {
	body, err := c.ask(ctx, endpoint, request)
	if err != nil {
		return nil, err
	}
	var p parser
	page, err := p.page(body)
	if err != nil {
		return nil, located(err, serviceSubject(c.Name, endpoint), 0)
	}
	if page.Table != t {
		return nil, fmt.Errorf("the reply is about %v", page.Table)
	}
	if page.Selector != selector {
		return nil, &selectorError{selector, page.Selector}
	}
	return page, nil
}

// selectorError says that a source has not kept to a selector.
type selectorError struct{ asked, got string }

func (e *selectorError) Error() string {
	if e.got == "" {
		return fmt.Sprintf("the source answered with all rows where those of the selector %q were asked for: it is older than selectors, upgrade it", e.asked)
	}
	return fmt.Sprintf("the source answered by the selector %q where %q was asked for", e.got, e.asked)
}

// attempts is how often a request is sent that reaches a service which can't answer it, though another might: after a failover
// the source of the old primary may still be there. Which one a request reaches is NATS's choice, by chance. It is sent again
// within attemptsFor of the first time only, since one that can't connect may take its time to say so.
const (
	attempts    = 6
	attemptsFor = 2 * time.Second
)

// ask sends a request and gives the whole reply. One that reaches a service as it stops, or one that can't reach its Postgres,
// is sent again.
func (c *Client) ask(ctx context.Context, endpoint string, request []byte) (body []byte, err error) {
	begin := time.Now()
	for range attempts {
		body, err = c.askOnce(ctx, endpoint, request)
		again := errors.Is(err, errStopping) || errors.Is(err, syncd.ErrAway) && endpoint != endpointMark
		if !again || time.Since(begin) > attemptsFor {
			break
		}
	}
	return body, err
}

func (c *Client) askOnce(ctx context.Context, endpoint string, request []byte) ([]byte, error) {
	inbox := c.Conn.NewInbox()
	// The parts ahead, and what keeps the wait alive meanwhile.
	msgs := make(chan *nats.Msg, 4*partsAhead)
	sub, err := c.Conn.ChanSubscribe(inbox, msgs)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only where the connection is closed
	h := nats.Header{headerFormat: {strconv.Itoa(Format)}}
	if err := c.Conn.PublishMsg(&nats.Msg{Subject: serviceSubject(c.Name, endpoint), Reply: inbox, Header: h, Data: request}); err != nil {
		return nil, err
	}
	r := reply{conn: c.Conn}
	var refused error // by one of several that were asked
	silence := c.Silence
	if silence <= 0 {
		silence = defaultSilence
	}
	t := time.NewTimer(silence)
	defer t.Stop()
	for {
		select {
		case m := <-msgs:
			done, err := r.take(m)
			if code := m.Header.Get(micro.ErrorCodeHeader); code != "" && endpoint == endpointMark {
				if refused == nil {
					refused = err
					t.Reset(othersWithin)
				}
				continue
			}
			if done || err != nil {
				return r.body, err
			}
			t.Reset(silence)
		case <-t.C:
			if refused != nil {
				return nil, refused
			}
			return nil, fmt.Errorf("the source has said nothing for %v after %d of %d parts", silence, r.parts, r.total)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// reply puts the parts of a reply together.
type reply struct {
	conn         *nats.Conn
	parts, total int
	body         []byte
}

// take takes a part in; done is true with the last.
func (r *reply) take(m *nats.Msg) (done bool, err error) {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return false, fmt.Errorf("no source answers: is one running and connected? %w", nats.ErrNoResponders)
	}
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		return false, remoteError(code, m)
	}
	if err := checkFormat(m.Header); err != nil {
		return false, err
	}
	i, n, err := partNumber(m.Header)
	if err != nil {
		return false, err
	}
	if n == 0 {
		return false, nil // still at work
	}
	if r.total == 0 {
		r.total = n
	}
	if i != r.parts+1 || n != r.total {
		return false, fmt.Errorf("part %d of %d came where part %d of %d was to come", i, n, r.parts+1, r.total)
	}
	if n == 1 {
		r.body = m.Data
		return true, nil
	}
	if r.parts = i; i == 1 {
		r.body = make([]byte, 0, min(n, 64)*len(m.Data))
	}
	r.body = append(r.body, m.Data...)
	if credit := m.Header.Get(headerCredit); credit != "" && i < n {
		if err := r.conn.Publish(credit, strconv.AppendInt(nil, int64(i), 10)); err != nil {
			return false, fmt.Errorf("take part %d of %d: %w", i, n, err)
		}
	}
	return i == n, nil
}

// partNumber reads a part's number and their total: "0/0" says that the source is still at work.
func partNumber(h nats.Header) (i, n int, err error) {
	v := h[headerPart]
	if len(v) == 1 {
		a, b, ok := strings.Cut(v[0], "/")
		i, err1 := strconv.ParseUint(a, 10, 31)
		n, err2 := strconv.ParseUint(b, 10, 31)
		if ok && err1 == nil && err2 == nil && i <= n && (i > 0 || n == 0) {
			return int(i), int(n), nil
		}
	}
	return 0, 0, fmt.Errorf("header %s is %q: want a part's number and their total, such as 2/5", headerPart, v)
}

// remoteError gives the error that the source answered with.
func remoteError(code string, m *nats.Msg) error {
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(m.Data, &said) != nil || said.Error == "" {
		said.Error = m.Header.Get(micro.ErrorHeader)
	}
	said.Error = "the source says: " + said.Error
	switch code {
	case codeBusy:
		after, err := strconv.ParseUint(m.Header.Get(headerRetry), 10, 16)
		if err != nil {
			after = 1
		}
		return &BusyError{said.Error, time.Duration(after) * time.Second}
	case codeNoTable:
		return &remote{said.Error, syncd.ErrNoTable}
	case codeFormat:
		return &remote{said.Error, syncd.ErrFormat}
	case codeStopping:
		return &remote{said.Error, errStopping}
	case codeAway:
		return &remote{said.Error, syncd.ErrAway}
	}
	return errors.New(said.Error)
}

// remote is an error of the source that stands for a sentinel here, whose words it has already.
type remote struct {
	said string
	is   error
}

func (e *remote) Error() string { return e.said }
func (e *remote) Unwrap() error { return e.is }
