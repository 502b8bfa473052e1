package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/syncd-io/syncd"
)

// maxReads is how many tables one POST /v1/read may name.
const maxReads = 100

// readRequest is the body of POST /v1/read.
type readRequest struct {
	Reads []readItem `json:"reads"`
}

// readItem asks for rows under keys, or for a page as GET …/rows gives it.
type readItem struct {
	Table    string                `json:"table"`
	Keys     *[][]keyValue         `json:"keys"`
	Filter   map[string]conditions `json:"filter"` // by column, as in a query
	Select   *string               `json:"select"`
	Limit    *int                  `json:"limit"`
	Continue *string               `json:"continue"`
}

// conditions are one condition on a column, or several in a list.
type conditions []string

func (c *conditions) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*c = make(conditions, 1)
		return json.Unmarshal(b, &(*c)[0])
	}
	if json.Unmarshal(b, (*[]string)(c)) != nil || len(*c) == 0 {
		return fmt.Errorf("%s is no condition on a column: want a text such as \"eq.7\", or a list of them", cut(b))
	}
	return nil
}

// keyValue is a value of a key: a JSON text, or a number or truth value as it is written.
type keyValue string

func (v *keyValue) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*v = keyValue(s)
	case 'n', '[', '{':
		return fmt.Errorf("%s is no value of a key: want a text, a number, true or false", cut(b))
	default:
		*v = keyValue(b)
	}
	return nil
}

// cut gives the beginning of a text for a message.
func cut(b []byte) string {
	if len(b) > 60 {
		return strings.ToValidUTF8(string(b[:60]), "") + "…"
	}
	return string(b)
}

// readBody reads a request's whole body.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if c := r.Header.Get("Content-Encoding"); c != "" && c != "identity" {
		return nil, &failure{status: http.StatusUnsupportedMediaType, text: fmt.Sprintf("Content-Encoding %q: send the body as it is", c)}
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, &failure{status: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("the body is longer than %d bytes: ask in several requests", tooLarge.Limit)}
	}
	if err != nil {
		return nil, badRequest(fmt.Errorf("body: %w", err))
	}
	return b, nil
}

// parseReads reads the body of POST /v1/read.
func parseReads(body []byte) ([]part, error) {
	const form = `want {"reads":[{"table":"public.users","keys":[["1"],["2"]]},{"table":"public.orders","limit":10}]}`
	if !utf8.Valid(body) {
		return nil, errors.New("body: it is not UTF-8")
	}
	var q readRequest
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return nil, fmt.Errorf("body: %s; %s", jsonError(err), form)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("body: something follows the JSON object, at byte %d", d.InputOffset())
	}
	switch {
	case len(q.Reads) == 0:
		return nil, fmt.Errorf("body: \"reads\" is missing or empty; %s", form)
	case len(q.Reads) > maxReads:
		return nil, fmt.Errorf("body: %d reads, and at most %d are answered at once", len(q.Reads), maxReads)
	}
	parts := make([]part, len(q.Reads))
	rows := 0
	for i := range q.Reads {
		p, err := q.Reads[i].part()
		if err != nil {
			return nil, fmt.Errorf("body: reads[%d]: %w", i, err)
		}
		p.name = fmt.Sprintf("reads[%d]", i)
		if rows += len(p.keys); p.keys == nil {
			rows += p.page.limit
		}
		parts[i] = p
	}
	if rows > maxKeys {
		return nil, fmt.Errorf("body: the keys and limits of all reads come to %d rows, and at most %d are answered at once (a read without keys and limit counts %d)",
			rows, maxKeys, defaultLimit)
	}
	return parts, nil
}

func (i *readItem) part() (p part, err error) {
	if p.table, err = syncd.ParseTable(i.Table); err != nil {
		return p, err
	}
	p.page.limit = defaultLimit
	if i.Select != nil {
		p.page.search.columns, p.page.search.selects = *i.Select, true
	}
	for column, all := range i.Filter {
		if p.page.search.conditions == nil {
			p.page.search.conditions = make(map[string][]string, len(i.Filter))
		}
		p.page.search.conditions[column] = all
	}
	if i.Keys != nil {
		if i.Limit != nil || i.Continue != nil || len(i.Filter) > 0 {
			return p, errors.New("keys go with neither filter, limit nor continue: all rows under them are sent")
		}
		p.keys, err = keyValues(*i.Keys)
		return p, err
	}
	if i.Limit != nil {
		if *i.Limit < 1 {
			return p, fmt.Errorf("limit: %d is not a number of rows: want 1 to %d", *i.Limit, maxLimit)
		}
		p.page.limit = min(*i.Limit, maxLimit)
	}
	if i.Continue != nil {
		p.page.started = true
		if p.page.after, err = parseContinue(*i.Continue); err != nil {
			return p, fmt.Errorf("continue: %w", err)
		}
	}
	return p, nil
}

func keyValues(keys [][]keyValue) ([][]string, error) {
	out := make([][]string, len(keys)) // not nil, also where there are none
	for i, key := range keys {
		if len(key) == 0 {
			return nil, fmt.Errorf("keys[%d]: it has no value: want [\"1\"]", i)
		}
		for _, v := range key {
			if err := checkValue(string(v), false); err != nil {
				return nil, fmt.Errorf("keys[%d]: %w", i, err)
			}
			out[i] = append(out[i], string(v))
		}
	}
	return out, nil
}

// jsonError says what is wrong with a JSON text in words that name the place.
func jsonError(err error) string {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("not JSON at byte %d: %v", e.Offset, e)
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%s is a JSON %s, at byte %d, which does not belong there", cmp.Or(e.Field, "the whole"), e.Value, e.Offset)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends in the middle"
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}
