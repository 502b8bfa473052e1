package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/syncd-io/syncd"
)

// The API errors of JetStream that callers branch on (server/errors.json of nats-server).
const (
	codeNotEnabledForAccount = 10039
	codeMessageNotFound      = 10037
	codeStreamNotFound       = 10059
	codeSubjectsOverlap      = 10065
	codeWrongLastSequence    = 10071
	codeNotEnabled           = 10076
	codeExpectedStream       = 10060
)

// readTimeout bounds one question to JetStream, which may vanish in a change of leader and is asked again; apiTimeout
// bounds a change.
const (
	readTimeout = 2 * time.Second
	apiTimeout  = 5 * time.Second
)

// apiError is an error that JetStream answered with.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string {
	return fmt.Sprintf("%s (JetStream error %d)", e.Description, e.ErrCode)
}

func apiCode(err error) int {
	var e *apiError
	if errors.As(err, &e) {
		return e.ErrCode
	}
	var j *jetstream.APIError
	if errors.As(err, &j) {
		return int(j.ErrorCode)
	}
	return 0
}

// streamAPI asks the leader of one stream. It never uses direct gets, which followers answer too.
type streamAPI struct {
	conn   *nats.Conn
	stream string
}

// stored is a message as the stream's leader holds it.
type stored struct {
	Subject string
	Seq     uint64
	Header  nats.Header
	Data    []byte
	Time    time.Time
}

func (a streamAPI) call(ctx context.Context, endpoint string, req, resp any) error {
	body, err := json.Marshal(req)
	if err != nil {
		return err
	}
	m, err := request(ctx, a.conn, "$JS.API."+endpoint+"."+a.stream, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(m.Data, resp)
}

// request asks JetStream. Where the connection breaks meanwhile it gives up at once: the answer would not come.
func request(ctx context.Context, conn *nats.Conn, subject string, body []byte) (*nats.Msg, error) {
	ctx, cancel := whileConnected(ctx, conn, readTimeout)
	defer cancel()
	m, err := conn.RequestWithContext(ctx, subject, body)
	if errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	return m, err
}

// whileConnected gives a context that ends with the connection, with ctx, or after d.
func whileConnected(ctx context.Context, conn *nats.Conn, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, lost := context.WithCancelCause(ctx)
	ctx, cancel := context.WithTimeout(ctx, d)
	status := conn.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	go func() {
		select {
		case <-status:
			lost(nats.ErrDisconnected)
		case <-ctx.Done():
			lost(nil)
		}
		conn.RemoveStatusListener(status)
	}()
	return ctx, cancel
}

// streamInfo is what is needed of STREAM.INFO.
type streamInfo struct {
	Config jetstream.StreamConfig `json:"config"`
	State  struct {
		Messages uint64 `json:"messages"`
		FirstSeq uint64 `json:"first_seq"`
		LastSeq  uint64 `json:"last_seq"`
	} `json:"state"`
}

// info asks for the stream's configuration and bounds. The error wraps syncd.ErrNoStream where there is no such stream,
// ErrNoJetStream where JetStream is not there at all.
func (a streamAPI) info(ctx context.Context) (*streamInfo, error) {
	var resp struct {
		streamInfo
		Error *apiError `json:"error"`
	}
	err := a.call(ctx, "STREAM.INFO", struct{}{}, &resp)
	if err == nil && resp.Error != nil {
		err = resp.Error
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", a.stream, a.explain(ctx, err))
	}
	return &resp.streamInfo, nil
}

// explain tells apart what "no responders" and the like can mean.
func (a streamAPI) explain(ctx context.Context, err error) error {
	switch code := apiCode(err); {
	case code == codeStreamNotFound:
		return fmt.Errorf("%w: %w", syncd.ErrNoStream, err)
	case code == codeNotEnabled || code == codeNotEnabledForAccount:
		return fmt.Errorf("%w: %w", ErrNoJetStream, err)
	case !errors.Is(err, nats.ErrNoResponders):
		return err
	}
	if aerr := accountError(ctx, a.conn); aerr != nil {
		return aerr
	}
	return fmt.Errorf("the stream has no leader just now: %w", err)
}

// accountError gives why JetStream can't be used by this connection's account; nil where it can.
func accountError(ctx context.Context, conn *nats.Conn) error {
	m, err := request(ctx, conn, "$JS.API.INFO", nil)
	if errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("%w: nobody answers for it: enable it on the server (nats-server -js), or wait for its leader", ErrNoJetStream)
	}
	if err != nil {
		return fmt.Errorf("ask for JetStream's account: %w", err)
	}
	var resp struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &resp); err != nil {
		return fmt.Errorf("ask for JetStream's account: %w", err)
	}
	if resp.Error != nil {
		return fmt.Errorf("%w: %w", ErrNoJetStream, resp.Error)
	}
	return nil
}

type messageRequest struct {
	Seq     uint64 `json:"seq,omitempty"`
	LastFor string `json:"last_by_subj,omitempty"`
	NextFor string `json:"next_by_subj,omitempty"`
}

