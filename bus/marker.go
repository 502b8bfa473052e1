package bus

import (
	"cmp"
	"math"
	"slices"

	"github.com/syncd-io/syncd"
)

// AppendMarker appends the body of a marker's message.
func AppendMarker(b []byte, m *syncd.Marker) []byte {
	b = appendUintField(b, `{"epoch":`, uint64(m.Epoch))
	b = append(b, `,"previous":`...)
	b = appendLSN(b, m.Previous)
	b = append(b, `,"through":`...)
	b = appendLSN(b, m.Through)
	if m.Part {
		b = append(b, `,"part":true`...)
	}
	b = appendUintField(b, `,"first":`, m.First)
	b = append(b, `,"counts":{`...)
	for i, t := range sortedTables(m.Counts) {
		b = appendMember(b, i, t)
		b = appendUintField(b, ":", uint64(m.Counts[t]))
	}
	b = append(b, `},"safe":`...)
	b = appendLSN(b, m.Safe)
	b = append(b, `,"commit":`...)
	b = appendLSN(b, m.Commit)
	b = appendUintField(b, `,"xid":`, uint64(m.XID))
	b = append(b, `,"start":`...)
	b = appendLSN(b, m.Start)
	b = append(b, `,"system":`...)
	b = appendDecimal(b, m.System)
	b = appendUintField(b, `,"timeline":`, uint64(m.Timeline))
	if len(m.Relist) > 0 {
		b = append(b, `,"relist":{`...)
		for i, t := range sortedTables(m.Relist) {
			b = append(appendMember(b, i, t), ':')
			b = appendString(b, m.Relist[t])
		}
		b = append(b, '}')
	}
	if m.Catalog != "" {
		b = append(b, `,"catalog":`...)
		b = appendString(b, m.Catalog)
	}
	b = append(b, `,"sent":`...)
	b = appendTime(b, m.Sent)
	return append(b, '}')
}

func appendMember(b []byte, i int, t syncd.Table) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return appendString(b, t.String())
}

func sortedTables[V any](m map[syncd.Table]V) []syncd.Table {
	list := make([]syncd.Table, 0, len(m))
	for t := range m {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b syncd.Table) int {
		return cmp.Or(cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// The fields of a marker, as bits of parser.seen.
const (
	markerEpoch = iota
	markerPrevious
	markerThrough
	markerFirst
	markerCounts
	markerSafe
	markerCommit
	markerXID
	markerStart
	markerSystem
	markerTimeline
	markerSent
	markerPart
	markerRelist
	markerCatalog
)

const markerNeeds = 1<<(markerSent+1) - 1

// marker reads the body of a marker's message.
func (p *parser) marker(body []byte) (*syncd.Marker, error) {
	m := &syncd.Marker{}
	err := p.whole(body, func() bool {
		if !p.object(func(name string) bool { return p.markerField(m, name) }) {
			return false
		}
		if p.seen&markerNeeds != markerNeeds {
			return p.bad("a field of the marker is missing")
		}
		if m.Through < m.Previous {
			return p.bad(`"through" lies before "previous"`)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (p *parser) markerField(m *syncd.Marker, name string) (ok bool) {
	switch name {
	case "epoch":
		var v uint64
		ok = p.once(markerEpoch) && p.number(&v, math.MaxUint64)
		m.Epoch = syncd.Epoch(v)
	case "previous":
		ok = p.once(markerPrevious) && p.setLSN(&m.Previous)
	case "through":
		ok = p.once(markerThrough) && p.setLSN(&m.Through)
	case "first":
		ok = p.once(markerFirst) && p.number(&m.First, math.MaxUint64)
	case "counts":
		ok = p.once(markerCounts) && p.counts(m)
	case "safe":
		ok = p.once(markerSafe) && p.setLSN(&m.Safe)
	case "commit":
		ok = p.once(markerCommit) && p.setLSN(&m.Commit)
	case "xid":
		var v uint64
		ok = p.once(markerXID) && p.number(&v, math.MaxUint64)
		m.XID = syncd.XID(v)
	case "start":
		ok = p.once(markerStart) && p.setLSN(&m.Start)
	case "system":
		if ok = p.once(markerSystem); ok {
			m.System, ok = p.decimal()
		}
	case "timeline":
		var v uint64
		ok = p.once(markerTimeline) && p.number(&v, math.MaxUint32)
		m.Timeline = uint32(v)
	default:
		ok = p.markerExtra(m, name)
	}
	return ok
}

func (p *parser) markerExtra(m *syncd.Marker, name string) (ok bool) {
	switch name {
	case "sent":
		if ok = p.once(markerSent); ok {
			m.Sent, ok = p.time()
		}
	case "part":
		if ok = p.once(markerPart); ok {
			m.Part, ok = p.bool()
		}
	case "relist":
		ok = p.once(markerRelist) && p.relist(m)
	case "catalog":
		if ok = p.once(markerCatalog); ok {
			m.Catalog, ok = p.str()
		}
	}
	return ok
}

func (p *parser) number(v *uint64, highest uint64) (ok bool) {
	*v, ok = p.uint(highest)
	return ok
}

func (p *parser) setLSN(l *syncd.LSN) (ok bool) {
	*l, ok = p.lsn()
	return ok
}

// tables reads an object whose members are tables, each once.
func (p *parser) tables(value func(t syncd.Table) bool, known func(t syncd.Table) bool) bool {
	if p.i >= len(p.b) || p.b[p.i] != '{' {
		return p.bad("want an object")
	}
	p.i++
	for first := true; ; first = false {
		p.space()
		if p.i < len(p.b) && p.b[p.i] == '}' {
			p.i++
			return true
		}
		if !first {
			if !p.expect(',', "want a comma or the end of the object") {
				return false
			}
			p.space()
		}
		t, ok := text(p, syncd.ParseTable)
		if !ok {
			return false
		}
		if known(t) {
			return p.bad("a table stands there twice")
		}
		if !p.expect(':', "want a colon after the table") {
			return false
		}
		p.space()
		if !value(t) {
			return false
		}
	}
}

func (p *parser) counts(m *syncd.Marker) bool {
	m.Counts = make(map[syncd.Table]int)
	return p.tables(func(t syncd.Table) bool {
		n, ok := p.uint(math.MaxInt32)
		m.Counts[t] = int(n)
		return ok
	}, func(t syncd.Table) bool { _, ok := m.Counts[t]; return ok })
}

func (p *parser) relist(m *syncd.Marker) bool {
	m.Relist = make(map[syncd.Table]string)
	return p.tables(func(t syncd.Table) bool {
		s, ok := p.str()
		m.Relist[t] = s
		return ok
	}, func(t syncd.Table) bool { _, ok := m.Relist[t]; return ok })
}
