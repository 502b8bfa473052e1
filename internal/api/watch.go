package api

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// History is what watches follow: the last commits of the cache that reads are answered from. It is read by any number of
// watches at a time, and they hold it up in nothing. sink.History implements it.
type History interface {
	// Look gives a view of one commit and the commit's mark; nil once the cache is closed. The API closes it before it writes
	// to the client.
	Look() (sink.View, sink.Mark)
	// Head gives the last commit's mark and the state of the cache then, which is not changed any more.
	Head() (sink.Mark, *sink.State)
	// Changed gives a channel that is closed at the next commit after the call that changes a table.
	Changed(t syncd.Table) <-chan struct{}
	// Next gives the commits behind a mark that changed a table, oldest first, at most n. The error wraps syncd.ErrTooOld where
	// some are forgotten, and is a *sink.ResetError where the table's rows were replaced since.
	Next(t syncd.Table, m sink.Mark, n int) ([]*sink.Commit, error)
	// Find and After give the mark that an event's id was made of, and one for who has read the table as it was at a position.
	// The error wraps syncd.ErrTooOld where that is not known any more.
	Find(t syncd.Table, v syncd.Version) (sink.Mark, error)
	After(t syncd.Table, p syncd.Position) (sink.Mark, error)
}

var watchParams = []string{"since", "list", "select", "min_version", "timeout", "max_age"}

// watchQuery is what a watch asks for.
type watchQuery struct {
	readParams
	table syncd.Table
	list  bool
	since place
	// again says that since is the Last-Event-ID of a client that was cut off, and not its own choice.
	again bool
}

// place is where a client is: behind an event, or complete through a position as a read's answer said.
type place struct {
	set     bool
	event   bool
	version syncd.Version
	at      minVersion
}

func parsePlace(s string) (place, error) {
	if v, err := syncd.ParseVersion(s); err == nil {
		return place{set: true, event: true, version: v}, nil
	}
	at, err := parseMinVersion(s)
	if err != nil {
		return place{}, fmt.Errorf("%q is neither an event's id, nor a version of an earlier answer, such as 1764534000000-0/16B3748", s)
	}
	return place{set: true, at: at}, nil
}

func parseWatch(r *http.Request, at route) (q watchQuery, err error) {
	if q.table, err = parseTable(at.table); err != nil {
		return q, err
	}
	params, conditions, err := splitQuery(r.URL.RawQuery, watchParams)
	if err != nil {
		return q, err
	}
	own := url.Values{}
	err = eachParam(params, watchParams, func(name, value string) (err error) {
		switch name {
		case "since":
			q.since, err = parsePlace(value)
		case "list":
			if value != "true" && value != "false" {
				return fmt.Errorf("%q is neither true nor false", value)
			}
			q.list = value == "true"
		default:
			own.Set(name, value)
		}
		return err
	})
	if err != nil {
		return q, err
	}
	if q.readParams, err = parseRead(own.Encode(), watchParams); err != nil {
		return q, err
	}
	q.search.conditions = conditions
	if q.since.set && q.list {
		return q, errors.New("parameter since: it goes with no list=true, which begins with the rows as they are")
	}
	return q, q.resume(r.Header.Get("Last-Event-ID"))
}

// resume takes up what a client that was cut off says of itself.
func (q *watchQuery) resume(last string) (err error) {
	if last != "" {
		if q.since, err = parsePlace(last); err != nil {
			return fmt.Errorf("header Last-Event-ID: %w", err)
		}
		q.again = true
	}
	if q.since.set && !q.since.event && !q.min.set {
		q.min = q.since.at // another sidecar, that was ahead of this one, said so
	}
	return nil
}

// watch sends the changes of a table until the client goes away, the server stops, or the watch can't go on.
func (a *API) watch(w http.ResponseWriter, r *http.Request, at route) error {
	q, err := parseWatch(r, at)
	if err != nil {
		return badRequest(err)
	}
	if a.History == nil {
		return &failure{status: http.StatusNotImplemented, text: "this sidecar keeps no history to watch"}
	}
	if !a.watching.enter(a.Limits.Watches) {
		return &failure{status: http.StatusServiceUnavailable, passes: true,
			text: fmt.Sprintf("%d watches run already: try again, or ask another sidecar", a.Limits.Watches)}
	}
	defer a.watching.leave()
	s := &watcher{api: a, request: r, query: &q, out: newEvents(w, a.Limits.Write)}
	if err := a.await(w, r, &q.readParams, s.begin); err != nil {
		return err
	}
	a.busy.leave() // watches count apart
	defer a.busy.n.Add(1)
	a.extend(w, 0)
	a.setHeaders(w.Header(), &s.first)
	s.first = answer{} // holds no state of then
	s.run(w)
	return nil
}

