package syncd_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/syncd-io/syncd"
)

func TestKeyPath(t *testing.T) {
	for path, values := range map[string][]string{
		"42":                       {"42"},
		"%22%22":                   {""},
		"%22%22,%22%22":            {"", ""},
		"%2E":                      {"."},
		"%2E%2E":                   {".."},
		"...":                      {"..."},
		"%22":                      {`"`},
		"%22%22%22%22":             {`""`},
		"%22%22%22%22%22":          {`"""`},
		"a%2Cb,c":                  {"a,b", "c"},
		"a%2Fb%20c%25":             {"a/b c%"},
		"%C3%A9":                   {"é"},
		"2020-01-01%2000:00:00+00": {"2020-01-01 00:00:00+00"},
		"me@example.org":           {"me@example.org"},
		"*,%3E,%0A":                {"*", ">", "\n"},
	} {
		path = strings.ReplaceAll(path, "*", "%2A")
		k := syncd.MakeKey(values...)
		if got := k.Path(); got != path {
			t.Errorf("%q has the path %q, want %q", values, got, path)
		}
		if got, err := syncd.ParseKeyPath(path); err != nil || got != k {
			t.Errorf("path %q reads as %q, %v, want %q", path, got.Values(), err, values)
		}
		if k.String() != k.Path() {
			t.Errorf("%q prints %q", values, k.String())
		}
	}
}

func TestKeyPathNotRead(t *testing.T) {
	for path, why := range map[string]string{"": "value 1", "a,": "value 2", ",a": "value 1", "%": "%", "%zz": "%zz", "a%00b": "NUL"} {
		_, err := syncd.ParseKeyPath(path)
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("path %q: error %v, want one that says %q", path, err, why)
		}
	}
}

func TestKeyRoundTrip(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[".,%/ ]{0,4}`)).Filter(func(s string) bool { return !strings.Contains(s, "\x00") })
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(text, 1, 4).Draw(t, "values")
		k := syncd.MakeKey(values...)
		if got := k.Values(); !slices.Equal(got, values) {
			t.Errorf("%q comes back as %q", values, got)
		}
		path := k.Path()
		if got, err := syncd.ParseKeyPath(path); err != nil || got != k {
			t.Errorf("%q has the path %q, which reads as %q, %v", values, path, got.Values(), err)
		}
		if i := strings.IndexFunc(path, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`/?#"<>\^{|}*`, r) }); i >= 0 {
			t.Errorf("path %q holds %q", path, path[i])
		}
		if slices.Contains(strings.Split(path, "/"), ".") || slices.Contains(strings.Split(path, "/"), "..") {
			t.Errorf("path %q would be cleaned away", path)
		}
	})
}

// Keys that are joined must not run into each other.
func TestKeysOfDifferentValuesDiffer(t *testing.T) {
	all := [][]string{{"doc-7", "12"}, {"doc-71", "2"}, {"doc-7,12"}, {"a:b", "c"}, {"a", "b:c"}, {"", "a"}, {"a", ""}, {"a"}, {"", "", ""}, {"", ""}, {""}}
	seen := map[syncd.Key][]string{}
	paths := map[string][]string{}
	for _, values := range all {
		k := syncd.MakeKey(values...)
		if other, ok := seen[k]; ok {
			t.Errorf("%q and %q are one key", values, other)
		}
		if other, ok := paths[k.Path()]; ok {
			t.Errorf("%q and %q have one path", values, other)
		}
		seen[k], paths[k.Path()] = values, values
	}
}

func FuzzParseKeyPath(f *testing.F) {
	for _, s := range []string{"42", "a,b", "%22%22", "%2E", "%C3%A9", `"",""`, `""""`, "%", ","} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		k, err := syncd.ParseKeyPath(path)
		if err != nil {
			return
		}
		if again, err := syncd.ParseKeyPath(k.Path()); err != nil || again != k {
			t.Errorf("%q reads as %q, whose path %q reads as %q, %v", path, k.Values(), k.Path(), again.Values(), err)
		}
	})
}
