package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// events writes the events of one watch in the form of text/event-stream. It holds a buffer only while there is something in
// it. The first error stays, and flush gives it.
type events struct {
	w      http.ResponseWriter
	give   *http.ResponseController
	within time.Duration // to write what is in the buffer
	b      *bufio.Writer // nil: nothing to be written
	broken error
	line   []byte
}

func newEvents(w http.ResponseWriter, within time.Duration) *events {
	return &events{w: w, give: http.NewResponseController(w), within: within}
}

// Write has what comes from the buffer written in time, or gives the client up.
func (e *events) Write(p []byte) (int, error) {
	_ = e.give.SetWriteDeadline(time.Now().Add(e.within)) // a writer without deadlines needs none
	return e.w.Write(p)
}

func (e *events) buffer() *bufio.Writer {
	if e.b == nil {
		e.b = writers.Get().(*bufio.Writer)
		e.b.Reset(e)
	}
	return e.b
}

// flush writes what is in the buffer to the client, and gives the buffer back.
func (e *events) flush() error {
	if e.b == nil {
		return e.broken
	}
	err := e.b.Flush()
	if err == nil {
		err = e.give.Flush()
	}
	e.b.Reset(nil)
	writers.Put(e.b)
	e.b, e.line = nil, nil
	if e.broken == nil {
		e.broken = err
	}
	return e.broken
}

// err gives the error of what was written before the last flush, or what overflowed the buffer since.
func (e *events) err() error {
	if e.broken == nil && e.b != nil {
		_, e.broken = e.b.Write(nil)
	}
	return e.broken
}

// retry has clients that reconnect by themselves do it soon.
func (e *events) retry() { _, _ = e.buffer().WriteString("retry: 1000\n\n") }

func (e *events) upsert(k syncd.Key, version string, row []byte, repair sink.Kind) {
	e.line = append(e.change(k, version, "upsert"), `,"row":`...)
	e.line = appendLines(e.line, row)
	e.end(repair)
}

func (e *events) delete(k syncd.Key, version string, repair sink.Kind) {
	e.line = e.change(k, version, "delete")
	e.end(repair)
}

func (e *events) change(k syncd.Key, version, name string) []byte {
	b := append(e.line[:0], "event: "...)
	b = append(b, name...)
	b = append(b, "\ndata: {\"key\":["...)
	for i, v := range k.Values() {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, v)
	}
	b = append(b, `],"version":"`...)
	b = append(b, version...)
	return append(b, '"')
}

func (e *events) end(repair sink.Kind) {
	if repair != sink.NoRepair {
		e.line = append(append(append(e.line, `,"repair":"`...), repair...), '"')
	}
	e.line = append(e.line, "}\n\n"...)
	_, _ = e.buffer().Write(e.line)
}

// bookmark says that the client has all up to a version, and how old that is; negative: there is more at once.
func (e *events) bookmark(id syncd.Version, through syncd.Position, age time.Duration) {
	b := append(e.line[:0], "id: "...)
	b = id.Append(b)
	b = append(b, "\nevent: bookmark\ndata: {\"version\":\""...)
	b = append(through.Append(b), '"')
	if age >= 0 {
		b = appendSeconds(append(b, `,"age_seconds":`...), age)
	}
	e.line = append(b, "}\n\n"...)
	_, _ = e.buffer().Write(e.line)
}

// reset says that what the client has is void. The empty id has clients that reconnect by themselves begin anew.
func (e *events) reset(why string) {
	b := append(e.line[:0], "id:\nevent: reset\ndata: {\"reason\":"...)
	b = appendText(b, why)
	e.line = append(b, "}\n\n"...)
	_, _ = e.buffer().Write(e.line)
}

// appendText writes a JSON string.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic("a string: " + err.Error())
			}
			return append(b, quoted...)
		}
	}
	return strconv.AppendQuote(b, s)
}

// appendLines writes the JSON of a row. Where a value of type json holds line breaks, each of its lines is a line of data, as
// text/event-stream wants it.
func appendLines(b, row []byte) []byte {
	for {
		i := bytes.IndexAny(row, "\r\n")
		if i < 0 {
			return append(b, row...)
		}
		b = append(append(b, row[:i]...), "\ndata: "...)
		if row[i] == '\r' && i+1 < len(row) && row[i+1] == '\n' {
			i++
		}
		row = row[i+1:]
	}
}
