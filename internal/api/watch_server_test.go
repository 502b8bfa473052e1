package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

const watchCounts = "/v1/tables/public.counts/watch"

// next reads the next event of a watch.
func next(t *testing.T, b *bufio.Reader) event {
	t.Helper()
	for {
		var block strings.Builder
		for {
			line, err := b.ReadString('\n')
			if err != nil {
				t.Fatalf("after %q: %v", block.String(), err)
			}
			block.WriteString(line)
			if line == "\n" {
				break
			}
		}
		if all := parse(t, block.String()); len(all) > 0 {
			return all[0]
		}
	}
}

// until reads events up to one of a name.
func until(t *testing.T, b *bufio.Reader, name string) (all []event) {
	t.Helper()
	for {
		e := next(t, b)
		all = append(all, e)
		if e.name == name {
			return all
		}
	}
}

// open begins a watch over a connection.
func open(t *testing.T, c *http.Client, address string, header ...string) *bufio.Reader {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a test that hangs says where
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Content-Encoding") != "" {
		b, _ := io.ReadAll(resp.Body)
		t.Fatalf("%d %v %s", resp.StatusCode, resp.Header, b)
	}
	return bufio.NewReader(resp.Body)
}

// TestWatchOverTLS: by HTTP/2 and by HTTP/1.1.
func TestWatchOverTLS(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(crand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	c := newChanging(t, 1, sink.HistoryLimits{})
	address := serveAs(t, &Server{Handler: c, TLS: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}}})
	for _, two := range []bool{true, false} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: two}
		b := open(t, &http.Client{Transport: tr}, "https://"+address+watchCounts+"?list=true", "Accept-Encoding", "gzip, zstd")
		if n := len(until(t, b, "bookmark")); n != 4 {
			t.Errorf("%d events of a list of 3 rows", n)
		}
		c.flush(put(1, 50), gone(2))
		if all := until(t, b, "bookmark"); len(all) != 3 || all[0].name != "upsert" || string(all[0].data.Row) != count(1, 50) || all[1].name != "delete" {
			t.Errorf("events %+v", all)
		}
		c.flush(put(1, 1), put(2, 60))
		until(t, b, "bookmark")
		tr.CloseIdleConnections()
	}
}

// TestStopEndsWatches: a server that stops ends its watches at once, and their clients can go on where they were.
func TestStopEndsWatches(t *testing.T) {
	c := newChanging(t, 1, sink.HistoryLimits{})
	l, stop := serve(t, "127.0.0.1:0", c)
	cl := client(t, "tcp", l.Addr().String())
	var all []*bufio.Reader
	for range 20 {
		all = append(all, open(t, cl, "http://127.0.0.1"+watchCounts))
	}
	first := next(t, all[0])
	stop()
	for _, b := range all {
		if _, err := io.Copy(io.Discard, b); err != nil {
			t.Errorf("the watch ended with %v", err)
		}
	}
	c.flush(put(4, 4))
	l, stop = serve(t, "127.0.0.1:0", c)
	defer stop()
	b := open(t, client(t, "tcp", l.Addr().String()), "http://127.0.0.1"+watchCounts, "Last-Event-ID", first.id)
	if e := next(t, b); e.name != "upsert" || string(e.data.Row) != count(4, 4) {
		t.Errorf("the watch went on with %+v", e)
	}
}

