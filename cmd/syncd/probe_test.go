package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"error":"public.people is being listed"}`))
		}
	}))
	defer s.Close()
	invoke(t, "probe", "--addr", s.URL, "--live").want(t, 0)
	invoke(t, "probe", "--addr", s.URL).want(t, exitNo, "public.people is being listed")
	s.Close()
	invoke(t, "probe", "--addr", s.URL).want(t, exitUnreachable, "no sidecar answers")
}

// TestMan: there is a page for each command that is shown, and none names a directory of the machine that made it.
func TestMan(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man1")
	invoke(t, "man", dir).want(t, 0)
	for _, c := range newRoot(new(bool)).Commands() {
		text, err := os.ReadFile(filepath.Join(dir, "syncd-"+c.Name()+".1"))
		if c.Hidden {
			continue
		}
		if err != nil || !strings.Contains(string(text), "\nsyncd-"+c.Name()+" - ") {
			t.Errorf("the page of %s: %v: %s", c.Name(), err, text)
		}
	}
}
