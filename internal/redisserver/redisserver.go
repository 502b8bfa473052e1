// Package redisserver runs a throwaway Redis server for tests: Debian's package redis-server, or whatever redis-server is
// on the PATH.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options say how a server runs.
type Options struct {
	// Args are more settings, as redis-server takes them: "--maxmemory", "10mb".
	Args []string
}

// Server is a running server on a free port of 127.0.0.1.
type Server struct {
	opt  Options
	dir  string
	port int

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// errMissing says what mends that there is no server.
var errMissing = errors.New("redis-server is not on the PATH: install it (Debian: apt-get install redis-server)")

// Start runs a server and returns when it answers.
func Start(ctx context.Context, o Options) (*Server, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, errMissing
	}
	dir, err := os.MkdirTemp("", "syncd-redis-")
	if err != nil {
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	s := &Server{opt: o, dir: dir}
	for range 5 { // somebody may be quicker to listen on a free port
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.Start(ctx); err == nil {
			return s, nil
		}
	}
	return nil, errors.Join(err, os.RemoveAll(dir))
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port for redis-server: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Start runs the server again, on the same port, after Stop or Kill.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	args := []string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir, "--appendonly", "no", "--save", "", "--daemonize", "no"}
	cmd := exec.Command("redis-server", append(args, s.opt.Args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C at a terminal is the test's
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	for {
		if err := ping(s.Addr()); err == nil {
			s.cmd, s.done = cmd, done
			return nil
		}
		select {
		case <-done:
			return fmt.Errorf("redis-server ended at its start: %s", strings.TrimSpace(out.String()))
		case <-ctx.Done():
			_ = cmd.Process.Kill()
			<-done
			return fmt.Errorf("start redis-server: %w", context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func ping(addr string) error {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	b := make([]byte, 7)
	if n, err := c.Read(b); err != nil || string(b[:n]) != "+PONG\r\n" {
		return errors.Join(err, fmt.Errorf("it answers %q", b[:n]))
	}
	return nil
}

// Addr is host:port.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// URL is the server's, database 0.
func (s *Server) URL() string { return "redis://" + s.Addr() + "/0" }

// Kill ends the server at once: what it held is gone.
func (s *Server) Kill() { s.signal(syscall.SIGKILL) }

// Signal sends the server a signal, such as SIGSTOP.
func (s *Server) Signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Signal(sig)
}

func (s *Server) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(sig) // it may have ended
	<-s.done
	s.cmd = nil
}

// Stop ends the server and removes what it has on disk.
func (s *Server) Stop() error {
	s.Kill()
	return os.RemoveAll(s.dir)
}
