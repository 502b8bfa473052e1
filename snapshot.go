package syncd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Visibility is the answer to "does this snapshot see that commit?".
type Visibility uint8

// The three answers. Undecided comes from standby snapshots only: there visibility follows replay, and a replay
// position is known as an interval.
const (
	Invisible Visibility = iota
	Visible
	Undecided
)

// Snapshot is what a list page, or a fetched row, was read in. One object is shared by all rows of its page and is never
// changed after it was made. It is stored with the rows: a restart without it steps back.
type Snapshot struct {
	Epoch Epoch
	// Xmin, Xmax and Xip are pg_current_snapshot() on a primary: every transaction below Xmin has ended, none from Xmax
	// on has begun, and Xip lists those in between that were running, ascending.
	Xmin, Xmax XID
	Xip        []XID
	// Standby says that the page was read in recovery, where pg_current_snapshot() leaves out running transactions and
	// only R and R2 tell what is visible: the replay LSN before and after the snapshot was taken.
	Standby bool
	R, R2   LSN
	// H is no lower than any commit that the snapshot sees: pg_current_wal_insert_lsn() read after the snapshot; on a
	// standby R2.
	H LSN
}

// Visible says whether the snapshot sees the commit that ends at lsn and was made by top-level transaction x, both of
// the snapshot's own epoch.
func (s *Snapshot) Visible(x XID, lsn LSN) Visibility {
	if !s.Standby {
		if x >= s.Xmax {
			return Invisible
		}
		if x >= s.Xmin && contains(s.Xip, x) {
			return Invisible
		}
		return Visible
	}
	if x < s.Xmin || lsn <= s.R {
		return Visible
	}
	if x >= s.Xmax || lsn > s.R2 {
		return Invisible
	}
	return Undecided
}

func contains(xip []XID, x XID) bool {
	if len(xip) < 8 {
		return slices.Contains(xip, x)
	}
	_, ok := slices.BinarySearch(xip, x)
	return ok
}

// Later says whether s provably contains everything that t contains: by content, never by clock and never by H. A
// snapshot is later than itself. Where neither of two is later than the other, their order can't be proved.
func (s *Snapshot) Later(t *Snapshot) bool {
	if s == t {
		return true
	}
	if s.Epoch != t.Epoch {
		return s.Epoch > t.Epoch
	}
	switch {
	case s.Standby && t.Standby:
		return s.R >= t.R2
	case s.Standby:
		return s.R >= t.H
	case t.Standby:
		return s.Xmin >= t.Xmax
	}
	if t.Xmax > s.Xmax {
		return false
	}
	for _, x := range s.Xip {
		if x < t.Xmax && !contains(t.Xip, x) {
			return false
		}
	}
	return true
}

// Oldest gives the snapshot of all that every other one is provably later than, for the floor of a complete list. Where
// all are a standby's their common lower bound is made. It gives nil where no oldest can be proved.
func Oldest(all []*Snapshot) *Snapshot {
	if len(all) == 0 {
		return nil
	}
	standby := true
	for _, s := range all {
		standby = standby && s.Standby && s.Epoch == all[0].Epoch
	}
	if standby {
		low := *all[0]
		for _, s := range all[1:] {
			low.Xmin, low.Xmax = min(low.Xmin, s.Xmin), max(low.Xmax, s.Xmax)
			low.R, low.R2, low.H = min(low.R, s.R), max(low.R2, s.R2), max(low.H, s.H)
		}
		return &low
	}
	oldest := all[0]
	for _, s := range all[1:] {
		if !s.Later(oldest) {
			oldest = s
		}
	}
	for _, s := range all {
		if !s.Later(oldest) {
			return nil
		}
	}
	return oldest
}

// Text gives the snapshot in the form of Postgres's pg_snapshot, "xmin:xmax:xip,…".
func (s *Snapshot) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d:%d:", s.Xmin, s.Xmax)
	for i, x := range s.Xip {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatUint(uint64(x), 10))
	}
	return b.String()
}

// ParseSnapshot reads the text of a pg_snapshot into Xmin, Xmax and Xip. Postgres has been seen to print an xmin above
// the xmax (in a session that made a slot); that is read as an xmin equal to the xmax.
func ParseSnapshot(text string) (*Snapshot, error) {
	bad := fmt.Errorf("%q is not a pg_snapshot: want xmin:xmax:xip,…", text)
	p := strings.Split(text, ":")
	if len(p) != 3 {
		return nil, bad
	}
	xmin, err1 := parseDecimal(p[0], 64)
	xmax, err2 := parseDecimal(p[1], 64)
	if err1 != nil || err2 != nil {
		return nil, bad
	}
	s := &Snapshot{Xmin: XID(min(xmin, xmax)), Xmax: XID(xmax)}
	if p[2] == "" {
		return s, nil
	}
	for f := range strings.SplitSeq(p[2], ",") {
		x, err := parseDecimal(f, 64)
		if err != nil {
			return nil, bad
		}
		s.Xip = append(s.Xip, XID(x))
	}
	slices.Sort(s.Xip)
	return s, nil
}
