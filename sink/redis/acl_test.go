package redis

import (
	"strings"
	"testing"
)

// TestACL has a user with the rights that docs/sinks.md names keep a cache.
func TestACL(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	o := Options{URL: server.URL(), Prefix: "shop:"}
	rights := "~shop:* +@read +@write +@transaction +@scripting +info +scan"
	set := []any{"ACL", "SETUSER", "cache", "on", ">secret"}
	for r := range strings.FieldsSeq(rights) {
		set = append(set, r)
	}
	must(t, client(t, o).Do(t.Context(), set...).Err())
	o.URL = "redis://cache:secret@" + server.Addr() + "/0"
	s := open(t, o)
	must(t, s.Commit(batch(1, "1", "2")))
	must(t, s.Commit(batch(2, "1")))
	view := s.View()
	defer view.Close()
	if e, ok := view.Get(users, "1"); !ok || e.Version.LSN != 2 {
		t.Errorf("the row is %s, %v", e.Row, view.Err())
	}
	must(t, s.Close())
}
