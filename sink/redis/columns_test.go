package redis

import (
	"bytes"
	"slices"
	"testing"
)

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
