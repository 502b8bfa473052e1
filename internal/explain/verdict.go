package explain

import (
	"bytes"
	"fmt"

	"github.com/syncd-io/syncd/sink"
)

// Verdict is how Postgres, the stream and the cache fit together.
type Verdict struct {
	// Code is one of the codes below, for programs; Text says it in words, and Do what to do, empty where that is nothing.
	Code string `json:"code"`
	Text string `json:"text"`
	Do   string `json:"do,omitempty"`
}

// The codes of verdicts.
const (
	Equal     = "equal"      // the cache has what Postgres has
	Newer     = "newer"      // the cache has a change that the row read from Postgres did not see yet
	OnItsWay  = "on its way" // the stream has not brought the cache to where the row was read
	Fetched   = "fetched"    // the key is open, and being fetched
	Parked    = "parked"     // the key's last change could not be applied
	Missing   = "missing"
	Stale     = "stale"
	Ghost     = "ghost"
	Corrupt   = "corrupt"
	Unordered = "undecided"  // which of the two is newer can't be proved
	NotListed = "not listed" // the table is not served yet
	Refused   = "refused"    // the table can't be synced
	Building  = "building"   // a new epoch's cache is being built
	Unknown   = "unknown"    // Postgres could not be asked
)

// True says whether the verdict leaves nothing to be mended.
func (v Verdict) True() bool { return v.Code == Equal || v.Code == Newer || v.Code == OnItsWay }

// judge draws the verdict from what was found.
func judge(e *Explanation, f finding) Verdict {
	resync := fmt.Sprintf("run: syncd resync %s", shell(e.Table))
	switch s := &e.State; {
	case s.Refused != "":
		return Verdict{Refused, "The table can't be synced: " + s.Refused, "mend that; syncd check says how"}
	case !s.Listed:
		return Verdict{NotListed, "The table's first list is not complete, so it is not served yet.", "wait; syncd status shows how far the list is"}
	case e.Postgres.Error != "":
		return Verdict{Unknown, "Postgres could not be asked, so what the cache holds can't be judged: " + e.Postgres.Error, "see that the source runs and reaches Postgres, and ask again"}
	case s.Building:
		return Verdict{Building, "A new epoch has begun (a failover, a restore, a lost slot). What is read is of the one before, until all tables are listed.", "wait; syncd status shows how far the lists are"}
	case e.Cache.Open != nil && e.Cache.Open.Parked:
		return Verdict{Parked, "The key's last change could not be applied: " + e.Cache.Open.Reason + ". Readers get what was there before.",
			"wait: it is fetched, and its table listed again; where it stays parked, the sidecar's log says why. This should not happen: please report it, with this explanation"}
	case !f.asked:
		return Verdict{Unknown, "The row from Postgres can't be compared with the cache: " + f.discard, "ask again; where that stays so, " + resync}
	case e.Cache.Open != nil:
		return Verdict{Fetched, "The key is being fetched from Postgres: " + e.Cache.Open.Reason + ". Readers get what was there before.", "wait, and ask again"}
	}
	if f.differs {
		return differs(e, f.kind, resync)
	}
	return agrees(e)
}

// agrees is the verdict where the gate would change nothing.
func agrees(e *Explanation) Verdict {
	if e.Cache.Held == "row" == e.Postgres.Exists && bytes.Equal(e.Cache.Row, e.Postgres.Row) {
		if !e.Postgres.Exists {
			return Verdict{Code: Equal, Text: "Neither Postgres nor the cache has the row."}
		}
		return Verdict{Code: Equal, Text: "The cache has the very row that Postgres has."}
	}
	return Verdict{Code: Newer, Text: "The cache has a newer change than the row that was read from Postgres: it was made in between, or its commit is not visible yet " +
		"(it waits for a synchronous standby)."}
}

// differs is the verdict where the gate would have Postgres's row.
func differs(e *Explanation, kind sink.Kind, resync string) Verdict {
	if !e.Postgres.Passed {
		return Verdict{OnItsWay, fmt.Sprintf("Cache and Postgres differ, and the stream has not brought the cache to %s, where the row was read: the change may be on its way.",
			e.Postgres.H), "ask again; where the cache stays behind, syncd status says why"}
	}
	do := resync + "; the next scheduled one repairs it too"
	if e.State.Stopped != "" {
		do = e.State.Stopped
	}
	why := cause(e)
	switch kind {
	case sink.Missing:
		return Verdict{Missing, "Postgres has the row and the cache lacks it. " + why, do}
	case sink.Ghost:
		return Verdict{Ghost, "The cache has a row that Postgres no longer has. " + why, do}
	case sink.Stale:
		return Verdict{Stale, "The cache has an older state of the row. " + why, do}
	case sink.Corrupt:
		return Verdict{Corrupt, "The cache's content is wrong, though no change of the table is known to have been lost since it was set. " + why,
			do + ". This should not happen: please report it, with this explanation"}
	}
	return Verdict{Unordered, "Cache and Postgres differ, and which is newer can't be proved: both come from lists, of different servers or with long transactions between.", do}
}

// cause says why a row may differ, from what the stream still holds of it.
func cause(e *Explanation) string {
	switch n := len(e.Stream.Deltas); {
	case e.State.Loss != "":
		return fmt.Sprintf("Changes of the table up to %s were lost on their way, and it is being listed again.", e.State.Loss)
	case e.Stream.Error != "":
		return "The stream could not be read back: " + e.Stream.Error
	case n == 0 && e.Stream.Whole:
		return "The stream holds no change of it (any more)."
	case n == 0:
		return fmt.Sprintf("Among the messages %d to %d of the stream there is no change of it.", e.Stream.From, e.Stream.To)
	case e.Cache.Origin == "delta" && e.Cache.Version == e.Stream.Deltas[n-1].Version:
		return "Its last change on the stream is the one that the cache applied: that was applied wrongly, or a later one never came onto the stream."
	}
	return fmt.Sprintf("Its last change on the stream is %s (message %d), and the cache has not applied it: it was lost on its way here.",
		e.Stream.Deltas[len(e.Stream.Deltas)-1].Version, e.Stream.Deltas[len(e.Stream.Deltas)-1].Seq)
}

// shell quotes a word for a shell where it needs that.
func shell(s string) string {
	for i := range len(s) {
		c := s[i]
		if c != '.' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return "'" + string(bytes.ReplaceAll([]byte(s), []byte("'"), []byte(`'\''`))) + "'"
		}
	}
	return s
}
