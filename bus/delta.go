package bus

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/nats-io/nats.go"

	"github.com/syncd-io/syncd"
)

// AppendDelta appends the line of one delta, its newline included. Table and Schema are not in it: they stand in the
// message's subject and headers. A row of a pointer, and what would be filled into it, is left out.
func AppendDelta(b []byte, d *syncd.Delta) []byte {
	b = append(b, `{"op":"`...)
	b = append(b, d.Op.String()...)
	b = append(b, `","key":`...)
	if d.Op == syncd.Truncate {
		b = append(b, '[', ']')
	} else {
		b = appendKey(b, d.Key)
	}
	if d.Moved {
		b = append(b, `,"from":`...)
		b = appendKey(b, d.From)
	}
	b = append(b, `,"v":"`...)
	b = d.Version.Append(b)
	b = appendUintField(b, `","x":`, uint64(d.XID))
	b = append(b, `,"ts":`...)
	b = appendTime(b, d.Committed)
	switch {
	case d.Op != syncd.Upsert:
	case d.Pointer:
		b = append(b, `,"pointer":true`...)
	default:
		if len(d.Absent) > 0 {
			b = append(b, `,"absent":`...)
			b = appendStrings(b, d.Absent)
		}
		b = append(b, ',')
		b = appendRow(b, d.Row)
	}
	return append(b, '}', '\n')
}

// The fields of a delta's line, as bits of parser.seen.
const (
	deltaOp = iota
	deltaKey
	deltaFrom
	deltaVersion
	deltaXID
	deltaTime
	deltaRow
	deltaAbsent
	deltaPointer
)

const deltaNeeds = 1<<deltaOp | 1<<deltaKey | 1<<deltaVersion | 1<<deltaXID

// deltas reads the lines of a delta message's body. What the deltas hold are views of the body.
func (p *parser) deltas(t syncd.Table, schema uint64, body []byte) ([]syncd.Delta, error) {
	p.line = 0
	list := make([]syncd.Delta, 0, countLines(body))
	err := p.lines(body, func() bool {
		list = append(list, syncd.Delta{Table: t, Schema: schema})
		return p.delta(&list[len(list)-1])
	})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("it holds no deltas")
	}
	return list, nil
}

func (p *parser) delta(d *syncd.Delta) bool {
	values := 0
	ok := p.object(func(name string) bool { return p.deltaField(d, name, &values) })
	if !ok {
		return false
	}
	if p.seen&deltaNeeds != deltaNeeds {
		return p.bad(`one of "op", "key", "v", "x" is missing`)
	}
	return p.checkDelta(d, values)
}

func (p *parser) deltaField(d *syncd.Delta, name string, values *int) (ok bool) {
	switch name {
	case "op":
		ok = p.once(deltaOp) && p.op(&d.Op)
	case "key":
		if ok = p.once(deltaKey); ok {
			d.Key, *values, ok = p.key()
		}
	case "from":
		if ok = p.once(deltaFrom); ok {
			var n int
			d.Moved = true
			if d.From, n, ok = p.key(); ok && n == 0 {
				ok = p.bad(`"from" is empty`)
			}
		}
	case "v":
		if ok = p.once(deltaVersion); ok {
			d.Version, ok = p.version()
		}
	case "x":
		if ok = p.once(deltaXID); ok {
			d.XID, ok = p.xid()
		}
	case "ts":
		if ok = p.once(deltaTime); ok {
			d.Committed, ok = p.time()
		}
	case "row":
		if ok = p.once(deltaRow); ok {
			d.Row, ok = p.row()
		}
	case "rowtext":
		if ok = p.once(deltaRow); ok {
			d.Row, ok = p.rowText()
		}
	case "absent":
		if ok = p.once(deltaAbsent); ok {
			d.Absent, ok = p.strings()
		}
	case "pointer":
		if ok = p.once(deltaPointer); ok {
			d.Pointer, ok = p.bool()
		}
	}
	return ok
}

