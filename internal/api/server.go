package api

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// Server serves a handler on one address until it is told to stop.
type Server struct {
	// Listener is what Listen gave.
	Listener net.Listener
	Handler  http.Handler
	// TLS, where it is set, is what connections are wrapped in.
	TLS *tls.Config
	// Grace is how long answers that are being written may take once the server is to stop; default 3s.
	Grace time.Duration
	// Connections is how many may be open at a time; default 16384.
	Connections int
	// Logger gets the errors of connections; nil means quiet.
	Logger *slog.Logger

	// What a client may take to send a request's head, and to take an answer that no handler gives more time; 0: the
	// constants below.
	head, write time.Duration
}

// The limits of what one client can take before its request is read.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = time.Minute
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	maxBody       = 1 << 20
	maxConns      = 16384
)

// Listen opens "host:port" or "unix:/path". A socket file that nobody listens on is taken over.
func Listen(address string) (net.Listener, error) {
	path, unix := strings.CutPrefix(address, "unix:")
	if !unix {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", address, err)
		}
		return l, nil
	}
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return l, nil
}

// removeStale removes a socket file that a killed process left.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return errors.New("the file is there and is no socket: remove it, or name another")
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return errors.New("another process listens there: stop it, or name another")
	}
	return os.Remove(path)
}

// Loopback says whether only this machine can reach an address as Listen takes it.
func Loopback(address string) bool {
	if strings.HasPrefix(address, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Run serves until ctx ends or the listener breaks. Then it tells the requests that wait, by their context, lets those
// that are being answered finish within Grace, and closes what is left. The listener is closed.
func (s *Server) Run(ctx context.Context) error {
	requests, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := s.server(requests)
	stopped := make(chan struct{})
	serving, broken := context.WithCancel(ctx)
	go func() {
		defer close(stopped)
		<-serving.Done()
		cancel()
		s.stop(server)
	}()
	var l net.Listener = &boundedListener{Listener: s.Listener, limit: cmp.Or(s.Connections, maxConns), tell: s.TLS == nil}
	if s.TLS != nil {
		l = tls.NewListener(l, server.TLSConfig)
	} else {
		l = jsonListener{l}
	}
	err := server.Serve(l)
	broken()
	<-stopped
	if errors.Is(err, http.ErrServerClosed) {
		return ctx.Err()
	}
	return fmt.Errorf("serve on %s: %w", s.Listener.Addr(), err)
}

func (s *Server) server(requests context.Context) *http.Server {
	log := s.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	server := &http.Server{
		Handler:           http.MaxBytesHandler(s.Handler, maxBody),
		BaseContext:       func(net.Listener) context.Context { return requests },
		ReadHeaderTimeout: cmp.Or(s.head, headerTimeout),
		ReadTimeout:       readTimeout,
		WriteTimeout:      cmp.Or(s.write, writeTimeout),
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	if s.TLS != nil {
		server.TLSConfig = s.TLS.Clone()
	}
	return server
}

func (s *Server) stop(server *http.Server) {
	grace := s.Grace
	if grace == 0 {
		grace = 3 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		server.Close()
	}
}
