package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serve runs a server until the test stops it.
func serve(t *testing.T, address string, h http.Handler) (l net.Listener, stop func()) {
	t.Helper()
	l, err := Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- (&Server{Listener: l, Handler: h, Grace: 200 * time.Millisecond}).Run(ctx) }()
	return l, func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run gave %v", err)
		}
	}
}

func client(t *testing.T, network, address string) *http.Client {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestServerOnAUnixSocket(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(t.TempDir(), "s.sock")
	_, stop := serve(t, "unix:"+path, r)
	resp, err := client(t, "unix", path).Get("http://syncd" + row42)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(body) != `{"id":42,"name":"Ann"}` {
		t.Errorf("body %s", body)
	}
	if _, err := Listen("unix:" + path); err == nil || !strings.Contains(err.Error(), "another process listens") {
		t.Errorf("a second server: %v", err)
	}
	stop()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket file is still there: %v", err)
	}
}

func TestSocketFileOfADeadProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	again, err := Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen("unix:" + path); err == nil {
		t.Error("a file was taken for a socket")
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Error("the file is gone")
	}
}

func TestStopTellsWaitingReads(t *testing.T) {
	r := newRig(t)
	l, stop := serve(t, "127.0.0.1:0", r)
	type result struct {
		status int
		body   string
		err    error
	}
	done := make(chan result, 1)
	c := client(t, "tcp", l.Addr().String())
	go func() {
		resp, err := c.Get("http://127.0.0.1" + row42 + "?min_version=0/16B3848&timeout=5m")
		if err != nil {
			done <- result{err: err}
			return
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		done <- result{resp.StatusCode, string(b), err}
	}()
	<-r.asker.hint // it waits, and has asked for a marker
	stop()
	if res := <-done; res.err != nil || res.status != 503 || !strings.Contains(res.body, "stopping") {
		t.Errorf("the read got %d %s %v", res.status, res.body, res.err)
	}
}

func TestStopDoesNotWaitForeverForSlowRequests(t *testing.T) {
	r := newRig(t)
	l, stop := serve(t, "127.0.0.1:0", r)
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Never", row42) // and never ends
	stop()
}

func TestHeaderLimit(t *testing.T) {
	r := newRig(t)
	l, stop := serve(t, "127.0.0.1:0", r)
	defer stop()
	req, _ := http.NewRequest("GET", "http://127.0.0.1"+row42, nil)
	req.Header.Set("X-Long", strings.Repeat("x", 2*maxHeader))
	resp, err := client(t, "tcp", l.Addr().String()).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestListenErrorsNameTheAddress(t *testing.T) {
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, address := range []string{l.Addr().String(), "unix:/no/such/dir/s.sock", "nonsense"} {
		if _, err := Listen(address); err == nil || !strings.Contains(err.Error(), address) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
