package bus

import (
	"bytes"
	"fmt"
	"math"

	"github.com/syncd-io/syncd"
)

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
