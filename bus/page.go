package bus

import (
	"fmt"
	"math"
	"slices"

	"github.com/syncd-io/syncd"
)

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
