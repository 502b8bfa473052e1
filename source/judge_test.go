package source

import (
	"strings"
	"testing"
)

// TestFullIdentityWithGeneratedColumns: from 18 on the server fails each UPDATE of a published table whose old row has a column
// that is not published. Such a table must not get into the publication.
func TestFullIdentityWithGeneratedColumns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                string
		version             int
		identity, generated string
		manage              bool
		published           []string
		refused             bool
	}{
		{name: "before 18", version: 170000, identity: "f", generated: "s", manage: true},
		{name: "stored", version: 180000, identity: "f", generated: "s", manage: true, refused: true},
		{name: "virtual", version: 180000, identity: "f", generated: "v", manage: true, refused: true},
		{name: "none", version: 180000, identity: "f", manage: true},
		{name: "another identity", version: 180000, identity: "d", generated: "s", manage: true},
		{name: "published by others", version: 180000, identity: "f", generated: "s", published: []string{"id", "g"}},
		{name: "not published by others", version: 180000, identity: "f", generated: "s", published: []string{"id"}, refused: true},
	} {
		f := &tableFacts{OID: 1, Kind: "r", Persistence: "p", Identity: tt.identity, Readable: true,
			Columns: []columnFacts{{Num: 1, Name: "id", NotNull: true}, {Num: 2, Name: "g", Generated: tt.generated}},
			Indexes: []indexFacts{{Primary: true, Immediate: true, Valid: true, Plain: true, Columns: []int16{1}}},
		}
		if tt.published != nil {
			f.Published = &membership{Columns: tt.published, Whole: true}
		}
		v := judge(TableConfig{Table: tableT}, f, surroundings{version: tt.version, manage: tt.manage})
		if refused := strings.Contains(v.Refused.String(), "REPLICA IDENTITY DEFAULT"); refused != tt.refused || refused == v.Refused.none() {
			t.Errorf("%s: %q", tt.name, v.Refused)
		}
	}
}