// version reads a version. The changes of one commit follow each other and differ in the ordinal alone, so the rest is
// read once.
func (p *parser) version() (syncd.Version, bool) {
	from := p.i
	raw, escaped, ok := p.rawString()
	if n := len(p.commit); ok && n > 0 && len(raw) > n && string(raw[:n]) == p.commit && !escaped {
		if ordinal, ok := plainOrdinal(raw[n:]); ok {
			return syncd.Version{Epoch: p.position.Epoch, LSN: p.position.LSN, Ordinal: ordinal}, true
		}
	}
	if !ok {
		return syncd.Version{}, false
	}
	p.i = from
	v, ok := text(p, syncd.ParseVersion)
	if ok && !escaped {
		p.commit, p.position = view(raw[:bytes.LastIndexByte(raw, '-')+1]), v.Position()
	}
	return v, ok
}

// plainOrdinal reads a number of at most nine digits without a leading zero.
func plainOrdinal(b []byte) (n uint32, ok bool) {
	if len(b) == 0 || len(b) > 9 || b[0] == '0' {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint32(c-'0')
	}
	return n, true
}

func (p *parser) op(op *syncd.Op) bool {
	from := p.i
	raw, _, ok := p.rawString()
	if !ok {
		return false
	}
	switch string(raw) {
	case "upsert":
		*op = syncd.Upsert
	case "delete":
		*op = syncd.Delete
	case "truncate":
		*op = syncd.Truncate
	default:
		p.i = from
		return p.bad(fmt.Sprintf("%q is no operation", raw))
	}
	return true
}

// checkDelta holds a delta to what its operation has and has not.
func (p *parser) checkDelta(d *syncd.Delta, values int) bool {
	row := p.seen&(1<<deltaRow) != 0
	switch {
	case d.Op == syncd.Truncate && values > 0:
		return p.bad("a truncate has no key")
	case d.Op != syncd.Truncate && values == 0:
		return p.bad("the key is empty")
	case d.Op == syncd.Upsert && row == d.Pointer:
		return p.bad("an upsert has either a row or is a pointer")
	case d.Op != syncd.Upsert && (row || d.Pointer || d.Moved):
		return p.bad("only an upsert has a row, a pointer or an old key")
	case len(d.Absent) > 0 && !row:
		return p.bad("only a row has absent columns")
	}
	return true
}

func countLines(body []byte) int {
	n := bytes.Count(body, []byte{'\n'})
	if len(body) > 0 && body[len(body)-1] != '\n' {
		n++
	}
	return n
}

// decoder reads the messages of one sync's stream. It remembers what the subjects name.
type decoder struct {
	name   string
	parser parser
	tables map[string]namedTable
}

type namedTable struct {
	table  syncd.Table
	header string
}

// message reads a message of the stream. Deltas hold views of body, which must not change any more.
func (d *decoder) message(subject string, seq uint64, h nats.Header, body []byte) (syncd.Message, error) {
	m := syncd.Message{Seq: seq}
	err := checkFormat(h)
	if err == nil {
		if subject == CommitSubject(d.name) {
			m.Marker, err = d.parser.marker(body)
		} else {
			m.Deltas, err = d.deltas(subject, h, body)
		}
	}
	if err != nil {
		d.parser = parser{}
		return syncd.Message{Seq: seq}, located(err, subject, seq)
	}
	return m, nil
}

func (d *decoder) deltas(subject string, h nats.Header, body []byte) ([]syncd.Delta, error) {
	t, err := d.table(subject)
	if err != nil {
		return nil, err
	}
	if v := h[headerTable]; len(v) != 1 || v[0] != t.header {
		return nil, fmt.Errorf("header %s is %q, the subject names %q", headerTable, v, t.header)
	}
	v := h[headerSchema]
	if len(v) != 1 {
		return nil, fmt.Errorf("header %s is missing", headerSchema)
	}
	schema, err := parseSchema(v[0])
	if err != nil {
		return nil, fmt.Errorf("header %s: %w", headerSchema, err)
	}
	return d.parser.deltas(t.table, schema, body)
}

// rememberTables bounds what a decoder remembers; a sync has far fewer tables.
const rememberTables = math.MaxUint16

func (d *decoder) table(subject string) (namedTable, error) {
	if t, ok := d.tables[subject]; ok {
		return t, nil
	}
	t, err := parseDeltaSubject(d.name, subject)
	if err != nil {
		return namedTable{}, err
	}
	if d.tables == nil || len(d.tables) >= rememberTables {
		d.tables = make(map[string]namedTable)
	}
	n := namedTable{t, tableHeader(t)}
	d.tables[subject] = n
	return n, nil
}
