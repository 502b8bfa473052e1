package bus

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/syncd-io/syncd"
)

// appendDigestRequest appends the body of a request to the endpoint "digest".
func appendDigestRequest(b []byte, r *syncd.DigestRequest) []byte {
	b = append(b, `{"table":`...)
	b = appendString(b, r.Table.String())
	b = appendUintField(b, `,"bits":`, uint64(r.Bits))
	return append(appendSince(appendSelector(b, r.Selector), r.Since), '}')
}

func (p *parser) digestRequest(body []byte) (r syncd.DigestRequest, err error) {
	err = p.whole(body, func() bool {
		return p.object(func(name string) (ok bool) {
			switch name {
			case "table":
				ok = p.once(requestTable) && p.setTable(&r.Table)
			case "bits":
				ok = p.once(requestBits) && p.bits(&r.Bits)
			case "selector":
				ok = p.once(requestSelector) && p.selector(&r.Selector)
			case "since":
				ok = p.once(requestSince) && p.snapshot(&r.Since)
			}
			return ok
		}) && p.needs(1<<requestTable|1<<requestBits)
	})
	return r, err
}

func (p *parser) bits(to *int) bool {
	var n uint64
	if !p.number(&n, syncd.MaxDigestBits) {
		return false
	}
	*to = int(n)
	return true
}

// appendBucketSet appends the value of a list request's "buckets".
func appendBucketSet(b []byte, s *syncd.BucketSet) []byte {
	b = appendUintField(b, `{"bits":`, uint64(s.Bits))
	b = append(b, `,"ranges":[`...)
	for i, r := range s.Ranges {
		open := ",["
		if i == 0 {
			open = "["
		}
		b = appendUintField(b, open, uint64(r.First))
		b = append(appendUintField(b, ",", uint64(r.Last)), ']')
	}
	return append(b, ']', '}')
}

// bucketSet reads what appendBucketSet wrote.
func (p *parser) bucketSet(to **syncd.BucketSet) bool {
	s := &syncd.BucketSet{}
	var bits, ranges bool
	ok := p.members(func(name string) bool {
		switch {
		case name == "bits" && !bits:
			bits = true
			return p.bits(&s.Bits)
		case name == "ranges" && !ranges:
			ranges = true
			return p.array(func() bool { return p.bucketRange(s) })
		case name == "bits", name == "ranges":
			return p.bad("a field stands there twice")
		}
		return false
	})
	if ok && !(bits && ranges && s.Valid()) {
		return p.bad("buckets need bits, and ranges of them that ascend and don't touch")
	}
	*to = s
	return ok
}

func (p *parser) bucketRange(s *syncd.BucketSet) bool {
	var ends []int
	ok := p.array(func() bool {
		var n uint64
		ok := p.number(&n, 1<<syncd.MaxDigestBits-1)
		ends = append(ends, int(n))
		return ok
	})
	if ok && len(ends) != 2 {
		return p.bad("a range of buckets is its first and its last")
	}
	if ok {
		s.Ranges = append(s.Ranges, syncd.BucketRange{First: ends[0], Last: ends[1]})
	}
	return ok
}

// appendDigest appends the body of a reply to "digest".
func appendDigest(b []byte, d *syncd.Digest) []byte {
	b = appendReading(b, &syncd.Page{Table: d.Table, Selector: d.Selector, Schema: d.Schema, System: d.System, Timeline: d.Timeline, Snapshot: d.Snapshot, Safe: d.Safe})
	b = appendUintField(b, `,"form":`, uint64(d.Form))
	b = appendUintField(b, `,"bits":`, uint64(d.Bits))
	b = append(b, `,"buckets":"`...)
	b = base64.StdEncoding.AppendEncode(b, appendTotalsList(make([]byte, 0, 10*len(d.Buckets)), d.Buckets))
	return append(b, '"', '}')
}

// appendTotalsList appends the totals of buckets: of each the number of its rows, as an unsigned varint (LEB128), and
// where there are any the sum of their digests, eight bytes, the lowest first.
func appendTotalsList(b []byte, all []syncd.Totals) []byte {
	for _, t := range all {
		b = binary.AppendUvarint(b, t.Rows)
		if t.Rows > 0 {
			b = binary.LittleEndian.AppendUint64(b, t.Digest)
		}
	}
	return b
}

var errTotals = errors.New("the buckets are cut off, or are not as many as the bits say")

func parseTotalsList(b []byte, n int) ([]syncd.Totals, error) {
	all := make([]syncd.Totals, n)
	for i := range all {
		rows, size := binary.Uvarint(b)
		if size <= 0 || size > 1 && b[size-1] == 0 {
			return nil, errTotals
		}
		b = b[size:]
		if rows == 0 {
			continue
		}
		if len(b) < 8 {
			return nil, errTotals
		}
		all[i] = syncd.Totals{Rows: rows, Digest: binary.LittleEndian.Uint64(b)}
		b = b[8:]
	}
	if len(b) > 0 {
		return nil, errTotals
	}
	return all, nil
}

const digestNeeds = (pageNeeds &^ (1<<pageSent | 1<<pageRows)) | 1<<pageForm | 1<<pageBits | 1<<pageBuckets

// digest reads the body of a reply to "digest".
func (p *parser) digest(body []byte) (*syncd.Digest, error) {
	g := &syncd.Page{Snapshot: &syncd.Snapshot{}}
	d := &syncd.Digest{Bytes: len(body)}
	var buckets string
	err := p.whole(body, func() bool {
		return p.object(func(name string) (ok bool) {
			switch name {
			case "form":
				var n uint64
				ok = p.once(pageForm) && p.number(&n, 1<<31-1)
				d.Form = int(n)
			case "bits":
				ok = p.once(pageBits) && p.bits(&d.Bits)
			case "buckets":
				if ok = p.once(pageBuckets); ok {
					buckets, ok = p.str()
				}
			default:
				ok = p.readingField(g, name)
			}
			return ok
		}) && p.needs(digestNeeds) && p.checkSnapshot(g.Snapshot)
	})
	if err != nil {
		return nil, err
	}
	packed, err := base64.StdEncoding.Strict().DecodeString(buckets)
	if err == nil {
		d.Buckets, err = parseTotalsList(packed, 1<<d.Bits)
	}
	if err != nil {
		return nil, fmt.Errorf(`"buckets": %w`, err)
	}
	d.Selector = g.Selector
	d.Table, d.Schema, d.System, d.Timeline, d.Snapshot, d.Safe = g.Table, g.Schema, g.System, g.Timeline, g.Snapshot, g.Safe
	return d, nil
}