// watcher is one watch.
type watcher struct {
	api     *API
	request *http.Request
	query   *watchQuery
	out     *events

	first   answer    // as it was when the watch began; its view is closed
	at      sink.Mark // all up to here was sent
	through syncd.Position
	// whole is the commit before which no bookmark is sent: of what comes up to there the client may have a part already, so
	// that only then it has what the cache had.
	whole   uint64
	anew    string // why the rows are sent although the client has asked to go on; empty: it has not
	listing bool
}

// begin finds where the watch begins. A failure that passes may be mended by a later commit.
func (s *watcher) begin() error {
	a, q := s.api, s.query
	view, m := a.History.Look()
	if view == nil {
		return errStopping()
	}
	defer view.Close()
	ans, err := a.lookIn(view, q)
	if err != nil {
		return err
	}
	s.first, s.at, s.through, s.listing = ans, m, ans.through, q.list
	if !q.since.set {
		return nil
	}
	s.listing = false
	if q.since.event {
		s.at, err = a.History.Find(q.table, q.since.version)
	} else {
		p := q.since.at.at
		if q.since.at.alone {
			p.Epoch = m.Position.Epoch
		}
		s.at, err = a.History.After(q.table, p)
		s.whole = m.Commit
	}
	if !errors.Is(err, syncd.ErrTooOld) {
		return err
	}
	if q.again && q.list {
		s.at, s.listing, s.anew = m, true, tooOld(err)
		return nil
	}
	return &failure{status: http.StatusGone, text: tooOld(err) + "; begin anew with list=true, or read the rows and watch since= their version"}
}

func tooOld(err error) string {
	return strings.TrimSuffix(err.Error(), ": "+syncd.ErrTooOld.Error())
}

// lookIn says what a view holds of a watch's table, or why it can't be watched.
func (a *API) lookIn(view sink.View, q *watchQuery) (ans answer, err error) {
	ans = answer{view: view, state: view.State()}
	if ans.table, err = a.readable(ans.state, q.table); err != nil {
		return ans, err
	}
	if q.search.asks() {
		if err = q.search.resolve(&ans.table.Info, watchParams); err != nil {
			return ans, badRequest(err)
		}
	}
	ans.through = ans.table.Complete()
	if err = q.min.reached(&ans, q.table); err != nil {
		return ans, err
	}
	return ans, a.youngEnough(&ans, q.table, q.maxAge)
}

// run sends what the client is to have, and then what comes.
func (s *watcher) run(w http.ResponseWriter) {
	h := w.Header()
	h["Content-Type"] = []string{"text/event-stream"}
	h["Cache-Control"] = noStore
	h.Set("X-Accel-Buffering", "no") // a proxy that gathers answers would hold the events back
	w.WriteHeader(http.StatusOK)
	err := s.start()
	if err == nil {
		err = s.follow()
	}
	if reset, ok := errors.AsType[*sink.ResetError](err); ok {
		s.out.reset(reset.Why + ": list anew")
	} else if errors.Is(err, syncd.ErrTooOld) {
		s.out.reset("what changed since is forgotten, this watch was too slow: list anew")
	}
	_ = s.out.flush() // an error is the client's going away
}

func (s *watcher) start() error {
	s.out.retry()
	if s.anew != "" {
		s.out.reset(s.anew + ": the rows follow")
	}
	if s.listing {
		if err := s.list(); err != nil {
			return err
		}
	}
	if err := s.catchUp(true); err != nil {
		return err
	}
	return s.out.flush()
}

// follow sends what comes, and bookmarks at intervals, until the watch ends.
func (s *watcher) follow() error {
	every := time.NewTicker(s.api.Limits.Bookmark)
	defer every.Stop()
	for {
		changed, tick := s.api.History.Changed(s.query.table), false
		if err := s.catchUp(false); err != nil {
			return err
		}
		if err := s.out.flush(); err != nil {
			return err
		}
		select {
		case <-s.request.Context().Done():
			return nil
		case <-changed:
		case <-every.C:
			tick = true
		}
		if !tick {
			continue
		}
		if s.api.tooStale() != nil {
			return nil // who asks again is told why
		}
		if err := s.catchUp(true); err != nil {
			return err
		}
	}
}

// commitsAtATime is how many commits a watch takes from the history at once.
const commitsAtATime = 64

