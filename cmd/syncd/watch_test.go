package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// connection is what a scripted sidecar answers to one request for a watch.
type connection struct {
	status int // 0: 200
	body   string
	header string
}

// scripted answers one request after another, and interrupts the client once the script is over.
type scripted struct {
	mu    sync.Mutex
	all   []connection
	asked []string // with the Last-Event-ID behind it
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, strings.TrimSpace(r.RequestURI+" "+r.Header.Get("Last-Event-ID")))
	if len(s.all) == 0 {
		interrupt()
		<-r.Context().Done()
		return
	}
	c := s.all[0]
	s.all = s.all[1:]
	if c.header != "" {
		name, value, _ := strings.Cut(c.header, ": ")
		w.Header().Set(name, value)
	}
	if c.status != 0 {
		w.WriteHeader(c.status)
	}
	_, _ = io.WriteString(w, c.body)
}

// interrupt is Ctrl-C. It is called while a client runs, which takes the signal.
func interrupt() {
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		panic(err)
	}
}

func TestWatchCommand(t *testing.T) {
	const path = "/v1/tables/public.users/watch"
	rows := `event: upsert
data: {"key":["1"],"version":"7-0/1","row":{"id":1,"j":{
data: "a": 1}}}

id: 7-0/1-5
event: bookmark
data: {"version":"7-0/1","age_seconds":0.1}

`
	change := `event: delete
data: {"key":["a b","2"],"version":"7-0/2"}

event: upsert
data: {"key":["3"],"version":"7-0/2","row":{"id":3},"repair":"stale"}

id: 7-0/2-6
event: bookmark
data: {"version":"7-0/2"}

event: delete
data: {"key":["9"],"version":"7-0/3"}
` // and no more of this one
	reset := "id:\nevent: reset\ndata: {\"reason\":\"the table's columns changed: list anew\"}\n\n"
	for _, c := range []struct {
		name      string
		args      []string
		script    []connection
		asked     []string
		out, errs []string
		status    int
	}{
		{"a list, a cut, on where it was", []string{"--list", "--filter", "n=gt.5", "--select", "id,j"}, []connection{{body: rows}, {body: change}},
			[]string{path + "?list=true&n=gt.5&select=id%2Cj", path + "?list=true&n=gt.5&select=id%2Cj 7-0/1-5", path + "?list=true&n=gt.5&select=id%2Cj 7-0/2-6"},
			[]string{`upsert 1 {"id":1,"j":{"a":1}}`, "delete a%20b,2", `upsert 3 {"id":3} repair stale`}, []string{"1 rows as of 7-0/1", "the watch has ended: EOF"}, 0},
		{"since a version", []string{"--since", "7-0/1"}, []connection{{body: change}}, []string{path + "?since=7-0%2F1", path + " 7-0/2-6"},
			[]string{"delete a%20b,2", `upsert 3 {"id":3} repair stale`}, []string{"trying again"}, 0},
		{"json", []string{"--json"}, []connection{{body: rows}, {body: reset}}, []string{path, path + " 7-0/1-5", path},
			[]string{`{"event":"upsert","key":["1"],"version":"7-0/1","row":{"id":1,"j":{"a":1}}}`, `{"event":"bookmark","id":"7-0/1-5","version":"7-0/1","age_seconds":0.1}`,
				`{"event":"reset","reason":"the table's columns changed: list anew"}`}, []string{"columns changed", "changes may be missing"}, 0},
		{"reset, with a list", []string{"--list"}, []connection{{body: rows + reset}, {body: rows}}, []string{path + "?list=true", path + "?list=true", path + "?list=true 7-0/1-5"},
			[]string{`upsert 1 {"id":1,"j":{"a":1}}`, `upsert 1 {"id":1,"j":{"a":1}}`}, []string{"reset: the table's columns changed"}, 0},
		{"gone after a cut", nil, []connection{{body: rows}, {status: 410, body: `{"error":"what came behind is not known here"}`}}, []string{path, path + " 7-0/1-5", path},
			[]string{`upsert 1 {"id":1,"j":{"a":1}}`}, []string{"reset: what came behind is not known here; going on from now"}, 0},
		{"gone at once", []string{"--since", "7-0/1"}, []connection{{status: 410, body: `{"error":"too old"}`}}, []string{path + "?since=7-0%2F1"}, nil, []string{"too old"}, exitNo},
		{"not listed yet", nil, []connection{{status: 503, header: "Retry-After: 1", body: `{"error":"not listed yet"}`}}, []string{path, path}, nil, []string{"not listed yet; trying again"}, 0},
		{"refused", nil, []connection{{status: 503, body: `{"error":"it has no key"}`}}, []string{path}, nil, []string{"it has no key"}, exitNo},
		{"a wrong filter", []string{"--filter", "x=eq.1"}, []connection{{status: 400, body: `{"error":"no column x"}`}}, []string{path + "?x=eq.1"}, nil, []string{"no column x"}, exitUsage},
		{"no filter at all", []string{"--filter", "x"}, nil, nil, nil, []string{"COLUMN=CONDITION"}, exitUsage},
		{"two beginnings", []string{"--list", "--since", "1-0/1"}, nil, nil, nil, []string{"--since and --list"}, exitUsage},
		{"not a sidecar", nil, []connection{{body: "data: <html>\n\n"}}, []string{path}, nil, []string{"does not answer as a sidecar does"}, exitUnreachable},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &scripted{all: c.script}
			server := httptest.NewServer(s)
			defer server.Close()
			var out, errs bytes.Buffer
			status := execute(t.Context(), append([]string{"watch", "public.users", "--addr", server.URL}, c.args...), strings.NewReader(""), &out, &errs)
			if status != c.status {
				t.Errorf("exit status %d, want %d: %s", status, c.status, &errs)
			}
			if want := strings.Join(append(c.out, ""), "\n"); out.String() != want {
				t.Errorf("printed\n%s\nwant\n%s", &out, want)
			}
			for _, part := range c.errs {
				if !strings.Contains(errs.String(), part) {
					t.Errorf("said %q, want %q in it", errs.String(), part)
				}
			}
			server.Close() // it waits for who still asks
			if got, want := strings.Join(s.asked, "\n"), strings.Join(c.asked, "\n"); got != want {
				t.Errorf("asked\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestWatchOfNobody(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	var out, errs bytes.Buffer
	if status := execute(t.Context(), []string{"watch", "public.users", "--addr", server.URL}, strings.NewReader(""), &out, &errs); status != exitUnreachable {
		t.Errorf("exit status %d: %s", status, &errs)
	}
}

func FuzzEvents(f *testing.F) {
	for _, s := range []string{"", "data: 1\n\n", "id: 1\r\nevent: a\r\ndata: {\r\ndata: }\r\n\r\n", ": comment\n\ndata\n\n", "retry: 1000\n\nid\n\n", "data: 1\n", "\n\n\n", "id:\nevent:reset\ndata:x\n\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		r := eventReader{bufio.NewReaderSize(strings.NewReader(stream), 16)}
		size := 0
		for {
			e, err := r.next()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("%q: %v", stream, err)
				}
				return
			}
			if size += len(e.data); size > len(stream) {
				t.Fatalf("%q gave more than it holds", stream)
			}
			// What was read is written and read again.
			again := fmt.Sprintf("id:%s\nevent:%s\ndata:%s\n\n", " "+e.id, " "+e.name, " "+strings.ReplaceAll(string(e.data), "\n", "\ndata: "))
			e2, err := (&eventReader{bufio.NewReader(strings.NewReader(again))}).next()
			if err != nil || e2.id != e.id || e2.name != e.name || !bytes.Equal(e2.data, e.data) {
				t.Fatalf("%+v became %+v: %v", e, e2, err)
			}
		}
	})
}
