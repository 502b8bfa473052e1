package bus

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/syncd-io/syncd"
)

// appendListRequest appends the body of a request to the endpoint "list".
func appendListRequest(b []byte, r *syncd.ListRequest) []byte {
	b = append(b, `{"table":`...)
	b = appendString(b, r.Table.String())
	if r.Started {
		b = append(b, `,"after":`...)
		b = appendKey(b, r.After)
	}
	if r.Limit > 0 {
		b = appendUintField(b, `,"limit":`, uint64(r.Limit))
	}
	if r.Buckets != nil {
		b = append(b, `,"buckets":`...)
		b = appendBucketSet(b, r.Buckets)
	}
	b = appendSince(appendSelector(b, r.Selector), r.Since)
	return append(appendTotals(b, r.Sent), '}')
}

// appendSince appends the field of a request that says what the answer should be later than.
func appendSince(b []byte, s *syncd.Snapshot) []byte {
	if s == nil {
		return b
	}
	b = append(b, `,"since":{`...)
	from := len(b)
	b = appendSnapshot(b, s)
	return append(slices.Delete(b, from, from+1), '}') // without the comma that it begins with
}

// appendSelector appends the field of a request, page or digest that is of some rows alone.
func appendSelector(b []byte, s string) []byte {
	if s == "" {
		return b
	}
	b = append(b, `,"selector":`...)
	return appendString(b, s)
}

func appendTotals(b []byte, t syncd.Totals) []byte {
	b = appendUintField(b, `,"sent":{"rows":`, t.Rows)
	b = append(b, `,"digest":`...)
	return append(appendDecimal(b, t.Digest), '}')
}

// appendGetRequest appends the body of a request to the endpoint "get".
func appendGetRequest(b []byte, r *syncd.GetRequest) []byte {
	b = append(b, `{"table":`...)
	b = appendString(b, r.Table.String())
	b = append(b, `,"keys":`...)
	b = appendKeys(b, r.Keys)
	return append(appendSelector(b, r.Selector), '}')
}

func appendKeys(b []byte, keys []syncd.Key) []byte {
	b = append(b, '[')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendKey(b, k)
	}
	return append(b, ']')
}

// appendPage appends the body of a reply to "list" or "get": a line that describes the page, then a line for each row.
func appendPage(b []byte, p *syncd.Page) []byte {
	b = appendReading(b, p)
	if p.Asked != nil {
		b = append(b, `,"asked":`...)
		b = appendKeys(b, p.Asked)
	}
	if p.Last {
		b = append(b, `,"last":true`...)
	}
	b = appendTotals(b, p.Sent)
	if p.Asked == nil && !p.Last {
		b = append(b, `,"after":`...)
		b = appendKey(b, p.After)
	}
	b = appendUintField(b, `,"rows":`, uint64(len(p.Rows)))
	b = append(b, '}', '\n')
	for i := range p.Rows {
		b = append(b, `{"key":`...)
		b = appendKey(b, p.Rows[i].Key)
		b = append(b, ',')
		b = appendRow(b, p.Rows[i].JSON)
		b = append(b, '}', '\n')
	}
	return b
}

// appendReading begins an object with what pages and digests say of where they were read.
func appendReading(b []byte, p *syncd.Page) []byte {
	b = append(b, `{"table":`...)
	b = appendString(b, p.Table.String())
	b = appendSelector(b, p.Selector)
	b = append(b, `,"schema":"`...)
	b = appendHex64(b, p.Schema)
	b = append(b, `","system":`...)
	b = appendDecimal(b, p.System)
	b = appendUintField(b, `,"timeline":`, uint64(p.Timeline))
	b = appendSnapshot(b, p.Snapshot)
	b = append(b, `,"safe":`...)
	return appendLSN(b, p.Safe)
}

