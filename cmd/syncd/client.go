package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/syncd-io/syncd"
)

const defaultAddr = "http://127.0.0.1:7070"

// client asks a sidecar over HTTP.
type client struct {
	addr      string
	tokenFile string
	ca        string
	cert, key string

	http  *http.Client
	base  string
	token string
}

// flags adds what each client command takes.
func (c *client) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.addr, "addr", defaultAddr, "the sidecar: http://host:port, https://host:port or unix:/path/to/socket")
	f.StringVar(&c.tokenFile, "token-file", "", "file that holds the sidecar's token")
	f.StringVar(&c.ca, "ca", "", "file with the certificates that sign the sidecar's; default the system's")
	f.StringVar(&c.cert, "cert", "", "file with the certificate to show to the sidecar")
	f.StringVar(&c.key, "key", "", "file with the key of --cert")
}

// open reads the flags. It connects to nothing.
func (c *client) open() error {
	tr := &http.Transport{Proxy: nil}
	c.http = &http.Client{Transport: tr}
	if path, ok := strings.CutPrefix(c.addr, "unix:"); ok {
		c.base = "http://syncd"
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	} else {
		if !strings.Contains(c.addr, "://") {
			c.addr = "http://" + c.addr
		}
		u, err := url.Parse(c.addr)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return usage(fmt.Errorf("--addr %q: want http://host:port, https://host:port or unix:/path/to/socket", c.addr))
		}
		c.base = strings.TrimSuffix(c.addr, "/")
	}
	if c.tokenFile != "" {
		b, err := os.ReadFile(c.tokenFile)
		if err != nil {
			return usage(fmt.Errorf("--token-file: %w", err))
		}
		c.token = strings.TrimSpace(string(b))
	}
	return c.openTLS(tr)
}

func (c *client) openTLS(tr *http.Transport) error {
	if c.ca == "" && c.cert == "" && c.key == "" {
		return nil
	}
	tr.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if c.ca != "" {
		pem, err := os.ReadFile(c.ca)
		if err != nil {
			return usage(fmt.Errorf("--ca: %w", err))
		}
		tr.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !tr.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return usage(fmt.Errorf("--ca %s: it holds no PEM certificate", c.ca))
		}
	}
	if c.cert != "" || c.key != "" {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return usage(fmt.Errorf("--cert and --key: %w", err))
		}
		tr.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// close gives up idle connections.
func (c *client) close() { c.http.CloseIdleConnections() }

// do sends a request and gives the body of its answer. An answer that says no is an answerError.
func (c *client) do(ctx context.Context, method, path string) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, nil)
	if err != nil {
		return nil, nil, usage(fmt.Errorf("--addr %q: %w", c.addr, err))
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, nil, c.unreached(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, nil, c.unreached(ctx, err)
	}
	if resp.StatusCode/100 != 2 {
		return body, resp.Header, &answerError{status: resp.StatusCode, text: errorText(body)}
	}
	return body, resp.Header, nil
}

func (c *client) unreached(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return unreachable(fmt.Errorf("no sidecar answers at %s: %w; is it running? --addr names another", c.addr, err))
}

// get asks for a JSON value.
func (c *client) get(ctx context.Context, path string, into any) error {
	body, _, err := c.do(ctx, http.MethodGet, path)
	if err != nil {
		return exitOf(err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return unreachable(fmt.Errorf("%s%s does not answer as a sidecar does: %w", c.addr, path, err))
	}
	return nil
}

// answerError is an answer that says no.
type answerError struct {
	status int
	text   string
	after  time.Duration // what Retry-After says; 0: nothing
}

func (e *answerError) Error() string { return e.text }

// errorText gives what {"error": …} says, or the answer's first line.
func errorText(body []byte) string {
	var v struct{ Error string }
	if json.Unmarshal(body, &v) == nil && v.Error != "" {
		return v.Error
	}
	line, _, _ := bytes.Cut(bytes.TrimSpace(body), []byte("\n"))
	if len(line) > 200 {
		line = line[:200]
	}
	return fmt.Sprintf("it does not answer as a sidecar does: %q", line)
}

// exitOf gives an error its exit status: what is wrong with the question is 2, a source that the sidecar can't reach 3.
func exitOf(err error) error {
	var a *answerError
	if !errors.As(err, &a) {
		return err
	}
	switch a.status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusMisdirectedRequest:
		return usage(err)
	case http.StatusBadGateway:
		return unreachable(err)
	}
	return no(err)
}

// tablePath gives the path of a table as a person wrote it.
func tablePath(name string) (string, error) {
	t, err := syncd.ParseTable(name)
	if err != nil {
		return "", usage(err)
	}
	return "/v1/tables/" + url.PathEscape(t.String()), nil
}

// freshness are the parameters that every read takes.
type freshness struct{ minVersion, timeout, maxAge string }

func (f *freshness) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.minVersion, "min-version", "", "wait until the cache has reached this LSN or version")
	cmd.Flags().StringVar(&f.timeout, "timeout", "", "how long to wait for --min-version (default 5s, at most 5m)")
	cmd.Flags().StringVar(&f.maxAge, "max-age", "", "take no answer older than this, such as 30s")
}

func (f *freshness) add(q url.Values) {
	for name, v := range map[string]string{"min_version": f.minVersion, "timeout": f.timeout, "max_age": f.maxAge} {
		if v != "" {
			q.Set(name, v)
		}
	}
}

func withQuery(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
