package redis

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

func FuzzParseEntry(f *testing.F) {
	v := syncd.Version{Epoch: 3, LSN: 1 << 40, Ordinal: 7}
	snap := &syncd.Snapshot{Epoch: 3, Xmin: 5, Xmax: 9, Xip: []syncd.XID{6}, H: 70}
	for _, e := range []sink.Entry{{}, {Version: v, XID: 9}, {Version: v, Row: []byte("{}"), Pending: true}, {Version: syncd.Version{Epoch: 3}, Snap: snap}} {
		f.Add(appendEntry(nil, &e, ""))
		f.Add(appendEntry(nil, &e, "n\x01a"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseEntry(b)
		if err != nil {
			return
		}
		full := e.Entry
		if e.row {
			full.Row = []byte{}
		}
		again, err := parseEntry(appendEntry(nil, &full, e.form))
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Fatalf("%+v comes back as %+v, %v", e, again, err)
		}
	})
}

// FuzzSplit wants each row back byte by byte, and any form and fields read without a panic.
func FuzzSplit(f *testing.F) {
	for _, row := range []string{`{}`, `{"id":1}`, `{"a":"x\"\\\n\u0001","b":null,"c":{"d": [1, "2"]},"é":1.50}`, `{"a":"\u0041"}`, `{"a":1,"a":2}`, `{"a": 1}`, `{"":""}`, `x`} {
		f.Add([]byte(row))
	}
	f.Fuzz(func(t *testing.T, row []byte) {
		fields, form := split(row)
		held := map[string]string{}
		for pair := range slices.Chunk(fields, 2) {
			held[pair[0]] = pair[1]
		}
		if len(held) == 0 {
			t.Fatalf("%q: a hash without fields is none", row)
		}
		if got := join(form, held); !bytes.Equal(got, row) {
			t.Fatalf("%q comes back as %q", row, got)
		}
		join(string(row), held)
	})
}

// TestFields shows what another program finds in a row that is kept as a hash.
func TestFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		row  string
		want []string
	}{
		{`{"id":7,"name":"O'Neil \"x\"","gone":null,"doc":{"a": [1, 2]},"ok":true}`, []string{"id", "7", "name", `O'Neil "x"`, "doc", `{"a": [1, 2]}`, "ok", "true"}},
		{`{"gone":null}`, []string{"", ""}},
	} {
		if got, _ := split([]byte(c.row)); !slices.Equal(got, c.want) {
			t.Errorf("%s has fields %q, want %q", c.row, got, c.want)
		}
	}
	_, form := split([]byte(`{"a":1,"b":"x"}`))
	for _, spoilt := range []map[string]string{nil, {"a": "1"}, {"a": "1", "b": "x", "c": "y"}} {
		if row := join(form, spoilt); row != nil {
			t.Errorf("%v is read as %s", spoilt, row)
		}
	}
}
