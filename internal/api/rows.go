package api

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// getRow answers with the bytes of one row.
func (a *API) getRow(w http.ResponseWriter, r *http.Request, at route) error {
	t, q, err := readOf(r, at, rowParams)
	if err != nil {
		return err
	}
	if at.key == "" {
		return &failure{status: http.StatusBadRequest, text: `the key is missing: rows/{KEY}; the empty text is written %22%22`}
	}
	ans, key, err := a.open(w, r, scope{t, at.key}, &q)
	if err != nil {
		return err
	}
	entry, _ := ans.view.Get(t, key)
	err = unread(ans.view)
	ans.view.Close()
	if err != nil {
		return err
	}
	a.setHeaders(w.Header(), &ans)
	if entry.Row == nil {
		return &failure{status: http.StatusNotFound, text: fmt.Sprintf("no row %s in %s", key, t)}
	}
	etag := appendETag(make([]byte, 0, 24), syncd.RowDigest(key, entry.Row))
	writeTagged(w, r, string(etag), entry.Row)
	return nil
}

// readOf reads what a read is of.
func readOf(r *http.Request, at route, known []string) (syncd.Table, readParams, error) {
	t, err := parseTable(at.table)
	if err != nil {
		return t, readParams{}, badRequest(err)
	}
	q, err := parseRead(r.URL.RawQuery, known)
	if err != nil {
		return t, q, badRequest(err)
	}
	return t, q, nil
}

// searchOf reads what a read of a table's rows is of.
func searchOf(r *http.Request, at route) (syncd.Table, readParams, error) {
	t, err := parseTable(at.table)
	if err != nil {
		return t, readParams{}, badRequest(err)
	}
	q, err := parseSearch(r.URL.RawQuery)
	if err != nil {
		return t, q, badRequest(err)
	}
	return t, q, nil
}

// writeTagged writes a body under its entity tag, or 304 where the client has it.
func writeTagged(w http.ResponseWriter, r *http.Request, etag string, body []byte) {
	h := w.Header()
	c := codingFor(r, len(body))
	etag = c.tag(etag)
	h["Etag"] = []string{etag}
	h["Cache-Control"] = noCache
	h["Vary"] = varyCoding
	if matches(r.Header["If-None-Match"], etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if c != identity {
		writeBody(w, r, c, len(body), func(b *bufio.Writer) { _, _ = b.Write(body) })
		return
	}
	h["Content-Type"] = jsonType
	if len(body) > 2000 { // net/http counts what fits its buffer by itself
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	_, _ = w.Write(body) // an error is the client's going away
}

// noCache lets clients keep an answer and ask with its ETag whether it still holds.
var noCache = []string{"no-cache"}

// appendETag writes a strong entity tag.
func appendETag(b []byte, digest uint64) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, hex[digest>>shift&15])
	}
	return append(b, '"')
}

// matches says whether an If-None-Match header names etag, by weak comparison as RFC 9110 asks.
func matches(header []string, etag string) bool {
	for _, line := range header {
		for tag := range strings.SplitSeq(line, ",") {
			tag = strings.TrimSpace(tag)
			if tag == "*" || strings.TrimPrefix(tag, "W/") == strings.TrimPrefix(etag, "W/") {
				return true
			}
		}
	}
	return false
}

// listRows answers with one page of a table, all of one commit, in the order of the keys' hashes.
func (a *API) listRows(w http.ResponseWriter, r *http.Request, at route) error {
	t, q, err := searchOf(r, at)
	if err != nil {
		return err
	}
	if q.keys != nil {
		return a.listKeys(w, r, t, &q)
	}
	ans, _, err := a.open(w, r, scope{table: t}, &q)
	if err != nil {
		return err
	}
	view := &attended{View: ans.view, client: r.Context()}
	p := readPage(view, t, &q)
	err = unread(view)
	ans.view.Close()
	if err != nil {
		return err
	}
	a.setHeaders(w.Header(), &ans)
	p.write(w, r, ans.through)
	return nil
}

// page is one page of rows. The rows are the cache's own bytes.
type page struct {
	rows   [][]byte
	digest uint64 // of all rows, in order
	next   string // the continue token; empty on the last page
}

func readPage(v sink.View, t syncd.Table, q *readParams) page {
	p := page{rows: make([][]byte, 0, min(q.limit, defaultLimit))}
	from := uint64(0)
	if q.started {
		from = q.after.Hash()
	}
	var last syncd.Key
	sink.Matching(v, t, q.search.filter, from, func(k syncd.Key, e sink.Entry) bool {
		if q.started && k.Hash() == from && k <= q.after {
			return true
		}
		if len(p.rows) == q.limit {
			p.next = continueToken(last)
			return false
		}
		row := q.search.row(e.Row)
		p.rows = append(p.rows, row)
		p.digest = p.digest*31 + syncd.RowDigest(k, row)
		last = k
		return true
	})
	return p
}

// write writes the page. Its entity tag is weak: it stands for the rows and not for the version they are said to be of,
// which moves on with every marker.
func (p *page) write(w http.ResponseWriter, r *http.Request, through syncd.Position) {
	version, _ := json.Marshal(through.String())
	head := `{"version":` + string(version) + `,"items":[`
	tail := "]}\n"
	if p.next != "" {
		tail = `],"continue":"` + p.next + "\"}\n"
	}
	size := len(head) + len(tail) + rowsSize(p.rows)
	writeWeak(w, r, syncd.RowDigest(syncd.Key(p.next), nil)+p.digest, size, func(b *bufio.Writer) {
		_, _ = b.WriteString(head)
		writeRows(b, p.rows)
		_, _ = b.WriteString(tail)
	})
}

// writeWeak writes a body under a weak entity tag, or 304 where the client has it.
func writeWeak(w http.ResponseWriter, r *http.Request, hash uint64, size int, fill func(*bufio.Writer)) {
	h := w.Header()
	h["Etag"] = []string{"W/" + string(appendETag(nil, hash))}
	h["Cache-Control"] = noCache
	h["Vary"] = varyCoding
	if matches(r.Header["If-None-Match"], h["Etag"][0]) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	writeBody(w, r, codingFor(r, size), size, fill)
}

// rowsSize is how many bytes writeRows writes.
func rowsSize(rows [][]byte) int {
	size := max(len(rows)-1, 0)
	for _, row := range rows {
		size += len(row)
	}
	return size
}

// writeRows writes rows with commas between them.
func writeRows(b *bufio.Writer, rows [][]byte) {
	for i, row := range rows {
		if i > 0 {
			_ = b.WriteByte(',')
		}
		_, _ = b.Write(row)
	}
}