// catchUp sends the commits that came since, each whole and ended by a bookmark, so that a client that is cut off goes on
// behind a whole one. always sends a bookmark where nothing came, too.
func (s *watcher) catchUp(always bool) error {
	owed := false // events were sent that no bookmark has ended
	for {
		m, st := s.api.History.Head()
		commits, err := s.api.History.Next(s.query.table, s.at, commitsAtATime)
		if err != nil {
			return err
		}
		ts := st.Tables[s.query.table]
		if len(commits) == 0 && ts != nil {
			s.at, s.through = m, ts.Complete()
			if owed || always {
				s.out.bookmark(s.at.Version(), s.through, tableAge(st, ts, s.api.now()))
			}
		}
		if len(commits) == 0 {
			return nil
		}
		for _, c := range commits {
			if owed && s.at.Commit >= s.whole {
				s.out.bookmark(s.at.Version(), s.through, -1)
				owed = false
			}
			owed = s.send(c, nil) || owed
			s.at, s.through = c.Mark, c.Through
		}
		if err := s.out.err(); err != nil {
			return err
		}
	}
}

// send sends what a commit changed for this watch, and says whether that was anything. Where only is set, it is for the
// keys that it holds for alone.
func (s *watcher) send(c *sink.Commit, only func(syncd.Key) bool) (sent bool) {
	version := c.Position.String()
	for x := range c.Changes() {
		if only != nil && !only(x.Key) {
			continue
		}
		f := &s.query.search.filter
		switch {
		case x.Row != nil && f.Match(x.Row):
			s.out.upsert(x.Key, version, s.query.search.row(x.Row), x.Kind)
		// What a repair replaces may be what nobody was told of: whether it matched says nothing of what the client has.
		case x.Was != nil && f.Match(x.Was), !f.IsZero() && x.Kind != sink.NoRepair:
			s.out.delete(x.Key, version, x.Kind)
		default:
			continue
		}
		sent = true
	}
	return sent
}

// The bounds of a part of a list that is read in one view: views are not held while a client is written to.
const (
	partRows  = 1000
	partBytes = 256 << 10
)

// list sends the rows, in parts that are each read in a view of its own. Between two parts it sends what has changed among
// the rows that were sent, so that what the client has is always of one commit, as far as the list has come.
func (s *watcher) list() error {
	t := s.query.table
	var last syncd.Key
	started := false
	for {
		view, m := s.api.History.Look()
		if view == nil {
			return nil
		}
		var commits []*sink.Commit
		var err error
		if started {
			commits, err = s.until(m)
		}
		ts := view.State().Tables[t]
		if err == nil && (ts == nil || !ts.Listed) {
			err = &sink.ResetError{Why: "the table can't be read any more"}
		}
		var rows []listed
		if err == nil {
			rows = s.part(view, started, last)
			if broken := view.Err(); broken != nil { // a sink in a server that is away
				err = &sink.ResetError{Why: "the rows can't be read: " + broken.Error()}
			}
		}
		view.Close()
		if err != nil {
			return err
		}
		for _, c := range commits {
			s.send(c, func(k syncd.Key) bool { return !comesAfter(k, last) })
		}
		version := m.Position.String()
		for _, row := range rows {
			s.out.upsert(row.key, version, s.query.search.row(row.row), sink.NoRepair)
		}
		s.at, s.through = m, ts.Complete()
		if err := s.out.flush(); err != nil || len(rows) == 0 {
			return err
		}
		started, last = true, rows[len(rows)-1].key
	}
}

// until gives the commits behind what was sent, up to m.
func (s *watcher) until(m sink.Mark) (all []*sink.Commit, err error) {
	for from := s.at; ; from = all[len(all)-1].Mark {
		commits, err := s.api.History.Next(s.query.table, from, commitsAtATime)
		if err != nil {
			return nil, err
		}
		n := len(commits)
		commits = slices.DeleteFunc(commits, func(c *sink.Commit) bool { return c.Commit > m.Commit })
		all = append(all, commits...)
		if n < commitsAtATime || len(commits) < n {
			return all, nil
		}
	}
}

type listed struct {
	key syncd.Key
	row []byte
}

// part reads the next rows of a list, behind the key last.
func (s *watcher) part(v sink.View, started bool, last syncd.Key) (rows []listed) {
	from, size := uint64(0), 0
	if started {
		from = last.Hash()
	}
	sink.Matching(v, s.query.table, s.query.search.filter, from, func(k syncd.Key, e sink.Entry) bool {
		if started && !comesAfter(k, last) {
			return true
		}
		rows = append(rows, listed{k, e.Row})
		size += len(e.Row)
		return len(rows) < s.api.partRows && size < partBytes
	})
	return rows
}

// comesAfter says whether a key comes behind another in the order of lists.
func comesAfter(k, last syncd.Key) bool {
	return cmp.Or(cmp.Compare(k.Hash(), last.Hash()), cmp.Compare(k, last)) > 0
}
