package remote

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/syncd-io/syncd"
	"github.com/syncd-io/syncd/sink"
)

// TestRecall: what was written is known without a look at the server, which has gone meanwhile, also where somebody spoilt it; what
// is to be compared is read.
func TestRecall(t *testing.T) {
	t.Parallel()
	server := newServer()
	s := open(t, server.place("it"))
	b := batch(1, 1, 2)
	must(t, s.Commit(b))
	copy(b.Writes[0].Entry.Row, "spoilt") // it is the caller's again
	server.do(func() { delete(server.held.tables[people], key(1)) })
	server.once("fetch", before)
	must(t, s.Recall(people, []syncd.Key{key(1), key(2)}))
	for i := 1; i < 3; i++ {
		if e, ok, err := s.Load(people, key(i)); !ok || err != nil || string(e.Row) != fmt.Sprintf(`{"id":%d,"at":1}`, i) {
			t.Errorf("%d is remembered as %s, %v, %v", i, e.Row, ok, err)
		}
	}
	if err := s.Recall(people, []syncd.Key{key(1), key(3)}); !errors.Is(err, errAway) {
		t.Errorf("a key that was never seen, without a server: %v", err)
	}
	must(t, s.Prefetch(people, []syncd.Key{key(1), key(2)}))
	if _, ok, err := s.Load(people, key(1)); ok || err != nil {
		t.Errorf("what is compared is not read: %v, %v", ok, err)
	}
	gone := batch(2)
	gone.Writes = []sink.Write{{Table: people, Key: key(2), Remove: true}}
	must(t, s.Commit(gone))
	must(t, s.Recall(people, []syncd.Key{key(2)}))
	if _, ok, err := s.Load(people, key(2)); ok || err != nil {
		t.Errorf("what was removed is remembered: %v, %v", ok, err)
	}
}

// TestMemoryIsBounded: of more than the limit some is forgotten, and what it counts stays right.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	m := memory{limit: 100_000}
	other := syncd.Table{Schema: "public", Name: "other"}
	for i := range 2000 {
		table := people
		if i%3 == 0 {
			table = other
		}
		m.put(table, key(i%700), Found{Entry: sink.Entry{Row: []byte(strings.Repeat("x", i%90))}, Held: true})
		if m.bytes > m.limit {
			t.Fatalf("%d bytes are remembered", m.bytes)
		}
	}
	m.remove(people, key(1))
	n := 0
	for _, held := range m.tables {
		for k, f := range held {
			n += cost(k, &f)
		}
	}
	if n != m.bytes || n < m.limit/2 {
		t.Errorf("it counts %d bytes and holds %d", m.bytes, n)
	}
	m.drop(people)
	m.drop(other)
	if m.bytes != 0 {
		t.Errorf("of nothing it counts %d bytes", m.bytes)
	}
}
