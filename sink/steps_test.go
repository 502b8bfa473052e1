package sink_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
	"github.com/syncd-io/syncd/sink/storetest"
)

// The files testdata/*.steps.jsonl are stories from public bug reports of caches that went wrong: what reaches a consumer,
// in order, one step a line, and what the cache has to hold then. v is [commit position, ordinal]; list-begin names the
// position of the list's snapshot.

// step is one line.
type step struct {
	Do       string                    `json:"do"`
	Op       string                    `json:"op"`
	Key      *struct{ ID json.Number } `json:"key"`
	V        [2]uint32                 `json:"v"`
	Row      json.RawMessage           `json:"row"`
	Delta    *step                     `json:"delta"`
	Deltas   []step                    `json:"deltas"`
	Ack      []string                  `json:"ack"`
	Seq      uint64                    `json:"seq"`
	Snapshot [2]uint32                 `json:"snapshot"`
	Rows     []json.RawMessage         `json:"rows"`
	Flag     string                    `json:"flag"`
	Cleared  bool                      `json:"cleared"`
	Cache    string                    `json:"cache"`
}

var item = syncd.TableInfo{Table: syncd.Table{Schema: "public", Name: "item"}, Columns: []string{"id", "v"}, Types: []string{"integer", "text"}, Key: []string{"id"}, Schema: 7}

// story plays steps on a cache behind a feed.
type story struct {
	*rig
	through syncd.LSN
	queued  []syncd.Delta
	seq     uint64 // of the last delivery that named one

	snap   *syncd.Snapshot // of the list's present page
	pages  []*syncd.Snapshot
	listed map[syncd.Key]bool
	backup sink.Store // what the cache held after its first delta
}

func newStory(t *testing.T) *story {
	s := &story{rig: newRig(t, storetest.NewMap())}
	s.begin()
	s.beginList(1)
	s.endList()
	return s
}

// begin has an empty cache join the stream.
func (s *story) begin() {
	s.t.Helper()
	if err := s.cache.SetTables([]syncd.TableInfo{item}); err != nil {
		s.t.Fatal(err)
	}
	if s.through == 0 {
		s.through = 1
		s.stream.marker(syncd.Marker{Epoch: 1, Through: 1, Safe: 1})
	}
	s.drain()
}

func (d *step) delta() syncd.Delta {
	ops := map[string]syncd.Op{"upsert": syncd.Upsert, "delete": syncd.Delete, "truncate": syncd.Truncate}
	out := syncd.Delta{Table: item.Table, Op: ops[d.Op], Row: d.Row, Schema: item.Schema, XID: syncd.XID(d.V[0]),
		Version: syncd.Version{Epoch: 1, LSN: syncd.LSN(d.V[0]), Ordinal: d.V[1]}, Committed: clock}
	if d.Key != nil {
		out.Key = syncd.MakeKey(d.Key.ID.String())
	}
	return out
}

// publish puts deltas on the stream, each message with its marker. previous is where the marker before stood.
func (s *story) publish(previous syncd.LSN, deltas ...syncd.Delta) {
	m := syncd.Marker{Epoch: 1, Previous: previous, Through: s.through, Counts: map[syncd.Table]int{}, First: s.stream.next}
	for _, d := range deltas {
		m.Through = max(m.Through, d.Version.LSN)
	}
	for _, d := range deltas {
		if d.Version.LSN > previous {
			m.Counts[d.Table]++
		}
		s.stream.deltas(d)
	}
	s.through, m.Safe = m.Through, m.Through
	s.stream.marker(m)
	s.drain()
}

// deliver puts a delta on the stream under a sequence. Where sequences are missing, so are markers.
func (s *story) deliver(d *step) {
	previous := s.through
	if s.seq != 0 && d.Seq != s.seq+1 {
		previous = syncd.LSN(d.Delta.V[0] - 1)
	}
	s.seq = d.Seq
	s.publish(previous, d.Delta.delta())
}

// beginList takes the snapshot of a list, and has the stream pass it.
func (s *story) beginList(at syncd.LSN) {
	s.snap = snapshotAt(at)
	s.pages, s.listed = nil, map[syncd.Key]bool{}
	if at > s.through {
		previous := s.through
		s.through = at
		s.publish(previous)
	}
	s.judge(nil, nil)
}

// snapshotAt is a snapshot that sees just the commits up to an LSN: the transactions of a story have their LSNs for ids.
func snapshotAt(at syncd.LSN) *syncd.Snapshot {
	return &syncd.Snapshot{Epoch: 1, Xmin: syncd.XID(at + 1), Xmax: syncd.XID(at + 1), H: at}
}

func (s *story) judge(rows []syncd.Row, asked []syncd.Key) {
	s.t.Helper()
	p := &syncd.Page{Table: item.Table, Schema: item.Schema, Snapshot: s.snap, Safe: s.snap.H, Rows: rows, Asked: asked}
	if _, err := s.cache.Judge(p, sink.How{}); err != nil {
		s.t.Fatal(err)
	}
	s.pages = append(s.pages, s.snap)
	for _, r := range rows {
		s.listed[r.Key] = true
	}
}

