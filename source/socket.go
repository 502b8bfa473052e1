package source

import (
	"net"
	"time"
)

// socket is the connection of a walStream. Read is called by one goroutine, Write by one at a time, Interrupt by any, after
// which both fail; Close when nobody calls any of them any more.
type socket interface {
	Read([]byte) (int, error)
	Write([]byte) (int, error)
	Interrupt()
	Close() error
}

// writeTimeout ends a connection whose server takes no status updates any more.
const writeTimeout = 30 * time.Second

// polledSocket is a connection as Go's network poller serves it.
type polledSocket struct{ net.Conn }

// Write gives up after writeTimeout.
func (s polledSocket) Write(b []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return s.Conn.Write(b)
}

// Interrupt ends the connection.
func (s polledSocket) Interrupt() { s.Conn.Close() }