// pageBytes is about how long the body of a page is.
func pageBytes(p *syncd.Page) int {
	n := 512 + len(p.Selector) + 24*len(p.Snapshot.Xip)
	for _, k := range p.Asked {
		n += len(k) + 8
	}
	for i := range p.Rows {
		n += len(p.Rows[i].Key) + len(p.Rows[i].JSON) + 32
	}
	return n
}

func appendSnapshot(b []byte, s *syncd.Snapshot) []byte {
	b = appendUintField(b, `,"epoch":`, uint64(s.Epoch))
	b = appendUintField(b, `,"xmin":`, uint64(s.Xmin))
	b = appendUintField(b, `,"xmax":`, uint64(s.Xmax))
	b = append(b, `,"xip":[`...)
	for i, x := range s.Xip {
		sep := ","
		if i == 0 {
			sep = ""
		}
		b = appendUintField(b, sep, uint64(x))
	}
	b = append(b, ']')
	if s.Standby {
		b = append(b, `,"standby":true,"r":`...)
		b = appendLSN(b, s.R)
		b = append(b, `,"r2":`...)
		b = appendLSN(b, s.R2)
	}
	b = append(b, `,"h":`...)
	return appendLSN(b, s.H)
}

// The fields of requests, as bits of parser.seen.
const (
	requestTable = iota
	requestAfter
	requestLimit
	requestSent
	requestKeys
	requestBuckets
	requestBits
	requestSelector
	requestSince
)

func (p *parser) listRequest(body []byte) (r syncd.ListRequest, err error) {
	err = p.whole(body, func() bool {
		return p.object(func(name string) (ok bool) {
			switch name {
			case "table":
				ok = p.once(requestTable) && p.setTable(&r.Table)
			case "after":
				r.Started = true
				ok = p.once(requestAfter) && p.setKey(&r.After)
			case "limit":
				var n uint64
				ok = p.once(requestLimit) && p.number(&n, math.MaxInt32)
				r.Limit = int(n)
			case "sent":
				ok = p.once(requestSent) && p.totals(&r.Sent)
			case "buckets":
				ok = p.once(requestBuckets) && p.bucketSet(&r.Buckets)
			case "selector":
				ok = p.once(requestSelector) && p.selector(&r.Selector)
			case "since":
				ok = p.once(requestSince) && p.snapshot(&r.Since)
			}
			return ok
		}) && p.needs(1<<requestTable)
	})
	return r, err
}

// snapshot reads an object that holds the fields of appendSnapshot.
func (p *parser) snapshot(to **syncd.Snapshot) bool {
	outer := p.seen
	p.seen = 0
	s := &syncd.Snapshot{}
	ok := p.members(func(name string) bool { return p.snapshotField(s, name) }) && p.needs(snapshotNeeds) && p.checkSnapshot(s)
	p.seen, *to = outer, s
	return ok
}

func (p *parser) getRequest(body []byte) (r syncd.GetRequest, err error) {
	err = p.whole(body, func() bool {
		return p.object(func(name string) (ok bool) {
			switch name {
			case "table":
				ok = p.once(requestTable) && p.setTable(&r.Table)
			case "keys":
				ok = p.once(requestKeys) && p.keys(&r.Keys)
			case "selector":
				ok = p.once(requestSelector) && p.selector(&r.Selector)
			}
			return ok
		}) && p.needs(1<<requestTable|1<<requestKeys)
	})
	return r, err
}

// selector reads what appendSelector wrote: it is not empty.
func (p *parser) selector(to *string) (ok bool) {
	*to, ok = p.str()
	if ok && *to == "" {
		return p.bad("a selector is empty")
	}
	return ok
}

func (p *parser) needs(fields uint32) bool {
	if p.seen&fields != fields {
		return p.bad("a field is missing")
	}
	return true
}

func (p *parser) setTable(t *syncd.Table) (ok bool) {
	*t, ok = text(p, syncd.ParseTable)
	return ok
}

// setKey reads a key, which has at least one value.
func (p *parser) setKey(k *syncd.Key) bool {
	key, n, ok := p.key()
	if ok && n == 0 {
		return p.bad("a key is empty")
	}
	*k = key
	return ok
}

