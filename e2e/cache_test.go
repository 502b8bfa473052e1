package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/resync"
)

// cache is a sidecar, read over HTTP.
type cache struct {
	f      *fleet
	name   string
	member *member // the process that keeps it; nil: it is not asked whether it lives
	http   *http.Client
}

// sidecar starts a sidecar in this process. It ends with the test.
func (f *fleet) sidecar() *cache { f.t.Helper(); return f.cache("sidecar", f.start) }

// cache starts a sidecar of a name, by start or by process.
func (f *fleet) cache(name string, start func(role, name string) *member) *cache {
	f.t.Helper()
	c := &cache{f: f, name: name, member: start("sidecar", name)}
	c.http = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", f.socket(name))
		},
	}}
	f.t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// answerError is an answer other than 200.
type answerError struct {
	status int
	body   string
}

func (e *answerError) Error() string {
	return fmt.Sprintf("status %d: %s", e.status, strings.TrimSpace(e.body))
}

// ask makes a request and gives the body of its answer.
func (c *cache) ask(method, path string) ([]byte, error) { return c.send(method, path, "") }

// send makes a request with a body and gives that of its answer.
func (c *cache) send(method, path, body string) ([]byte, error) {
	if c.member != nil {
		if err := c.member.alive(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(c.f.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://sidecar"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s: %w", method, path, &answerError{resp.StatusCode, string(answer)})
	}
	return answer, nil
}

func (c *cache) get(path string, into any) error {
	body, err := c.ask(http.MethodGet, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// tableState is a table in /v1/tables.
type tableState struct {
	Table           string
	Rows            int
	Version         string
	Through         string
	Ready           bool
	Error           string
	OpenKeys        int `json:"open_keys"`
	ParkedKeys      int `json:"parked_keys"`
	Stopped         string
	VerifiedThrough string `json:"verified_through"`
	Relist          string
}

// tables gives what the cache says of its tables.
func (c *cache) tables() (map[syncd.Table]tableState, error) {
	var all []tableState
	if err := c.get("/v1/tables", &all); err != nil {
		return nil, err
	}
	m := map[syncd.Table]tableState{}
	for _, s := range all {
		t, err := syncd.ParseTable(s.Table)
		if err != nil {
			return nil, err
		}
		m[t] = s
	}
	return m, nil
}

// settled says why a table may still change by itself, once the cache is to be complete through lsn; nil where nothing is
// under way.
func (s *tableState) settled(lsn syncd.LSN) error {
	through, err := syncd.ParseLSN(s.Through)
	switch {
	case err != nil:
		return err
	case s.Error != "":
		return errors.New("it is refused: " + s.Error)
	case s.Relist != "":
		return errors.New("it is to be listed again: " + s.Relist)
	case !s.Ready:
		return errors.New("it is not listed yet")
	case through < lsn:
		return fmt.Errorf("it is complete through %s, not yet through %s", through, lsn)
	case s.OpenKeys+s.ParkedKeys > 0:
		return fmt.Errorf("%d keys are open and %d parked", s.OpenKeys, s.ParkedKeys)
	case s.Stopped != "":
		return errors.New("its resync has stopped: " + s.Stopped)
	}
	return nil
}

func tablePath(t syncd.Table) string { return "/v1/tables/" + url.PathEscape(t.String()) }

// rows gives all rows of a table, in no order, and the version that they are of.
func (c *cache) rows(t syncd.Table) (rows []string, version string, err error) {
	q := url.Values{"limit": {"10000"}}
	for {
		var page struct {
			Version  string
			Items    []json.RawMessage
			Continue string
		}
		if err := c.get(tablePath(t)+"/rows?"+q.Encode(), &page); err != nil {
			return nil, "", err
		}
		for _, row := range page.Items {
			rows = append(rows, string(row))
		}
		if page.Continue == "" {
			return rows, page.Version, nil
		}
		q.Set("continue", page.Continue)
	}
}

// row gives the row under a key; empty where there is none.
func (c *cache) row(t syncd.Table, k syncd.Key) (string, error) {
	body, err := c.ask(http.MethodGet, tablePath(t)+"/rows/"+k.Path())
	if e, ok := errors.AsType[*answerError](err); ok && e.status == http.StatusNotFound {
		return "", nil
	}
	return string(body), err
}

// reach waits until the cache has reached lsn in a table, as a service does that reads its own write.
func (c *cache) reach(t syncd.Table, lsn syncd.LSN) error {
	_, err := c.ask(http.MethodGet, tablePath(t)+"/rows?limit=1&timeout=20s&min_version="+url.QueryEscape(lsn.String()))
	return err
}

// resync compares a table with Postgres, every row, and repairs it.
func (c *cache) resync(t syncd.Table) (*resync.Report, error) { return c.resyncBy(resync.Full, t) }

func (c *cache) resyncBy(mode resync.Mode, t syncd.Table) (*resync.Report, error) {
	body, err := c.ask(http.MethodPost, tablePath(t)+"/resync?mode="+string(mode))
	if err != nil {
		return nil, err
	}
	r := &resync.Report{}
	return r, json.Unmarshal(body, r)
}

// ready waits until the cache may be read behind a readiness probe.
func (c *cache) ready() {
	c.f.t.Helper()
	c.f.eventually("the sidecar to be ready", func() error {
		_, err := c.ask(http.MethodGet, "/readyz")
		return err
	})
}

// listed waits until the cache serves, or refuses, the tables that there are.
func (c *cache) listed() {
	c.f.t.Helper()
	c.f.eventually("the first list of all tables", func() error {
		states, err := c.tables()
		if err != nil {
			return err
		}
		if len(states) == 0 {
			return errors.New("no table is known yet")
		}
		for t, s := range states {
			if !s.Ready && s.Error == "" {
				return fmt.Errorf("%s is not listed yet", t)
			}
		}
		return nil
	})
}

// verified gives the LSN through which a table was proved to equal Postgres; 0 where it never was.
func (c *cache) verified(t syncd.Table) syncd.LSN {
	c.f.t.Helper()
	states, err := c.tables()
	if err != nil {
		c.f.t.Fatal(err)
	}
	v := states[t].VerifiedThrough
	if v == "" {
		return 0
	}
	_, text, _ := strings.Cut(v, "-")
	lsn, err := syncd.ParseLSN(text)
	if err != nil {
		c.f.t.Fatalf("verified_through %q: %v", v, err)
	}
	return lsn
}
