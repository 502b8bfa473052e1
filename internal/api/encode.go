package api

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// coding is how the bytes of a body are coded on their way.
type coding uint8

const (
	identity coding = iota
	gzipped
	zstandard
)

// minCoded is the smallest body that is coded: below it fits one packet anyway, and coding costs more than it saves.
const minCoded = 1400

// codingNames are what Content-Encoding says; net/http reads the slices only.
var codingNames = [...][]string{gzipped: {"gzip"}, zstandard: {"zstd"}}

// varyCoding tells caches that the bytes depend on what the client accepts.
var varyCoding = []string{"Accept-Encoding"}

// codingFor picks the coding of a body of size bytes.
func codingFor(r *http.Request, size int) coding {
	if size < minCoded {
		return identity
	}
	return accepted(r.Header["Accept-Encoding"])
}

// accepted gives the coding that an Accept-Encoding header likes best, of two that it likes as much zstd. A client that
// takes none of ours, plain bytes included, gets those.
func accepted(header []string) coding {
	const unset = -1
	likes := [...]float64{identity: unset, gzipped: unset, zstandard: unset}
	rest := 0.0 // what "*" says of codings that are not named
	for _, line := range header {
		for item := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(item, ";")
			q := quality(params)
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "gzip", "x-gzip":
				likes[gzipped] = q
			case "zstd":
				likes[zstandard] = q
			case "identity":
				likes[identity] = q
			case "*":
				rest = q
			}
		}
	}
	best, most := identity, max(likes[identity], 0)
	for _, c := range []coding{gzipped, zstandard} {
		q := likes[c]
		if q == unset {
			q = rest
		}
		if q > 0 && q >= most {
			best, most = c, q
		}
	}
	return best
}

// quality reads ";q=0.5"; what is not written, or not to be understood, is 1 and 0.
func quality(params string) float64 {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return q
	}
	return 1
}

// tag gives the entity tag of a body in this coding. A strong tag names bytes, so each coding has its own; a weak one names
// what they mean, which is the same in all.
func (c coding) tag(etag string) string {
	if c == identity || strings.HasPrefix(etag, "W/") {
		return etag
	}
	return strings.TrimSuffix(etag, `"`) + "-" + codingNames[c][0] + `"`
}

// writeBody writes a JSON body of size bytes, which fill writes, in the coding that the client likes. An error of a write
// is the client's going away; a bufio.Writer keeps it until the end.
func writeBody(w http.ResponseWriter, r *http.Request, c coding, size int, fill func(*bufio.Writer)) {
	h := w.Header()
	h["Content-Type"] = jsonType
	if c == identity {
		h["Content-Length"] = []string{strconv.Itoa(size)}
	} else {
		h["Content-Encoding"] = codingNames[c]
	}
	if r.Method == http.MethodHead {
		return
	}
	b := writers.Get().(*bufio.Writer)
	defer writers.Put(b)
	defer b.Reset(nil) // so that the pool holds no connection
	if c == identity {
		b.Reset(w)
		fill(b)
		_ = b.Flush()
		return
	}
	e := coders[c].Get().(coder)
	defer coders[c].Put(e)
	e.Reset(w)
	b.Reset(e)
	fill(b)
	_ = b.Flush()
	_ = e.Close()
	e.Reset(io.Discard)
}

var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 64<<10) }}

// coder is a *gzip.Writer or a *zstd.Encoder.
type coder interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// coders are kept for the next answers. They are set for speed: the clients are near.
var coders = [...]*sync.Pool{
	gzipped: {New: func() any {
		e, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
		if err != nil {
			panic("gzip level: " + err.Error())
		}
		return coder(e)
	}},
	zstandard: {New: func() any {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(256<<10), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic("zstd options: " + err.Error())
		}
		return coder(e)
	}},
}
