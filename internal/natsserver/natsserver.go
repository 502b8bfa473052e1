// Package natsserver runs a NATS server with JetStream inside this process: for `syncd run` without a bus of its own, for
// the demo, and for tests. It opens no port unless it is told an address; this process reaches it through memory.
//
// It relies on a directory of its own, which one process at a time may use: a lock file sees to that. Whatever the server
// has acknowledged is in the page cache, and on disk after the sync interval at the latest.
package natsserver

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Config says how the server runs.
type Config struct {
	// Dir holds the streams. It is made where it is missing.
	Dir string
	// Listen is host:port to open, port 0 for a free one; empty opens none. The server asks nobody for credentials.
	Listen string
	// SyncInterval is how long an acknowledged message may wait for its fsync; 0 is the server's default of 2 minutes.
	SyncInterval time.Duration
	// SyncAlways has every message on disk before it is acknowledged.
	SyncAlways bool
	// MaxPayload is the size of the largest message in bytes; 0 is the server's default of 1 MiB.
	MaxPayload int32
	// NoJetStream leaves JetStream off, to see what a client says of such a server.
	NoJetStream bool
	// Options sets more of the server's options, where a test needs them.
	Options func(*server.Options)
	// Log takes what the server logs; nil is quiet.
	Log *slog.Logger
}

// readyWithin bounds the start: recovery of a large store takes its time.
const readyWithin = 60 * time.Second

// Server is a running NATS server. It is a nats.InProcessConnProvider.
type Server struct {
	cfg  Config
	lock *os.File

	mu  sync.Mutex
	srv *server.Server
}

// Start runs a server and returns when it takes connections.
func Start(cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, unusable(cfg.Dir, err)
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, unusable(cfg.Dir, err)
	}
	s := &Server{cfg: cfg, lock: lock}
	if err := s.Start(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

// unusable says what mends a directory that can't be used.
func unusable(dir string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("embedded NATS: %w: let the user that syncd runs as write to %s, or name another directory in bus.embedded.dir", err, dir)
	}
	return fmt.Errorf("embedded NATS: %w", err)
}

// Start runs the server again after Stop: on the same directory, and the same port where it had one.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv != nil {
		return errors.New("embedded NATS: it runs already")
	}
	opts, err := s.cfg.options()
	if err != nil {
		return err
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("embedded NATS on %s: %w", s.cfg.Dir, err)
	}
	srv.SetLoggerV2(logger{s.cfg.Log}, false, false, false)
	srv.Start()
	if !srv.ReadyForConnections(readyWithin) {
		srv.Shutdown()
		srv.WaitForShutdown()
		return fmt.Errorf("embedded NATS on %s: it took no connections within %v (is %q in use?)", s.cfg.Dir, readyWithin, s.cfg.Listen)
	}
	if !s.cfg.NoJetStream && !srv.JetStreamEnabled() {
		srv.Shutdown()
		srv.WaitForShutdown()
		return fmt.Errorf("embedded NATS on %s: JetStream did not start", s.cfg.Dir)
	}
	s.srv = srv
	if a, ok := srv.Addr().(*net.TCPAddr); ok && s.cfg.Listen != "" {
		s.cfg.Listen = a.String()
	}
	return nil
}

func (c *Config) options() (*server.Options, error) {
	opts := &server.Options{
		ServerName:   "syncd-embedded",
		DontListen:   c.Listen == "",
		JetStream:    !c.NoJetStream,
		StoreDir:     c.Dir,
		SyncInterval: c.SyncInterval,
		SyncAlways:   c.SyncAlways,
		MaxPayload:   c.MaxPayload,
		NoSigs:       true,
	}
	if c.Listen != "" {
		host, port, err := net.SplitHostPort(c.Listen)
		if err != nil {
			return nil, fmt.Errorf("embedded NATS: listen %q: %w", c.Listen, err)
		}
		opts.Host = host
		if opts.Port, err = strconv.Atoi(port); err != nil {
			return nil, fmt.Errorf("embedded NATS: listen %q: port %q is no number", c.Listen, port)
		}
		if opts.Port == 0 {
			opts.Port = server.RANDOM_PORT
		}
	}
	if c.Options != nil {
		c.Options(opts)
	}
	return opts, nil
}

// InProcessConn gives a connection through memory.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv == nil {
		return nil, errors.New("embedded NATS has been stopped")
	}
	return s.srv.InProcessConn()
}

// URL gives the address of the port it opened, such as "nats://127.0.0.1:4222"; empty where it opened none.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Listen == "" {
		return ""
	}
	return "nats://" + s.cfg.Listen
}

// Stop ends the server and waits for it. Its streams are flushed to the operating system.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv == nil {
		return
	}
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
	s.srv = nil
}

// Close ends the server and gives up the directory.
func (s *Server) Close() error {
	s.Stop()
	return s.lock.Close()
}

// logger passes on what the server logs.
type logger struct{ log *slog.Logger }

func (l logger) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l logger) Debugf(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l logger) Tracef(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l logger) Warnf(format string, v ...any)   { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l logger) Errorf(format string, v ...any)  { l.log.Error(fmt.Sprintf(format, v...)) }
func (l logger) Fatalf(format string, v ...any)  { l.log.Error(fmt.Sprintf(format, v...)) }
