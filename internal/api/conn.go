package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// boundedListener has at most limit connections open at a time. One more is told so and closed.
type boundedListener struct {
	net.Listener
	limit int
	tell  bool // the connections carry plain HTTP
	open  counter
}

// Accept gives the next connection. It never waits for a client.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.enter(l.limit) {
			return &boundedConn{Conn: c, left: sync.OnceFunc(l.open.leave)}, nil
		}
		if l.tell {
			// A fresh connection's buffer takes an answer this small at once; what keeps it from doing so concerns nobody.
			_ = c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			_, _ = c.Write(plainAnswer(http.StatusServiceUnavailable, fmt.Sprintf("%d connections are open already: close some, or try again", l.limit), "Retry-After: 1\r\n"))
		}
		_ = c.Close()
	}
}

// boundedConn is a connection that counts until it is closed.
type boundedConn struct {
	net.Conn
	left func()
}

func (c *boundedConn) Close() error {
	c.left()
	return c.Conn.Close()
}

// jsonListener gives connections on which net/http's own answers to what it can't read are JSON, as all answers are.
type jsonListener struct{ net.Listener }

func (l jsonListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &jsonConn{Conn: c}, nil
}

// jsonConn remembers how the last request began, so that an answer to one that can't be read names its path. One goroutine
// reads from it at a time.
type jsonConn struct {
	net.Conn
	mu   sync.Mutex // a read may begin while an answer is written
	head [512]byte
	used int
	late bool // the last read ran out of time
}

// Read keeps the beginning of what came. net/http reads a request's first byte alone while it answers the one before.
func (c *jsonConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	if c.used != 1 {
		c.used = 0
	}
	c.used += copy(c.head[c.used:], b[:n])
	c.late = errors.Is(err, os.ErrDeadlineExceeded)
	c.mu.Unlock()
	return n, err
}

// plainError is how net/http begins an answer to a request that it can't read; it writes that with one Write. No handler's
// answer goes on like this, since headers are written in order and a Date is among them.
const plainError = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

func (c *jsonConn) Write(b []byte) (int, error) {
	if len(b) < len("HTTP/1.1 400") || b[9] < '4' { // nearly all answers
		return c.Conn.Write(b)
	}
	line, text, ok := bytes.Cut(b[:min(len(b), 512)], []byte(plainError))
	if !ok || bytes.IndexByte(line, '\n') >= 0 || len(line) < len("HTTP/1.1 400") {
		return c.Conn.Write(b)
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return c.Conn.Write(b)
	}
	status, why := c.unreadable(status, string(text))
	if _, err := c.Conn.Write(plainAnswer(status, why, "")); err != nil {
		return 0, err
	}
	return len(b), nil
}

// unreadable says why a request could not be read.
func (c *jsonConn) unreadable(status int, text string) (int, string) {
	c.mu.Lock()
	line, _, _ := strings.Cut(string(c.head[:c.used]), "\r\n")
	late := c.late
	c.mu.Unlock()
	switch {
	case late:
		return http.StatusRequestTimeout, "the request's head took too long to come: send it at once"
	case status == http.StatusRequestHeaderFieldsTooLarge:
		return status, fmt.Sprintf("the request's head is longer than %d bytes: ask for less at once, or by POST /v1/read", maxHeader)
	}
	if f := strings.Fields(line); len(f) > 1 && status == http.StatusBadRequest {
		if _, err := url.ParseRequestURI(f[1]); err != nil {
			return status, fmt.Sprintf("path %q: %v; percent-encode it", f[1], errorInside(err))
		}
	}
	return status, "the request can't be read: " + strings.TrimPrefix(text, strconv.Itoa(status)+" ")
}

func errorInside(err error) error {
	if e, ok := err.(*url.Error); ok {
		return e.Err
	}
	return err
}

// plainAnswer is an answer that ends its connection.
func plainAnswer(status int, text, headers string) []byte {
	body, err := json.Marshal(map[string]string{"error": strings.ToValidUTF8(text, "\uFFFD")})
	if err != nil {
		panic("a text: " + err.Error())
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nCache-Control: no-store\r\n%sConnection: close\r\n\r\n%s\n",
		status, http.StatusText(status), len(body)+1, headers, body)
}
