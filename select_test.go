package syncd_test

import (
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
)

func TestSelect(t *testing.T) {
	t.Parallel()
	const row = `{"id":1,"name":"a\"b","price": 1.50,"odd \"x\"":[1,{"id":2}]}`
	for in, want := range map[string]string{
		"*":                row,
		"id":               `{"id":1}`,
		"price,id":         `{"price":1.50,"id":1}`,
		`"odd \"x\"",name`: `{"odd \"x\"":[1,{"id":2}],"name":"a\"b"}`,
		"doc,id":           `{"id":1}`, // the row has no doc
	} {
		s, err := syncd.ParseSelect(filterInfo(), in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := string(s.Append([]byte("x"), []byte(row))); got != "x"+want {
			t.Errorf("%s: %s, want %s", in, got[1:], want)
		}
		if s.IsZero() != (in == "*") {
			t.Errorf("%s: is zero: %v", in, s.IsZero())
		}
	}
	for in, want := range map[string]string{
		"": "names no columns", "id,": `no column ""`, "id,id": "twice", "x:id": "renames", "count(id)": "names no columns", "idd": "did you mean id?", `"id`: "names no columns",
	} {
		if _, err := syncd.ParseSelect(filterInfo(), in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want it to say %q", in, err, want)
		}
	}
}
