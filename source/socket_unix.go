//go:build unix

package source

import (
	"fmt"
	"io"
	"net"
	"syscall"
)

// blockingSocket reads and writes with blocking system calls. Go's network poller is told of every message that arrives,
// also while we let them pile up on purpose, and each time it wakes a thread and slows the server's sending down; a thread
// of our own that sleeps in a read is woken once.
type blockingSocket struct{ fd int }

// newSocket takes a connection over. One with TLS stays with the network poller.
func newSocket(c net.Conn) (socket, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return polledSocket{c}, nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd, dupErr := -1, error(nil)
	if err := raw.Control(func(p uintptr) {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		if fd, dupErr = syscall.Dup(int(p)); dupErr == nil {
			syscall.CloseOnExec(fd)
		}
	}); err != nil {
		return nil, err
	}
	if dupErr != nil {
		return nil, fmt.Errorf("duplicate the socket: %w", dupErr)
	}
	c.Close() // takes it away from the poller; the connection is open still
	if err := block(fd); err != nil {
		syscall.Close(fd)
		return nil, fmt.Errorf("make the socket blocking: %w", err)
	}
	return &blockingSocket{fd}, nil
}

func block(fd int) error {
	if err := syscall.SetNonblock(fd, false); err != nil {
		return err
	}
	t := syscall.NsecToTimeval(int64(writeTimeout))
	return syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &t)
}

// Read waits for at least a byte.
func (s *blockingSocket) Read(b []byte) (int, error) {
	for {
		n, err := syscall.Read(s.fd, b)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, fmt.Errorf("read: %w", err)
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Write writes all of b.
func (s *blockingSocket) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		n, err := syscall.Write(s.fd, b[done:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return done, fmt.Errorf("write: %w", err)
		}
		done += n
	}
	return done, nil
}

// Interrupt ends the connection, and with it a Read or Write that waits.
func (s *blockingSocket) Interrupt() {
	_ = syscall.Shutdown(s.fd, syscall.SHUT_RDWR) // a connection that is gone already is as good
}

// Close gives the descriptor up.
func (s *blockingSocket) Close() error { return syscall.Close(s.fd) }