func (p *parser) keys(list *[]syncd.Key) bool {
	*list = []syncd.Key{}
	return p.array(func() bool {
		var k syncd.Key
		ok := p.setKey(&k)
		*list = append(*list, k)
		return ok
	})
}

func (p *parser) totals(t *syncd.Totals) bool {
	var rows, digest bool
	ok := p.members(func(name string) (ok bool) {
		switch name {
		case "rows":
			if rows {
				return p.bad("a field stands there twice")
			}
			rows = true
			ok = p.number(&t.Rows, math.MaxUint64)
		case "digest":
			if digest {
				return p.bad("a field stands there twice")
			}
			digest = true
			t.Digest, ok = p.decimal()
		}
		return ok
	})
	if ok && !(rows && digest) {
		return p.bad("totals need rows and digest")
	}
	return ok
}

// The fields of a page's first line, as bits of parser.seen.
const (
	pageTable = iota
	pageSchema
	pageSystem
	pageTimeline
	pageEpoch
	pageXmin
	pageXmax
	pageXip
	pageH
	pageSafe
	pageSent
	pageRows
	pageStandby
	pageR
	pageR2
	pageAsked
	pageLast
	pageAfter
	pageForm // of a digest, as those that follow
	pageBits
	pageBuckets
	pageSelector
)

// snapshotNeeds are the fields without which a snapshot says nothing.
const snapshotNeeds = 1<<pageEpoch | 1<<pageXmin | 1<<pageXmax | 1<<pageXip | 1<<pageH

const pageNeeds = 1<<(pageRows+1) - 1

// page reads the body of a reply to "list" or "get". Keys and rows are views of body.
func (p *parser) page(body []byte) (*syncd.Page, error) {
	g := &syncd.Page{Snapshot: &syncd.Snapshot{}, Bytes: len(body)}
	p.line = 0
	var rows uint64
	err := p.lines(body, func() bool {
		if p.line > 1 {
			return p.pageRow(g, rows)
		}
		if !p.object(func(name string) bool { return p.pageField(g, &rows, name) }) || !p.checkPage(g) {
			return false
		}
		if rows > uint64(len(body)) {
			return p.bad(`"rows" says more rows than the reply has bytes`)
		}
		g.Rows = make([]syncd.Row, 0, rows)
		return true
	})
	switch {
	case err != nil:
		return nil, err
	case p.line == 0:
		return nil, fmt.Errorf("it is empty")
	case uint64(len(g.Rows)) != rows:
		return nil, fmt.Errorf("it has %d rows and says %d: it was cut off", len(g.Rows), rows)
	}
	return g, nil
}

func (p *parser) pageField(g *syncd.Page, rows *uint64, name string) (ok bool) {
	switch name {
	case "asked":
		ok = p.once(pageAsked) && p.keys(&g.Asked)
	case "last":
		if ok = p.once(pageLast); ok {
			g.Last, ok = p.bool()
		}
	case "sent":
		ok = p.once(pageSent) && p.totals(&g.Sent)
	case "after":
		ok = p.once(pageAfter) && p.setKey(&g.After)
	case "rows":
		ok = p.once(pageRows) && p.number(rows, math.MaxInt32)
	default:
		ok = p.readingField(g, name)
	}
	return ok
}

// readingField reads what appendReading wrote.
func (p *parser) readingField(g *syncd.Page, name string) (ok bool) {
	switch name {
	case "table":
		ok = p.once(pageTable) && p.setTable(&g.Table)
	case "selector":
		ok = p.once(pageSelector) && p.selector(&g.Selector)
	case "schema":
		if ok = p.once(pageSchema); ok {
			g.Schema, ok = text(p, parseSchema)
		}
	case "system":
		if ok = p.once(pageSystem); ok {
			g.System, ok = p.decimal()
		}
	case "timeline":
		var v uint64
		ok = p.once(pageTimeline) && p.number(&v, math.MaxUint32)
		g.Timeline = uint32(v)
	case "safe":
		ok = p.once(pageSafe) && p.setLSN(&g.Safe)
	default:
		ok = p.snapshotField(g.Snapshot, name)
	}
	return ok
}

