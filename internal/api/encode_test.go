package api

import (
	"compress/gzip"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestAcceptEncoding(t *testing.T) {
	for header, want := range map[string]coding{
		"": identity, "br": identity, "gzip": gzipped, "x-gzip": gzipped, "zstd": zstandard, "GZIP , br": gzipped,
		"gzip, deflate, br, zstd": zstandard, "gzip;q=1.0, zstd;q=0.5": gzipped, "gzip;q=0": identity, "*": zstandard,
		"*, zstd;q=0": gzipped, "*;q=0": identity, "gzip;q=0.5, identity": identity, "gzip;q=0.5, identity;q=0.2": gzipped,
		"identity;q=0": identity, "gzip;q=2": identity, "gzip;q=NaN": identity, "gzip;q=x": identity, "gzip; Q = 0.3": gzipped, ";;,,": identity,
	} {
		if got := accepted([]string{header}); got != want {
			t.Errorf("%q: %d, want %d", header, got, want)
		}
	}
	if got := accepted(nil); got != identity {
		t.Errorf("no header: %d", got)
	}
	if got := accepted([]string{"br", "gzip"}); got != gzipped {
		t.Errorf("two headers: %d", got)
	}
}

// decoded gives a body as the client reads it.
func decoded(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var r io.Reader = w.Body
	switch c := w.Header().Get("Content-Encoding"); c {
	case "gzip":
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		r = z
	case "zstd":
		z, err := zstd.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		r = z
	case "":
	default:
		t.Fatalf("Content-Encoding %q", c)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestBodiesAreCodedAsTheClientLikes(t *testing.T) {
	long := `{"id":42,"name":"` + strings.Repeat("Ann ", 1000) + `"}`
	r := newRig(t)
	r.cache.commit(func(v *fakeView) { v.put(users, "42", long); v.put(users, "1", `{"id":1}`) })
	for _, path := range []string{row42, "/v1/tables/public.users/rows"} {
		plain := r.do("GET", path)
		tags := map[string]bool{plain.Header().Get("ETag"): true}
		for range 2 { // the second from the pool
			for _, name := range []string{"gzip", "zstd"} {
				w := r.do("GET", path, "Accept-Encoding", name)
				wantStatus(t, w, 200)
				if w.Header().Get("Content-Encoding") != name || w.Header().Get("Vary") != "Accept-Encoding" || w.Header().Get("Content-Length") != "" {
					t.Errorf("%s: headers %v", path, w.Header())
				}
				if w.Body.Len() > len(long)/4 {
					t.Errorf("%s in %s: %d bytes", path, name, w.Body.Len())
				}
				if got := decoded(t, w); got != plain.Body.String() {
					t.Errorf("%s in %s: %q", path, name, got)
				}
				etag := w.Header().Get("ETag")
				tags[etag] = true
				again := r.do("GET", path, "Accept-Encoding", name, "If-None-Match", etag)
				wantStatus(t, again, 304)
				if again.Header().Get("ETag") != etag || again.Header().Get("Content-Encoding") != "" || again.Header().Get("Vary") == "" {
					t.Errorf("%s: a 304 with %v", path, again.Header())
				}
			}
		}
		// A strong tag is of bytes: each coding has its own. The weak one of pages is of what they mean.
		if want := map[bool]int{true: 1, false: 3}[strings.HasPrefix(plain.Header().Get("ETag"), "W/")]; len(tags) != want {
			t.Errorf("%s: tags %v", path, tags)
		}
	}
	wantStatus(t, r.do("GET", row42, "If-None-Match", r.do("GET", row42).Header().Get("ETag"), "Accept-Encoding", "gzip"), 200)
	small := r.do("GET", "/v1/tables/public.users/rows/1", "Accept-Encoding", "gzip")
	if small.Header().Get("Content-Encoding") != "" || small.Body.String() != `{"id":1}` {
		t.Errorf("a small row: %v %s", small.Header(), small.Body)
	}
	head := r.do("HEAD", row42, "Accept-Encoding", "gzip")
	if head.Header().Get("Content-Encoding") != "gzip" || head.Body.Len() != 0 {
		t.Errorf("HEAD: %v, %d bytes", head.Header(), head.Body.Len())
	}
}