// TestSlowWatchIsToldToListAnew: a client that does not read loses its place, and neither commits nor other watches wait.
func TestSlowWatchIsToldToListAnew(t *testing.T) {
	c := newChanging(t, 1, sink.HistoryLimits{Bytes: 1 << 20})
	address := serveAs(t, &Server{Handler: c})
	slow := dial(t, address)
	fmt.Fprintf(slow, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", watchCounts)
	quick := open(t, client(t, "tcp", address), "http://127.0.0.1"+watchCounts)
	next(t, quick)
	pad := bytes.Repeat([]byte("x"), 64<<10)
	large := func(n int) syncd.Delta {
		d := put(9, n)
		d.Row = fmt.Appendf(nil, `{"id":9,"n":%d,"pad":"%s"}`, n, pad)
		return d
	}
	for i := range 400 { // 26 MB, more than what sockets hold
		c.flush(large(i))
		all := until(t, quick, "bookmark")
		for len(all) == 1 { // one that comes where nothing has happened for a while
			all = until(t, quick, "bookmark")
		}
		if len(all) != 2 {
			t.Fatalf("the other watch got %d events", len(all))
		}
	}
	resp, err := http.ReadResponse(bufio.NewReader(slow), nil)
	if err != nil {
		t.Fatal(err)
	}
	all := until(t, bufio.NewReader(resp.Body), "reset")
	if last := all[len(all)-1]; !strings.Contains(last.data.Reason, "too slow") || !last.hasID || last.id != "" {
		t.Errorf("it was told %+v", last)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("the watch ended with %v", err)
	}
}

// TestWatchThatNeverReadsIsCutOff: it holds its place and its connection no longer than an answer may take.
func TestWatchThatNeverReadsIsCutOff(t *testing.T) {
	c := newChanging(t, 1, sink.HistoryLimits{})
	c.Limits.Write, c.Limits.Watches = 100*time.Millisecond, 1
	address := serveAs(t, &Server{Handler: c})
	stuck := dial(t, address)
	fmt.Fprintf(stuck, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", watchCounts)
	cl := client(t, "tcp", address)
	pad := bytes.Repeat([]byte("x"), 1<<20)
	for i := 0; ; i++ {
		d := put(9, i)
		d.Row = fmt.Appendf(nil, `{"id":9,"n":%d,"pad":"%s"}`, i, pad)
		c.flush(d)
		resp, err := cl.Get("http://127.0.0.1" + watchCounts + "?timeout=0s&max_age=1h")
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == 200 && c.watching.n.Load() == 1 && i > 8 {
			resp.Body.Close()
			return // the other one was let go
		}
		b := &bytes.Buffer{}
		if resp.StatusCode == 503 {
			_, _ = b.ReadFrom(resp.Body)
			if !strings.Contains(b.String(), "1 watches run already") {
				t.Fatalf("%d %s", resp.StatusCode, b)
			}
		}
		resp.Body.Close()
		if i == 5000 {
			t.Fatal("a client that never reads is still there")
		}
	}
}

// TestManyWatches: 5,000 connections on one server hear of a change, and each costs little memory.
func TestManyWatches(t *testing.T) {
	const watches = 5000
	c := newChanging(t, 1, sink.HistoryLimits{})
	address := serveAs(t, &Server{Handler: c})
	var conns [watches]net.Conn
	before := inUse()
	request := []byte("GET " + watchCounts + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	for i := range conns {
		conns[i] = dial(t, address)
		if _, err := conns[i].Write(request); err != nil {
			t.Fatal(err)
		}
	}
	each(t, conns[:], "event: bookmark")
	idle := inUse()
	began := time.Now()
	c.flush(put(7, 70), gone(1))
	each(t, conns[:], count(7, 70))
	took := time.Since(began)
	after := inUse()
	t.Logf("%d bytes a watch, %d after a change; a change reached all in %s", (idle-before)/watches, (after-before)/watches, took)
	if each := (after - before) / watches; each > 64<<10 { // those of this test's own ends included
		t.Errorf("%d bytes a watch", each)
	}
}

// inUse is what is in use, stacks included.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// each reads from all connections up to a text.
func each(t *testing.T, conns []net.Conn, text string) {
	t.Helper()
	var wait sync.WaitGroup
	defer wait.Wait()
	const readers = 50
	for r := range readers {
		wait.Go(func() {
			b := make([]byte, 4096)
			for i := r; i < len(conns); i += readers {
				for seen := ""; !strings.Contains(seen, text); {
					n, err := conns[i].Read(b)
					if err != nil {
						t.Errorf("watch %d: %v after %q", i, err, seen)
						return
					}
					seen += string(b[:n])
				}
			}
		})
	}
}
