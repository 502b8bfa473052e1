package sink

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/syncd-io/syncd"
)

// TestChangesComeBack: whatever was kept of a commit is what is given out, and no row can be appended to into the next.
func TestChangesComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		row := func(name string) []byte {
			if rapid.Bool().Draw(t, name+" is there") {
				return rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, name)
			}
			return nil
		}
		var want []Change
		var c Commit
		for range rapid.IntRange(0, 5).Draw(t, "changes") {
			x := Change{Key: syncd.Key(rapid.StringN(0, 200, -1).Draw(t, "key")), Row: row("row"), Was: row("was"), Kind: rapid.SampledFrom(kinds[:]).Draw(t, "kind")}
			want = append(want, x)
			size := len(c.changes)
			c.changes = c.changes.append(x.Key, x.Row, x.Was, x.Kind)
			if n := len(c.changes) - size; n > changeSize+len(x.Key)+len(x.Row)+len(x.Was) {
				t.Fatalf("a change took %d bytes", n)
			}
		}
		var got []Change
		for x := range c.Changes() {
			_, _ = append(x.Row, "beyond"...), append(x.Was, "beyond"...)
			got = append(got, x)
		}
		if !slices.EqualFunc(got, want, func(a, b Change) bool {
			return a.Key == b.Key && same(a.Row, b.Row) && same(a.Was, b.Was) && a.Kind == b.Kind
		}) {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
	})
}
