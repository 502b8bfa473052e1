package api

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// part is what a read of several wants from one table: rows under keys, or a page.
type part struct {
	name  string // of the part in messages; empty where it is the only one
	table syncd.Table
	keys  [][]string // the values of each key; nil: a page
	page  readParams

	found []syncd.Key // keys as the cache has them
	ans   answer
}

// several is a read of several keys or tables, all of one commit.
type several struct {
	parts   []part
	view    sink.View
	through syncd.Position // the least of the parts'
}

// openAll takes a view in which all parts can be answered, and waits for it where min_version says so. The caller closes
// the view of a read that came without error.
func (a *API) openAll(w http.ResponseWriter, r *http.Request, parts []part, q *readParams) (several, error) {
	s := several{parts: parts}
	return s, a.await(w, r, q, func() error { return a.lookAll(&s, q) })
}

// lookAll opens the cache as it is now.
func (a *API) lookAll(s *several, q *readParams) (err error) {
	view := a.Cache.View()
	if view == nil {
		return errStopping()
	}
	defer func() {
		if err != nil {
			view.Close()
		}
	}()
	s.view = view
	for i := range s.parts {
		p := &s.parts[i]
		if err := a.lookAt(p, view, q); err != nil {
			return named(p.name, err)
		}
		if i == 0 || p.ans.through.Compare(s.through) < 0 {
			s.through = p.ans.through
		}
	}
	return nil
}

// lookAt says how far what a part reads is complete, or why it can't be read.
func (a *API) lookAt(p *part, view sink.View, q *readParams) (err error) {
	p.ans = answer{view: view, state: view.State()}
	if p.ans.table, err = a.readable(p.ans.state, p.table); err != nil {
		return err
	}
	if p.page.search.asks() {
		known := rowsParams
		if p.name != "" {
			known = nil
		}
		if err := p.page.search.resolve(&p.ans.table.Info, known); err != nil {
			return badRequest(err)
		}
	}
	if p.keys == nil {
		p.ans.through = p.ans.table.Complete()
	} else if err := p.fitKeys(); err != nil {
		return badRequest(err)
	}
	if err := q.min.reached(&p.ans, p.table); err != nil {
		return err
	}
	return a.youngEnough(&p.ans, p.table, q.maxAge)
}

// fitKeys makes keys of their values, each once, and says through where the rows under all of them are complete.
func (p *part) fitKeys() error {
	p.found = make([]syncd.Key, 0, len(p.keys))
	p.ans.through = p.ans.table.Through
	seen := make(map[syncd.Key]bool, len(p.keys))
	for _, values := range p.keys {
		k, err := fitKey(&p.ans.table.Info, values)
		if err != nil {
			return err
		}
		if seen[k] {
			continue
		}
		seen[k] = true
		p.found = append(p.found, k)
		if at := p.ans.table.CompleteAt(k); at.Compare(p.ans.through) < 0 {
			p.ans.through = at
		}
	}
	return nil
}

// named puts the name of a part before what is wrong with it.
func named(name string, err error) error {
	f, ok := errors.AsType[*failure](err)
	if name == "" || !ok {
		return err
	}
	g := *f
	g.text = name + ": " + f.text
	return &g
}

// close gives the view up, and says whether all that was read from it could be.
func (s *several) close() error {
	defer s.view.Close()
	return unread(s.view)
}

// unread gives what a reader is told where the store could not be read; nil: it could.
func unread(v sink.View) error {
	if err := v.Err(); err != nil {
		return &failure{status: http.StatusServiceUnavailable, passes: true, text: fmt.Sprintf("the cache can't be read: %v; ask again", err)}
	}
	return nil
}

// result is what a part found.
type result struct {
	head string // what its JSON begins with, before the rows
	rows [][]byte
	tail string // what its JSON ends with
	hash uint64 // of all of it, the version apart
}

// read reads a part. first is what its JSON object begins with.
func (p *part) read(v sink.View, first string) result {
	res := result{head: first + `"items":[`, tail: "]}"}
	if p.keys == nil {
		found := readPage(v, p.table, &p.page)
		res.rows, res.hash = found.rows, found.digest
		if found.next != "" {
			res.tail = `],"continue":` + quoted(found.next) + "}"
		}
		return res
	}
	missing := [][]string{}
	for _, k := range p.found {
		e, _ := v.Get(p.table, k)
		if e.Row == nil {
			missing = append(missing, k.Values())
		} else {
			e.Row = p.page.search.row(e.Row)
			res.rows = append(res.rows, e.Row)
		}
		res.hash = res.hash*31 + syncd.RowDigest(k, e.Row)
	}
	b, err := json.Marshal(missing)
	if err != nil {
		panic("texts: " + err.Error())
	}
	res.tail = `],"missing":` + string(b) + "}"
	return res
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic("a text: " + err.Error())
	}
	return string(b)
}

func (res *result) size() int { return len(res.head) + rowsSize(res.rows) + len(res.tail) }

func (res *result) write(b *bufio.Writer) {
	_, _ = b.WriteString(res.head)
	writeRows(b, res.rows)
	_, _ = b.WriteString(res.tail)
}

// setAllHeaders says how fresh and how true an answer of several parts is: as the least fresh and least true of them.
func (a *API) setAllHeaders(h http.Header, s *several) {
	now := a.now()
	old, verified := time.Duration(0), s.parts[0].ans.table.Verified.At
	for _, p := range s.parts {
		old = max(old, tableAge(p.ans.state, p.ans.table, now))
		if at := p.ans.table.Verified.At; at.Before(verified) {
			verified = at
		}
	}
	setFreshness(h, s.through, old, verified, now)
}

// listKeys answers ?key=in.(…): the rows under these keys, in the order of the list, and the keys that have none.
func (a *API) listKeys(w http.ResponseWriter, r *http.Request, t syncd.Table, q *readParams) error {
	s, err := a.openAll(w, r, []part{{table: t, keys: q.keys, page: readParams{search: q.search}}}, q)
	if err != nil {
		return err
	}
	res := s.parts[0].read(s.view, `{"version":`+quoted(s.through.String())+",")
	if err := s.close(); err != nil {
		return err
	}
	res.tail += "\n"
	a.setAllHeaders(w.Header(), &s)
	writeWeak(w, r, res.hash, res.size(), res.write)
	return nil
}

// readMany answers POST /v1/read.
func (a *API) readMany(w http.ResponseWriter, r *http.Request) error {
	q, err := parseRead(r.URL.RawQuery, rowParams)
	if err != nil {
		return badRequest(err)
	}
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	parts, err := parseReads(body)
	if err != nil {
		return badRequest(err)
	}
	s, err := a.openAll(w, r, parts, &q)
	if err != nil {
		return err
	}
	head := `{"version":` + quoted(s.through.String()) + `,"results":[`
	size := len(head) + len(s.parts) - 1 + len("]}\n")
	all := make([]result, len(s.parts))
	for i := range s.parts {
		all[i] = s.parts[i].read(s.view, `{"table":`+quoted(s.parts[i].table.String())+",")
		size += all[i].size()
	}
	if err := s.close(); err != nil {
		return err
	}
	h := w.Header()
	a.setAllHeaders(h, &s)
	h["Cache-Control"] = noStore
	h["Vary"] = varyCoding
	writeBody(w, r, codingFor(r, size), size, func(b *bufio.Writer) {
		_, _ = b.WriteString(head)
		for i := range all {
			if i > 0 {
				_ = b.WriteByte(',')
			}
			all[i].write(b)
		}
		_, _ = b.WriteString("]}\n")
	})
	return nil
}
