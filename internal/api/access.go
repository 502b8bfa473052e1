package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
)

// Access says who is let in.
type Access struct {
	// Token, where it is set and holds one, is what requests must bear; probes need none.
	Token *Token
	// LocalOnly refuses requests for another host than this machine's own names. It is for a server on a loopback address
	// without a token: a web page that a browser on this machine shows can name the address, or have a name of its own
	// resolve to it.
	LocalOnly bool
}

// Token is a bearer token that may be changed while requests are checked. The zero Token lets everybody in.
type Token struct {
	sum atomic.Pointer[[sha256.Size]byte]
}

// Set makes text the token from now on; the empty text lets everybody in.
func (t *Token) Set(text string) {
	if text == "" {
		t.sum.Store(nil)
		return
	}
	sum := sha256.Sum256([]byte(text))
	t.sum.Store(&sum)
}

// allows compares the sums, which are of one length, in constant time.
func (t *Token) allows(r *http.Request) bool {
	want := t.sum.Load()
	if want == nil {
		return true
	}
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	have := sha256.Sum256([]byte(strings.TrimSpace(text)))
	return subtle.ConstantTimeCompare(have[:], want[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

var crossOrigin = http.NewCrossOriginProtection()

func (a *Access) check(r *http.Request, e endpoint) error {
	if e == healthz || e == readyz {
		return nil
	}
	if a.Token != nil && e != statusPage && !a.Token.allows(r) {
		return &failure{status: http.StatusUnauthorized, text: "a token is required: send \"Authorization: Bearer …\" with what sidecar.token_file holds"}
	}
	if a.LocalOnly && !localHost(r.Host) {
		return &failure{status: http.StatusMisdirectedRequest, text: fmt.Sprintf("this server is for this machine alone and not for host %q: ask 127.0.0.1 or localhost, or configure sidecar.token_file", r.Host)}
	}
	if err := crossOrigin.Check(r); err != nil {
		return &failure{status: http.StatusForbidden, text: "a page of another site may not ask for this"}
	}
	return nil
}

// localHost says whether a Host header names this machine's loopback.
func localHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if name == "" || strings.EqualFold(name, "localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}
