package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/resync"
	"github.com/syncd-io/syncd/sink"
)

// Cache is what reads are answered from.
type Cache interface {
	// View gives one commit to read from, nil once the cache is closed. The API closes it before it writes to the client.
	View() sink.View
	// Changed gives a channel that is closed at the next commit after the call. Any number of requests wait on it.
	Changed() <-chan struct{}
	// State gives the state of the newest generation: of a new epoch's cache, while one is being built beside the one that is
	// read. It is not changed any more.
	State() *sink.State
}

// failure is an answer other than the one asked for.
type failure struct {
	status int
	text   string // what is wrong and what to do
	// passes says that asking again later may help: the answer carries Retry-After, and a read with min_version waits.
	passes bool
	after  time.Duration // what Retry-After says; less than a second is one
	allow  string        // the Allow header of a 405
	// unlisted says that the table is there and synced, and its first list is not complete.
	unlisted bool
	// report, where there is one, is the answer's body; it has an error too.
	report *resync.Report
}

func (f *failure) Error() string { return f.text }

// passes says whether asking again later may help.
func passes(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && f.passes
}

func badRequest(err error) error { return &failure{status: http.StatusBadRequest, text: err.Error()} }

func errStopping() error {
	return &failure{status: http.StatusServiceUnavailable, passes: true, text: "this server is stopping: ask another, or again"}
}

// answer is one commit of the cache, opened to answer a read of one table.
type answer struct {
	view    sink.View
	state   *sink.State
	table   *sink.TableState
	through syncd.Position // everything up to here is in what is read
}

// scope is what a read reads: a table, or one key of it.
type scope struct {
	table syncd.Table
	path  string // the key as the path gave it; empty: the whole table
}

// open takes a view in which the read can be answered, and waits for it where min_version says so. The caller closes
// the view of an answer that came without error.
func (a *API) open(w http.ResponseWriter, r *http.Request, s scope, q *readParams) (answer, syncd.Key, error) {
	if !q.min.set {
		return a.look(s, q)
	}
	return a.openAt(w, r, s, q)
}

// openAt is open for reads that may have to wait.
func (a *API) openAt(w http.ResponseWriter, r *http.Request, s scope, q *readParams) (ans answer, key syncd.Key, err error) {
	err = a.await(w, r, q, func() (err error) {
		ans, key, err = a.look(s, q)
		return err
	})
	return ans, key, err
}

// await looks, and where min_version is not reached looks again at each commit, until look gives nil, an error that does
// not pass, or the read's time is up.
func (a *API) await(w http.ResponseWriter, r *http.Request, q *readParams, look func() error) error {
	changed := a.Cache.Changed()
	err := look()
	if err == nil || !q.min.set || !passes(err) {
		return err
	}
	if !a.waiting.enter(a.Limits.Waiting) {
		return &failure{status: http.StatusServiceUnavailable, passes: true,
			text: fmt.Sprintf("%d reads wait for min_version already: try again", a.Limits.Waiting)}
	}
	defer a.waiting.leave()
	a.busy.leave() // reads that wait count apart
	defer a.busy.n.Add(1)
	ctx, cancel := context.WithTimeout(r.Context(), q.timeout)
	defer cancel()
	a.extend(w, q.timeout+a.Limits.Write)
	a.asker.ask()
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return timedOut(r, q, err)
		}
		changed = a.Cache.Changed()
		if err = look(); err == nil || !passes(err) {
			return err
		}
	}
}

// timedOut gives what a read is told whose time is up: a read that is behind gets a 504, one of a table that can't be
// read at all what it would get without min_version.
func timedOut(r *http.Request, q *readParams, err error) error {
	if r.Context().Err() != nil {
		return errStopping()
	}
	f, ok := errors.AsType[*failure](err)
	if !ok || f.status != http.StatusGatewayTimeout {
		return err
	}
	return &failure{status: f.status, passes: true, text: fmt.Sprintf("%s after %s; ask again, or with a longer timeout= (at most %s)", f.text, q.timeout, maxTimeout)}
}