// get reads one message from the leader. ok is false where there is none.
func (a streamAPI) get(ctx context.Context, req messageRequest) (s stored, ok bool, err error) {
	var resp struct {
		Error   *apiError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	err = a.call(ctx, "STREAM.MSG.GET", req, &resp)
	if err == nil && resp.Error != nil {
		err = resp.Error
	}
	switch {
	case apiCode(err) == codeMessageNotFound:
		return stored{}, false, nil
	case err != nil:
		return stored{}, false, fmt.Errorf("read a message of stream %s: %w", a.stream, a.explain(ctx, err))
	case resp.Message == nil:
		return stored{}, false, fmt.Errorf("read a message of stream %s: the answer holds none", a.stream)
	}
	m := resp.Message
	s = stored{Subject: m.Subject, Seq: m.Seq, Data: m.Data, Time: m.Time}
	if len(m.Header) > 0 {
		if s.Header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			return stored{Seq: m.Seq}, true, &MalformedError{Subject: m.Subject, Seq: m.Seq, Reason: "its headers: " + err.Error()}
		}
	}
	return s, true, nil
}

// lastMarker reads the last marker on the stream.
func (a streamAPI) lastMarker(ctx context.Context, name string) (m syncd.Marker, seq uint64, ok bool, err error) {
	s, ok, err := a.get(ctx, messageRequest{LastFor: CommitSubject(name)})
	if err != nil || !ok {
		return m, 0, false, err
	}
	d := decoder{name: name}
	msg, err := d.message(s.Subject, s.Seq, s.Header, s.Data)
	if err != nil {
		return m, 0, false, err
	}
	return *msg.Marker, s.Seq, true, nil
}

// Limits bound a stream. The stream drops its oldest messages to keep to them; a consumer that is farther behind relists.
type Limits struct {
	MaxAge   time.Duration // 0: no limit
	MaxBytes int64         // 0: no limit
	Replicas int           // 0: 1
}

// streamConfig is what a sync's stream is made with.
//
// Message ids are not used, so the window in which the server looks for doubles is the least it takes. Direct gets stay
// off: whoever reads a single message here decides by it. Deleting and purging are not denied: a denial can never be
// taken back, a purge is noticed by every consumer (it relists), and an operator who is short of disk would otherwise
// delete the stream.
func streamConfig(name string, l Limits) jetstream.StreamConfig {
	cfg := jetstream.StreamConfig{
		Name:        StreamName(name),
		Description: "syncd: changes of " + name,
		Subjects:    streamSubjects(name),
		Storage:     jetstream.FileStorage,
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardOld,
		MaxAge:      l.MaxAge,
		MaxBytes:    l.MaxBytes,
		MaxMsgs:     -1,
		MaxMsgSize:  -1,
		Replicas:    max(l.Replicas, 1),
		Duplicates:  100 * time.Millisecond,
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = -1
	}
	return cfg
}

// checkOurs says what of an existing stream's configuration breaks what syncd relies on.
func checkOurs(got jetstream.StreamConfig, name string) error {
	want := streamConfig(name, Limits{})
	subjects := slices.Sorted(slices.Values(got.Subjects))
	var wrong []string
	add := func(bad bool, format string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	add(!slices.Equal(subjects, slices.Sorted(slices.Values(want.Subjects))), "its subjects are %q, not %q", got.Subjects, want.Subjects)
	add(got.Storage != want.Storage, "its storage is %s, not file", got.Storage)
	add(got.Retention != want.Retention, "its retention is %s, not limits", got.Retention)
	add(got.Discard != want.Discard, "it discards new messages, not old ones")
	add(got.MaxMsgsPerSubject > 0, "it keeps %d messages a subject, not all", got.MaxMsgsPerSubject)
	add(got.Mirror != nil || len(got.Sources) > 0, "it mirrors or sources another stream")
	add(got.SubjectTransform != nil || got.RePublish != nil, "it transforms or republishes subjects")
	add(got.NoAck, "it acknowledges nothing")
	add(got.Sealed, "it is sealed")
	if len(wrong) > 0 {
		return fmt.Errorf("stream %s is not one that syncd made: %s", got.Name, strings.Join(wrong, "; "))
	}
	return nil
}

// adjust gives got with the limits of want, and whether that changes anything.
func adjust(got, want jetstream.StreamConfig) (jetstream.StreamConfig, bool) {
	same := got.MaxAge == want.MaxAge && got.MaxBytes == want.MaxBytes && got.Replicas == want.Replicas
	got.MaxAge, got.MaxBytes, got.Replicas = want.MaxAge, want.MaxBytes, want.Replicas
	return got, !same
}

// capturedBy says which other streams capture subjects of this sync; empty where none does.
func capturedBy(ctx context.Context, conn *nats.Conn, name string) string {
	js, err := jetstream.New(conn)
	if err != nil {
		return err.Error()
	}
	var found []string
	for _, subject := range streamSubjects(name) {
		names := js.StreamNames(ctx, jetstream.WithStreamListSubject(subject))
		for n := range names.Name() {
			if n != StreamName(name) && !slices.Contains(found, n) {
				found = append(found, n)
			}
		}
		if err := names.Err(); err != nil {
			return fmt.Sprintf("ask which streams capture %s: %v", subject, err)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf("streams %q capture subjects of this sync: take %q out of them", found, streamSubjects(name))
}
