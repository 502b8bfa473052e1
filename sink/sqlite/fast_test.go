package sqlite

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

var pairs = syncd.TableInfo{Table: users, Key: []string{"id"}, Columns: []string{"id", "name", "n", "doc"}, Types: []string{"text", "text", "integer", "jsonb"}}

// TestCollidingHashes has all keys share three hashes: each keeps an entry of its own.
func TestCollidingHashes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cache.db")
	weak := func(k syncd.Key) uint64 { return uint64(k[0]) % 3 << 62 }
	s := open(t, path)
	s.f.hash = weak
	want := map[syncd.Key]sink.Entry{}
	r := rand.New(rand.NewPCG(1, 2))
	for lsn := range syncd.LSN(60) {
		b := &sink.Batch{State: stateOf(pairs)}
		for _, n := range r.Perm(12)[:r.IntN(12)] {
			k := syncd.MakeKey(string(rune('a' + n)))
			e := sink.Entry{Version: syncd.Version{Epoch: 1, LSN: lsn}}
			switch r.IntN(4) {
			case 0:
				b.Writes = append(b.Writes, sink.Write{Table: users, Key: k, Remove: true})
				delete(want, k)
				continue
			case 1:
				e.Snap = &syncd.Snapshot{Epoch: 1, Xmin: 5, Xmax: syncd.XID(lsn) + 5}
			case 2:
				e.Pending = true
				fallthrough
			default:
				e.Row = fmt.Appendf(nil, `{"id":"%s","name":"%d","n":1,"doc":null}`, k, lsn)
			}
			b.Writes, want[k] = append(b.Writes, sink.Write{Table: users, Key: k, Entry: e}), e
		}
		mustCommit(t, s, b)
		var keys []syncd.Key
		err := s.Walk(users, 0, func(k syncd.Key, e sink.Entry) bool {
			keys = append(keys, k)
			sameEntry(t, k, e, want[k])
			return true
		})
		sorted := slices.SortedFunc(maps.Keys(want), func(a, b syncd.Key) int {
			if weak(a) != weak(b) {
				return int(weak(a)>>62) - int(weak(b)>>62)
			}
			return int(a[0]) - int(b[0])
		})
		if err != nil || !slices.Equal(keys, sorted) {
			t.Fatalf("a walk gives %q, want %q: %v", keys, sorted, err)
		}
		v := s.View()
		for n := range 12 {
			k := syncd.MakeKey(string(rune('a' + n)))
			_, there := want[k]
			got, ok := v.Get(users, k)
			loaded, has, err := s.Load(users, k)
			if ok != there || has != there || err != nil {
				t.Fatalf("%s: seen %v, loaded %v, want %v: %v", k, ok, has, there, err)
			}
			sameEntry(t, k, got, want[k])
			sameEntry(t, k, loaded, want[k])
		}
		v.Close()
		check(t, s)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func sameEntry(t *testing.T, k syncd.Key, a, b sink.Entry) {
	t.Helper()
	if string(a.Row) != string(b.Row) || (a.Row == nil) != (b.Row == nil) || a.Version != b.Version || a.Pending != b.Pending ||
		(a.Snap == nil) != (b.Snap == nil) || a.Snap != nil && a.Snap.Xmax != b.Snap.Xmax {
		t.Fatalf("%s is %+v, want %+v", k, a, b)
	}
}

// TestChangesOfColumns has rows change here and there, beside indexes and in them: what others see is what the entries say,
// the indexes too, also where somebody else spoilt it in between.
func TestChangesOfColumns(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"text", "bigint"} {
		for name, indexes := range map[string][][]string{"no index": nil, "one": {{"name"}}, "two": {{"name"}, {"n", "name"}}, "all": {{"name"}, {"n", "doc"}}} {
			t.Run(key+" "+name, func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "cache.db")
				info := pairs
				info.Types = append([]string{key}, pairs.Types[1:]...)
				s, err := Open(Options{Path: path, Name: "shop", Indexes: map[syncd.Table][][]string{users: indexes}})
				if err != nil {
					t.Fatal(err)
				}
				r := rand.New(rand.NewPCG(3, 4))
				for lsn := range syncd.LSN(40) {
					b := &sink.Batch{State: stateOf(info)}
					for _, n := range r.Perm(100)[:r.IntN(100)] {
						k := syncd.MakeKey(fmt.Sprint(n))
						if _, _, err := s.Load(users, k); err != nil {
							t.Fatal(err)
						}
						e := sink.Entry{Version: syncd.Version{Epoch: 1, LSN: lsn}}
						if r.IntN(5) > 0 {
							e.Row = fmt.Appendf(nil, `{"id":"%d","name":"%d","n":%d,"doc":[%d]}`, n, r.IntN(3), r.IntN(2), r.IntN(4))
							if key == "bigint" {
								e.Row = fmt.Appendf(nil, `{"id":%d,"name":"%d","n":%d,"doc":[%d]}`, n, r.IntN(3), r.IntN(2), r.IntN(4))
							}
						}
						b.Writes = append(b.Writes, sink.Write{Table: users, Key: k, Entry: e})
					}
					if lsn == 20 {
						spoilAll(t, path)
					}
					mustCommit(t, s, b)
					if lsn == 20 { // what no commit has written anew since stays spoilt, and is known to be
						b.Writes = nil
						for n := range 100 {
							e, ok, err := s.Load(users, syncd.MakeKey(fmt.Sprint(n)))
							if err != nil {
								t.Fatal(err)
							}
							if ok && e.Row != nil {
								e.Row = []byte(string(e.Row[:len(e.Row)-1])) // shown with a blank where it is spoilt
								if e.Row[len(e.Row)-1] != '}' {
									e.Row = append(e.Row, '}')
								}
								b.Writes = append(b.Writes, sink.Write{Table: users, Key: syncd.MakeKey(fmt.Sprint(n)), Entry: e})
							}
						}
						b.State = stateOf(info)
						mustCommit(t, s, b)
					}
					check(t, s)
				}
				wantAnswer(t, path, "PRAGMA integrity_check", "ok")
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// spoilAll has another process change what it must not.
func spoilAll(t *testing.T, path string) {
	t.Helper()
	c, err := openConn(path, "rw", "busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`UPDATE "public.users" SET name = 'spoilt' WHERE rowid % 2 = 0`, `DELETE FROM "public.users" WHERE id % 7 = 0`} {
		err = errors.Join(err, c.once(text))
	}
	if code(err) == 1 { // a table without row numbers
		err = errors.Join(c.once(`UPDATE "public.users" SET name = 'spoilt' WHERE id % 2 = 0`), c.once(`DELETE FROM "public.users" WHERE id % 7 = 0`))
	}
	if err := errors.Join(err, c.close()); err != nil {
		t.Fatal(err)
	}
}

// TestCheckpoints has the log be taken into the file beside the commits: it does not grow without end, nobody takes the
// connection that does it for another process, and a reader may stay as long as it likes.
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cache.db")
	s := open(t, path)
	s.f.checkpoints.soft, s.f.checkpoints.hard = 20, 60
	info := syncd.TableInfo{Table: users, Key: []string{"id"}, Columns: []string{"id", "v"}, Types: []string{"integer", "text"}}
	var v sink.View
	for n := range 200 {
		b := &sink.Batch{State: stateOf(info)}
		for i := range 20 {
			b.Writes = append(b.Writes, upsert(users, fmt.Sprintf(`{"id":%d,"v":"%0300d"}`, n%10*20+i, n), fmt.Sprint(n%10*20+i)))
		}
		mustCommit(t, s, b)
		switch n {
		case 100:
			v = s.View()
		case 150:
			e, ok := v.Get(users, "0")
			if want := fmt.Sprintf(`{"id":0,"v":"%0300d"}`, 100); !ok || string(e.Row) != want || v.Err() != nil {
				t.Errorf("a reader of an older commit has %s, %v", e.Row, v.Err())
			}
			v.Close()
		}
	}
	if s.f.touched != 1 {
		t.Error("the checkpointer is taken for another process")
	}
	check(t, s)
	s.f.checkpoints.done.Wait()
	if wal, err := os.Stat(path + "-wal"); err != nil || wal.Size() > 6<<20 { // 200 commits wrote several times that
		t.Errorf("the log has grown to %d: %v", wal.Size(), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, path, `SELECT count(*) FROM "public.users"`, "200")
}

// FuzzEntry reads what somebody else may have written: it is entries, which are written and read the same again, or none.
func FuzzEntry(f *testing.F) {
	whole := appendEntry(nil, "a", &sink.Entry{Row: []byte(`{"id":"a"}`), Version: syncd.Version{Epoch: 1, LSN: 2, Ordinal: 3}, XID: 4})
	f.Add(whole)
	f.Add(appendEntry(whole, "b", &sink.Entry{Pending: true, Snap: &syncd.Snapshot{Epoch: 1, Xmin: 5, Xmax: 9, Xip: []syncd.XID{7}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again entryReader
		var out []byte
		all := slices.Clone(r.read(b))
		for i := range all {
			out = appendEntry(out, all[i].key, &all[i].entry)
		}
		twice := again.read(out)
		if len(twice) != len(all) {
			t.Fatalf("%q gives %d entries, and they %d", b, len(all), len(twice))
		}
		for i := range all {
			sameEntry(t, all[i].key, twice[i].entry, all[i].entry)
		}
	})
}
