package syncd

import (
	"bytes"
	"slices"
)

// Index orders the rows of a table by the values of some columns, so that a store can find the rows that a filter may match
// without looking at all. Its keys are bytes that have the values' order; long values are cut, so a key narrows the search
// and the filter has the last word. An Index is not changed after it was made.
type Index struct {
	columns []filterColumn
}

// The first byte of a column's part in an index key.
const (
	partValue = 1 + iota
	partNull
	partOdd     // the value is not of its type: no comparison finds it
	partEnd     = 0x00
	partCeiling = 0xFF // above every byte that a part, or the next, begins with
)

// maxPart is how many bytes of a text an index key holds.
const maxPart = 128

// NewIndex makes an index. A column that the table lacks is an error that names it.
func NewIndex(info TableInfo, columns []string) (*Index, error) {
	x := &Index{}
	for _, name := range columns {
		i := slices.Index(info.Columns, name)
		if i < 0 {
			return nil, noColumn(info, name)
		}
		c := filterColumn{name: name}
		if i < len(info.Types) {
			c.kind = kindOf(info.Types[i])
		}
		x.columns = append(x.columns, c)
	}
	return x, nil
}

// AppendKey appends a row's key in the index.
func (x *Index) AppendKey(dst, row []byte) []byte {
	var few [4][]byte
	values := few[:min(len(x.columns), len(few))]
	if len(x.columns) > len(few) {
		values = make([][]byte, len(x.columns))
	}
	s := fieldScanner{row: row}
	for left := len(values); left > 0 && s.next(); {
		for i := range values {
			if values[i] == nil && isName(s.name, x.columns[i].name) {
				values[i] = s.value
				left--
			}
		}
	}
	for i, raw := range values {
		if raw == nil {
			raw = jsonNull
		}
		dst = x.columns[i].kind.appendPart(dst, raw)
	}
	return dst
}

func (k kind) appendPart(dst, raw []byte) []byte {
	var scratch [48]byte
	v, state := k.value(scratch[:0], raw)
	switch state {
	case isNull:
		return append(dst, partNull)
	case isOdd:
		return append(dst, partOdd)
	}
	return k.appendOperand(dst, v)
}

// appendOperand appends the part of a value whose comparable form is v.
func (k kind) appendOperand(dst, v []byte) []byte {
	if len(v) > maxPart {
		v = v[:maxPart]
	}
	dst = append(append(dst, partValue), v...)
	if k == plainKind || k == textKind || k == paddedKind || k == numberKind {
		dst = append(dst, partEnd)
	}
	return dst
}

// KeyRange is a range of index keys: those from From on, and below To.
type KeyRange struct{ From, To []byte }

// Plan says where in an index all rows lie that a filter can match.
type Plan struct {
	// Ranges ascend and don't overlap.
	Ranges []KeyRange
	// Exact says that every range holds one key alone: the filter fixes all columns of the index.
	Exact bool
	// Rank is the greater, the more the index narrows the search; 0: not at all, there are no Ranges.
	Rank int
}

// maxRanges bounds the lookups of a plan: more combinations of values are searched with fewer columns.
const maxRanges = 1000

// Plan plans a search for the rows that a filter matches: by the values that it fixes of the index's first columns, with eq, in
// and is, and by one range behind them.
func (x *Index) Plan(f Filter) Plan {
	prefixes := [][]byte{nil}
	p := Plan{Exact: true}
	for i := range x.columns {
		c := f.on(x.columns[i].name)
		if c == nil || c.kind != x.columns[i].kind { // or the filter is on another shape of the table
			p.Exact = false
			break
		}
		parts := c.fixed()
		if parts != nil && len(parts)*len(prefixes) <= maxRanges {
			prefixes = product(prefixes, parts)
			p.Rank += 2
			continue
		}
		p.Exact = false
		if from, to, ok := c.bounds(); ok {
			p.Rank++
			for _, prefix := range prefixes {
				p.Ranges = append(p.Ranges, KeyRange{slices.Concat(prefix, from), slices.Concat(prefix, to)})
			}
			return p
		}
		break
	}
	if p.Rank == 0 {
		return Plan{}
	}
	for _, prefix := range prefixes {
		p.Ranges = append(p.Ranges, KeyRange{prefix, append(slices.Clone(prefix), partCeiling)})
	}
	return p
}

// on gives the conditions on a column; nil where there are none.
func (f *Filter) on(name string) *filterColumn {
	for i := range f.columns {
		if f.columns[i].name == name {
			return &f.columns[i]
		}
	}
	return nil
}

// fixed gives the parts of the values that the conditions allow, ascending; nil where they don't fix any. One condition that
// does is enough: the filter looks at the rows that are found.
func (c *filterColumn) fixed() [][]byte {
	var best [][]byte
	for i := range c.conditions {
		cond := &c.conditions[i]
		if cond.not {
			continue
		}
		var parts [][]byte
		switch cond.op {
		case opEq, opIs:
			parts = [][]byte{c.kind.appendOperand(nil, cond.one)}
		case opNull:
			parts = [][]byte{{partNull}}
		case opIn:
			parts = make([][]byte, 0, len(cond.all))
			for _, v := range cond.all {
				parts = append(parts, c.kind.appendOperand(nil, v))
			}
			parts = slices.CompactFunc(parts, bytes.Equal) // long ones may be cut to the same
		default:
			continue
		}
		if best == nil || len(parts) < len(best) {
			best = parts
		}
	}
	return best
}

// bounds gives the range of parts that gt, gte, lt and lte allow.
func (c *filterColumn) bounds() (from, to []byte, ok bool) {
	from, to = []byte{partValue}, []byte{partNull}
	for i := range c.conditions {
		cond := &c.conditions[i]
		if cond.not || cond.op != opGt && cond.op != opGte && cond.op != opLt && cond.op != opLte {
			continue
		}
		ok = true
		part := c.kind.appendOperand(nil, cond.one)
		if cond.op == opLt || cond.op == opLte {
			if part = append(part, partCeiling); bytes.Compare(part, to) < 0 {
				to = part
			}
		} else if bytes.Compare(part, from) > 0 {
			from = part
		}
	}
	return from, to, ok
}

func product(prefixes, parts [][]byte) [][]byte {
	out := make([][]byte, 0, len(prefixes)*len(parts))
	for _, prefix := range prefixes {
		for _, part := range parts {
			out = append(out, slices.Concat(prefix, part))
		}
	}
	return out
}
