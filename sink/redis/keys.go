package redis

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/syncd-io/syncd"
)

// DefaultKey is the template of rows' keys where none is given.
const DefaultKey = "{table}:{key}"

// template makes the keys of rows: prefix, before, the table as SQL writes it, separator, the key as HTTP has it, after.
type template struct{ prefix, before, separator, after string }

// CheckKey says what is wrong with a template of rows' keys.
func CheckKey(text string) error {
	_, err := parseTemplate("", text)
	return err
}

// parseTemplate reads a template. Tables' names and keys are told apart by the first character between them, so it must be
// one that no table's name has outside of quotes.
func parseTemplate(prefix, text string) (template, error) {
	if text == "" {
		text = DefaultKey
	}
	bad := func(why string) (template, error) {
		return template{}, fmt.Errorf("key template %q: %s; write it like %s, which gives public.users:42", text, why, DefaultKey)
	}
	before, rest, ok := strings.Cut(text, "{table}")
	if !ok || strings.Contains(rest, "{table}") {
		return bad("it must have {table} once")
	}
	between, after, ok := strings.Cut(rest, "{key}")
	if !ok || strings.Contains(before+after, "{key}") {
		return bad("it must have {key} once, behind {table}")
	}
	if between == "" || strings.ContainsAny(between[:1], `abcdefghijklmnopqrstuvwxyz0123456789_$."`) {
		return bad("between {table} and {key} must be something that begins with none of a-z 0-9 _ $ . \"")
	}
	if strings.ContainsAny(before+between+after, "{}") {
		return bad("nothing but {table} and {key} may be in braces")
	}
	return template{prefix, before, between, after}, nil
}

// table gives what the keys of a table's rows begin with.
func (t *template) table(name syncd.Table) string {
	return t.prefix + t.before + name.String() + t.separator
}

// row gives the key of a row, whose table's keys begin with begin.
func (t *template) row(begin string, k syncd.Key) string { return begin + k.Path() + t.after }

// escapeGlob makes a text match itself and nothing else in MATCH.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`, `-`, `\-`).Replace(s)
}

// bucketBits is the number of bits of a key's hash that choose the hash which holds its entry.
const bucketBits = 8

// entries gives the keys of a table's hashes of entries, without the bucket's number.
func (p *place) entries(t syncd.Table) string { return p.meta + "e:" + t.String() + ":" }

// bucket gives the key of the hash that holds a key's entry.
func bucket(entries string, k syncd.Key) string {
	return entries + strconv.Itoa(syncd.BucketOf(k.Hash(), bucketBits))
}