// look opens the cache as it is now. A failure that passes may be mended by a later commit.
func (a *API) look(s scope, q *readParams) (ans answer, key syncd.Key, err error) {
	view := a.Cache.View()
	if view == nil {
		return ans, "", errStopping()
	}
	defer func() {
		if err != nil {
			view.Close()
		}
	}()
	ans = answer{view: view, state: view.State()}
	if ans.table, err = a.readable(ans.state, s.table); err != nil {
		return ans, "", err
	}
	if q.search.asks() {
		if err = q.search.resolve(&ans.table.Info, rowsParams); err != nil {
			return ans, "", badRequest(err)
		}
	}
	if s.path != "" {
		if key, err = parseKey(s.path, &ans.table.Info); err != nil {
			return ans, "", badRequest(err)
		}
		ans.through = ans.table.CompleteAt(key)
	} else {
		ans.through = ans.table.Complete()
	}
	if err = q.min.reached(&ans, s.table); err != nil {
		return ans, "", err
	}
	return ans, key, a.youngEnough(&ans, s.table, q.maxAge)
}

// readable gives the state of a table that may be read, or says why it may not.
func readable(st *sink.State, t syncd.Table) (*sink.TableState, error) {
	ts, ok := st.Tables[t]
	switch {
	case !ok && len(st.Tables) == 0:
		return nil, &failure{status: http.StatusServiceUnavailable, passes: true,
			text: "the source's tables are not known yet: is `syncd source` running, and reaches this sidecar the bus? see /readyz"}
	case !ok:
		return nil, &failure{status: http.StatusNotFound, text: fmt.Sprintf("no table %s here: %s", t, known(st))}
	case ts.Info.Error != "":
		return nil, &failure{status: http.StatusServiceUnavailable, text: fmt.Sprintf("table %s is not synced: %s", t, ts.Info.Error)}
	case !ts.Listed:
		return nil, &failure{status: http.StatusServiceUnavailable, passes: true, unlisted: true,
			text: fmt.Sprintf("table %s is not listed yet: try again; /v1/status says how far the list is", t)}
	}
	return ts, nil
}

// readable is the function, with what keeps a table's first list from coming to its end.
func (a *API) readable(st *sink.State, t syncd.Table) (*sink.TableState, error) {
	ts, err := readable(st, t)
	if f, ok := errors.AsType[*failure](err); ok && f.unlisted {
		if fault := a.Node.Status().Fault; fault != "" {
			f.text = fmt.Sprintf("table %s is not listed yet: the cache can't take in what comes: %s", t, fault)
		}
	}
	return ts, err
}

// known names the tables there are, at most twenty.
func known(st *sink.State) string {
	names := make([]string, 0, len(st.Tables))
	for t := range st.Tables {
		names = append(names, t.String())
	}
	slices.Sort(names)
	if len(names) > 20 {
		return fmt.Sprintf("there are %s and %d more, see /v1/tables", strings.Join(names[:20], ", "), len(names)-20)
	}
	return "there are " + strings.Join(names, ", ")
}

// reached gives nil where the answer holds all that min_version asks for. The first call fixes the epoch of an LSN
// alone. A position of an older epoch is reached at once: its commits were all there when the newer epoch began.
func (m *minVersion) reached(ans *answer, t syncd.Table) error {
	if !m.set {
		return nil
	}
	if m.alone {
		m.at.Epoch, m.alone = ans.state.Cursor.Position.Epoch, false
	}
	if ans.through.Compare(m.at) >= 0 {
		return nil
	}
	return &failure{status: http.StatusGatewayTimeout, passes: true, text: behind(t, ans.through, m.at)}
}

// implausible is more WAL than a cache that is alive can be behind: a minimal version that far ahead was made up.
const implausible = 1 << 44

