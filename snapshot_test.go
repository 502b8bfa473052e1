package syncd_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/syncd-io/syncd"
)

const epoch = 5

func primary(xmin, xmax syncd.XID, xip ...syncd.XID) *syncd.Snapshot {
	return &syncd.Snapshot{Epoch: epoch, Xmin: xmin, Xmax: xmax, Xip: xip}
}

func TestVisible(t *testing.T) {
	s := primary(10, 20, 10, 15)
	many := primary(10, 40, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28)
	standby := &syncd.Snapshot{Epoch: epoch, Xmin: 10, Xmax: 20, Standby: true, R: 100, R2: 120, H: 120}
	for _, c := range []struct {
		name string
		snap *syncd.Snapshot
		xid  syncd.XID
		lsn  syncd.LSN
		want syncd.Visibility
	}{
		{"below xmin", s, 9, 1000, syncd.Visible},
		{"xmin itself is running", s, 10, 1, syncd.Invisible},
		{"between, ended", s, 11, 1000, syncd.Visible},
		{"between, running", s, 15, 1, syncd.Invisible},
		{"last below xmax", s, 19, 1000, syncd.Visible},
		{"xmax", s, 20, 1, syncd.Invisible},
		{"beyond xmax", s, 1 << 40, 1, syncd.Invisible},
		{"many running, one of them", many, 22, 1, syncd.Invisible},
		{"many running, none of them", many, 23, 1, syncd.Visible},
		{"standby: below xmin", standby, 9, 1000, syncd.Visible},
		{"standby: replayed before", standby, 15, 100, syncd.Visible},
		{"standby: replayed meanwhile", standby, 15, 110, syncd.Undecided},
		{"standby: replayed meanwhile, last", standby, 15, 120, syncd.Undecided},
		{"standby: not replayed", standby, 15, 121, syncd.Invisible},
		{"standby: beyond xmax", standby, 20, 110, syncd.Invisible},
	} {
		if got := c.snap.Visible(c.xid, c.lsn); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestLater(t *testing.T) {
	newer := &syncd.Snapshot{Epoch: epoch + 1, Xmin: 1, Xmax: 1}
	standby := func(r, r2 syncd.LSN) *syncd.Snapshot {
		return &syncd.Snapshot{Epoch: epoch, Xmin: 10, Xmax: 20, Standby: true, R: r, R2: r2, H: r2}
	}
	at := func(h syncd.LSN, s *syncd.Snapshot) *syncd.Snapshot { s.H = h; return s }
	for _, c := range []struct {
		name string
		s, t *syncd.Snapshot
		want bool
	}{
		{"equal", primary(10, 20, 15), primary(10, 20, 15), true},
		{"one more has ended", primary(10, 20), primary(10, 20, 15), true},
		{"one less has ended", primary(10, 20, 15), primary(10, 20), false},
		{"new ones have begun", primary(10, 30, 25), primary(10, 20), true},
		{"a lower xmax", primary(10, 19), primary(10, 20), false},
		{"each sees what the other does not", primary(10, 20, 15), primary(10, 20, 16), false},
		{"newer epoch", newer, primary(10, 20), true},
		{"older epoch", primary(10, 20), newer, false},
		{"standbys, one behind the other", standby(120, 130), standby(100, 120), true},
		{"standbys that overlap", standby(110, 130), standby(100, 120), false},
		{"standby that has replayed all of the primary's", standby(120, 130), at(120, primary(10, 20)), true},
		{"standby that has not", standby(119, 130), at(120, primary(10, 20)), false},
		{"primary after the standby's last", primary(20, 30), standby(100, 120), true},
		{"primary with one of the standby's running", primary(19, 30, 19), standby(100, 120), false},
	} {
		if got := c.s.Later(c.t); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	one := standby(100, 120)
	if !one.Later(one) {
		t.Error("a standby's snapshot is not later than itself")
	}
}

// drawn is a primary's snapshot of at most 12 transactions.
var drawn = rapid.Custom(func(t *rapid.T) *syncd.Snapshot {
	xmax := rapid.Uint64Range(1, 12).Draw(t, "xmax")
	s := &syncd.Snapshot{Epoch: epoch, Xmin: syncd.XID(xmax), Xmax: syncd.XID(xmax)}
	for x := uint64(0); x < xmax; x++ {
		if rapid.Bool().Draw(t, "running") {
			s.Xip = append(s.Xip, syncd.XID(x))
		}
	}
	if len(s.Xip) > 0 {
		s.Xmin = s.Xip[0]
	}
	return s
})

// Later is containment: all that t sees, s sees.
func TestLaterIsContainment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawn.Draw(t, "a"), drawn.Draw(t, "b")
		contains := a.Xmax >= b.Xmax
		for x := syncd.XID(0); x < 14; x++ {
			if b.Visible(x, 0) == syncd.Visible && a.Visible(x, 0) != syncd.Visible {
				contains = false
			}
		}
		if a.Later(b) != contains {
			t.Errorf("%s later than %s: %v, contains it: %v", a.Text(), b.Text(), a.Later(b), contains)
		}
	})
}

