package api

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"strings"
)

// pageText is the status page: one file that holds its style and its script and asks this server alone.
//
//go:embed page.html
var pageText string

// pagePolicy lets a browser run the page's own script, by its hash, and ask this server; nothing else.
var pagePolicy = "default-src 'none'; connect-src 'self'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-" + inlineHash(pageText, "script") +
	"'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

// inlineHash gives the SHA-256 of the text within the only element of a name, as Content-Security-Policy takes it.
func inlineHash(page, name string) string {
	_, rest, _ := strings.Cut(page, "<"+name+">")
	text, _, _ := strings.Cut(rest, "</"+name+">")
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// getPage gives the status page. It holds no data, so it is given to everybody who may connect; what its script asks for is
// guarded as ever.
func (a *API) getPage(w http.ResponseWriter, r *http.Request) error {
	if err := noParams(r); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h["Cache-Control"] = noStore
	_, _ = w.Write([]byte(pageText)) // an error is the client's going away
	return nil
}
