package syncd_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/syncd-io/syncd"
)

var versions = rapid.Custom(func(t *rapid.T) syncd.Version {
	return syncd.Version{
		Epoch:   syncd.Epoch(rapid.Uint64().Draw(t, "epoch")),
		LSN:     syncd.LSN(rapid.Uint64().Draw(t, "lsn")),
		Ordinal: rapid.Uint32().Draw(t, "ordinal"),
	}
})

// ascending are versions and positions in their order; texts of later ones sort before those of earlier ones.
var ascending = []struct {
	text    string
	version syncd.Version
}{
	{"0-0/0-0", syncd.Version{}},
	{"1-0/9-99", syncd.Version{Epoch: 1, LSN: 9, Ordinal: 99}},
	{"1-0/9-100", syncd.Version{Epoch: 1, LSN: 9, Ordinal: 100}},
	{"1-0/10-1", syncd.Version{Epoch: 1, LSN: 16, Ordinal: 1}},
	{"1-0/FFFFFFFF-1", syncd.Version{Epoch: 1, LSN: math.MaxUint32, Ordinal: 1}},
	{"1-1/0-1", syncd.Version{Epoch: 1, LSN: math.MaxUint32 + 1, Ordinal: 1}},
	{"1-16/B374D848-1", syncd.Version{Epoch: 1, LSN: 0x16B374D848, Ordinal: 1}},
	{"99-FFFFFFFF/FFFFFFFF-4294967295", syncd.Version{Epoch: 99, LSN: math.MaxUint64, Ordinal: math.MaxUint32}},
	{"100-0/0-0", syncd.Version{Epoch: 100}},
	{"1764534000000-0/16B3748-3", syncd.Version{Epoch: 1764534000000, LSN: 0x16B3748, Ordinal: 3}},
	{"18446744073709551615-FFFFFFFF/FFFFFFFF-4294967295", syncd.Version{Epoch: math.MaxUint64, LSN: math.MaxUint64, Ordinal: math.MaxUint32}},
}

func TestVersionOrderAndText(t *testing.T) {
	for i, c := range ascending {
		if got := c.version.String(); got != c.text {
			t.Errorf("%+v prints %q, want %q", c.version, got, c.text)
		}
		if got, err := syncd.ParseVersion(c.text); err != nil || got != c.version {
			t.Errorf("%q reads as %+v, %v", c.text, got, err)
		}
		for j, d := range ascending {
			want := min(max(i-j, -1), 1)
			if got := c.version.Compare(d.version); got != want {
				t.Errorf("%s against %s: %d, want %d", c.text, d.text, got, want)
			}
		}
	}
}

func TestVersionNotRead(t *testing.T) {
	for _, text := range []string{
		"", "-", "1", "1-", "1-0/1", "1-0/1-", "-0/1-1", "1-0/1-1-1", "01-0/1-1", "+1-0/1-1", "1-0/1-01", "1-0/1-+1", "1-0/1- 1", " 1-0/1-1",
		"1-0/1-4294967296", "18446744073709551616-0/1-1", "1-0/100000000-1", "1-100000000/0-1", "1-/1-1", "1-0/-1", "1-0-1", "1-0/g-1", "x-0/1-1", "1-0/1-1\n",
	} {
		if v, err := syncd.ParseVersion(text); err == nil {
			t.Errorf("%q reads as %s", text, v)
		}
	}
}

func TestVersionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := versions.Draw(t, "version")
		if got, err := syncd.ParseVersion(v.String()); err != nil || got != v {
			t.Errorf("version %s reads as %+v, %v", v, got, err)
		}
		p := v.Position()
		if got, err := syncd.ParsePosition(p.String()); err != nil || got != p {
			t.Errorf("position %s reads as %+v, %v", p, got, err)
		}
		if got, err := syncd.ParseLSN(v.LSN.String()); err != nil || got != v.LSN {
			t.Errorf("LSN %s reads as %d, %v", v.LSN, got, err)
		}
	})
}

func TestVersionOrderIsTotal(t *testing.T) {
	near := rapid.Custom(func(t *rapid.T) syncd.Version {
		small := rapid.Uint64Range(0, 2)
		return syncd.Version{Epoch: syncd.Epoch(small.Draw(t, "epoch")), LSN: syncd.LSN(small.Draw(t, "lsn")), Ordinal: uint32(small.Draw(t, "ordinal"))}
	})
	rapid.Check(t, func(t *rapid.T) {
		vs := rapid.SliceOfN(near, 3, 3).Draw(t, "versions")
		a, b, c := vs[0], vs[1], vs[2]
		if a.Compare(b) != -b.Compare(a) || (a.Compare(b) == 0) != (a == b) {
			t.Errorf("%s and %s", a, b)
		}
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
			t.Errorf("%s, %s, %s are not in one order", a, b, c)
		}
		if a.Position().Compare(b.Position()) < 0 && a.Compare(b) >= 0 {
			t.Errorf("%s and %s order otherwise than their positions", a, b)
		}
	})
}

func FuzzParseVersion(f *testing.F) {
	for _, c := range ascending {
		f.Add(c.text)
	}
	f.Add("1-0/0000000A-1")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := syncd.ParseVersion(text)
		if err != nil {
			return
		}
		if w, err := syncd.ParseVersion(v.String()); err != nil || w != v {
			t.Errorf("%q reads as %s, which reads as %s, %v", text, v, w, err)
		}
	})
}

func TestLSNText(t *testing.T) {
	for text, want := range map[string]syncd.LSN{"0/0": 0, "0/16B3748": 0x16B3748, "16/B374D848": 0x16B374D848, "0/00000001": 1, "ffffffff/FFFFFFFF": math.MaxUint64} {
		if got, err := syncd.ParseLSN(text); err != nil || got != want {
			t.Errorf("%q reads as %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "/", "0/", "/0", "0", "0/0/0", "0x1/0", "+1/0", "0/-1", "123456789/0", "0/123456789", "0/1 ", "1_0/0"} {
		if got, err := syncd.ParseLSN(text); err == nil {
			t.Errorf("%q reads as %s", text, got)
		}
	}
}

func TestWidenXID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Any 64-bit id within 2^31 of the reference is found again from its lower half.
		ref := rapid.Uint64Range(1<<31, 1<<62).Draw(t, "ref")
		xid := ref + uint64(rapid.Int64Range(-1<<31, 1<<31-1).Draw(t, "distance"))
		if got := syncd.WidenXID(uint32(xid), syncd.XID(ref)); got != syncd.XID(xid) {
			t.Errorf("%d next to %d widens to %d", xid, ref, got)
		}
	})
	for _, c := range []struct {
		xid       uint32
		ref, want syncd.XID
	}{{731, 5<<32 + 740, 5<<32 + 731}, {math.MaxUint32, 5 << 32, 5<<32 - 1}, {3, 5<<32 - 1, 5<<32 + 3}} {
		if got := syncd.WidenXID(c.xid, c.ref); got != c.want {
			t.Errorf("%d next to %d widens to %d, want %d", c.xid, c.ref, got, c.want)
		}
	}
}

func TestPositionsOrderByEpochFirst(t *testing.T) {
	all := []syncd.Position{{}, {Epoch: 1}, {Epoch: 1, LSN: 5}, {Epoch: 2, LSN: 1}}
	if !slices.IsSortedFunc(all, syncd.Position.Compare) || !all[0].IsZero() || all[1].IsZero() {
		t.Error("positions are out of order")
	}
}