func TestOldest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(drawn, 1, 5).Draw(t, "snapshots")
		got := syncd.Oldest(all)
		isOldest := func(s *syncd.Snapshot) bool {
			return !slices.ContainsFunc(all, func(o *syncd.Snapshot) bool { return !o.Later(s) })
		}
		if got == nil && slices.ContainsFunc(all, isOldest) {
			t.Errorf("no oldest found")
		}
		if got != nil && !isOldest(got) {
			t.Errorf("%s is not the oldest", got.Text())
		}
	})
	if syncd.Oldest(nil) != nil {
		t.Error("nothing has an oldest")
	}
}

func TestOldestOfStandbys(t *testing.T) {
	a := &syncd.Snapshot{Epoch: epoch, Standby: true, Xmin: 10, Xmax: 20, R: 100, R2: 120, H: 120}
	b := &syncd.Snapshot{Epoch: epoch, Standby: true, Xmin: 8, Xmax: 22, R: 110, R2: 130, H: 130}
	low := syncd.Oldest([]*syncd.Snapshot{b, a})
	if low == nil || low.Xmin != 8 || low.Xmax != 22 || low.R != 100 || low.R2 != 130 || low.H != 130 || !low.Standby {
		t.Fatalf("two standby snapshots have the lower bound %+v", low)
	}
	for x := syncd.XID(0); x < 30; x++ {
		for l := syncd.LSN(90); l < 140; l++ {
			seen := low.Visible(x, l)
			for _, s := range []*syncd.Snapshot{a, b} {
				if seen == syncd.Visible && s.Visible(x, l) != syncd.Visible {
					t.Fatalf("the lower bound sees %d at %d, %+v does not", x, l, s)
				}
			}
		}
	}
	mixed := []*syncd.Snapshot{a, {Epoch: epoch, Xmin: 5, Xmax: 15, H: 90}}
	if got := syncd.Oldest(mixed); got != mixed[1] {
		t.Errorf("a standby that has replayed the primary's: oldest %+v", got)
	}
	mixed[1].H = 105
	if got := syncd.Oldest(mixed); got != nil {
		t.Errorf("a standby that has not: oldest %+v", got)
	}
	if got := syncd.Oldest([]*syncd.Snapshot{a, {Epoch: epoch + 1, Standby: true, R: 1, R2: 1}}); got != a {
		t.Errorf("standbys of two epochs: oldest %+v", got)
	}
}

func TestSnapshotText(t *testing.T) {
	for text, want := range map[string]*syncd.Snapshot{
		"738:742:":                            {Xmin: 738, Xmax: 742},
		"738:742:738,740":                     {Xmin: 738, Xmax: 742, Xip: []syncd.XID{738, 740}},
		"21474837211:21474837213:21474837211": {Xmin: 21474837211, Xmax: 21474837213, Xip: []syncd.XID{21474837211}},
	} {
		s, err := syncd.ParseSnapshot(text)
		if err != nil || s.Xmin != want.Xmin || s.Xmax != want.Xmax || !slices.Equal(s.Xip, want.Xip) {
			t.Errorf("%q reads as %+v, %v", text, s, err)
			continue
		}
		if s.Text() != text {
			t.Errorf("%q prints as %q", text, s.Text())
		}
	}
	if s, err := syncd.ParseSnapshot("742:738:"); err != nil || s.Xmin != 738 || s.Xmax != 738 {
		t.Errorf("an xmin above the xmax reads as %+v, %v", s, err)
	}
	if s, err := syncd.ParseSnapshot("1:9:5,3"); err != nil || !slices.Equal(s.Xip, []syncd.XID{3, 5}) {
		t.Errorf("ids out of order read as %+v, %v", s, err)
	}
	for _, text := range []string{"", ":", "1:2", "1:2:3:4", "a:2:", "1:b:", "1:2:x", "1:2:1,", "-1:2:", "1:2:,", "01:2:", "18446744073709551616:1:"} {
		if s, err := syncd.ParseSnapshot(text); err == nil {
			t.Errorf("%q reads as %+v", text, s)
		}
	}
}

func FuzzParseSnapshot(f *testing.F) {
	f.Add("738:742:738,740")
	f.Add("742:738:")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := syncd.ParseSnapshot(text)
		if err != nil {
			return
		}
		again, err := syncd.ParseSnapshot(s.Text())
		if err != nil || again.Text() != s.Text() || !slices.IsSorted(s.Xip) {
			t.Errorf("%q reads as %q, which reads as %+v, %v", text, s.Text(), again, err)
		}
	})
}
