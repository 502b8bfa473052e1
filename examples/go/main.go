// Command go is a client of a syncd sidecar, of Go's standard library alone.
//
//	go run ./examples/go ADDR read TABLE KEY [MIN_VERSION]   one row; exit status 1 where there is none
//	go run ./examples/go ADDR many TABLE KEY...              the rows under these keys, of one commit
//	go run ./examples/go ADDR watch TABLE COUNT [SINCE]      the first COUNT changes behind the version SINCE; else the rows, then their changes
//
// KEY is the key's value; of a key of several columns its values in key order, joined by commas. A token, where the sidecar wants
// one, is taken from SYNCD_TOKEN.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Sidecar asks one sidecar.
type Sidecar struct {
	Addr  string // such as http://127.0.0.1:7070
	Token string
	HTTP  *http.Client
}

// AnswerError is an answer other than the one asked for. It says what to do.
type AnswerError struct {
	Status int
	Text   string
}

func (e *AnswerError) Error() string { return e.Text }

// do asks for a path. The caller closes the answer's body.
func (s *Sidecar) do(ctx context.Context, method, path string, params url.Values, body []byte, lastID string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.Addr+path+"?"+params.Encode(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if s.Token != "" {
		req.Header.Set("Authorization", "Bearer "+s.Token)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := s.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	var e struct{ Error string }
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil {
		return nil, fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return nil, &AnswerError{resp.StatusCode, e.Error}
}

// Get gives the row under a key, its values in key order, and nil where there is none. Where minVersion is set it waits
// until the cache is there.
func (s *Sidecar) Get(ctx context.Context, table string, key []string, minVersion string) (json.RawMessage, error) {
	params := url.Values{}
	if minVersion != "" {
		params.Set("min_version", minVersion)
	}
	resp, err := s.do(ctx, http.MethodGet, tablePath(table)+"/rows/"+keyPath(key), params, nil, "")
	if e, ok := errors.AsType[*AnswerError](err); ok && e.Status == http.StatusNotFound && strings.HasPrefix(e.Text, "no row") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// Read is one table's share of ReadAll.
type Read struct {
	Table string     `json:"table"`
	Keys  [][]string `json:"keys"`
}

// Result is what one Read found.
type Result struct {
	Items   []json.RawMessage
	Missing [][]string
}

// ReadAll reads several tables and keys from one commit.
func (s *Sidecar) ReadAll(ctx context.Context, reads ...Read) ([]Result, error) {
	body, err := json.Marshal(map[string]any{"reads": reads})
	if err != nil {
		return nil, err
	}
	resp, err := s.do(ctx, http.MethodPost, "/v1/read", nil, body, "")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var out struct{ Results []Result }
	return out.Results, json.NewDecoder(resp.Body).Decode(&out)
}

// Event is what a watch sends.
type Event struct {
	Kind   string // upsert, delete, bookmark or reset; a reset voids all that came before
	ID     string `json:"-"`
	Key    []string
	Row    json.RawMessage
	Reason string
}

// Watch calls fn for each event, over as many connections as it takes, until fn gives false or the watch can't go on. It
// begins behind the version since, or with the rows where that is empty.
func (s *Sidecar) Watch(ctx context.Context, table, since string, fn func(Event) bool) error {
	params, last := url.Values{"list": {"true"}}, ""
	if since != "" {
		params = url.Values{"since": {since}}
	}
	for {
		more, err := s.watchOnce(ctx, table, params, &last, fn)
		if !more || ctx.Err() != nil {
			return err
		}
		if last != "" { // where the watch goes on; where that is forgotten, with the rows
			params = url.Values{"list": {"true"}}
		}
		e, answered := errors.AsType[*AnswerError](err)
		switch {
		case answered && e.Status == http.StatusGone:
			params, last = url.Values{"list": {"true"}}, ""
			if !fn(Event{Kind: "reset", Reason: e.Text}) {
				return nil
			}
			continue
		case answered && e.Status < 500:
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// watchOnce reads one connection's events, and says whether there are to be more.
func (s *Sidecar) watchOnce(ctx context.Context, table string, params url.Values, last *string, fn func(Event) bool) (bool, error) {
	resp, err := s.do(ctx, http.MethodGet, tablePath(table)+"/watch", params, nil, *last)
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	var e Event
	var data []string
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return true, err
		}
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			e.Kind = value
		case "id":
			e.ID = value
		case "data":
			data = append(data, value)
		case "":
			if len(data) == 0 {
				continue // a comment
			}
			if err := json.Unmarshal([]byte(strings.Join(data, "\n")), &e); err != nil {
				return false, fmt.Errorf("read an event: %w", err)
			}
			if e.ID != "" {
				*last = e.ID
			}
			if e.Kind == "reset" {
				*last = ""
			}
			if !fn(e) {
				return false, nil
			}
			e, data = Event{}, nil
		}
	}
}

func tablePath(table string) string { return "/v1/tables/" + url.PathEscape(table) }

// keyPath gives a key as a path carries it.
func keyPath(values []string) string {
	out := make([]string, len(values))
	for i, v := range values {
		switch {
		case v == "." || v == "..":
			out[i] = strings.ReplaceAll(v, ".", "%2E")
		case len(v) != 1 && strings.Trim(v, `"`) == "":
			out[i] = strings.Repeat("%22", len(v)+2)
		default:
			out[i] = strings.ReplaceAll(url.QueryEscape(v), "+", "%20")
		}
	}
	return strings.Join(out, ",")
}

func main() {
	status, err := run(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = max(status, 1)
	}
	os.Exit(status)
}

func run(ctx context.Context, args []string) (status int, err error) {
	if len(args) < 4 {
		return 2, errors.New("usage: ADDR read TABLE KEY [MIN_VERSION] | ADDR many TABLE KEY... | ADDR watch TABLE COUNT [SINCE]")
	}
	s := &Sidecar{Addr: strings.TrimSuffix(args[0], "/"), Token: os.Getenv("SYNCD_TOKEN"), HTTP: &http.Client{}}
	table, first, more := args[2], args[3], append(args[4:], "")
	switch args[1] {
	case "read":
		// A service writes, takes SELECT pg_current_wal_insert_lsn(), and reads its own write with that as min_version.
		row, err := s.Get(ctx, table, strings.Split(first, ","), more[0])
		if err != nil || row == nil {
			return 1, err
		}
		fmt.Printf("%s\n", row)
	case "many":
		r := Read{Table: table}
		for _, k := range args[3:] {
			r.Keys = append(r.Keys, strings.Split(k, ","))
		}
		results, err := s.ReadAll(ctx, r)
		if err != nil {
			return 1, err
		}
		for _, row := range results[0].Items {
			fmt.Printf("%s\n", row)
		}
		for _, key := range results[0].Missing {
			fmt.Println("missing", keyPath(key))
		}
	case "watch":
		left, err := strconv.Atoi(first)
		if err != nil || left < 1 {
			return 2, fmt.Errorf("COUNT %s is not how many changes to wait for: want 1 or more", first)
		}
		return 0, s.Watch(ctx, table, more[0], func(e Event) bool {
			switch e.Kind {
			case "upsert":
				fmt.Printf("upsert %s %s\n", keyPath(e.Key), e.Row)
				left--
			case "delete":
				fmt.Printf("delete %s\n", keyPath(e.Key))
				left--
			case "reset":
				fmt.Println("reset", e.Reason)
			}
			return left > 0
		})
	default:
		return 2, fmt.Errorf("no command %s: want read, many or watch", args[1])
	}
	return 0, nil
}
