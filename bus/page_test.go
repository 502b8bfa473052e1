package bus

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/syncd-io/syncd"
)

// BenchmarkParsePage reads a page of rows of 200 bytes in seven columns.
func BenchmarkParsePage(b *testing.B) {
	p := samplePages()[2]
	p.Rows = nil
	for i := range 5000 {
		p.Rows = append(p.Rows, syncd.Row{Key: syncd.MakeKey(fmt.Sprint(i)), JSON: fmt.Appendf(nil,
			`{"id":%d,"customer":%d,"sku":"sku-%d","note":"c4ca4238a0b923820dcc509a6f75849bc4ca4238a0b923820dcc509a6f75","price":%d.50,"amount":0,"changed":"2026-01-01T00:00:00.124456+00:00"}`, i, i%9973, i, i)})
	}
	body := appendPage(nil, &p)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		var p parser
		g, err := p.page(body)
		if err != nil {
			b.Fatal(err)
		}
		n += len(g.Rows)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/row")
}

// plainRowsAreRows checks that what is taken for a plain row is read otherwise as the same.
func plainRowsAreRows(t *testing.T, body []byte) {
	t.Helper()
	for line := range bytes.Lines(body) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		var plain, other syncd.Row
		p, q := parser{scanner: scanner{b: line}}, parser{scanner: scanner{b: line}}
		if !p.plainRow(&plain) {
			if p.i != 0 || p.why != "" {
				t.Errorf("%s: refused at %d: %s", line, p.i, p.why)
			}
			continue
		}
		if !q.anyRow(&other) || plain.Key != other.Key || !bytes.Equal(plain.JSON, other.JSON) {
			t.Errorf("%s: %q %s, but %q %s (%s)", line, plain.Key, plain.JSON, other.Key, other.JSON, q.why)
		}
	}
}

func TestPlainRows(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`{"key":["1"],"row":{"id":1}}`, `{"key":[""],"row":{}}`, `{"key":["1"],"row":{"a":[{"b":"\""}],"c":-1.5e7,"d":null}}`,
		`{"key":["1","2"],"row":{}}`, `{"key":["\u0031"],"row":{}}`, `{"key":["1"],"row":{},"x":1}`, `{"key":["1"],"row":{}} `, `{"key":["1"],"row":{}`,
		`{"key":["1"],"row":[]}`, `{"key":["1"],"row":{"a":01}}`, `{"key":["1"],"row":{"a":1.}}`, `{"key":["1"],"row":{"a":tru}}`, `{"key":["1`, `{"key":[`, ``,
	} {
		plainRowsAreRows(t, []byte(line))
	}
	p := parser{scanner: scanner{b: []byte(`{"key":["1"],"row":{"id":1}}`)}}
	if !p.plainRow(&syncd.Row{}) {
		t.Error("no line is plain")
	}
}
