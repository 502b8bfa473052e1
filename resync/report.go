package resync

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/syncd-io/syncd"
)

// Mode is how a run compares.
type Mode string

// The modes. Full lists every row. Digest compares digests of hash buckets first and lists only those that differ.
const (
	Full   Mode = "full"
	Digest Mode = "digest"
)

// ParseMode reads a mode's name.
func ParseMode(s string) (Mode, error) {
	if m := Mode(s); m == Full || m == Digest {
		return m, nil
	}
	return "", fmt.Errorf("resync mode %q: want digest or full", s)
}

// Report is the outcome of one run on one table. Its JSON form is what users rely on.
type Report struct {
	Table string `json:"table"` // as SQL writes it
	Mode  Mode   `json:"mode"`  // how it was compared, which Note explains where another mode was asked for
	// Version is how far the cache's stream had come when the run ended, as <epoch>-<lsn>.
	Version string `json:"version"`
	// Rows counts the rows that were compared, those whose digests were included.
	Rows uint64 `json:"rows"`
	// The differences found, by kind: in Postgres alone, older in the cache, in the cache alone, other content under the
	// same version. A first list fills the cache and finds none.
	Missing int `json:"missing"`
	Stale   int `json:"stale"`
	Ghost   int `json:"ghost"`
	Corrupt int `json:"corrupt"`
	// Repaired counts those that were mended: all of them, or none where nothing was to be repaired (diff).
	Repaired int `json:"repaired"`
	// Undecided counts the keys of which it is not known yet, when the run ended, whether they differ.
	Undecided int `json:"undecided"`
	// Seconds is the run's length, Bytes what its pages took on the bus.
	Seconds float64 `json:"seconds"`
	Bytes   int64   `json:"bytes"`
	// Complete says that the whole table was compared. Otherwise Error says what was in the way.
	Complete bool `json:"complete"`
	// Samples are the first differences, at most MaxSamples.
	Samples []Sample `json:"samples"`
	Note    string   `json:"note,omitempty"`
	Error   string   `json:"error,omitempty"`
	// Verified is the position through which this run proved the whole table equal to Postgres; zero where it could claim
	// nothing.
	Verified syncd.Position `json:"-"`
}

// Sample is one difference of a report.
type Sample struct {
	Key  string `json:"key"`  // in the form of paths and the command line
	Kind string `json:"kind"` // missing, stale, ghost, corrupt or undecided
}

// MaxSamples bounds the samples of a report.
const MaxSamples = 10

// Differences is the number of keys found different.
func (r *Report) Differences() int { return r.Missing + r.Stale + r.Ghost + r.Corrupt }

// Equal says whether the run compared the whole table and found no difference and no key that it could not decide.
func (r *Report) Equal() bool { return r.Complete && r.Differences() == 0 && r.Undecided == 0 }

func (r *Report) count(kind string) {
	switch kind {
	case Missing:
		r.Missing++
	case Stale:
		r.Stale++
	case Ghost:
		r.Ghost++
	case Corrupt:
		r.Corrupt++
	}
}

func (r *Report) sample(k syncd.Key, kind string) {
	if len(r.Samples) < MaxSamples {
		r.Samples = append(r.Samples, Sample{k.Path(), kind})
	}
}

func (r *Report) note(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if !strings.Contains(r.Note, s) {
		r.Note = strings.TrimPrefix(r.Note+"; "+s, "; ")
	}
}

// SortReports orders reports by table.
func SortReports(all []*Report) {
	slices.SortFunc(all, func(a, b *Report) int { return cmp.Compare(a.Table, b.Table) })
}
