package bus

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// The errors of connecting that a caller branches on.
var (
	// ErrUnreachable says that no server answers at the address.
	ErrUnreachable = errors.New("NATS can't be reached")
	// ErrAuth says that the server is there and refuses the credentials.
	ErrAuth = errors.New("NATS refuses the credentials")
	// ErrNoJetStream says that the server is there, without JetStream for this account.
	ErrNoJetStream = errors.New("JetStream is not available")
)

// Config says how to reach NATS. At most one of Creds, NKey, User and Token is set.
type Config struct {
	// URL is one or more addresses, joined by commas, such as nats://127.0.0.1:4222.
	URL string
	// InProcess, where set, is a server in this process, and URL is not used.
	InProcess nats.InProcessConnProvider
	// Name tells the connection from others in the server's monitoring.
	Name string
	// Creds is the path of a credentials file, NKey of a file with an nkey seed.
	Creds, NKey string
	// User and Password, or Token, are sent to the server. They are never logged.
	User, Password, Token string
	// TLSCA, TLSCert and TLSKey are paths of PEM files; a CA alone checks the server, the other two identify this client.
	TLSCA, TLSCert, TLSKey string
	// Log takes disconnects and reconnects; nil is quiet.
	Log *slog.Logger
}

// The keys of what this package logs.
const (
	logError  = "error"
	logStream = "stream"
	logServer = "server"
	logWait   = "wait"
	logSeq    = "seq"
)

func quiet(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

const connectTimeout = 5 * time.Second

// Connect makes one attempt to connect. Once connected, the connection reconnects for ever. Its error wraps
// ErrUnreachable or ErrAuth where it is one of those. The caller closes the connection.
//
// The client's buffer for what is published while disconnected is off: it would send old messages again, later and out
// of order.
func Connect(ctx context.Context, c Config) (*nats.Conn, error) {
	opts, err := c.options()
	if err != nil {
		return nil, err
	}
	if d, ok := ctx.Deadline(); ok {
		opts = append(opts, nats.Timeout(max(time.Millisecond, min(connectTimeout, time.Until(d)))))
	}
	type result struct {
		conn *nats.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		conn, err := nats.Connect(c.URL, opts...)
		done <- result{conn, err}
	}()
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
		if r = <-done; r.conn != nil { // bounded by the timeout of the connection
			r.conn.Close()
		}
		return nil, fmt.Errorf("connect to NATS at %s: %w: %w", c.address(), ErrUnreachable, ctx.Err())
	}
	if r.err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", c.address(), connectError(r.err))
	}
	return r.conn, nil
}

// ConnectWait connects like Connect and tries again, with growing pauses of up to 5 seconds, until it is connected or ctx
// ends. The first failure and every change of reason are logged.
func ConnectWait(ctx context.Context, c Config) (*nats.Conn, error) {
	log := quiet(c.Log)
	last := ""
	for attempt := 0; ; attempt++ {
		conn, err := Connect(ctx, c)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil || !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrAuth) {
			return nil, err
		}
		if err.Error() != last {
			last = err.Error()
			log.Warn("NATS can't be used yet; trying on", logError, err)
		}
		if err := pause(ctx, backoff(attempt)); err != nil {
			return nil, err
		}
	}
}

func (c *Config) address() string {
	if c.InProcess != nil {
		return "this process"
	}
	return c.URL
}

func (c *Config) options() ([]nats.Option, error) {
	log := quiet(c.Log)
	opts := []nats.Option{
		nats.Name(c.Name),
		nats.Timeout(connectTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, time.Second),
		nats.ReconnectBufSize(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.PingInterval(20 * time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("disconnected from NATS", logError, err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Info("connected to NATS again", logServer, nc.ConnectedUrlRedacted()) }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			if s != nil {
				log.Warn("NATS reports an error", logError, err, "subject", s.Subject)
				return
			}
			log.Warn("NATS reports an error", logError, err)
		}),
	}
	if c.InProcess != nil {
		opts = append(opts, nats.InProcessServer(c.InProcess))
	}
	auth, err := c.auth()
	if err != nil {
		return nil, err
	}
	return append(opts, append(auth, c.tls()...)...), nil
}

func (c *Config) auth() (opts []nats.Option, err error) {
	if c.Creds != "" {
		opts = append(opts, nats.UserCredentials(c.Creds))
	}
	if c.NKey != "" {
		o, err := nats.NkeyOptionFromSeed(c.NKey)
		if err != nil {
			return nil, fmt.Errorf("nkey seed in %s: %w", c.NKey, err)
		}
		opts = append(opts, o)
	}
	if c.User != "" {
		opts = append(opts, nats.UserInfo(c.User, c.Password))
	}
	if c.Token != "" {
		opts = append(opts, nats.Token(c.Token))
	}
	if len(opts) > 1 {
		return nil, errors.New("NATS: at most one of creds, nkey, user and token can be set")
	}
	return opts, nil
}

func (c *Config) tls() (opts []nats.Option) {
	if c.TLSCA != "" {
		opts = append(opts, nats.RootCAs(c.TLSCA))
	}
	if c.TLSCert != "" {
		opts = append(opts, nats.ClientCert(c.TLSCert, c.TLSKey))
	}
	return opts
}

func connectError(err error) error {
	if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, nats.ErrAccountAuthExpired) || errors.Is(err, nats.ErrNkeysNotSupported) {
		return fmt.Errorf("%w: %w", ErrAuth, err)
	}
	var file *fs.PathError
	if errors.As(err, &file) { // a creds or TLS file that can't be read
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// backoff gives the pause before attempt n+1: 50 ms, doubling, at most 5 s.
func backoff(n int) time.Duration {
	return min(5*time.Second, 50*time.Millisecond<<min(n, 10))
}

// pause waits, or gives the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waitConnected waits until the connection is up. It gives nats.ErrConnectionClosed where it never will be.
func waitConnected(ctx context.Context, conn *nats.Conn) error {
	status := conn.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer conn.RemoveStatusListener(status)
	for !conn.IsConnected() {
		if conn.IsClosed() {
			return nats.ErrConnectionClosed
		}
		select {
		case <-status:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
