package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/syncd-io/syncd"
)

// serveAs runs a server until the test ends.
func serveAs(t *testing.T, s *Server) string {
	t.Helper()
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Listener, s.Grace = l, 100*time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run gave %v", err)
		}
	})
	return l.Addr().String()
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil { // a test that hangs says where
		t.Fatal(err)
	}
	return c
}

// answered reads one answer that is an error.
func answered(t *testing.T, b *bufio.Reader) (status int, text string) {
	t.Helper()
	resp, err := http.ReadResponse(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body struct{ Error string }
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || body.Error == "" || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s with %v: %v", resp.Status, resp.Header, err)
	}
	return resp.StatusCode, body.Error
}

func TestWhatCantBeReadIsAnsweredInJSONToo(t *testing.T) {
	r := newRig(t)
	address := serveAs(t, &Server{Handler: r})
	for _, c := range []struct {
		name, request string
		status        int
		says          string
	}{
		{"escape", "GET /v1/tables/%zz/rows HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, `path "/v1/tables/%zz/rows": invalid URL escape "%zz"`},
		{"host", "GET / HTTP/1.1\r\n\r\n", 400, "Host"},
		{"header", "GET / HTTP/1.1\r\nHost: localhost\r\nbad header: x\r\n\r\n", 400, "header"},
		{"nonsense", "nonsense\r\n\r\n", 400, "can't be read"},
		{"version", "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", 505, "version"},
		{"coding", "GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: rot13\r\n\r\n", 501, "encoding"},
		{"long", "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 2*maxHeader) + "\r\n\r\n", 431, "65536"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := dial(t, address)
			b := bufio.NewReader(conn)
			if c.name == "escape" { // also behind an answer that was one
				fmt.Fprintf(conn, "GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
				answered(t, b)
			}
			if _, err := io.WriteString(conn, c.request); err != nil {
				t.Fatal(err)
			}
			if status, text := answered(t, b); status != c.status || !strings.Contains(text, c.says) {
				t.Errorf("%d %s", status, text)
			}
			if _, err := b.ReadByte(); err == nil {
				t.Error("something follows the answer")
			}
		})
	}
}

func TestSlowHeadersAreCutOff(t *testing.T) {
	address := serveAs(t, &Server{Handler: newRig(t), head: 50 * time.Millisecond})
	conn := dial(t, address)
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nX-Never", row42)
	b := bufio.NewReader(conn)
	if status, text := answered(t, b); status != 408 || !strings.Contains(text, "too long") {
		t.Errorf("%d %s", status, text)
	}
	if _, err := b.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("%v: want the connection closed", err)
	}
}

func TestSlowReadersAreCutOff(t *testing.T) {
	r := newRig(t)
	row := `{"text":"` + strings.Repeat("x", 1<<20) + `"}`
	r.cache.commit(func(v *fakeView) {
		for i := range 64 { // more than the buffers of a connection take
			v.put(users, syncd.MakeKey(fmt.Sprint(i)), row)
		}
	})
	ended := make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer close(ended)
		r.ServeHTTP(w, req)
	})
	address := serveAs(t, &Server{Handler: h, write: 100 * time.Millisecond})
	conn := dial(t, address)
	fmt.Fprintf(conn, "GET /v1/tables/public.users/rows HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-ended // though nobody has read
	if n, _ := io.Copy(io.Discard, conn); n >= 64<<20 {
		t.Errorf("all of %d bytes came", n)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	address := serveAs(t, &Server{Handler: newRig(t), Connections: 2})
	get := func(c net.Conn) int {
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", row42)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return resp.StatusCode
	}
	one, two := dial(t, address), dial(t, address)
	if get(one) != 200 || get(two) != 200 {
		t.Fatal("the first two are not answered")
	}
	if status, text := answered(t, bufio.NewReader(dial(t, address))); status != 503 || !strings.Contains(text, "2 connections") {
		t.Errorf("the third: %d %s", status, text)
	}
	if get(one) != 200 {
		t.Error("the first is not answered any more")
	}
	// One that ends makes room. When the server notices is its affair, so the next asks until it is let in.
	two.Close()
	for {
		c := dial(t, address)
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", row42)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil && resp.StatusCode == 200 {
			resp.Body.Close()
			return
		}
		c.Close()
	}
}

func TestPathsNearAMissIsNamed(t *testing.T) {
	r := newRig(t)
	for path, want := range map[string]string{
		"/v1/tabels": "/v1/tables", "/v1/tables/": "/v1/tables", "/v1/stauts": "/v1/status", "/health": "/healthz", "/readyz/": "/readyz", "/v1/reads": "/v1/read",
		"/v1/tables/public.users/row/42": "/v1/tables/public.users/rows/42", "/v1/tables/public.users/explian/42": "/v1/tables/public.users/explain/42",
		"/v1/tables/public.users": "/v1/tables/public.users/rows", "/tables": "/v1/tables", "/v1/tables/public.users/row": "/v1/tables/public.users/rows",
		"/v1/nothing/like/this": "/v1/tables/{TABLE}/rows/{KEY}", "/" + strings.Repeat("x", 600): "/v1/tables",
	} {
		w := r.do("GET", path)
		wantStatus(t, w, 404, want, "/v1/openapi.json")
		if near := nearPaths(path); len(near) > 0 && !strings.EqualFold(near[0], want) {
			t.Errorf("%s: nearest are %v, want %s", path, near, want)
		}
	}
}