// endList has the keys judged that the list did not return, and draws the conclusions.
func (s *story) endList() {
	s.t.Helper()
	var unseen []syncd.Key
	for _, k := range slices.Sorted(maps.Keys(s.rows(item.Table))) {
		if !s.listed[k] {
			unseen = append(unseen, k)
		}
	}
	if len(unseen) > 0 {
		s.judge(nil, unseen)
	}
	l := &sink.List{Table: item.Table, Schema: item.Schema, Snapshots: s.pages, Safe: s.pages[0].H}
	if _, _, err := s.cache.Done(s.t.Context(), l); err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) expect(want []json.RawMessage) {
	s.t.Helper()
	rows := s.rows(item.Table)
	got := slices.Sorted(maps.Values(rows))
	var texts []string
	for _, r := range want {
		texts = append(texts, string(r))
	}
	slices.Sort(texts)
	if !slices.Equal(got, texts) {
		s.t.Errorf("the cache holds %s, want %s", got, texts)
	}
}

func (s *story) expectFlag(d *step) {
	s.t.Helper()
	t := s.cache.State().Tables[item.Table]
	switch d.Flag {
	case "gap":
		if gap := t.Loss != 0; gap == d.Cleared {
			s.t.Errorf("gap is %v", gap)
		}
	case "not-ready":
		if t.Listed || s.cache.Ready() == nil {
			s.t.Error("an empty cache says that it is ready")
		}
	default:
		s.t.Errorf("unknown flag %q", d.Flag)
	}
}

func (s *story) play(d *step) {
	s.t.Helper()
	switch d.Do {
	case "note", "ack-lost", "lost", "list-fail", "connection-lost", "tombstones-collected":
	case "expect-publish", "expect-confirmed-below", "publisher-restart": // the publisher's part is tested there
	case "delta":
		s.publish(s.through, d.delta())
		if s.backup == nil {
			s.backup = backup(s.t, s.store)
		}
	case "parallel":
		for i := range d.Deltas {
			s.publish(s.through, d.Deltas[i].delta())
		}
	case "publish-async":
		for i := range d.Deltas {
			if d.Ack[i] == "ok" {
				s.publish(s.through, d.Deltas[i].delta())
			}
		}
	case "queued":
		s.queued = append(s.queued, d.Delta.delta())
	case "apply-queued":
		s.publish(s.through, s.queued...)
	case "deliver":
		s.deliver(d)
	case "stream-recreated":
		s.stream.remake()
		s.drain() // the subscription ends, and goes on from the start of the empty stream
	case "list-begin":
		s.beginList(syncd.LSN(d.Snapshot[0]))
	case "list-resume":
		s.resume(syncd.LSN(d.Snapshot[0]))
	case "list-row":
		s.judge([]syncd.Row{{Key: syncd.MakeKey(d.Key.ID.String()), JSON: d.Row}}, nil)
	case "list-end":
		s.endList()
	case "restart":
		s.restartWith(d.Cache)
	case "expect":
		s.expect(d.Rows)
	case "expect-flag":
		s.expectFlag(d)
	default:
		s.t.Errorf("unknown step %q", d.Do)
	}
}

// resume goes on with a list in another snapshot.
func (s *story) resume(at syncd.LSN) {
	pages, listed := s.pages, s.listed
	s.beginList(at)
	s.pages, s.listed = append(pages, s.pages...), listed
}

// restartWith begins another process: without a cache, or with an earlier one whose place the stream has lost by now.
func (s *story) restartWith(cache string) {
	s.t.Helper()
	if cache == "lost" {
		s.restart(storetest.NewMap())
		s.begin()
		return
	}
	last := s.stream.messages[len(s.stream.messages)-1]
	s.stream.messages = []syncd.Message{last}
	s.restart(s.backup)
	s.drain()
}

// backup copies what a store holds of the stories' table.
func backup(t *testing.T, from sink.Store) sink.Store {
	to := storetest.NewMap()
	st := *from.State()
	table := *st.Tables[item.Table]
	st.Tables = map[syncd.Table]*sink.TableState{item.Table: &table}
	b := &sink.Batch{State: &st}
	err := from.Walk(item.Table, 0, func(k syncd.Key, e sink.Entry) bool {
		b.Writes = append(b.Writes, sink.Write{Table: item.Table, Key: k, Entry: e})
		return true
	})
	if err := errors.Join(err, to.Commit(b)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestStories(t *testing.T) {
	dir := "testdata"
	if cases := os.Getenv("SYNCD_CASES"); cases != "" {
		dir = cases
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.steps.jsonl"))
	if err != nil || len(files) < 15 {
		t.Fatalf("%d stories in %s: %v", len(files), dir, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".steps.jsonl"), func(t *testing.T) {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			s := newStory(t)
			lines := bufio.NewScanner(f)
			for n := 1; lines.Scan(); n++ {
				var d step
				if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
					t.Fatalf("line %d: %v", n, err)
				}
				s.play(&d)
				if t.Failed() {
					t.Fatalf("line %d: %s", n, lines.Text())
				}
			}
			if err := lines.Err(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