func (p *parser) snapshotField(s *syncd.Snapshot, name string) (ok bool) {
	switch name {
	case "epoch":
		var v uint64
		ok = p.once(pageEpoch) && p.number(&v, math.MaxUint64)
		s.Epoch = syncd.Epoch(v)
	case "xmin":
		if ok = p.once(pageXmin); ok {
			s.Xmin, ok = p.xid()
		}
	case "xmax":
		if ok = p.once(pageXmax); ok {
			s.Xmax, ok = p.xid()
		}
	case "xip":
		ok = p.once(pageXip) && p.array(func() bool {
			x, ok := p.xid()
			s.Xip = append(s.Xip, x)
			return ok
		})
	case "standby":
		if ok = p.once(pageStandby); ok {
			s.Standby, ok = p.bool()
		}
	case "r":
		ok = p.once(pageR) && p.setLSN(&s.R)
	case "r2":
		ok = p.once(pageR2) && p.setLSN(&s.R2)
	case "h":
		ok = p.once(pageH) && p.setLSN(&s.H)
	}
	return ok
}

func (p *parser) checkPage(g *syncd.Page) bool {
	switch {
	case !p.needs(pageNeeds) || !p.checkSnapshot(g.Snapshot):
		return false
	case g.Asked == nil && !g.Last && p.seen&(1<<pageAfter) == 0:
		return p.bad(`a page that is not the last needs "after"`)
	}
	return true
}

func (p *parser) checkSnapshot(s *syncd.Snapshot) bool {
	switch {
	case s.Standby != (p.seen&(1<<pageR|1<<pageR2) == 1<<pageR|1<<pageR2):
		return p.bad(`"r" and "r2" stand in a standby's page, and only there`)
	case s.Xmin > s.Xmax || !slices.IsSorted(s.Xip):
		return p.bad("xmin, xip and xmax do not ascend")
	}
	return true
}

func (p *parser) pageRow(g *syncd.Page, rows uint64) bool {
	if uint64(len(g.Rows)) == rows {
		return p.bad("there are more rows than the first line says")
	}
	var r syncd.Row
	ok := p.plainRow(&r) || p.anyRow(&r)
	g.Rows = append(g.Rows, r)
	return ok
}

// anyRow reads a line that is a row in any form.
func (p *parser) anyRow(r *syncd.Row) bool {
	return p.object(func(name string) (ok bool) {
		switch name {
		case "key":
			ok = p.once(deltaKey) && p.setKey(&r.Key)
		case "row":
			if ok = p.once(deltaRow); ok {
				r.JSON, ok = p.row()
			}
		case "rowtext":
			if ok = p.once(deltaRow); ok {
				r.JSON, ok = p.rowText()
			}
		}
		return ok
	}) && p.needs(1<<deltaKey|1<<deltaRow)
}

// plainRow reads a line as appendPage writes most of them: a key of one value without escapes, then the row, and no space. It
// gives false, and has moved nowhere, where the line is another, be it right or wrong.
func (p *parser) plainRow(r *syncd.Row) bool {
	const begin, between = `{"key":["`, `"],"row":{`
	if len(p.b) < len(begin) || string(p.b[:len(begin)]) != begin {
		return false
	}
	end := len(begin) + plainRun(p.b[len(begin):])
	row := end + len(between) - 1
	if row >= len(p.b) || string(p.b[end:row+1]) != between {
		return false
	}
	p.i = row
	if !p.skipValue() || p.i != len(p.b)-1 || p.b[p.i] != '}' {
		p.i, p.why = 0, ""
		return false
	}
	r.Key, r.JSON = syncd.Key(view(p.b[len(begin):end])), p.b[row:p.i:p.i]
	p.i++
	return true
}

