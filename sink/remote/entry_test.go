package remote

import (
	"reflect"
	"testing"

	"go.uber.org/goleak"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func FuzzParseHead(f *testing.F) {
	v := syncd.Version{Epoch: 3, LSN: 1 << 40, Ordinal: 7}
	snap := &syncd.Snapshot{Epoch: 3, Xmin: 5, Xmax: 9, Xip: []syncd.XID{6}, H: 70}
	for _, e := range []sink.Entry{{}, {Version: v, XID: 9}, {Version: v, Row: []byte("{}"), Pending: true}, {Version: syncd.Version{Epoch: 3}, Snap: snap}} {
		f.Add(AppendHead(nil, &e, ""))
		f.Add(AppendHead(nil, &e, "n\x01a"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := ParseHead(b)
		if err != nil {
			return
		}
		full := e.Entry
		if e.HasRow {
			full.Row = []byte{}
		}
		again, err := ParseHead(AppendHead(nil, &full, e.Form))
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Fatalf("%+v comes back as %+v, %v", e, again, err)
		}
	})
}
