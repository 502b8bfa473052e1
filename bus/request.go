package bus

import (
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