// appendTableInfos appends the body of a reply to "tables": a line that says how many, then a line for each.
func appendTableInfos(b []byte, list []syncd.TableInfo) []byte {
	b = appendUintField(b, `{"tables":`, uint64(len(list)))
	b = append(b, '}', '\n')
	for i := range list {
		t := &list[i]
		b = append(b, `{"table":`...)
		b = appendString(b, t.Table.String())
		b = append(b, `,"columns":`...)
		b = appendStrings(b, t.Columns)
		b = append(b, `,"types":`...)
		b = appendStrings(b, t.Types)
		b = append(b, `,"key":`...)
		b = appendStrings(b, t.Key)
		b = append(b, `,"schema":"`...)
		b = appendHex64(b, t.Schema)
		b = append(b, '"')
		if t.Error != "" {
			b = append(b, `,"error":`...)
			b = appendString(b, t.Error)
		}
		b = append(b, '}', '\n')
	}
	return b
}

// The fields of a line of tables, as bits of parser.seen.
const (
	infoTable = iota
	infoColumns
	infoTypes
	infoKey
	infoSchema
	infoError
)

func (p *parser) tableInfos(body []byte) ([]syncd.TableInfo, error) {
	p.line = 0
	body = bytes.Clone(body) // the texts are kept for long
	var list []syncd.TableInfo
	n := uint64(math.MaxUint64)
	err := p.lines(body, func() bool {
		if p.line == 1 {
			return p.object(func(name string) bool {
				return name == "tables" && p.once(0) && p.number(&n, math.MaxInt32)
			}) && p.needs(1)
		}
		var t syncd.TableInfo
		ok := p.object(func(name string) bool { return p.infoField(&t, name) }) && p.needs(1<<infoError-1)
		if ok && len(t.Columns) != len(t.Types) {
			return p.bad("there are not as many types as columns")
		}
		list = append(list, t)
		return ok
	})
	if err != nil {
		return nil, err
	}
	if uint64(len(list)) != n {
		return nil, fmt.Errorf("it has %d tables and says %d: it was cut off", len(list), n)
	}
	return list, nil
}

func (p *parser) infoField(t *syncd.TableInfo, name string) (ok bool) {
	switch name {
	case "table":
		ok = p.once(infoTable) && p.setTable(&t.Table)
	case "columns":
		if ok = p.once(infoColumns); ok {
			t.Columns, ok = p.strings()
		}
	case "types":
		if ok = p.once(infoTypes); ok {
			t.Types, ok = p.strings()
		}
	case "key":
		if ok = p.once(infoKey); ok {
			t.Key, ok = p.strings()
		}
	case "schema":
		if ok = p.once(infoSchema); ok {
			t.Schema, ok = text(p, parseSchema)
		}
	case "error":
		if ok = p.once(infoError); ok {
			t.Error, ok = p.str()
		}
	}
	return ok
}

// appendMarkRequest and appendMarkReply append the bodies of a request to "mark" and of its reply.
func appendMarkRequest(b []byte, at syncd.LSN) []byte {
	return append(appendLSN(append(b, `{"at":`...), at), '}')
}

func appendMarkReply(b []byte, pos syncd.Position) []byte {
	b = append(b, `{"position":"`...)
	return append(pos.Append(b), `"}`...)
}

func (p *parser) markRequest(body []byte) (at syncd.LSN, err error) {
	err = p.whole(body, func() bool {
		return p.object(func(name string) bool { return name == "at" && p.once(0) && p.setLSN(&at) }) && p.needs(1)
	})
	return at, err
}

func (p *parser) markReply(body []byte) (pos syncd.Position, err error) {
	err = p.whole(body, func() bool {
		return p.object(func(name string) (ok bool) {
			if name == "position" && p.once(0) {
				pos, ok = text(p, syncd.ParsePosition)
			}
			return ok
		}) && p.needs(1)
	})
	return pos, err
}
