package api

import (
	"testing"
)

func TestToken(t *testing.T) {
	r := newRig(t)
	r.Access.Token = &Token{}
	wantStatus(t, r.do("GET", row42), 200)
	r.Access.Token.Set("s3cret")
	for _, target := range []string{row42, "/v1/tables", "/v1/status", "/metrics"} {
		w := r.do("GET", target)
		wantStatus(t, w, 401, "token_file")
		if w.Header().Get("WWW-Authenticate") != "Bearer" {
			t.Error("a 401 without WWW-Authenticate")
		}
		for _, wrong := range []string{"Bearer", "Bearer ", "Bearer s3cre", "Bearer s3cret2", "Basic s3cret", "s3cret"} {
			wantStatus(t, r.do("GET", target, "Authorization", wrong), 401)
		}
		for _, right := range []string{"Bearer s3cret", "bearer  s3cret"} {
			wantStatus(t, r.do("GET", target, "Authorization", right), 200)
		}
	}
	wantStatus(t, r.do("POST", "/v1/tables/public.users/resync"), 401)
	wantStatus(t, r.do("GET", "/healthz"), 200)
	wantStatus(t, r.do("GET", "/readyz"), 200)
	r.Access.Token.Set("other")
	wantStatus(t, r.do("GET", row42, "Authorization", "Bearer s3cret"), 401)
}

func TestLocalOnly(t *testing.T) {
	r := newRig(t)
	r.Access.LocalOnly = true
	for host, status := range map[string]int{
		"127.0.0.1:7070": 200, "127.9.9.9": 200, "localhost:7070": 200, "LOCALHOST": 200, "[::1]:7070": 200, "[::1]": 200,
		"evil.example:7070": 421, "evil.example": 421, "10.0.0.1:7070": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example:80": 421,
	} {
		if w := r.do("GET", "http://"+host+row42); w.Code != status {
			t.Errorf("host %s: %d, want %d", host, w.Code, status)
		}
	}
	r.Access.LocalOnly = false
	wantStatus(t, r.do("GET", "http://evil.example"+row42), 200)
}

func TestOtherSitesMayNotResync(t *testing.T) {
	r := newRig(t)
	const target = "http://127.0.0.1:7070/v1/tables/public.users/resync"
	wantStatus(t, r.do("POST", target, "Sec-Fetch-Site", "cross-site"), 403)
	wantStatus(t, r.do("POST", target, "Origin", "http://evil.example"), 403)
	wantStatus(t, r.do("POST", target, "Sec-Fetch-Site", "same-origin"), 200)
	wantStatus(t, r.do("POST", target), 200)
}

func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:7070": true, "localhost:0": true, "[::1]:7070": true, "unix:/run/s.sock": true,
		":7070": false, "0.0.0.0:7070": false, "10.1.2.3:7070": false, "example.com:80": false, "nonsense": false,
	} {
		if got := Loopback(address); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}
