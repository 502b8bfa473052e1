package syncd

import (
	"fmt"
	"net/url"
	"strings"
)

// Key identifies a row within its table: the texts of the key columns, as Postgres prints them under syncd's session
// settings, in key order, joined by NUL. No Postgres text holds a NUL, so different keys have different Keys.
type Key string

const keySep = "\x00"

// MakeKey joins the texts of the key columns. Values must not hold NUL bytes.
func MakeKey(values ...string) Key { return Key(strings.Join(values, keySep)) }

// Values gives the texts of the key columns, in key order.
func (k Key) Values() []string { return strings.Split(string(k), keySep) }

// Path gives the key as URLs and the command line carry it: each value percent-encoded, joined by commas. "." and ".."
// are %2E and %2E%2E, the empty text is %22%22, and a value of two or more double quotes and nothing else carries two more
// of them, so that the form stays one to one.
func (k Key) Path() string {
	var b strings.Builder
	for i, v := range k.Values() {
		if i > 0 {
			b.WriteByte(',')
		}
		switch {
		case v == ".":
			b.WriteString("%2E")
		case v == "..":
			b.WriteString("%2E%2E")
		case len(v) != 1 && onlyQuotes(v):
			b.WriteString(strings.Repeat("%22", len(v)+2))
		default:
			escape(&b, v)
		}
	}
	return b.String()
}

// String gives the form of Path, for messages to people.
func (k Key) String() string { return k.Path() }

func onlyQuotes(v string) bool { return strings.Trim(v, `"`) == "" }

func escape(b *strings.Builder, v string) {
	const hex = "0123456789ABCDEF"
	for i := range len(v) {
		c := v[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.~:@+", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
}

// ParseKeyPath reads the form of Key.Path. A key of n columns has n-1 commas; whether n is right only the table knows.
func ParseKeyPath(s string) (Key, error) {
	parts := strings.Split(s, ",")
	for i, p := range parts {
		v, err := url.PathUnescape(p)
		if err != nil {
			return "", fmt.Errorf("key %q: %w; percent-encode each value and join them by commas", s, err)
		}
		if strings.Contains(v, keySep) {
			return "", fmt.Errorf("key %q: no Postgres text holds a NUL byte", s)
		}
		if v == "" {
			return "", fmt.Errorf("key %q: value %d is missing; the empty text is written %%22%%22", s, i+1)
		}
		if len(v) >= 2 && onlyQuotes(v) {
			v = v[2:]
		}
		parts[i] = v
	}
	return MakeKey(parts...), nil
}