func behind(t syncd.Table, have, want syncd.Position) string {
	if have.Epoch != want.Epoch {
		return fmt.Sprintf("%s is at %s, of an older epoch than %s, which this cache does not know yet", t, have, want)
	}
	far := want.LSN - have.LSN
	if far > implausible {
		return fmt.Sprintf("%s is at %s, and %s is too far ahead to be a place that this server has written: take pg_current_wal_insert_lsn() or a Syncd-Version", t, have, want)
	}
	return fmt.Sprintf("%s is at %s, %d bytes of WAL behind %s", t, have, far, want)
}

// state gives the state of the cache as it is now, which stays as it is.
func (a *API) state() (*sink.State, error) {
	view := a.Cache.View()
	if view == nil {
		return nil, errStopping()
	}
	defer view.Close()
	return view.State(), nil
}

// youngEnough gives nil where the answer is no older than max_age and sidecar.stale allow.
func (a *API) youngEnough(ans *answer, t syncd.Table, maxAge time.Duration) error {
	if err := a.stale(ans.state); err != nil {
		return err
	}
	if maxAge < 0 {
		return nil
	}
	if old := tableAge(ans.state, ans.table, a.now()); old > maxAge {
		if ans.table.Loss != 0 {
			return &failure{status: http.StatusServiceUnavailable, passes: true,
				text: fmt.Sprintf("changes of %s were lost %s ago and it is being listed again, and max_age is %s: ask again, or allow more", t, old.Round(time.Millisecond), maxAge)}
		}
		return &failure{status: http.StatusServiceUnavailable, passes: true,
			text: fmt.Sprintf("%s is %s old, and max_age is %s: ask again, allow more, or see /v1/status for why no markers come", t, old.Round(time.Millisecond), maxAge)}
	}
	return nil
}

// age says how long ago the cache was all of Postgres: since the source sent the last marker, by its clock, and no less
// than since it was applied, by ours.
func age(st *sink.State, now time.Time) time.Duration {
	return max(now.Sub(st.Sent), now.Sub(st.Applied), 0)
}

// tableAge says how long ago a table was all of Postgres: the cache's age, or, while a loss is open, the age of what the table
// is complete through.
func tableAge(st *sink.State, ts *sink.TableState, now time.Time) time.Duration {
	if ts.Loss == 0 {
		return age(st, now)
	}
	return max(now.Sub(ts.Sent), now.Sub(ts.Applied), 0)
}

// setHeaders says how fresh and how true the answer is. Syncd-Verified-Age is left out where the table was never proved.
func (a *API) setHeaders(h http.Header, ans *answer) {
	now := a.now()
	setFreshness(h, ans.through, tableAge(ans.state, ans.table, now), ans.table.Verified.At, now)
}

func setFreshness(h http.Header, through syncd.Position, old time.Duration, verified, now time.Time) {
	values := make([]string, 3)
	b := make([]byte, 0, 64)
	b = through.Append(b)
	v := len(b)
	b = appendSeconds(b, old)
	a := len(b)
	if !verified.IsZero() {
		b = appendSeconds(b, max(now.Sub(verified), 0))
	}
	text := string(b)
	values[0], values[1], values[2] = text[:v], text[v:a], text[a:]
	h["Syncd-Version"], h["Syncd-Age"] = values[0:1:1], values[1:2:2]
	if !verified.IsZero() {
		h["Syncd-Verified-Age"] = values[2:3:3]
	}
}

// appendSeconds writes a duration as seconds with three decimals.
func appendSeconds(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, d.Seconds(), 'f', 3, 64)
}

// extend gives an answer d more to be written, and the connection no end to be read from; 0 is no end to either. The
// server's own times are for requests that are answered at once.
func (a *API) extend(w http.ResponseWriter, d time.Duration) {
	c := http.NewResponseController(w)
	var until time.Time
	if d > 0 {
		until = time.Now().Add(d)
	}
	// A writer that has no deadlines (HTTP/2 has its own, a test none) needs none moved.
	_ = c.SetReadDeadline(time.Time{})
	_ = c.SetWriteDeadline(until)
}