func TestOptions(t *testing.T) {
	r := newRig(t)
	for path, want := range map[string]string{row42: "GET, HEAD, OPTIONS", "/v1/tables/public.users/resync": "POST, OPTIONS", "/v1/read": "POST, OPTIONS"} {
		w := r.do("OPTIONS", path)
		if w.Code != 204 || w.Header().Get("Allow") != want || w.Body.Len() != 0 {
			t.Errorf("%s: %d, Allow %q, %s", path, w.Code, w.Header().Get("Allow"), w.Body)
		}
	}
	wantStatus(t, r.do("OPTIONS", "/v1/nothing"), 404)
}

func TestABodyThatNobodyAsksForIsRefused(t *testing.T) {
	r := newRig(t)
	wantStatus(t, r.post("/v1/tables/public.users/resync", `{"mode":"full"}`), 400, "body")
	chunked, _ := http.NewRequest("GET", row42, io.MultiReader(strings.NewReader("x")))
	chunked.ContentLength = -1
	wantStatus(t, r.serveOne(chunked), 400, "body")
	empty, _ := http.NewRequest("POST", "/v1/tables/public.users/resync", io.MultiReader())
	empty.ContentLength = -1
	wantStatus(t, r.serveOne(empty), 200)
}

// rawConn is a client that has sent some bytes, and closes its side.
type rawConn struct {
	net.Conn
	in     *bytes.Reader
	out    bytes.Buffer
	closed chan struct{}
	close  func()
}

func newRawConn(in []byte) *rawConn {
	c := &rawConn{in: bytes.NewReader(in), closed: make(chan struct{})}
	c.close = sync.OnceFunc(func() { close(c.closed) })
	return c
}

func (c *rawConn) Read(b []byte) (int, error)       { return c.in.Read(b) }
func (c *rawConn) Write(b []byte) (int, error)      { return c.out.Write(b) }
func (c *rawConn) Close() error                     { c.close(); return nil }
func (c *rawConn) SetDeadline(time.Time) error      { return nil }
func (c *rawConn) SetReadDeadline(time.Time) error  { return nil }
func (c *rawConn) SetWriteDeadline(time.Time) error { return nil }
func (c *rawConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *rawConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }

// rawListener gives one connection, and then none.
type rawListener struct {
	net.Listener
	conn *rawConn
}

func (l *rawListener) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	return nil, io.EOF
}

func (l *rawListener) Close() error   { return nil }
func (l *rawListener) Addr() net.Addr { return &net.TCPAddr{} }

// Whatever a client sends, nothing panics, and each error is JSON that says something.
func FuzzRaw(f *testing.F) {
	for _, s := range []string{
		"GET " + row42 + " HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: zstd;q=0.3, gzip;q=0\r\nIf-None-Match: \"x\", *\r\n\r\n",
		"GET /v1/tables/%zz/rows HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /v1/nothing HTTP/1.0\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /v1/read?max_age=1s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 44\r\n\r\n{\"reads\":[{\"table\":\"public.users\",\"limit\":1}]}GET / HTTP/1.1\r\n\r\n",
		"POST /v1/read HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"GET /v1/tables/public.users/rows?key=in.(1,%22a%22)&name=eq.Ann HTTP/1.1\r\nHost: localhost\r\n\r\n", "\r\n\r\n\x00", "GET  HTTP/1.1\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		r := newRig(t)
		var panicked bytes.Buffer
		s := (&Server{Handler: r, Logger: slog.New(slog.NewTextHandler(&panicked, &slog.HandlerOptions{Level: slog.LevelDebug}))}).server(context.Background())
		conn := newRawConn(in)
		if err := s.Serve(jsonListener{&rawListener{conn: conn}}); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		<-conn.closed
		if strings.Contains(panicked.String(), "panic") {
			t.Fatal(panicked.String())
		}
		if !bytes.Contains(bytes.ToUpper(in), []byte("HEAD")) && !bytes.Contains(in, []byte("CONNECT")) { // whose answers have no body
			checkAnswers(t, conn.out.Bytes())
		}
	})
}

func checkAnswers(t *testing.T, out []byte) {
	b := bufio.NewReader(bytes.NewReader(out))
	for {
		resp, err := http.ReadResponse(b, nil)
		if err != nil {
			if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
				t.Fatalf("%v in %q", err, out)
			}
			return
		}
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode < 400 || resp.StatusCode == http.StatusExpectationFailed { // net/http's own, without a body
			continue
		}
		var e struct{ Error string }
		if err := json.Unmarshal(body, &e); err != nil || e.Error == "" {
			t.Fatalf("%s with body %q: %v", resp.Status, body, err)
		}
		if resp.StatusCode == http.StatusInternalServerError {
			t.Fatalf("%s: %s", resp.Status, e.Error)
		}
	}
}
